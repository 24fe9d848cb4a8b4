"""A virtual clock: all events of a run in one order, and event loops of processes that one scheduler steps.

Nothing waits: the clock jumps to the next event. A run depends on its seed alone: it has no thread, no socket and no real time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

EPOCH_S = 1_800_000_000.0  # what the wall clock shows when a run begins
BOOTED_S = 1_000.0  # what the monotonic clock shows then
STEP_S = 1e-5  # what a step of an event loop takes: no loop can run for ever at one moment
TOLERANCE_S = 1e-9  # between the sums of a timer and of the clock
DISPOSALS = 10  # rounds of cancelling what is left
HISTORY = 200_000  # lines of a trace that are kept


class Timer:
    """A scheduled event. A cancelled one does nothing."""

    __slots__ = ("action", "at_s", "order")

    def __init__(self, at_s: float, order: int, action: Callable[[], None]) -> None:
        self.at_s = at_s
        self.order = order
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None

    def __lt__(self, other: Timer) -> bool:
        return (self.at_s, self.order) < (other.at_s, other.order)


class World:
    """The virtual time, the events to come, and the event loops.

    Attributes:
        now_s: Seconds since the run began.
        dice: Every random decision of a run.
        digest: A checksum of the trace; two runs with the same digest were the same.
        trace: The lines of the trace, if they are kept.
        ahead_s: By process, how far its wall clock was set forward.
    """

    def __init__(self, seed: int, *, keeps_trace: bool = False) -> None:
        self.now_s = 0.0
        self.dice = random.Random(seed)
        self.loops: list[ProcessLoop] = []
        self.digest = 0
        self.ahead_s: dict[str, float] = {}
        self.trace: list[str] | None = [] if keeps_trace else None
        self._events: list[Timer] = []
        self._order = itertools.count()
        self._running = False

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        line = f"{self.now_s:10.5f} {text}"
        self.digest = zlib.crc32(line.encode(), self.digest)
        if self.trace is not None and len(self.trace) < HISTORY:
            self.trace.append(line)

    def wall_s(self, process: str | None) -> float:
        """Return what the wall clock of a process shows."""
        return EPOCH_S + self.now_s + self.ahead_s.get(process or "", 0.0)

    def after(self, delay_s: float, action: Callable[[], None]) -> Timer:
        """Schedule an event."""
        timer = Timer(self.now_s + max(0.0, delay_s), next(self._order), action)
        heapq.heappush(self._events, timer)
        return timer

    def run_until(self, is_over: Callable[[], bool], *, within_s: float) -> bool:
        """Let events happen until something is true; return False if that takes longer than `within_s`."""
        deadline_s = self.now_s + within_s
        while not is_over():
            if self.now_s >= deadline_s:
                return False
            self._next(deadline_s)
        return True

    def run_for(self, seconds: float) -> None:
        """Let events happen for a time."""
        self.run_until(lambda: False, within_s=seconds)

    def _next(self, deadline_s: float) -> None:
        if self._events and self._events[0].at_s <= self.now_s:
            timer = heapq.heappop(self._events)
            if timer.action is not None:
                timer.action()
            return
        ready, next_s, now_s = [], deadline_s, self.now_s
        for loop in self.loops:
            due_s = loop.due_s()
            if due_s <= now_s:
                ready.append(loop)
            elif due_s < next_s:
                next_s = due_s
        if ready:
            loop = ready[0] if len(ready) == 1 else self.dice.choice(ready)
            loop.step()
            self.now_s += STEP_S
            return
        if self._events:
            next_s = min(next_s, self._events[0].at_s)
        self.now_s = max(now_s, next_s)


class _Task(asyncio.Task[Any]):
    """A task whose hash, and with it its place in sets, is the same in each run."""

    def __init__(self, coro: Any, *, loop: ProcessLoop, **kwargs: Any) -> None:
        self.number = loop.next_number()
        super().__init__(coro, loop=loop, **kwargs)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class _Future(asyncio.Future[Any]):
    """A future with such a hash."""

    def __init__(self, *, loop: ProcessLoop) -> None:
        self.number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


Connect = Callable[[Callable[[], Any], str, int], Awaitable[tuple[Any, Any]]]


class ProcessLoop(asyncio.BaseEventLoop):
    """The event loop of one simulated process. It runs one callback per `step`, so it can be stopped between any two.

    Attributes:
        is_frozen: It runs nothing, while its clock goes on. What arrives is queued.
        is_resting: The same between two windows, when the worker's loop does not run.
        is_dead: It never runs again.
        dies_after: Callbacks until `on_death` is called; None: no limit.
    """

    def __init__(self, world: World, name: str, connect: Connect) -> None:
        super().__init__()
        self.world = world
        self.name = name
        self.is_frozen = self.is_resting = self.is_dead = False
        self.dies_after: int | None = None
        self.on_death: Callable[[], None] = lambda: None
        self.failures: list[str] = []
        self._connect = connect
        self._numbers = itertools.count(1)
        self.set_task_factory(lambda loop, coro, **more: _Task(coro, loop=self, **more))
        self.set_exception_handler(lambda _, found: self.failures.append(f"{name}: {found.get('message')}"))
        world.loops.append(self)

    def next_number(self) -> int:
        return next(self._numbers)

    def time(self) -> float:
        return BOOTED_S + self.world.now_s

    def create_future(self) -> _Future:
        return _Future(loop=self)

    def due_s(self) -> float:
        """Return when there is something to run, by the world's clock: 0 for now."""
        if self.is_frozen or self.is_resting or self.is_dead:
            return inf
        if self._ready:
            return 0.0
        return self._scheduled[0]._when - BOOTED_S if self._scheduled else inf

    def step(self) -> None:
        """Run one callback."""
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                self.dies_after = None
                self.on_death()
                return
        now_s = self.time() + TOLERANCE_S
        while self._scheduled and (self._scheduled[0].when() <= now_s or self._scheduled[0].cancelled()):
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False
            if not timer.cancelled():
                self._ready.append(timer)
        while self._ready:
            handle = self._ready.popleft()
            if not handle.cancelled():
                asyncio._set_running_loop(self)
                try:
                    handle._run()
                finally:
                    asyncio._set_running_loop(None)
                return

    def dispose(self) -> None:
        """End the tasks that are left, without the network: their clean-up code reaches nobody."""
        self.is_dead = False
        self.is_frozen = self.is_resting = False
        self.dies_after = None
        for _ in range(DISPOSALS):  # clean-up code begins tasks
            tasks = sorted((task for task in asyncio.all_tasks(self) if not task.done()), key=hash)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self._step_until(lambda tasks=tasks: all(task.done() for task in tasks))  # type: ignore[misc]
        self.is_dead = True
        self.close()

    def _step_until(self, is_over: Callable[[], bool]) -> None:
        for _ in range(10_000):
            if is_over():
                return
            self.world.now_s = min(max(self.due_s(), self.world.now_s), self.world.now_s + 60)
            self.step()

    # --- what asyncio asks of a loop ----------------------------------------------------------------------------

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: cancelled timers are dropped when they are due."""

    def _write_to_self(self) -> None:
        """Do nothing: there is one thread."""

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Connect to a broker in memory."""
        return await self._connect(factory, host, port)

    def run_in_executor(self, executor: Any, function: Any, *args: Any) -> Any:
        """Call a function at once: there is one thread."""
        done = self.create_future()
        try:
            done.set_result(function(*args))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            done.set_exception(error)
        return done


@contextmanager
def ticking(world: World) -> Iterator[None]:
    """Let `time` and `random` follow a world as long as it runs; other threads, left of other tests, see the real time."""
    kept = time.time, time.monotonic, time.perf_counter
    state = random.getstate()
    random.seed(world.dice.getrandbits(64))
    time.time = _here(lambda: world.wall_s(_running()), time.time)
    time.monotonic = time.perf_counter = _here(lambda: BOOTED_S + world.now_s, time.monotonic)
    try:
        yield
    finally:
        time.time, time.monotonic, time.perf_counter = kept
        random.setstate(state)


def _here(virtual: Callable[[], float], real: Callable[[], float]) -> Callable[[], float]:
    """Return a clock that is virtual in this thread, and real in all others."""
    here = threading.get_ident()
    return lambda: virtual() if threading.get_ident() == here else real()


def _running() -> str | None:
    """Return the name of the process that runs now."""
    loop = asyncio._get_running_loop()
    return loop.name.split("/")[0] if isinstance(loop, ProcessLoop) else None
