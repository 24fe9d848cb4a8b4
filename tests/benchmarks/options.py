"""This project beside MirrorMaker 2: same brokers, same data, same run, in turns. Prints ratios; see docs/benchmarks.md."""

from __future__ import annotations

import argparse
from pathlib import Path

SWITCH = 15  # the case without MirrorMaker, which has nothing like it
LAST = 17


def bench_parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--cases",
        default=",".join(map(str, range(1, LAST + 1))),
        help=f"numbers, comma between; {SWITCH}: how long a switch takes (default %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side, in turns (default %(default)s)")
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    return parser


if __name__ == "__main__":  # for --help, which needs nothing installed
    bench_parser().parse_args()
