"""Hold the newest value of every series, and since when counters count. Thread-safe."""

from __future__ import annotations

import threading
import time
from typing import Any

from metrics.cap import Histogram, Labels
from metrics.catalogue import BY_NAME, CATALOGUE


class Store:
    """Series by family and labels. Methods that begin with an underscore want the lock to be held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[str, dict[Labels, Any]] = {spec.name: {} for spec in CATALOGUE}
        # When counters began, by the names and values of their labels: those that have both alike are made and removed together.
        self._began: dict[tuple[str, ...], dict[Labels, float]] = {}
        for spec in CATALOGUE:
            if not spec.labels:
                self._add(spec.name, (), 0.0)

    def began(self) -> dict[tuple[str, ...], dict[Labels, float]]:
        """Return when counters began to count (epoch seconds), by the names and values of their labels."""
        with self._lock:
            return {names: dict(began) for names, began in self._began.items()}

    def value(self, name: str, labels: Labels) -> float | None:
        """Return one series' value (not of a histogram), None when it does not exist."""
        with self._lock:
            found: float | None = self._series[name].get(labels)
            return found

    def info(self, name: str, labels: Labels) -> None:
        """Take in a fact that the labels of a constant 1 tell."""
        with self._lock:
            self._set(name, labels, 1.0)

    def count(self, name: str, labels: Labels = ()) -> None:
        """Add one to a counter."""
        with self._lock:
            self._add(name, labels, 1)

    def _begin(self, name: str, labels: Labels) -> None:
        """Have a counter, at 0 where it is new."""
        if labels not in self._series[name]:
            self._series[name][labels] = 0.0
            self._began.setdefault(BY_NAME[name].labels, {}).setdefault(labels, time.time())

    def _add(self, name: str, labels: Labels, amount: float) -> None:
        """Add to a counter, or to a gauge that is a sum."""
        if BY_NAME[name].kind == "counter":
            self._begin(name, labels)
        self._series[name][labels] = self._series[name].get(labels, 0.0) + amount

    def _set(self, name: str, labels: Labels, value: float) -> None:
        self._series[name][labels] = value

    def _histogram(self, name: str, labels: Labels) -> Histogram:
        found: Histogram | None = self._series[name].get(labels)
        if found is None:
            found = Histogram([0] * (len(BY_NAME[name].bounds) + 1), began_s=time.time())
            self._series[name][labels] = found
        return found
