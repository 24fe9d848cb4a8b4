"""Detect lanes that hang (a frozen JVM or worker), or end again and again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

SLACK_S = 30.0  # for a machine under load, and for tasks that are retried
SLEPT_S = 5.0  # longer pause between two calls of `hung`: this process itself was suspended


class LaneProgress:
    """Records when each lane last completed a window; safe from any thread."""

    def __init__(self, lanes: Iterable[str], *, longest_s: float) -> None:
        """Expect each lane, by the name of its query, to complete a window every `longest_s`."""
        self._overdue_s = longest_s + SLACK_S
        self._looked_s = time.monotonic()
        self._completed_s = dict.fromkeys(lanes, self._looked_s)

    def completed(self, query: str) -> None:
        """Record that a query has completed a micro-batch; ignore queries that are not lanes."""
        if query in self._completed_s:
            self._completed_s[query] = time.monotonic()

    def hung(self) -> str:
        """Return a sentence that names the overdue lanes, or "". Call it every few seconds."""
        now_s = time.monotonic()
        if now_s - self._looked_s > SLEPT_S:
            self._completed_s = dict.fromkeys(self._completed_s, now_s)
        self._looked_s = now_s
        overdue = {
            lane: now_s - at_s for lane, at_s in sorted(self._completed_s.items()) if now_s - at_s > self._overdue_s
        }
        return ", ".join(f"{lane} has completed no window for {silent_s:.0f} s" for lane, silent_s in overdue.items())


class Restarts:
    """Counts restarts of the last `within_s` seconds."""

    def __init__(self, *, within_s: float) -> None:
        self._within_s = within_s
        self._at_s: deque[float] = deque()

    def one_more(self) -> int:
        """Count an event; return the number of recent events, including this one."""
        now_s = time.monotonic()
        self._at_s.append(now_s)
        while self._at_s[0] < now_s - self._within_s:
            self._at_s.popleft()
        return len(self._at_s)
