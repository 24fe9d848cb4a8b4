"""Detect that the machine's clock was set back: windows are numbered by it."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_S = 1.0  # a smaller step between two checks means that the clock was slowed, not set back


class Clock:
    """Compares the wall clock with the monotonic clock."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._ahead_s = wall() - steady()

    def set_back_s(self) -> float:
        """Return how far the wall clock was set back since the last check, else 0."""
        ahead_s = self._wall() - self._steady()
        back_s, self._ahead_s = self._ahead_s - ahead_s, ahead_s
        return back_s if back_s > STEP_S else 0.0


def now_ms() -> float:
    """Return the wall clock, epoch ms."""
    return time.time() * 1000


class Stopwatch:
    """Runs between `start` and `stop`. `total_s` has the measured time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Take a clock that returns seconds."""
        self._clock = clock
        self._started_s: float | None = None
        self.total_s = 0.0

    def start(self) -> None:
        """Start the clock unless it is running."""
        if self._started_s is None:
            self._started_s = self._clock()

    def stop(self) -> None:
        """Stop the clock if it is running."""
        if self._started_s is not None:
            self.total_s += self._clock() - self._started_s
            self._started_s = None
