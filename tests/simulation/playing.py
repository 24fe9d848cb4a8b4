"""Play runs of consecutive seeds for a time, and count what happened in them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.scenario import Outcome, play

# exactly.once.source.support, which changes now and then in the third one; identical offsets
MODES = ("disabled", "enabled", "changing", "identical")


def first_seed() -> int:
    """Return a seed that no earlier run began with: the time in seconds, a thousand seeds each."""
    return int(time.time()) * 1000


@dataclass(slots=True)
class Summary:
    """What was played in one mode."""

    mode: str
    runs: int = 0
    records: int = 0
    windows: int = 0
    virtual_s: float = 0.0
    spent_s: float = 0.0  # of the processor
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.records += outcome.fate.sent
        self.windows += outcome.windows
        self.virtual_s += outcome.virtual_s
        self.faults += outcome.faults
        if not outcome.is_good:
            self.failed.append(outcome)

    @staticmethod
    def replay(outcome: Outcome) -> str:
        return f"python -m tests.simulation --mode {outcome.mode} --seed {outcome.seed}"

    def __str__(self) -> str:
        per_minute = self.runs / self.spent_s * 60 if self.spent_s else 0.0
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        return (
            f"{self.mode}: {self.runs} runs in {self.spent_s:.0f} s of a core ({per_minute:.0f} a minute), "
            f"{self.virtual_s:.0f} virtual s, "
            f"{self.windows} windows, {self.records} records, {sum(self.faults.values())} faults ({kinds}), "
            f"{len(self.failed)} failed"
        )


def play_for(
    mode: str, first: int, *, until_s: float, summary: Summary, stops_at_failure: bool = True
) -> Iterator[Outcome]:
    """Play runs until a time of the monotonic clock; yield what became of each."""
    began_s = time.process_time()
    seed = first
    while time.monotonic() < until_s:
        try:
            outcome = play(seed, mode)
        except Exception as error:
            error.add_note(f"mode {mode}, seed {seed}")
            raise
        summary.add(outcome)
        summary.spent_s = time.process_time() - began_s
        yield outcome
        if stops_at_failure and not outcome.is_good:
            return
        seed += 1
