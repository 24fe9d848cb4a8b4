"""Wait for something true, with a reason that the failure repeats."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 4  # machines differ by as much, and by what else they do; a limit that is met costs nothing


def eventually(check: Callable[[], T], within_s: float, because: str, every_s: float = 0.1) -> T:
    """Return the first true answer of `check`; an AssertionError inside it counts as "not yet".

    `within_s` is what it takes at most on a quiet machine of two cores; it is waited for PATIENCE times as long.

    Raises:
        AssertionError: Nothing true came within the time; it names `because` and the last answer.
    """
    deadline = time.monotonic() + PATIENCE * within_s
    while True:
        seen: object
        try:
            seen = answer = check()
            if answer:
                return answer
        except AssertionError as not_yet:
            seen = not_yet
        if time.monotonic() >= deadline:
            raise AssertionError(
                f"after {PATIENCE * within_s:g} s still waiting because {because}; last seen: {seen!r}"
            )
        time.sleep(every_s)
