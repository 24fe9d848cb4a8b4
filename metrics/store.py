"""Keep the series of all metrics: the newest value of each."""

from __future__ import annotations

import threading
import time
from typing import Any

from metrics.catalogue import BY_NAME, CATALOGUE
from metrics.series import Histogram, Labels


class Store:
    """Series by family and labels, and since when counters count. Thread-safe.

    Callers of `begin`, `add`, `set`, `histogram` and `series` must hold `lock`, so that readers see a change of several series
    at once.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.series: dict[str, dict[Labels, Any]] = {spec.name: {} for spec in CATALOGUE}
        # When counters began, by names and values of their labels: counters with equal labels are made and removed together.
        self.began_s: dict[tuple[str, ...], dict[Labels, float]] = {}
        for spec in CATALOGUE:
            if not spec.labels:
                self.add(spec.name, (), 0.0)

    def began(self) -> dict[tuple[str, ...], dict[Labels, float]]:
        """Return when counters began (epoch seconds), by names and values of their labels."""
        with self.lock:
            return {names: dict(began) for names, began in self.began_s.items()}

    def value(self, name: str, labels: Labels) -> float | None:
        """Return a series' value (not of a histogram), None if there is none."""
        with self.lock:
            found: float | None = self.series[name].get(labels)
            return found

    def info(self, name: str, labels: Labels) -> None:
        """Record a fact in the labels of a series whose value is always 1."""
        with self.lock:
            self.set(name, labels, 1.0)

    def count(self, name: str, labels: Labels = ()) -> None:
        """Add one to a counter."""
        with self.lock:
            self.add(name, labels, 1)

    def begin(self, name: str, labels: Labels) -> None:
        """Create a counter at 0 if it is new."""
        if labels not in self.series[name]:
            self.series[name][labels] = 0.0
            self.began_s.setdefault(BY_NAME[name].labels, {}).setdefault(labels, time.time())

    def add(self, name: str, labels: Labels, amount: float) -> None:
        """Add to a counter, or to a gauge that is a sum."""
        if BY_NAME[name].kind == "counter":
            self.begin(name, labels)
        self.series[name][labels] = self.series[name].get(labels, 0.0) + amount

    def set(self, name: str, labels: Labels, value: float) -> None:
        """Set a gauge."""
        self.series[name][labels] = value

    def histogram(self, name: str, labels: Labels) -> Histogram:
        """Return a histogram; it is created empty if it is new."""
        found: Histogram | None = self.series[name].get(labels)
        if found is None:
            found = Histogram([0] * (len(BY_NAME[name].bounds) + 1), began_s=time.time())
            self.series[name][labels] = found
        return found
