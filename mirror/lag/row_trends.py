"""Keep the lag of every row over the last hour, a number a minute. In memory only: for sparklines."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from metrics.trend import MINUTE_S, MINUTES
from mirror.lag.rows import LagRow, RowKey


class RowTrends:
    """Of a minute the largest lag is kept. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute = -1
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
