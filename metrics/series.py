"""Define a metric family's series: labels, values, histograms, exemplars. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from metrics.catalogue import MetricSpec

Labels = tuple[str, ...]
Pairs = tuple[tuple[str, str], ...]  # names and values of labels


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One counted value of a histogram, in seconds.

    The labels identify the value. `at_s` is when it was reported (epoch).
    """

    value: float
    labels: Pairs
    at_s: float


@dataclass(slots=True)
class Histogram:
    """Counts by bucket, and the sum of the values.

    Each value counts in one bucket; the last bucket is above all bounds. `began_s` is when the histogram started to count
    (epoch).
    """

    counts: list[int]
    total: float = 0.0
    exemplar: Exemplar | None = field(default=None, compare=False)
    began_s: float | None = field(default=None, compare=False)

    def add(self, counts: Sequence[int], total: float) -> None:
        """Count more values."""
        self.counts = [have + new for have, new in zip(self.counts, counts, strict=True)]
        self.total += total

    def exemplify(self, value: float, labels: Pairs, at_s: float) -> None:
        """Keep a value as the exemplar, unless a larger one was reported at that time."""
        last = self.exemplar
        if last is None or last.at_s < at_s or last.value < value:
            self.exemplar = Exemplar(value, labels, at_s)

    def copied(self) -> Histogram:
        """Return a copy with separate counts."""
        return replace(self, counts=list(self.counts))


Value = float | Histogram


def single(value: Value) -> float:
    """Return a value that is not a histogram."""
    assert not isinstance(value, Histogram)
    return value


@dataclass(frozen=True, slots=True)
class Family:
    """One family's series in a scrape. `labels` are the catalogue's labels, without `partition` if folded."""

    spec: MetricSpec
    labels: tuple[str, ...]
    series: Mapping[Labels, Value] = field(default_factory=dict)

    def buckets(self, histogram: Histogram) -> Iterator[tuple[float, int, Exemplar | None]]:
        """Yield each bucket's upper bound, the count up to it, and its exemplar, if any."""
        bounds, exemplar, below = (*self.spec.bounds, math.inf), histogram.exemplar, 0
        at = -1 if exemplar is None else bisect_left(bounds, exemplar.value)
        for bucket, (bound, count) in enumerate(zip(bounds, histogram.counts, strict=True)):
            below += count
            yield bound, below, exemplar if bucket == at else None

    def size(self) -> int:
        """Return how many lines the family has in an exposition."""
        return len(self.series) * (len(self.spec.bounds) + 3 if self.spec.kind == "histogram" else 1)
