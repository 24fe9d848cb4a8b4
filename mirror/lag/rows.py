"""Hold what the lag inspector and `kafka-mirror lag` show: rows, and the snapshot they come in. Pure."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from metrics.history import History
from metrics.trend import MINUTE_S, MINUTES
from metrics.verdict import Sample, Status
from mirror.lag.judgement import Judge
from mirror.lag.partition_offsets import PartitionOffsets

RowKey = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """One group's place in one topic-partition.

    A flow of the mirror is a group whose offsets are its positions; `cluster` is where topic and log end are, for a
    flow its source. What is not known is None or "", never 0.
    """

    group: str
    cluster: str
    topic: str
    partition: int
    offset: int | None
    log_end: int | None
    owner: str = ""
    is_flow: bool = False
    remote_topic: str = ""
    lag_seconds: float | None = None
    status: Status = Status.UNKNOWN
    reason: str = ""
    records_per_s: float | None = None  # that its offset passes
    written_per_s: float | None = None  # that the log end passes
    level_in_s: float | None = None  # at the present rates; None when level, or when it never will be

    @property
    def key(self) -> RowKey:
        """Key of its polls: of a flow the labels of its series, by which the appliance keeps its own polls."""
        source, arrow, target = self.group.partition("->")
        if self.is_flow and arrow:
            return source, target, self.remote_topic, str(self.partition)
        topic = self.remote_topic if self.is_flow else self.topic
        return "group", self.cluster, self.group, topic, str(self.partition)

    @property
    def lag(self) -> int | None:
        """Records behind, never below 0; None while either end is unknown."""
        return PartitionOffsets(self.offset, log_end=self.log_end).lag


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All rows of one poll, and sentences on what could not be read."""

    time_s: float
    rows: tuple[LagRow, ...]
    problems: tuple[str, ...] = ()
    clusters: tuple[tuple[str, bool], ...] = ()  # alias, and whether it answered


class Pace(NamedTuple):
    """How fast a window of polls moved; None where it does not say.

    Attributes:
        records_per_s: Records that the offset passed, a second.
        written_per_s: Records that the log end passed, a second.
        level_in_s: When both would be level at these rates; None when they are, or never would be.
    """

    records_per_s: float | None = None
    written_per_s: float | None = None
    level_in_s: float | None = None


def pace(samples: Sequence[Sample]) -> Pace:
    """Return how fast the position and the log end moved over a window of polls."""
    if len(samples) < 2 or samples[-1].time_s <= samples[0].time_s:
        return Pace()
    first, last = samples[0], samples[-1]
    span_s = last.time_s - first.time_s
    copied, written = (last.position - first.position) / span_s, (last.end - first.end) / span_s
    level_in_s = last.lag / (copied - written) if last.lag and copied > written else None
    return Pace(max(0.0, copied), max(0.0, written), level_in_s)


def selected(
    rows: Iterable[LagRow], *, groups: Sequence[str] = (), topics: Sequence[str] = (), only_lagging: bool = False
) -> list[LagRow]:
    """Return the rows of these groups and topics (all when none is named; a topic by either of its names)."""
    return [
        row
        for row in rows
        if (not groups or row.group in groups)
        and (not topics or row.topic in topics or row.remote_topic in topics)
        and (not only_lagging or row.lag != 0)
    ]


class RowJudge:
    """Judges rows by their polls. Only rows whose offset and log end were read now have a rate."""

    def __init__(self, judge: Judge, history: History) -> None:
        self._judge = judge
        self._history = history

    def judged(self, row: LagRow, at: PartitionOffsets, *, now_s: float, position_s: float) -> LagRow:
        """Keep what was read of a row, and return the row with its verdict.

        Args:
            row: What is known but for the verdict.
            at: What was read for it.
            now_s: When the poll began, epoch seconds.
            position_s: When its offset was read.
        """
        self._judge.take_in(row.key, at, time_s=now_s, position_s=position_s)
        is_read = at.lag is not None
        # Whether the appliance still reports only its own metrics can tell: here a silent flow is one that stands still.
        verdict = self._judge.verdict(row.key, now_s=now_s, last_report_s=now_s, is_old_known=is_read)
        seen = pace(self._history.of(row.key)) if is_read else Pace()
        return replace(
            row,
            status=verdict.status,
            reason=verdict.reason,
            records_per_s=seen.records_per_s,
            written_per_s=seen.written_per_s,
            level_in_s=seen.level_in_s,
        )


class RowTrends:
    """Of a minute the largest lag is kept. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lags: dict[RowKey, deque[tuple[int, int]]] = {}

    def take_in(self, rows: Iterable[LagRow], time_s: float) -> None:
        """Take in a poll; rows that are gone are forgotten."""
        minute = int(time_s // MINUTE_S)
        with self._lock:
            before, self._lags = self._lags, {}
            for row in rows:
                lags = before.get(row.key) or deque(maxlen=MINUTES)
                self._lags[row.key] = lags
                if row.lag is None:
                    continue
                if lags and lags[-1][0] == minute:
                    lags[-1] = (minute, max(lags[-1][1], row.lag))
                else:
                    lags.append((minute, row.lag))

    def of(self, row: LagRow) -> list[tuple[float, int]]:
        """Return (epoch seconds of a minute, lag) of a row, the oldest first; minutes in which it was not known are missing."""
        with self._lock:
            return [(minute * MINUTE_S, lag) for minute, lag in self._lags.get(row.key, ())]
