"""How long a switch takes with many groups on many topic-partitions. `python -m tests.benchmarks.switching`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from mirror.embedded.broker import Broker
from tests.integration.appliance import RunningAppliance
from tests.integration.records import create, rows, write
from tests.waiting import eventually

TOPIC = "orders"
GROUPS, PARTITIONS = 100, 1_000
EXTRA = "emit.checkpoints.enabled = true\nemit.checkpoints.interval.seconds = 600\n"


def commit(cluster: Broker, group: str, partitions: int) -> None:
    """Let a group stand in the middle of each topic-partition."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(TOPIC, part, 3) for part in range(partitions)], asynchronous=False)
    consumer.close()


def measured(groups: int, partitions: int) -> dict[str, float]:
    """Return the seconds of each step of a switch with so many groups on so many topic-partitions, five records in each."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        primary, backup = (stack.enter_context(Broker.start(name, folder / name)) for name in ("primary", "backup"))
        create(primary, TOPIC, partitions)
        write(primary, TOPIC, rows(5), range(partitions))
        for number in range(groups):
            commit(primary, f"group-{number:03d}", partitions)
        appliance = RunningAppliance(
            folder, primary=primary.bootstrap, backup=backup.bootstrap, topics=TOPIC, extra=EXTRA
        )
        stack.enter_context(appliance)
        eventually(
            lambda: sum(appliance.served("record_count_total")) == 5 * partitions,
            within_s=300,
            because="all has crossed",
        )
        command = [
            sys.executable,
            "-m",
            "mirror.cli",
            "migrate",
            str(appliance.file),
            "primary->backup",
            "--yes",
            "--json",
        ]
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=appliance.environment)
        whole_s = time.perf_counter() - began
        run = json.loads(done.stdout)
        assert len(run["moves"]) == groups * partitions
        assert all(move["after"] == 3 for move in run["moves"])
        steps = {name: step["ended_s"] - step["began_s"] for name, step in run["steps"].items()}
        return {**steps, "all steps": sum(steps.values()), "with looking ahead and the report": whole_s}


def table(groups: int, partitions: int) -> str:
    """Return a Markdown table of what `measured` finds."""
    steps = [f"| {name} | {seconds:.1f} |" for name, seconds in measured(groups, partitions).items()]
    head = f"a switch of {groups} groups x {partitions:,} topic-partitions\n\n| step | s |\n|---|---|"
    return "\n".join([head, *steps, ""])


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    asked = parser.parse_args()
    print(table(asked.groups, asked.partitions))


if __name__ == "__main__":
    main()
