"""Count values in the sparse exponential buckets of Prometheus' native histograms. Pure.

Schema 3: each bucket's upper bound is 2^(1/8) times that of the one below, so a quantile is wrong by 5 % at most.

A bucket is numbered away from zero: 0 holds what is within ZERO_THRESHOLD of zero, 1 the smallest values above it, -1 the
smallest below it. Below zero are the ages and latencies of records whose timestamps are ahead of this machine's clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

SCHEMA = 3
_PER_OCTAVE = 1 << SCHEMA
_LEAST, _MOST = -10, 54  # powers of two, in seconds: a millisecond, and more than Kafka's timestamps can differ by
ZERO_THRESHOLD = 2.0**_LEAST
# Prometheus numbers buckets by their upper bounds, 2^(index/8) s; ours begin with the first above the zero bucket.
FIRST_INDEX = _LEAST * _PER_OCTAVE
_BOUNDS: tuple[float, ...] = tuple(
    2.0 ** (index / _PER_OCTAVE) for index in range(FIRST_INDEX, _MOST * _PER_OCTAVE + 1)
)


def bucket_of(seconds: float) -> int:
    """Return the bucket that a value belongs to."""
    return bisect_left(_BOUNDS, seconds) if seconds >= 0 else -bisect_left(_BOUNDS, -seconds)


def _upper_s(bucket: int) -> float:
    return _BOUNDS[bucket] if bucket >= 0 else -_BOUNDS[-bucket - 1]


class Counts:
    """Values by bucket, taken in as batches whose values lie evenly between two. A batch costs the same however wide it is."""

    __slots__ = ("_begins", "_count", "_ends")

    def __init__(self) -> None:
        self._count = 0
        self._ends: dict[int, float] = {}  # values in the first and the last bucket of batches
        self._begins: dict[int, float] = {}  # from a bucket on: values per second of width, less those that end there

    def add(self, low_s: float, high_s: float, count: int) -> None:
        """Take in one batch."""
        self._count += count
        first, last = bucket_of(low_s), bucket_of(high_s)
        if first == last:
            self._ends[first] = self._ends.get(first, 0.0) + count
            return
        density = count / (high_s - low_s)
        self._ends[first] = self._ends.get(first, 0.0) + density * (_upper_s(first) - low_s)
        self._ends[last] = self._ends.get(last, 0.0) + density * (high_s - _upper_s(last - 1))
        self._begins[first + 1] = self._begins.get(first + 1, 0.0) + density
        self._begins[last] = self._begins.get(last, 0.0) - density

    def flat(self) -> list[int]:
        """Return buckets and counts in turn, as a column of a report holds them: whole numbers, of the true sum."""
        found: list[int] = []
        if not self._ends:
            return found
        density = so_far = 0.0
        written, final = 0, max(self._ends)
        for bucket in range(min(self._ends), final + 1):
            density += self._begins.get(bucket, 0.0)
            so_far += self._ends.get(bucket, 0.0) + density * (_upper_s(bucket) - _upper_s(bucket - 1))
            upto = self._count if bucket == final else min(round(so_far), self._count)
            if upto > written:
                found += (bucket, upto - written)
                written = upto
        return found


def add(counts: dict[int, int], more: Sequence[int]) -> None:
    """Add buckets and counts in turn, as `Counts.flat` gives them."""
    for bucket, count in zip(more[::2], more[1::2], strict=True):
        counts[bucket] = counts.get(bucket, 0) + count


def runs(counts: Mapping[int, int], *, negative: bool) -> list[tuple[int, list[int]]]:
    """Return runs of buckets above zero, or below, as (index of the first, their counts), indices being Prometheus'."""
    found: list[tuple[int, list[int]]] = []
    sign = -1 if negative else 1
    for bucket in sorted(sign * bucket for bucket in counts if sign * bucket > 0):
        index, count = bucket + FIRST_INDEX, counts[sign * bucket]
        if found and found[-1][0] + len(found[-1][1]) == index:
            found[-1][1].append(count)
        else:
            found.append((index, [count]))
    return found
