"""Ask something that may take long, and wait for it no longer than one can."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

T = TypeVar("T")


class Question(Generic[T]):
    """One question at a time, in a thread of its own. Not for several threads."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1)
        self._pending: tuple[Future[T], float] | None = None

    def ask(self, question: Callable[[], T], *, within_s: float) -> tuple[T, float] | None:
        """Ask, unless the last one is still unanswered; return an answer and when it was asked for, epoch seconds.

        None where it has not come within the time: it is waited for the next time. Raises what the question raises.
        """
        if self._pending is None:
            self._pending = self._executor.submit(question), time.time()
        future, asked_s = self._pending
        if not wait([future], within_s).done:
            return None
        self._pending = None
        return future.result(), asked_s

    def close(self) -> None:
        """Ask no more; what is under way is not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)
