"""Sum what a poll found of a flow up to a point of its trend. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from metrics.trend import Point
from metrics.verdict import Sample, Status
from mirror.lag.partition_offsets import FlowOffsets, time_lag_s
from mirror.lag.rows import pace
from mirror.model.topic_partition import TopicPartition


def point_of(
    found: FlowOffsets,
    until_s: Mapping[TopicPartition, float],
    polls: Collection[Sequence[Sample]],
    worst: Status,
    now_s: float,
) -> Point:
    """Return a flow as one point.

    Args:
        found: What this poll knows of it.
        until_s: Up to when each topic-partition is replicated, epoch seconds, as far as known.
        polls: The last polls of each topic-partition.
        worst: The worst verdict of any.
        now_s: The present, epoch seconds.
    """
    lags = {key: at.lag for key, at in found.of.items() if at.lag is not None}
    waits = [time_lag_s(lag, until_s.get(key), now_s) for key, lag in lags.items()]
    is_read = found.logs is not None and found.is_target_read
    paces = [pace(samples) for samples in polls] if is_read else []
    return Point(
        now_s,
        worst,
        max((wait for wait in waits if wait is not None), default=None),
        sum(lags.values()) if lags else None,
        total([each.written_per_s for each in paces]),
        total([each.records_per_s for each in paces]),
    )


def total(rates: Sequence[float | None]) -> float | None:
    """Return the sum of rates, None where one is not known or there is none."""
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None
