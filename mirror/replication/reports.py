"""Replication reports: one row per topic-partition and window, what the stream consists of. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = (
    "source string, target string, topic string, source_topic string, partition int, "
    "window_id bigint, slot int, duration_ms double, "
    "records bigint, bytes bigint, position bigint, last_timestamp_ms double, "
    "age_ms double, age_min_ms double, age_max_ms double, age_sum_ms double, "
    "latency_ms double, latency_min_ms double, latency_max_ms double, latency_sum_ms double, "
    "lost bigint, rewinds bigint, reason string"
)


@dataclass(slots=True)
class Spread:
    """Last, smallest, largest and summed value of a measure in ms; `last` is None before the first one."""

    last: float | None = None
    low: float = field(default=float("inf"))
    high: float = field(default=float("-inf"))
    total: float = 0.0

    def add(self, low: float, high: float, total: float) -> None:
        """Take in one batch: its smallest, largest and summed value; the smallest belongs to the newest record."""
        self.last = low
        self.low = min(self.low, low)
        self.high = max(self.high, high)
        self.total += total

    def columns(self) -> tuple[float | None, float | None, float | None, float]:
        """Return (last, min, max, sum); the first three are None when nothing was measured."""
        if self.last is None:
            return None, None, None, 0.0
        return self.last, self.low, self.high, self.total


@dataclass(slots=True)
class Tally:
    """What one window replicated of one topic-partition."""

    records: int = 0
    bytes: int = 0
    last_timestamp_ms: float | None = None
    age: Spread = field(default_factory=Spread)
    latency: Spread = field(default_factory=Spread)
    lost: int = 0
    rewinds: int = 0
