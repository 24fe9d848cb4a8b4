"""Provide a clock that jumps to the next timer instead of waiting for it.

A file requests it with `pytestmark = pytest.mark.usefixtures("virtual_clock")`. Then, until the end of that file:

- `asyncio.run` uses a `VirtualLoop`. If no callback is ready, its clock jumps to the next timer.
- `time.time`, `time.monotonic` and `loop.time` show that clock. It stands still while a callback runs, however long
  that takes, and each turn of the loop takes `TURN_S`: no test depends on the speed of the machine.
- `time.sleep` advances the clock and returns at once.
- Outside of `asyncio.run` the clock follows the real one, so that other event loops and threads work as usual.

Two things are real and are waited for. A function in a thread of the loop (`asyncio.to_thread`) stops the jumps until it
returns. A loop with sockets gives the kernel `GRACE_S` for each jump.
Do not request the clock if a test runs two event loops at a time, or starts threads of its own that wait.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any

GRACE_S = 0.005  # for data between two sockets of this process, which the kernel delivers at once
STARTS_S = 1_750_000_020.0  # the wall time at second 0 of the monotonic clock
TURN_S = 1e-6  # of each turn of the loop: code that waits until a time has passed sees it pass
ROUND_S = 60.0  # each run starts at a multiple of this, so that it sees the same place of a window each time

_monotonic = time.monotonic


class VirtualClock:
    """A monotonic clock and a wall clock that advance by jumps while an event loop runs."""

    def __init__(self) -> None:
        self._offset_s = 0.0  # of the real clock
        self._stands_at_s: float | None = None  # None: the clock follows the real one
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def monotonic(self) -> float:
        """Return seconds since an unknown start; replaces `time.monotonic`."""
        return _monotonic() + self._offset_s if self._stands_at_s is None else self._stands_at_s

    def time(self) -> float:
        """Return the wall time; replaces `time.time`."""
        return STARTS_S + self.monotonic()

    def call_at(self, wall_s: float, action: Callable[[], object]) -> None:
        """Schedule an action for the first jump that reaches a wall time."""
        heapq.heappush(self._due, (wall_s - STARTS_S, next(self._numbers), action))

    def sleep(self, seconds: float) -> None:
        """Advance the clock, and run the actions that become due; replaces `time.sleep`."""
        until_s = self.monotonic() + seconds
        while self._due and self._due[0][0] <= until_s:
            due_s, _, action = heapq.heappop(self._due)
            self._set(max(due_s, self.monotonic()))
            action()
        self._set(max(until_s, self.monotonic()))

    def _set(self, now_s: float) -> None:
        if self._stands_at_s is None:
            self._offset_s = now_s - _monotonic()
        else:
            self._stands_at_s = now_s

    def run(self, main: Coroutine[Any, Any, Any], *, debug: bool | None = None) -> Any:
        """Run a coroutine in a loop on this clock, from a round time on; replaces `asyncio.run`."""
        self._stands_at_s = math.ceil(self.monotonic() / ROUND_S) * ROUND_S
        try:
            with asyncio.Runner(debug=debug, loop_factory=lambda: VirtualLoop(self)) as runner:
                return runner.run(main)
        finally:
            self._offset_s, self._stands_at_s = self._stands_at_s - _monotonic(), None


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a virtual clock. Its `time()` is that of `asyncio`, which reads `time.monotonic`."""

    def __init__(self, clock: VirtualClock) -> None:
        self._jumping = _JumpingSelector(clock)
        super().__init__(self._jumping)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Run a function in a thread, and let the clock stand still until it returns."""
        running = super().run_in_executor(executor, func, *args)
        self._jumping.threads += 1
        running.add_done_callback(self._thread_is_done)
        return running

    def _thread_is_done(self, _: object) -> None:
        self._jumping.threads -= 1


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for no timer: if no file is ready, the clock jumps by the time to wait."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self.threads = 0  # functions that run in threads of the loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._clock.sleep(TURN_S)
        if timeout is None or timeout <= 0 or self.threads:
            return super().select(timeout)
        has_sockets = len(self.get_map()) > 1  # one file is the loop's own, by which threads wake it
        ready = super().select(min(timeout, GRACE_S) if has_sockets else 0)
        if not ready:
            self._clock.sleep(timeout)
        return ready
