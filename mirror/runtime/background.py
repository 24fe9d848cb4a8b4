"""Run coroutines for threads without a loop of their own, all on one daemon thread of the process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a fork has none of its parent's threads
_starting = threading.Lock()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, or raise what it raises. It bounds its time itself. Not for that thread."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result()


def begin(coroutine: Coroutine[Any, Any, object]) -> None:
    """Let a coroutine run, and wait for nothing."""
    asyncio.run_coroutine_threadsafe(coroutine, _loop())


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="background", daemon=True).start()
    return loop
