"""Read a flow's ledger of gaps as its user does."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.appliance import RunningAppliance
from tests.processes import kafka_mirror

PATIENCE_S = 30.0

# Effect, source topic, partition, first and last offset.
Entry = tuple[str, str, int, int | None, int | None]


def told(appliance: RunningAppliance, *options: str, flow: str = "primary->backup") -> str:
    """Return what `kafka-mirror gaps` prints."""
    done = kafka_mirror("gaps", appliance.file, flow, *options, check=True, folder=Path("/"))
    return done.stdout


def ledger(appliance: RunningAppliance, topic: str = "", *, flow: str = "primary->backup") -> list[Entry]:
    """Return the entries of a flow, or of one of its topics."""
    found = json.loads(told(appliance, "--json", *(["--topic", topic] if topic else []), flow=flow))
    return [(each["effect"], each["topic"], each["partition"], each["first"], each["last"]) for each in found["gaps"]]
