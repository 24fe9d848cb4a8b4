"""Determine the status, reason and rates of every row from its last polls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from metrics.as_of import MaxAge
from metrics.history import History
from metrics.lag_row import RowKey
from metrics.partition_status import KNOWN_POLLS, PartitionStatus, Sample, is_steady, judge
from mirror.lag.flow_offsets import PartitionOffsets

SILENT_WINDOWS = 4  # a report comes each window; a flow that misses this many has stopped
LEAST_KNOWN_S = 3.0  # minimum age up to which polls are current, for fast polls
HISTORY_AGE_S = 600.0  # older polls are outdated for a partition that is seen again


def horizon_of(*, poll_interval_s: float, window_s: float) -> MaxAge:
    """Return the maximum age of clusters' responses and of a flow's last report."""
    return MaxAge(known_s=max(KNOWN_POLLS * poll_interval_s, LEAST_KNOWN_S), silence_s=SILENT_WINDOWS * window_s)


class Pace(NamedTuple):
    """Rates over a window of polls; None if unknown."""

    records_per_s: float | None = None  # that the offset passed
    written_per_s: float | None = None  # that the log end passed
    level_in_s: float | None = None  # until lag 0 at these rates; None at lag 0, or if the lag does not shrink


def pace(samples: Sequence[Sample]) -> Pace:
    """Return how fast the position and the log end moved over a window of polls."""
    if len(samples) < 2 or samples[-1].time_s <= samples[0].time_s:
        return Pace()
    first, last = samples[0], samples[-1]
    span_s = last.time_s - first.time_s
    copied, written = (last.position - first.position) / span_s, (last.end - first.end) / span_s
    level_in_s = last.lag / (copied - written) if last.lag and copied > written else None
    return Pace(max(0.0, copied), max(0.0, written), level_in_s)


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Keeps the last polls of each row by its key; determines its status from them."""

    history: History
    horizon: MaxAge
    # Whether a row that this poll did not read has a status from earlier polls, within the horizon. Else it is UNKNOWN.
    bridges_polls: bool = True
    # Source offsets of a partition that were lost so far; only the process that replicates it knows them.
    lost_offsets: Callable[[RowKey], int] = lambda _: 0

    def record(self, key: RowKey, at: PartitionOffsets, *, time_s: float, position_s: float) -> None:
        """Keep one poll, unless the position or the log end is unknown.

        Args:
            key: Key of the row.
            at: What was read.
            time_s: When the log end was requested, epoch seconds.
            position_s: When the position was read.
        """
        if at.position is not None and at.log_end is not None:
            lost = self.lost_offsets(key)
            self.history.add(key, Sample(time_s, at.position, at.log_end, lost, at.log_start or 0, position_s))

    def status(
        self, key: RowKey, *, is_read: bool, now_s: float, last_report_s: float | None = None
    ) -> PartitionStatus:
        """Return the status of a row.

        Args:
            key: Key of the row.
            is_read: Whether this poll read its offset and its log end.
            now_s: The present, epoch seconds.
            last_report_s: When the flow last reported a finished window, epoch seconds. None: only its process knows, and
                a silent flow shows as one whose position does not move.
        """
        return judge(
            self.history.of(key),
            last_report_s=now_s if last_report_s is None else last_report_s,
            now_s=now_s,
            silence_s=self.horizon.silence_s,
            known_s=self.horizon.known_s if is_read or self.bridges_polls else 0.0,
        )

    def is_quiet(self, key: RowKey, *, now_s: float) -> bool:
        """Return whether a whole window of polls found the same offsets, which are still current."""
        samples = self.history.of(key)
        return is_steady(samples) and now_s - min(samples[-1].time_s, samples[-1].position_s) <= self.horizon.known_s

    def pace(self, key: RowKey, *, is_read: bool, is_position_known: bool = True) -> Pace:
        """Return the rates of a row; unknown if this poll did not read it.

        Args:
            key: Key of the row.
            is_read: Whether this poll has its lag.
            is_position_known: Whether this poll read the position. If not, only the rate of the log end is known.
        """
        found = pace(self.history.of(key)) if is_read else Pace()
        return found if is_position_known else Pace(written_per_s=found.written_per_s)
