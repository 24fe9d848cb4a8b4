"""Play simulated runs for a time, or one again: `python -m tests.simulation --seconds 3600`, `--seed N --mode enabled`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.playing import MODES, Summary, first_seed, play_for
from tests.simulation.scenario import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long to play, all modes together (default: 60)"
    )
    parser.add_argument("--mode", choices=(*MODES, "all"), default="all", help="how records are delivered")
    parser.add_argument("--seed", type=int, help="play this run alone, and print its trace")
    parser.add_argument("--first", type=int, help="the first seed; by default another one each time")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first run that fails")
    asked = parser.parse_args()
    modes = MODES if asked.mode == "all" else (asked.mode,)
    if asked.seed is not None:
        outcomes = [play(asked.seed, mode, keeps_trace=True) for mode in modes]
        for outcome in outcomes:
            print("\n".join(outcome.trace))
            print(outcome)
        return 0 if all(outcome.is_good for outcome in outcomes) else 1
    first = first_seed() if asked.first is None else asked.first
    summaries = []
    for mode in modes:
        until_s = time.monotonic() + asked.seconds / len(modes)
        summary = Summary(mode)
        seeds = play_for(mode, first, until_s=until_s, summary=summary, stops_at_failure=not asked.keep_going)
        for outcome in seeds:
            if not outcome.is_good:
                print(outcome, f"replay: {summary.replay(outcome)}", sep="\n", flush=True)
        print(summary, flush=True)
        summaries.append(summary)
    return 0 if all(not summary.failed for summary in summaries) else 1


if __name__ == "__main__":
    sys.exit(main())
