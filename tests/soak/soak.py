"""Run faults under load for as long as asked, and count what became of each record (tests.soak.options)."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

from tests.soak.faults import FAULTS, NETWORKS, OF_TRIOS, outage
from tests.soak.options import soak_parser
from tests.soak.oracle import Fate
from tests.soak.rounds import Outcome, a_round, calmed_down
from tests.soak.sampler import Sampler
from tests.soak.stage import MODES, Fault, staged
from tests.soak.state_faults import CHANGES_MODE

AFTERWARDS = "none any more: turns change hands in time"


def faults(asked: argparse.Namespace, mode: str = "") -> dict[str, Fault]:
    """Return what may happen in a mode."""
    if asked.outage:
        return {f"the {side} is down for {asked.outage:g} minutes": outage(side, asked.outage) for side in asked.side}
    known = dict(FAULTS)
    if asked.trios:
        known = {name: fault for name, fault in FAULTS.items() if name not in NETWORKS} | OF_TRIOS
    if mode == MODES[2]:
        known.pop(CHANGES_MODE, None)  # exactly once is refused with identical offsets
    return {name: fault for name, fault in known.items() if asked.faults.search(name)}


def plan(asked: argparse.Namespace, mode: str, job: int) -> Iterator[tuple[str, int]]:
    """Yield one job's faults with their seeds: every one so many times, or by the dice until the time is over."""
    names = list(faults(asked, mode))
    deadline = time.monotonic() + asked.minutes * 60
    if asked.matrix or asked.outage:
        seeds = 1 if asked.outage else asked.seeds
        rounds = iter([(name, asked.seed + n) for n in range(seeds) for name in names][job :: asked.jobs])
    else:
        dice = random.Random(asked.seed + job)
        rounds = ((dice.choice(names), (asked.seed + job) * 1000 + n) for n in count())
    for each in rounds:
        if time.monotonic() > deadline:
            return
        yield each


def attempt(do: Callable[[], Outcome], seed: int) -> tuple[Outcome, str]:
    """Return what came of it, and that in words; what did not come in time is an outcome too."""
    try:
        found = do()
    except (AssertionError, OSError) as error:  # the latter from /metrics of an appliance that is gone
        return Outcome(1, Fate(), [math.inf], [seed]), f"NOT CLEAN: {error}"
    return found, f"NOT CLEAN: {found.fate}" if found.dirty else "clean"


def soak(mode: str, asked: argparse.Namespace, job: int) -> tuple[dict[str, Outcome], str]:
    """Run one job's rounds of one mode on clusters of their own; all logs are kept where something was not clean."""

    def tell(what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {mode}, job {job}, {what}", file=sys.stderr, flush=True)

    outcomes: dict[str, Outcome] = {}
    known = faults(asked, mode)
    folder = Path(tempfile.mkdtemp(prefix="kafka-mirror-soak-"))
    with staged(mode, folder, has_trios=asked.trios) as stage:
        sampler = Sampler(stage)
        with sampler.running():
            for number, (name, seed) in enumerate(plan(asked, mode, job)):
                found, verdict = attempt(partial(a_round, stage, known[name], seed, f"soak-{number}-{seed}"), seed)
                outcomes.setdefault(name, Outcome()).add(found)
                tell(f"round {number + 1}: {name} (seed {seed}): flowed after {found.recoveries_s[0]:.1f} s, {verdict}")
            outcomes[AFTERWARDS], verdict = attempt(partial(calmed_down, stage), asked.seed)
            tell(f"{AFTERWARDS}: {verdict}")
    if any(outcome.dirty for outcome in outcomes.values()):
        print(f"{mode}, job {job}: all logs are in {folder}", file=sys.stderr, flush=True)
    else:
        shutil.rmtree(folder)
    return outcomes, sampler.text()


def table(mode: str, outcomes: dict[str, Outcome], trends: list[str]) -> str:
    """Markdown."""
    lines = [
        f"### {mode}",
        "",
        "| fault | rounds | records | lost | twice | out of order | shifted "
        "| flows again, median s | worst s | seeds not clean |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for fault, one in outcomes.items():
        fate, waits = one.fate, one.recoveries_s
        lines.append(
            f"| {fault} | {one.rounds} | {fate.sent:,} | {fate.lost} | {fate.duplicate} | {fate.reordered} | {fate.shifted} "
            f"| {statistics.median(waits):.1f} | {max(waits):.1f} | {', '.join(map(str, one.dirty))} |"
        )
    shown = [f"The mirror, first third to last third: {trend}." for trend in trends]
    return "\n".join([*lines, "", "\n\n".join(shown), ""])


def checked(asked: argparse.Namespace, parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Fill in what follows from the rest; ends the process where nothing would be done."""
    asked.side = asked.side or ["target"]
    if asked.minutes is None:
        asked.minutes = math.inf if asked.matrix or asked.outage else 20
    if not faults(asked):
        parser.error(f"--faults {asked.faults.pattern} matches none of: {'; '.join(FAULTS)}")
    return asked


def interrupted(*_: object) -> None:
    """Do on SIGTERM what Ctrl-C does, which a terminal tells every process of it: end, with all that was started."""
    for job in multiprocessing.active_children():
        if job.pid is not None:
            os.kill(job.pid, signal.SIGINT)
    raise KeyboardInterrupt


def main() -> int:
    """Run what was asked for and print the tables."""
    parser = soak_parser()
    asked = checked(parser.parse_args(), parser)
    signal.signal(signal.SIGTERM, interrupted)
    page, is_clean = [], True
    for mode in asked.mode or MODES:
        outcomes: dict[str, Outcome] = {name: Outcome() for name in faults(asked, mode)}
        trends = []
        with ProcessPoolExecutor(asked.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            for found, trend in pool.map(soak, [mode] * asked.jobs, [asked] * asked.jobs, range(asked.jobs)):
                trends.append(trend)
                for name, outcome in found.items():
                    outcomes.setdefault(name, Outcome()).add(outcome)
        outcomes = {name: outcome for name, outcome in outcomes.items() if outcome.rounds}
        page.append(table(mode, outcomes, trends))
        print(page[-1], flush=True)
        is_clean &= not any(outcome.dirty for outcome in outcomes.values())
    if asked.output is not None:
        asked.output.write_text("\n".join(page))
    return 0 if is_clean else 1


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit("interrupted; what was started has ended") from None
