"""Write the log of the driver and its workers to standard error: one line an event, with its level for systemd's journal."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TextIO

from mirror.runtime.text_columns import one_line

_NOISY = ("py4j", "mirror.librdkafka")  # the driver logs what matters itself, with the name of the cluster or flow


def level_once(logged: set[str], what: str) -> int:
    """Return WARNING the first time, DEBUG afterwards."""
    level = logging.DEBUG if what in logged else logging.WARNING
    logged.add(what)
    return level


def describe(error: BaseException) -> str:
    """Return the message of an error; asyncio's timeouts have none."""
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else repr(error))


NAMED = 5  # of many in a line


def first_few(names: Sequence[str]) -> str:
    """Return the first few of many names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


class _OneLine(logging.Formatter):
    """Writes each event on one line, even if names contain line breaks. A traceback follows on separate lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, its name in logging
        return one_line(super().formatMessage(record))


_JOURNAL_LEVELS = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class _Journal(_OneLine):
    """Starts each line with its priority. The journal adds the time."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, its name in logging
        return f"<{_JOURNAL_LEVELS.get(record.levelno, 6)}>{super().formatMessage(record)}"


def _is_journal(stream: TextIO) -> bool:
    """Return whether a stream is connected to systemd's journal, by systemd.exec(5)."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _is_ours(record: logging.LogRecord) -> bool:
    """Return whether to log a record: False for py4j's records on the root logger.

    py4j raises the same error to its caller. After the end of the JVM, no caller is left.
    """
    return record.name != "root" or "py4j" not in Path(record.pathname).parts


def print_error(message: str) -> None:
    """Print the last line of a failed command."""
    level = f"<{_JOURNAL_LEVELS[logging.ERROR]}>" if _is_journal(sys.stderr) else ""
    print(f"{level}kafka-mirror: {message}", file=sys.stderr)


def log_to_stderr(*, verbose: bool = False) -> None:
    """Set up this process's log."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_is_ours)
    if _is_journal(sys.stderr):
        handler.setFormatter(_Journal("%(message)s"))
    else:
        handler.setFormatter(_OneLine("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def hang_up_quietly() -> None:
    """Suppress log records about connections that close as this process ends.

    When their JVM is gone, Spark's runners fail on such records.
    """
    tell = sys.excepthook

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, ConnectionError):
            tell(kind, error, trace)

    sys.excepthook = ended
