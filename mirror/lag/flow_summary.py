"""Summarize the rows of a flow: health, records at risk, worst row. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from metrics.lag_row import LagRow
from metrics.objective import FRESH_S
from metrics.partition_status import Status
from metrics.trend import Point
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import duration


def total(rates: Sequence[float | None]) -> float | None:
    """Return the sum of rates, None if there is none or one is unknown."""
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSummary:
    """One flow in a line: partitions by status, lag, time lag, rates."""

    name: str  # "A->B"
    partitions: int
    fresh: float  # share of the partitions that are known to be fresh
    lag: int  # records that wait, of the partitions whose lag is known
    unknown: int  # partitions whose lag or status is unknown
    lag_seconds: float | None  # how long the first record has waited in the worst of the known partitions
    statuses: Counter[Status]  # partitions by status
    in_per_s: float | None  # records written to the source; None if that of any partition is unknown
    out_per_s: float | None  # records replicated, likewise
    first: LagRow  # the partition to look at first

    @property
    def worst(self) -> Status:
        """The worst status of any of its partitions."""
        return max(self.statuses, default=Status.UNKNOWN)

    @property
    def source(self) -> str:
        """The source's alias."""
        return self.first.cluster

    @property
    def target(self) -> str:
        """The target's alias."""
        return self.name.removeprefix(f"{self.source}->")

    @property
    def waits(self) -> str:
        """How long its longest waiting record has waited, as far as known."""
        if self.lag_seconds is None:
            return "unknown"
        return f"{'at least ' if self.unknown else ''}{duration(self.lag_seconds)}"

    def point(self, time_s: float) -> Point:
        """Return the flow's status as a point of its trend."""
        waiting = None if self.unknown == self.partitions else self.lag
        return Point(time_s, self.worst, self.lag_seconds, waiting, self.in_per_s, self.out_per_s)


def summaries(snapshot: Snapshot) -> list[FlowSummary]:
    """Return the flows of a snapshot, the worst first."""
    by_flow: dict[str, list[LagRow]] = {}
    for row in snapshot.rows:
        if row.is_flow:
            by_flow.setdefault(row.group, []).append(row)
    found = [summary(name, rows) for name, rows in by_flow.items()]
    return sorted(found, key=lambda flow: (-flow.worst, -(flow.lag_seconds or 0.0), flow.name))


def summary(name: str, rows: Sequence[LagRow]) -> FlowSummary:
    """Return the summary of a flow from its rows, at least one."""
    known = [row for row in rows if row.lag is not None and row.status is not Status.UNKNOWN]
    waits = [row.lag_seconds for row in rows if row.lag_seconds is not None]
    return FlowSummary(
        name=name,
        partitions=len(rows),
        fresh=sum(is_fresh(row) for row in rows) / len(rows),
        lag=sum(row.lag or 0 for row in rows),
        unknown=len(rows) - len(known),
        lag_seconds=max(waits, default=None),
        statuses=Counter(row.status for row in rows),
        in_per_s=total([row.written_per_s for row in rows]),
        out_per_s=total([row.records_per_s for row in rows]),
        first=min(rows, key=_worst_key),
    )


def worst_first(rows: Iterable[LagRow]) -> list[LagRow]:
    """Order by status, flows before groups, then by time lag, then by lag."""
    return sorted(rows, key=_worst_key)


def is_fresh(row: LagRow) -> bool:
    """Return whether a row is known to lag by at most the objective's 60 s."""
    return row.status is not Status.UNKNOWN and row.lag_seconds is not None and row.lag_seconds <= FRESH_S


def at_least(value: int, unknown: int) -> str:
    """Return a sum as text; `unknown` counts its unknown summands."""
    if not unknown:
        return f"{value:,}"
    return f"at least {value:,}" if value else "unknown"


def _worst_key(row: LagRow) -> tuple[int, bool, float, int, str, str, int]:
    waits_s, lag = row.lag_seconds or 0.0, row.lag or 0
    return -row.status, not row.is_flow, -waits_s, -lag, row.group, row.topic, row.partition
