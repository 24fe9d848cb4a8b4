"""Hold a snapshot of rows, and the last hour of each row."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from metrics.lag_row import LagRow, RowKey
from metrics.trend import MINUTE_S, MINUTES


@dataclass(frozen=True, slots=True)
class Problem:
    """Data that a poll could not read: a sentence for people, and the text of the library."""

    sentence: str  # the cluster, its address, and the values that are unknown now
    detail: str = ""  # what the client reported

    def __str__(self) -> str:
        """Return the snapshot as text for a terminal or a program."""
        return self.detail or self.sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All rows of one poll."""

    time_s: float  # when it began, epoch seconds
    rows: tuple[LagRow, ...]
    problems: tuple[Problem, ...] = ()
    clusters: tuple[tuple[str, bool], ...] = ()  # alias, and whether the cluster responded


def selected(
    rows: Iterable[LagRow], *, groups: Sequence[str] = (), topics: Sequence[str] = (), only_lagging: bool = False
) -> list[LagRow]:
    """Return the rows of these groups and topics (by either name), by default all."""
    return [
        row
        for row in rows
        if (not groups or row.group in groups)
        and (not topics or row.topic in topics or row.remote_topic in topics)
        and (not only_lagging or row.lag != 0)
    ]


class Minute(NamedTuple):
    """The largest values of a row in one minute."""

    minute: int  # since the epoch
    lag: int  # records
    waits_s: float | None  # time lag; None if unknown

    @property
    def time_s(self) -> float:
        """The start of the minute, epoch seconds."""
        return self.minute * MINUTE_S


class RowTrends:
    """The last hour of each row: the largest lag and time lag of each minute. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minutes: dict[RowKey, deque[Minute]] = {}

    def record(self, rows: Iterable[LagRow], time_s: float) -> None:
        """Record a poll; forget rows that it lacks."""
        minute = int(time_s // MINUTE_S)
        with self._lock:
            before, self._minutes = self._minutes, {}
            for row in rows:
                minutes = before.get(row.key) or deque(maxlen=MINUTES)
                self._minutes[row.key] = minutes
                if row.lag is None:
                    continue
                now = Minute(minute, row.lag, row.lag_seconds)
                if minutes and minutes[-1].minute == minute:
                    minutes[-1] = _larger(minutes[-1], now)
                else:
                    minutes.append(now)

    def of(self, row: LagRow) -> list[Minute]:
        """Return the minutes of a row in which its lag was known, oldest first."""
        with self._lock:
            return list(self._minutes.get(row.key, ()))


def _larger(one: Minute, other: Minute) -> Minute:
    waits = [each.waits_s for each in (one, other) if each.waits_s is not None]
    return Minute(one.minute, max(one.lag, other.lag), max(waits, default=None))
