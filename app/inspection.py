"""Hold what the pages and the API share: settings, poller, responses of the process. No Streamlit."""

from __future__ import annotations

import sys
import threading
import time
from functools import cache, lru_cache
from pathlib import Path

from app.watch import Watch
from metrics.exporter import STATUS_PATH
from metrics.last_errors import LastError, parsed
from metrics.process_status import ProcessStatus
from metrics.trend import TREND_FILE, Trend
from mirror.config.given import settings_of
from mirror.config.settings import Settings
from mirror.lag.inspector import Inspector

TIMEOUT_S = 5.0
SERVED_S = 2.0  # all viewers together send one request to the process per this time
_LOCK = threading.RLock()


def settings() -> Settings:
    """Return the settings that the app was started with."""
    with _LOCK:
        return _settings()


def file_name() -> str:
    """Return the name of the settings file, for commands.

    Return "FILE" if MirrorMaker 1's files were given.
    """
    return Path(sys.argv[1]).name if sys.argv[1:] and not sys.argv[1].startswith("-") else "FILE"


def watch() -> Watch:
    """Return the one poller; the first call starts it."""
    with _LOCK:
        return _watch()


def process_status() -> ProcessStatus:
    """Return what the process that replicates reports of itself.

    Raises:
        OSError: It does not respond, or is an older version.
    """
    return _status(int(time.monotonic() // SERVED_S))


def last_errors() -> list[LastError]:
    """Return the reasons of the process' last pauses of partitions.

    Raises:
        OSError: It does not respond.
        ValueError: Its response is not a list of errors: it is an older version.
    """
    return parsed(_errors(int(time.monotonic() // SERVED_S)))


@lru_cache(maxsize=1)
def _errors(_: int) -> str:
    mirror = settings().mirror
    return mirror.http.read(mirror.metrics_address, "/errors", timeout_s=TIMEOUT_S)


@lru_cache(maxsize=1)
def _status(_: int) -> ProcessStatus:
    mirror = settings().mirror
    try:
        return ProcessStatus.parse(mirror.http.read(mirror.metrics_address, STATUS_PATH, timeout_s=TIMEOUT_S))
    except ValueError as error:
        raise OSError(str(error)) from error


@cache
def _settings() -> Settings:
    return settings_of(sys.argv[1:])


@cache
def _watch() -> Watch:
    found = _settings()
    trend = Trend()
    trend.load(found.mirror.state_dir / TREND_FILE, now_s=time.time())  # of the process, if it runs on this machine
    return Watch(Inspector(found), every_s=found.mirror.poll_interval_s, trend=trend)
