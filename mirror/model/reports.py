"""Measure what one window replicates of a partition, and name the reasons for pauses. Pure."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from metrics.catalogue import RECORD_SECONDS
from metrics.reports import Measured

BOUNDS_MS = tuple(bound * 1000 for bound in RECORD_SECONDS)
HIDDEN = "the source does not show its topic, which was deleted, or this client may not DESCRIBE it"
ABSENT = "does not exist on the target"
AWAITS = "its last batch may still be appended to the target's log"
RESTS = "it is paused until its position is set (kafka-mirror positions)"
GOES_ROUND = "its records came from the target, and would go round in a loop between the clusters"
NOT_IDENTICAL = "offsets are no longer identical"
FORGOTTEN = "its position was deleted too, and it is paused until the position is set again"


@dataclass(slots=True)
class Spread:
    """Last, smallest, largest and summed value of a measure in ms. `last` is None at first.

    `counts`: the number of values between consecutive BOUNDS_MS; the last count is for the values above all bounds.
    """

    last: float | None = None
    low: float = field(default=float("inf"))
    high: float = field(default=float("-inf"))
    total: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_MS) + 1))

    def add(self, low: float, high: float, total: float, count: int) -> None:
        """Add one batch: its smallest, largest and summed value; the newest record has the smallest value."""
        self.last = low
        self.low = min(self.low, low)
        self.high = max(self.high, high)
        self.total += total
        first, last = bisect_left(BOUNDS_MS, low), bisect_left(BOUNDS_MS, high)
        if first == last:
            self.counts[first] += count
            return
        below = 0
        for bucket in range(first, last):
            upto = round(count * (BOUNDS_MS[bucket] - low) / (high - low))
            self.counts[bucket] += upto - below
            below = upto
        self.counts[last] += count - below

    def measured(self) -> Measured:
        """Return the measure for a report."""
        if self.last is None:
            return Measured(None, None, None, 0.0, self.counts)
        return Measured(self.last, self.low, self.high, self.total, self.counts)


@dataclass(slots=True)
class Tally:
    """The records of one partition that one window replicated."""

    records: int = 0
    bytes: int = 0
    last_timestamp_ms: float | None = None
    age: Spread = field(default_factory=Spread)
    latency: Spread = field(default_factory=Spread)
    lost: int = 0
    rewinds: int = 0
