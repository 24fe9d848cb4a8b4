"""Estimate how long the source will keep the first record that is not replicated. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from metrics.verdict import Sample


class Retention(NamedTuple):
    """What a topic's broker deletes by: milliseconds, bytes per partition, -1 where it does not."""

    ms: int = -1
    bytes: int = -1


def headroom(retention: Retention, samples: Sequence[Sample], lag_s: float) -> float | None:
    """Return the seconds until deletion may reach one topic-partition's next record, None when it never does.

    Args:
        retention: The topic's, in effect.
        samples: The polls of the partition, the newest last.
        lag_s: How long the first unreplicated record waits, 0 when all is replicated.

    By age the broker deletes a segment when its newest record is older than retention.ms, so this is the earliest
    moment. By size nobody can tell in time but from how fast the log start comes nearer.
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
