"""Hold a snapshot of rows, and the last hour of each row."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from metrics.lag_row import LagRow, RowKey
from metrics.trend import MINUTE_S, MINUTES


@dataclass(frozen=True, slots=True)
class Problem:
    """Data that a poll could not read: a sentence for people, and the text of the library."""

    sentence: str  # the cluster, its address, and what is unknown without it
    detail: str = ""  # what the client reported

    def __str__(self) -> str:
        """Return one line for a terminal or a program."""
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


class RowTrends:
    """The last hour of each row: the largest lag of each minute. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lags: dict[RowKey, deque[tuple[int, int]]] = {}

    def record(self, rows: Iterable[LagRow], time_s: float) -> None:
        """Record a poll; forget rows that it lacks."""
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
        """Return minutes (epoch seconds) and lags of a row, oldest first, without unknown ones."""
        with self._lock:
            return [(minute * MINUTE_S, lag) for minute, lag in self._lags.get(row.key, ())]
