"""Faults under load for as long as asked: kill, freeze, restart whatever takes part, and count what became of each record.

Each round has a topic of its own, numbered records under way, and one fault at a moment that the seed decides. Prints a table;
ends with 1 when a record was lost, out of order or repeated.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path


def soak_parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(
        prog="soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, help="for each mode, and no longer (default 20, or until the matrix is through)"
    )
    parser.add_argument("--matrix", action="store_true", help="instead, each fault with each of --seeds seeds")
    parser.add_argument("--seeds", type=int, default=20, help="of the matrix (default %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=1, help="the first one; the same seed does the same again (default 1)"
    )
    parser.add_argument(
        "--faults",
        type=re.compile,
        default=re.compile(""),
        metavar="REGEX",
        help="only those whose name matches (default: all)",
    )
    parser.add_argument(
        "--outage",
        type=float,
        metavar="MINUTES",
        help="instead, one round in which a cluster is down for so long under load",
    )
    parser.add_argument(
        "--side",
        choices=("source", "target"),
        action="append",
        help="which cluster --outage takes down (default: target)",
    )
    parser.add_argument(
        "--mode",
        choices=("at least once", "exactly once", "identical offsets"),
        action="append",
        help="only this one (default: all)",
    )
    parser.add_argument(
        "--trios",
        action="store_true",
        help="each cluster has three brokers and three replicas of everything (no network faults)",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="so many pairs of clusters at a time, which share the rounds (default 1)"
    )
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    return parser


if __name__ == "__main__":  # for --help, which needs nothing installed
    soak_parser().parse_args()
