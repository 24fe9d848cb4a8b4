"""Run `kafka-mirror clusters`: start or stop a pair of embedded Kafka clusters."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mirror.commands.options import describe
from mirror.embedded import clusters

DESCRIPTION = (
    "Start two Kafka clusters of one broker each on this machine, primary and backup, or stop them. For development."
)
EXAMPLES = "exit codes: 0 done, 3 a broker did not start"


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("action", choices=("up", "down"))
    parser.add_argument(
        "--dir", type=Path, default=Path("state/clusters"), help="folder of their data (default %(default)s)"
    )


def run(parsed: Namespace) -> int:
    """Start or stop the clusters; return the exit code."""
    (clusters.up if parsed.action == "up" else clusters.down)(parsed.dir)
    return 0
