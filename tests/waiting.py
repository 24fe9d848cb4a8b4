"""Wait for something true, with a reason that the failure repeats."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], within_s: float, because: str, every_s: float = 0.1) -> T:
    """Return the first true answer of `check`; an AssertionError inside it counts as "not yet".

    Raises:
        AssertionError: Nothing true came within the time; it names `because` and the last answer.
    """
    deadline = time.monotonic() + within_s
    while True:
        seen: object
        try:
            seen = answer = check()
            if answer:
                return answer
        except AssertionError as not_yet:
            seen = not_yet
        if time.monotonic() >= deadline:
            raise AssertionError(f"after {within_s} s still waiting because {because}; last seen: {seen!r}")
        time.sleep(every_s)
