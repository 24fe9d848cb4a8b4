"""Run `kafka-mirror demo`: mirror between two embedded clusters and watch it. Its help installs nothing."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import describe

SERVES_S = 15.0
DESCRIPTION = """\
Start two embedded Kafka clusters, write to one of them, mirror it to the other, and show lag meanwhile. Ctrl-C ends it."""
EXAMPLES = """\
examples:
  ./demo                          until Ctrl-C
  ./demo --seconds 60             then both sides are compared record by record
  ./demo --identical-offsets --seconds 60
                                  each record has the same offset on both clusters
  ./demo --failover               a load and a consumer group move to the other cluster and back
exit codes: 0 all records are equal, 1 they are not"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("--seconds", type=float, help="stop after this long, compare both sides and print the result")
    parser.add_argument(
        "--failover",
        action="store_true",
        help="switch over and back while a load runs; each cluster serves --seconds in turn (default: 15)",
    )
    parser.add_argument(
        "--identical-offsets",
        action="store_true",
        help="write in transactions, keep the offset of each record, and compare the offsets too",
    )
    parser.add_argument("--rate", type=int, default=500, help="records per second to produce (default %(default)s)")


def run(parsed: Namespace) -> int:
    """Run the demo; return the exit code."""
    if parsed.failover:
        from mirror.commands.failover_demo import failover_demo

        return failover_demo(seconds=parsed.seconds or SERVES_S, rate=parsed.rate)
    from mirror.commands.live_demo import demo

    return demo(seconds=parsed.seconds, rate=parsed.rate, is_identical=parsed.identical_offsets)
