"""Rows of a flow as tests need them, named by the labels of their series."""

from __future__ import annotations

from typing import Any

from metrics.lag_row import LagRow
from metrics.partition_status import Status
from metrics.recorder import Recorder
from metrics.series import Labels


def row_of(labels: Labels, *, offset: int | None = None, end: int | None = None, **more: Any) -> LagRow:
    """Return the row of a partition by its labels: source, target, remote topic, partition."""
    source, target, topic, partition = labels
    return LagRow(
        group=f"{source}->{target}",
        cluster=source,
        topic=topic,
        partition=int(partition),
        remote_topic=topic,
        is_flow=True,
        offset=offset,
        log_end=end,
        **{"log_start": 0, "status": Status.OK} | more,
    )


def record(recorder: Recorder, *rows: LagRow, now_s: float) -> None:
    """Record rows of one flow as a poll of that time."""
    recorder.record_rows(rows[0].key[:2], rows, read_s=now_s, now_s=now_s, seen_s=now_s)
