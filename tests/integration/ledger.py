"""Read a flow's ledger of gaps as its user does."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.integration.appliance import RunningAppliance

PATIENCE_S = 30.0

# Effect, source topic, partition, first and last offset.
Entry = tuple[str, str, int, int | None, int | None]


def told(appliance: RunningAppliance, *options: str, flow: str = "primary->backup") -> str:
    """Return what `kafka-mirror gaps` prints."""
    command = [sys.executable, "-m", "mirror.cli", "gaps", str(appliance.file), flow, *options]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=300, env=appliance.environment, cwd="/"
    )
    return done.stdout


def ledger(appliance: RunningAppliance, topic: str = "", *, flow: str = "primary->backup") -> list[Entry]:
    """Return the entries of a flow, or of one of its topics."""
    found = json.loads(told(appliance, "--json", *(["--topic", topic] if topic else []), flow=flow))
    return [(each["effect"], each["topic"], each["partition"], each["first"], each["last"]) for each in found["gaps"]]
