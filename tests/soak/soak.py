"""Faults under load for as long as asked: kill, freeze, restart whatever takes part, and count what became of each record.

Each round has a topic of its own, numbered records under way, and one fault at a moment that the seed decides. Prints a table;
ends with 1 when a record was lost, out of order or there twice.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from mirror.local.broker import Broker
from tests.benchmarks.processes import tree
from tests.fault_proxy import FaultProxy, proxied
from tests.integration.appliance import RunningAppliance, signal_all
from tests.integration.records import create, end_offset, load
from tests.integration.values import values
from tests.soak.oracle import Fate, fate
from tests.waiting import eventually

MODES = ("at least once", "exactly once")
PARTITIONS = 2
RECOVERY_S = 150.0
TIMEOUTS = "primary.consumer.request.timeout.ms = 10000\nbackup.producer.request.timeout.ms = 10000\n"
SAMPLE_S = 5.0


@dataclass(slots=True)
class Stage:
    """Everything that a fault can hit."""

    source: Broker
    target: Broker
    appliance: RunningAppliance
    links: dict[str, FaultProxy]  # by side: what the appliance reaches the cluster through


def _kill_one_worker(stage: Stage, dice: random.Random) -> None:
    # There is none for a moment when the last one to be killed was the daemon that forks them.
    workers = eventually(stage.appliance.workers, within_s=RECOVERY_S, because="Spark starts workers")
    signal_all([dice.choice(workers)], signal.SIGKILL)


def _kill_workers(stage: Stage, _: random.Random) -> None:
    signal_all(stage.appliance.workers(), signal.SIGKILL)


def _kill_jvm(stage: Stage, _: random.Random) -> None:
    assert stage.appliance.process is not None
    signal_all([stage.appliance.jvm()], signal.SIGKILL)
    stage.appliance.process.wait(60)
    stage.appliance.start()


def _kill_appliance(stage: Stage, _: random.Random) -> None:
    assert stage.appliance.process is not None
    signal_all(stage.appliance.tree(), signal.SIGKILL)
    stage.appliance.process.wait(10)
    stage.appliance.start()


def _restart_appliance(stage: Stage, _: random.Random) -> None:
    stage.appliance.stop()
    stage.appliance.start()


def _broker(side: str, fault: str) -> Callable[[Stage, random.Random], None]:
    def strike(stage: Stage, dice: random.Random) -> None:
        broker: Broker = getattr(stage, side)
        if fault == "freeze":
            broker.pause()
            time.sleep(dice.uniform(1, 10))
            broker.resume()
        else:
            broker.kill()
            broker.restart()

    return strike


def _network(side: str, fault: str) -> Callable[[Stage, random.Random], None]:
    def strike(stage: Stage, dice: random.Random) -> None:
        link = stage.links[side]
        if fault == "stall":
            link.is_stalled = True
            time.sleep(dice.uniform(1, 10))
        elif fault == "forget":
            link.half_open_all()
        else:
            for _ in range(5):
                link.reset_all()
                time.sleep(dice.uniform(0.1, 1.5))
        link.heal()

    return strike


def _sleep(stage: Stage, dice: random.Random) -> None:
    """Stop the whole appliance for longer than its window, and its session, or shorter; then let it go on."""
    asleep = stage.appliance.tree()
    signal_all(asleep, signal.SIGSTOP)
    time.sleep(dice.uniform(1, 12))
    signal_all(asleep, signal.SIGCONT)


FAULTS: dict[str, Callable[[Stage, random.Random], None]] = {
    "kill -9 one worker": _kill_one_worker,
    "kill -9 all workers": _kill_workers,
    "kill -9 the JVM": _kill_jvm,
    "kill -9 the appliance": _kill_appliance,
    "restart the appliance": _restart_appliance,
    "freeze the source": _broker("source", "freeze"),
    "freeze the target": _broker("target", "freeze"),
    "kill -9 the source": _broker("source", "kill"),
    "kill -9 the target": _broker("target", "kill"),
    "stop the appliance, then continue it": _sleep,
    "stall the source's network": _network("source", "stall"),
    "stall the target's network": _network("target", "stall"),
    "reset the source's connections": _network("source", "reset"),
    "reset the target's connections": _network("target", "reset"),
    "half-open connections to the source": _network("source", "forget"),
    "half-open connections to the target": _network("target", "forget"),
}


@dataclass(slots=True)
class Sampler:
    """Memory, file descriptors and threads of the appliance, over time."""

    stage: Stage
    samples: list[tuple[float, float, int, int]] = field(default_factory=list)  # s, MiB, fds, threads of the driver
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Sample until the block ends."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            process = self.stage.appliance.process
            if process is None:
                continue
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
                pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in tree(process.pid))
                own = Path(f"/proc/{process.pid}")
                self.samples.append(
                    (
                        time.monotonic(),
                        pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
                        len(list((own / "fd").iterdir())),
                        len(list((own / "task").iterdir())),
                    )
                )

    def text(self) -> str:
        """Say how each grew: the median of the last third beside that of the first."""
        if len(self.samples) < 6:
            return "too short for a trend"
        third = len(self.samples) // 3
        first, last = self.samples[:third], self.samples[-third:]
        parts = []
        for name, at in (("RSS MiB", 1), ("driver fds", 2), ("driver threads", 3)):
            before, after = (statistics.median(sample[at] for sample in part) for part in (first, last))
            parts.append(f"{name} {before:,.0f} -> {after:,.0f}")
        return ", ".join(parts)


@dataclass(slots=True)
class Outcome:
    """All rounds of one fault in one mode."""

    rounds: int = 0
    fate: Fate = field(default_factory=Fate)
    recoveries_s: list[float] = field(default_factory=list)
    dirty: list[int] = field(default_factory=list)  # seeds of the rounds that were not clean


def a_round(stage: Stage, fault: str, seed: int, number: int) -> tuple[Fate, float]:
    """Do one round; return what became of its records, and how long after the fault they flowed again."""
    dice = random.Random(seed)
    topic = f"soak-{number}-{seed}"
    remote = f"primary.{topic}"
    create(stage.source, topic, PARTITIONS)
    with load(stage.source, topic, partitions=PARTITIONS):
        eventually(lambda: end_offset(stage.target, remote, 0) > 50, within_s=RECOVERY_S, because="the load flows")
        time.sleep(dice.uniform(0, 3))
        began = time.monotonic()
        FAULTS[fault](stage, dice)
        before = end_offset(stage.target, remote, 0)
        eventually(
            lambda: end_offset(stage.target, remote, 0) > before + 50, within_s=RECOVERY_S, because="it flows again"
        )
        recovery_s = time.monotonic() - began
        time.sleep(1)
    found = Fate()
    for partition in range(PARTITIONS):
        sent = values(stage.source, topic, partition, isolation="read_committed")
        found.add(fate(sent, arrived(stage.target, remote, partition, sent[-1])))
    return found, recovery_s


def arrived(cluster: Broker, topic: str, partition: int, last: bytes | None) -> list[bytes | None]:
    """Return all values, when the last one that was sent is among them or does not come."""
    deadline = time.monotonic() + RECOVERY_S
    while True:
        got = values(cluster, topic, partition, isolation="read_committed")
        if last in got or time.monotonic() > deadline:
            return got
        time.sleep(1)


def plan(asked: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Yield faults with their seeds: every one so many times, or by the dice until the time is over."""
    if asked.matrix:
        for fault in FAULTS:
            for n in range(asked.seeds):
                yield fault, asked.seed + n
        return
    dice, deadline = random.Random(asked.seed), time.monotonic() + asked.minutes * 60
    for n in count():
        if time.monotonic() > deadline:
            return
        yield dice.choice(list(FAULTS)), asked.seed * 1000 + n


def soak(mode: str, asked: argparse.Namespace, folder: Path) -> tuple[dict[str, Outcome], str]:
    """Run all rounds of one mode on clusters of their own."""
    outcomes: dict[str, Outcome] = {}
    extra = "backup.exactly.once.source.support = enabled\n" if mode == MODES[1] else ""
    with (
        proxied("source", folder / "source") as (source, source_link, source_address),
        proxied("target", folder / "target") as (target, target_link, target_address),
    ):
        (folder / "mirror").mkdir()
        appliance = RunningAppliance(
            folder / "mirror", primary=source_address, backup=target_address, topics="soak-.*", extra=extra + TIMEOUTS
        )
        with appliance:
            stage = Stage(source, target, appliance, {"source": source_link, "target": target_link})
            sampler = Sampler(stage)
            with sampler.running():
                for number, (fault, seed) in enumerate(plan(asked)):
                    found, recovery_s = a_round(stage, fault, seed, number)
                    outcome = outcomes.setdefault(fault, Outcome())
                    outcome.rounds += 1
                    outcome.fate.add(found)
                    outcome.recoveries_s.append(recovery_s)
                    if not found.is_clean:
                        outcome.dirty.append(seed)
                    verdict = "clean" if found.is_clean else f"NOT CLEAN: {found}"
                    print(f"{mode}: {fault} (seed {seed}): flowed after {recovery_s:.1f} s, {verdict}",
                          file=sys.stderr, flush=True)  # fmt: skip
    return outcomes, sampler.text()


def table(mode: str, outcomes: dict[str, Outcome], trend: str) -> str:
    """Markdown."""
    lines = [
        f"### {mode}",
        "",
        "| fault | rounds | records | lost | twice | out of order | flows again, median s | worst s | seeds not clean |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for fault, one in outcomes.items():
        lines.append(
            f"| {fault} | {one.rounds} | {one.fate.sent:,} | {one.fate.lost} | {one.fate.duplicate} | {one.fate.reordered} "
            f"| {statistics.median(one.recoveries_s):.1f} | {max(one.recoveries_s):.1f} | {', '.join(map(str, one.dirty))} |"
        )
    return "\n".join([*lines, "", f"Of the appliance, first third to last third: {trend}.", ""])


def main() -> int:
    """Run what was asked for and print the tables."""
    parser = argparse.ArgumentParser(
        prog="soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20, help="for each mode (default %(default)s)")
    parser.add_argument("--matrix", action="store_true", help="instead, each fault with each of --seeds seeds")
    parser.add_argument("--seeds", type=int, default=20, help="of the matrix (default %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=1, help="the first one; the same seed does the same again (default 1)"
    )
    parser.add_argument("--mode", choices=MODES, action="append", help="only this one (default: both)")
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    asked = parser.parse_args()
    page, is_clean = [], True
    for mode in asked.mode or MODES:
        with tempfile.TemporaryDirectory(prefix="kafka-mirror-soak-") as folder:
            outcomes, trend = soak(mode, asked, Path(folder))
        page.append(table(mode, outcomes, trend))
        print(page[-1], flush=True)
        is_clean &= not any(outcome.dirty for outcome in outcomes.values())
    if asked.output is not None:
        asked.output.write_text("\n".join(page))
    return 0 if is_clean else 1


if __name__ == "__main__":
    raise SystemExit(main())
