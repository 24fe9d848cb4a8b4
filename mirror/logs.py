"""How the driver and its workers write their log: to standard error, one line an event."""

from __future__ import annotations

import logging
import sys

_NOISY = ("py4j", "aiokafka", "mirror.librdkafka")  # we say what matters ourselves, with the cluster's or flow's name


def once(told: set[str], what: str) -> int:
    """Return the level to say something at: a warning the first time, and DEBUG as long as it is among what was told."""
    level = logging.DEBUG if what in told else logging.WARNING
    told.add(what)
    return level


def in_words(error: BaseException) -> str:
    """Return what an error says; a time-out of asyncio's has no words of its own."""
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else repr(error))


def log_to_stderr(*, verbose: bool = False) -> None:
    """Set up this process's log."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(message)s",
        stream=sys.stderr,
    )
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
