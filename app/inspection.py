"""Hold the state that the pages and the API share: settings, pollers, responses of processes. No Streamlit."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache

from app.links import MIRROR
from app.watch import Watch
from metrics.exporter import STATUS_PATH
from metrics.last_errors import LastError, parsed
from metrics.process_status import ProcessStatus
from metrics.trend import TREND_FILE, Trend
from mirror.config.given import Given
from mirror.config.settings import Settings
from mirror.lag.inspector import Inspector

TIMEOUT_S = 5.0
SERVED_S = 2.0  # within this time, all viewers together cause one request to a process
MIRRORS: dict[str, Inspected] = {}  # what the pages show, by name; start_pollers fills it


class Inspected:
    """One mirror: its settings, its only poller, and the reports of its process."""

    def __init__(self, given: Given, watch: Watch) -> None:
        self.given = given
        self.watch = watch
        self._status = lru_cache(maxsize=1)(self._read_status)
        self._errors = lru_cache(maxsize=1)(self._read_errors)

    @property
    def settings(self) -> Settings:
        """The settings of its file."""
        return self.given.settings

    def process_status(self) -> ProcessStatus:
        """Return the status that the process reports about itself.

        Raises:
            OSError: The process does not respond, or runs an older version.
        """
        return self._status(int(time.monotonic() // SERVED_S))

    def last_errors(self) -> list[LastError]:
        """Return the reasons of the process' last pauses of partitions.

        Raises:
            OSError: The process does not respond.
            ValueError: The response is not a list of errors, because the process runs an older version.
        """
        return parsed(self._errors(int(time.monotonic() // SERVED_S)))

    def _read_status(self, _: int) -> ProcessStatus:
        try:
            return ProcessStatus.parse(self._read(STATUS_PATH))
        except ValueError as error:
            raise OSError(str(error)) from error

    def _read_errors(self, _: int) -> str:
        return self._read("/errors")

    def _read(self, path: str) -> str:
        mirror = self.settings.mirror
        return mirror.http.read(mirror.metrics_address, path, timeout_s=TIMEOUT_S)


def start_pollers(given: Iterable[Given]) -> None:
    """Start the pollers of all mirrors: statuses and time lags need polls from before the first viewer."""
    for each in given:
        mirror, trend = each.settings.mirror, Trend()
        trend.load(mirror.state_dir / TREND_FILE, now_s=time.time())  # of its process, if that runs on this machine
        watch = Watch(Inspector(each.settings), every_s=mirror.poll_interval_s, trend=trend)
        MIRRORS[each.name] = Inspected(each, watch)


def mirrors() -> dict[str, Inspected]:
    """Return the mirrors with which the app was started, by name."""
    return MIRRORS


def mirror_of(flow: str) -> str:
    """Return the name of the first mirror with a flow, "" without one."""
    found = mirrors().items()
    return next((name for name, each in found if flow in {own.name for own in each.settings.flows}), "")


def settings(mirror: str | None = None) -> Settings:
    """Return the settings of a mirror, by default of the chosen mirror."""
    return _named(MIRROR.get() if mirror is None else mirror).settings


def file_name() -> str:
    """Return the name of the chosen mirror's settings file, for commands."""
    return _chosen().given.file


def watch() -> Watch:
    """Return the poller of the chosen mirror."""
    return _chosen().watch


def process_status() -> ProcessStatus:
    """Return the status that the chosen mirror's process reports about itself.

    Raises:
        OSError: The process does not respond, or runs an older version.
    """
    return _chosen().process_status()


def last_errors() -> list[LastError]:
    """Return the reasons of the last pauses in the chosen mirror's process.

    Raises:
        OSError: The process does not respond.
        ValueError: The response is not a list of errors, because the process runs an older version.
    """
    return _chosen().last_errors()


def _chosen() -> Inspected:
    return _named(MIRROR.get())


def _named(mirror: str) -> Inspected:
    found = mirrors()
    return found.get(mirror) or next(iter(found.values()))
