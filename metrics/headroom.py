"""Estimate how long the source will keep the first unreplicated record. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from metrics.lag_row import LagRow, RowKey
from metrics.partition_status import Sample
from metrics.series import Labels


class Retention(NamedTuple):
    """A topic's retention limits: milliseconds, and bytes per partition; -1: no limit."""

    ms: int = -1
    bytes: int = -1


def headroom(retention: Retention, samples: Sequence[Sample], lag_s: float) -> float | None:
    """Return the seconds until retention may delete a partition's next record; None: never.

    Args:
        retention: The topic's effective retention.
        samples: The polls of the partition, newest last.
        lag_s: How long the first unreplicated record has waited, 0 if everything is replicated.

    By age, the broker deletes a segment when its newest record is older than retention.ms, so the result is the earliest possible
    time. By size, the time is estimated from how fast the log start moves.
    """
    left = []
    if retention.ms >= 0:
        left.append(retention.ms / 1000 - lag_s)
    if retention.bytes >= 0 and len(samples) > 1:
        first, last = samples[0], samples[-1]
        span_s = last.time_s - first.time_s
        speed = (last.start - first.start) / span_s if span_s > 0 else 0.0
        if speed > 0:
            left.append((last.position - last.start) / speed)
    return max(0.0, min(left)) if left else None


def nearest(
    rows: Iterable[LagRow], retention: Mapping[str, Retention], samples_of: Callable[[RowKey], Sequence[Sample]]
) -> dict[Labels, float | None]:
    """Return the shortest headroom of each topic; None if unknown or unlimited.

    Args:
        rows: The rows of a flow. Topics with unknown lag are left out.
        retention: The retention by source topic.
        samples_of: Returns the polls of a row, newest last.

    Returns:
        Seconds, by the labels of the topic: source, target, remote topic.
    """
    found: dict[Labels, float | None] = {}
    for row in rows:
        if row.lag is None:
            continue
        topic = row.key[:3]
        so_far = found.setdefault(topic, None)
        if row.lag_seconds is None:
            continue  # since when the first record waits is unknown
        limits = retention.get(row.topic, Retention())
        left = headroom(limits, samples_of(row.key) if limits.bytes >= 0 else (), row.lag_seconds)
        if left is not None:
            found[topic] = left if so_far is None else min(so_far, left)
    return found
