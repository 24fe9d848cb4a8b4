"""Provide a clock that jumps to the next timer instead of waiting for it.

A file requests it with `pytestmark = pytest.mark.usefixtures("virtual_clock")`. Then, until the end of that file:

- `asyncio.run` uses a `VirtualLoop`. If no callback is ready, its clock jumps to the next timer.
- `time.time`, `time.monotonic` and `loop.time` show that clock. It stands still while a callback runs, however long
  that takes, and each turn of the loop takes `TURN_S`: no test depends on the speed of the machine.
- `time.sleep` advances the clock and returns at once. In other threads it sleeps.
- Threads that are older than the clock see the real one. They are left of other tests, and clients in their event loops would
  wait for hours when the virtual clock, which is ahead, is gone.
- Outside of `asyncio.run` the clock follows the real one, so that other event loops and threads work as usual.
  With `standing_clock` in place of `virtual_clock` it stands still there too, for tests that compare times.

Two things are waited for in real time: a function in a thread of the loop (`asyncio.to_thread`), and an attempt to
connect to a server of another loop or process. Between a client and a server of the same loop there is a pair of Unix
sockets instead of TCP: the kernel delivers what is written to it before the write returns, however busy the machine is.
Do not request the clock if a test runs two event loops at a time, or starts threads of its own that wait.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import selectors
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

STARTS_S = 1_750_000_020.0  # the wall time at second 0 of the monotonic clock
TURN_S = 1e-6  # of each turn of the loop: code that waits until a time has passed sees it pass
ROUND_S = 60.0  # each run starts at a multiple of this, so that it sees the same place of a window each time

_monotonic, _time, _sleep = time.monotonic, time.time, time.sleep


class VirtualClock:
    """A monotonic clock and a wall clock that advance by jumps while an event loop runs."""

    def __init__(self) -> None:
        self._offset_s = 0.0  # of the real clock
        self._stands_at_s: float | None = None  # None: the clock follows the real one
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._thread = threading.get_ident()
        self._older = {thread.ident for thread in threading.enumerate()} - {self._thread}

    def monotonic(self) -> float:
        """Return seconds since an unknown start; replaces `time.monotonic`."""
        if threading.get_ident() in self._older:
            return _monotonic()
        return _monotonic() + self._offset_s if self._stands_at_s is None else self._stands_at_s

    def time(self) -> float:
        """Return the wall time; replaces `time.time`."""
        return _time() if threading.get_ident() in self._older else STARTS_S + self.monotonic()

    def call_at(self, wall_s: float, action: Callable[[], object]) -> None:
        """Schedule an action for the first jump that reaches a wall time."""
        heapq.heappush(self._due, (wall_s - STARTS_S, next(self._numbers), action))

    def sleep(self, seconds: float) -> None:
        """Advance the clock, and run the actions that become due; replaces `time.sleep`."""
        if threading.get_ident() != self._thread:
            _sleep(seconds)
            return
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

    def stand(self) -> None:
        """Stand still from now on, outside of event loops too; `sleep` advances."""
        self._stands_at_s = self._round_s()

    def _round_s(self) -> float:
        return math.ceil(self.monotonic() / ROUND_S) * ROUND_S

    def run(self, main: Coroutine[Any, Any, Any], *, debug: bool | None = None) -> Any:
        """Run a coroutine in a loop on this clock; replaces `asyncio.run`. It starts at a round time unless it stands."""
        does_stand = self._stands_at_s is not None
        if not does_stand:
            self._stands_at_s = self._round_s()
        try:
            with asyncio.Runner(debug=debug, loop_factory=lambda: VirtualLoop(self)) as runner:
                return runner.run(main)
        finally:
            if not does_stand and self._stands_at_s is not None:
                self._offset_s, self._stands_at_s = self._stands_at_s - _monotonic(), None


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a virtual clock. Its `time()` is that of `asyncio`, which reads `time.monotonic`."""

    def __init__(self, clock: VirtualClock) -> None:
        self._jumping = _JumpingSelector(clock)
        self._servers: dict[int, tuple[Callable[[], asyncio.BaseProtocol], asyncio.Server]] = {}  # by port
        super().__init__(self._jumping)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Run a function in a thread, and let the clock stand still until it returns."""
        running = super().run_in_executor(executor, func, *args)
        self._jumping.real_waits += 1
        running.add_done_callback(self._real_wait_is_over)
        return running

    def _real_wait_is_over(self, _: object) -> None:
        self._jumping.real_waits -= 1

    async def create_server(self, protocol_factory: Any, *args: Any, **more: Any) -> asyncio.Server:
        """Start a server; connections to it from this loop do without the network."""
        server = await super().create_server(protocol_factory, *args, **more)
        for listening in server.sockets:
            self._servers[listening.getsockname()[1]] = (protocol_factory, server)
        return server

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **more: Any
    ) -> tuple[Any, Any]:
        """Connect to a server of this loop by a pair of sockets, or to another one over the network."""
        accepts, server = self._servers.get(port, (None, None))
        if accepts is not None and server is not None and server.is_serving() and more.get("ssl") is None:
            near, far = socket.socketpair()
            for each in (near, far):
                each.setblocking(False)
            try:
                await self.connect_accepted_socket(accepts, far)
                return await super().create_connection(protocol_factory, sock=near)
            except asyncio.CancelledError:
                near.close()
                raise
        self._jumping.real_waits += 1
        try:
            return await super().create_connection(protocol_factory, host, port, **more)
        finally:
            self._jumping.real_waits -= 1


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for no timer: if no file is ready, the clock jumps by the time to wait."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self.real_waits = 0  # for what happens outside of the loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._clock.sleep(TURN_S)
        if timeout is None or timeout <= 0 or self.real_waits:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self._clock.sleep(timeout)
        return ready
