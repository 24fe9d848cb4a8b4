"""Run coroutines for threads without an event loop, on one daemon thread of the process."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a forked process has none of its parent's threads
_starting = threading.Lock()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return a coroutine's result, or raise its error. Do not call it on the background thread.

    The coroutine must limit its own time.
    """
    return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result()


def begin(coroutine: Coroutine[Any, Any, object]) -> None:
    """Start a coroutine without waiting for it."""
    asyncio.run_coroutine_threadsafe(coroutine, _loop())


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="background", daemon=True).start()
    return loop


class BackgroundCall(Generic[T]):
    """Runs one call at a time, in a separate thread. Use it from one thread only."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1)
        self._pending: tuple[Future[T], float] | None = None

    def ask(self, question: Callable[[], T], *, within_s: float) -> tuple[T, float] | None:
        """Start a call unless the last one is still running. Return a result and its start, epoch seconds.

        Return None if the call has not ended in time; then the next `ask` waits for the same call. Raises the errors of the call.
        """
        if self._pending is None:
            self._pending = self._executor.submit(question), time.time()
        future, asked_s = self._pending
        if not wait([future], within_s).done:
            return None
        self._pending = None
        return future.result(), asked_s

    def close(self) -> None:
        """Start no more calls; do not wait for the running one."""
        self._executor.shutdown(wait=False, cancel_futures=True)
