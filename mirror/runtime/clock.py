"""Notice that the machine's clock was set back: windows are numbered by it."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_S = 1.0  # less than that between two looks is the clock being slowed, not set


class Clock:
    """Compares the wall clock with one that only goes on."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._ahead_s = wall() - steady()

    def set_back_s(self) -> float:
        """Return how far the wall clock was set back since the last look; 0 when it was not."""
        ahead_s = self._wall() - self._steady()
        back_s, self._ahead_s = self._ahead_s - ahead_s, ahead_s
        return back_s if back_s > STEP_S else 0.0


def now_ms() -> float:
    """Return the wall clock, epoch ms."""
    return time.time() * 1000
