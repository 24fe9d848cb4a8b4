"""Count how often something was started again lately."""

from __future__ import annotations

import time
from collections import deque


class Restarts:
    """Counts restarts of the last `within_s` seconds."""

    def __init__(self, *, within_s: float) -> None:
        self._within_s = within_s
        self._at_s: deque[float] = deque()

    def one_more(self) -> int:
        """Take in one now; return how many there were lately, this one included."""
        now_s = time.monotonic()
        self._at_s.append(now_s)
        while self._at_s[0] < now_s - self._within_s:
            self._at_s.popleft()
        return len(self._at_s)
