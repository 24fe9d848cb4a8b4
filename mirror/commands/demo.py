"""`kafka-mirror demo`: mirror between two embedded clusters and watch it. Its help needs nothing that is to be installed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import describe

DESCRIPTION = """\
Start two embedded Kafka clusters, write to one of them, mirror it to the other, and show lag as it goes. Ctrl-C ends it."""
EXAMPLES = """\
examples:
  ./demo                          until Ctrl-C
  ./demo --seconds 60             then both sides are compared record by record
exit codes: 0 all records are equal, 1 they are not"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("--seconds", type=float, help="stop after this long, compare both sides and print the verdict")
    parser.add_argument("--rate", type=int, default=500, help="records per second to produce (default %(default)s)")


def run(parsed: Namespace) -> int:
    """Run the demo; return the exit code."""
    from mirror.commands.live_demo import demo

    return demo(seconds=parsed.seconds, rate=parsed.rate)
