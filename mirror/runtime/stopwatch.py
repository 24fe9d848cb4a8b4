"""Add up the time that something takes which begins and ends many times."""

from __future__ import annotations

from collections.abc import Callable


class Stopwatch:
    """Runs between `start` and `stop`. `total_s` has what was stopped."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Take a clock, which tells seconds."""
        self._clock = clock
        self._started_s: float | None = None
        self.total_s = 0.0

    def start(self) -> None:
        """Run, if it does not run already."""
        if self._started_s is None:
            self._started_s = self._clock()

    def stop(self) -> None:
        """Stop, if it runs."""
        if self._started_s is not None:
            self.total_s += self._clock() - self._started_s
            self._started_s = None
