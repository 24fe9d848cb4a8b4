"""Estimate the time lag of consumer groups from the log ends of earlier polls.

Kafka Lag Exporter does the same: https://github.com/seglo/kafka-lag-exporter#estimate-consumer-group-time-lag. It needs no right
to read the topic, and costs no request.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from heapq import nsmallest

POINTS = 128  # at most, per partition: 2 KiB
LEFT_OUT = 32  # of them, when there are more


class LogEndTimes:
    """When a partition had which log end.

    Points become sparser with age, so that the error of an estimate stays a small part of it. Of polls with the same log end,
    only the first and the last are kept: an idle partition has two points.
    """

    def __init__(self) -> None:
        self._times_s = array("d")
        self._ends = array("q")

    def record(self, log_end: int, time_s: float) -> None:
        """Keep the log end of a poll at `time_s` (epoch seconds).

        Forget the earlier points if the log is shorter than before (it was created again), or if the clock was set back.
        """
        if self._ends and (log_end < self._ends[-1] or time_s <= self._times_s[-1]):
            del self._times_s[:], self._ends[:]
        if len(self._ends) > 1 and self._ends[-2] == self._ends[-1] == log_end:
            self._times_s[-1] = time_s
            return
        self._times_s.append(time_s)
        self._ends.append(log_end)
        if len(self._ends) > POINTS:
            self._leave_out()

    def _leave_out(self) -> None:
        """Leave out points with close neighbours for their age, never two in succession."""
        times_s = self._times_s

        def gap(point: int) -> float:
            return (times_s[point + 1] - times_s[point - 1]) / (times_s[-1] - times_s[point])

        for point in sorted(nsmallest(LEFT_OUT, range(1, len(times_s) - 1, 2), key=gap), reverse=True):
            del times_s[point], self._ends[point]

    def time_lag_s(self, offset: int) -> float | None:
        """Return how long the record at `offset` had waited at the last poll, in seconds.

        0 if there is no such record yet. None if it was written before the first poll, or nothing was polled. Between two polls,
        records count as written evenly.
        """
        if not self._ends:
            return None
        after = bisect_right(self._ends, offset)
        if after == len(self._ends):
            return 0.0
        if after == 0:
            return None
        before_s, before = self._times_s[after - 1], self._ends[after - 1]
        share = (offset - before) / (self._ends[after] - before)
        return self._times_s[-1] - (before_s + share * (self._times_s[after] - before_s))
