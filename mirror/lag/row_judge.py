"""Fill in the columns of rows that are judged: verdict, reason, records per second, time until level."""

from __future__ import annotations

from dataclasses import replace

from metrics.history import History
from mirror.lag.judgement import Judge
from mirror.lag.partition_offsets import PartitionOffsets
from mirror.lag.rows import LagRow, Pace, pace


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
