"""Poll once for all viewers; pages show the latest snapshot."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Protocol

from metrics.lag_row import LagRow
from metrics.partition_status import Sample
from metrics.trend import Trend
from mirror.lag.flow_summary import summaries
from mirror.lag.leader_changes import LeaderChange
from mirror.lag.snapshot import Problem, RowTrends, Snapshot

log = logging.getLogger("mirror")

STALE_INTERVALS = 3
SILENT_POLL_S = 15.0  # longest poll if a cluster does not respond
MOST_CHANGES = 100  # number of kept changes of the process between responding and silent


class Polled(Protocol):
    """The poller: mirror.lag.inspector.Inspector, or a fake in tests."""

    def poll(self) -> Snapshot:
        """Poll and return the result."""

    def window(self, row: LagRow) -> list[Sample]:
        """Return the polls from which a row's status is derived."""

    def leader_changes(self, row: LagRow) -> list[LeaderChange]:
        """Return the leader changes of a row's partition."""


class Watch:
    """Polls in a separate thread as long as the process lives."""

    def __init__(self, polled: Polled, *, every_s: float, trend: Trend | None = None) -> None:
        """Poll `polled` every `every_s` seconds; `trend` has earlier points of the flows."""
        self._polled = polled
        self.every_s = every_s
        self.trend = trend or Trend()
        self.row_trends = RowTrends()
        self.process_changes: deque[tuple[float, bool]] = deque(maxlen=MOST_CHANGES)  # time, and whether it responds
        self._is_process_up: bool | None = None
        self._latest: Snapshot | None = None
        self._failures: tuple[Problem, ...] = ()  # of the last poll
        self._first = threading.Event()
        threading.Thread(target=self._run, name="inspector", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                self._latest = self._recorded(self._polled.poll())
                self._failures = ()
            except Exception as error:
                log.exception("a poll failed")
                self._failures = (Problem(f"The last poll failed: {type(error).__name__}. The log shows the reason."),)
            self._first.set()
            time.sleep(self.every_s)

    def _recorded(self, snapshot: Snapshot) -> Snapshot:
        owners = {row.owner for row in snapshot.rows if row.is_flow}
        if owners:
            self._record_process(bool(owners - {""}), snapshot.time_s)
        for flow in summaries(snapshot):
            self.trend.record(flow.name, flow.point(snapshot.time_s))
        self.row_trends.record(snapshot.rows, snapshot.time_s)
        return snapshot

    def _record_process(self, is_up: bool, time_s: float) -> None:
        if self._is_process_up not in (is_up, None):
            self.process_changes.append((time_s, is_up))
        self._is_process_up = is_up

    def latest(self, *, wait_s: float = 20.0) -> Snapshot:
        """Return the newest snapshot; until the first one exists, wait at most `wait_s`."""
        self._first.wait(wait_s)
        silent = Problem("The clusters have not responded yet.")
        return self._latest or Snapshot(time_s=time.time(), rows=(), problems=(silent,))

    def window(self, row: LagRow) -> list[Sample]:
        """Return the polls from which a row's status is derived, oldest first."""
        return self._polled.window(row)

    def leader_changes(self, row: LagRow) -> list[LeaderChange]:
        """Return the leader changes of a row's partition that polls have seen."""
        return self._polled.leader_changes(row)

    def trouble(self, snapshot: Snapshot, now_s: float) -> list[Problem]:
        """Return the problems that make the values incomplete or old."""
        found = [*self._failures, *snapshot.problems]
        age_s = now_s - snapshot.time_s
        # A poll waits for a cluster that does not respond, and the cluster has its own warning.
        waits_s = SILENT_POLL_S if found else 5.0
        if age_s > STALE_INTERVALS * self.every_s + waits_s:
            found.append(Problem(f"These values are {age_s:.0f} s old: the poll hangs, or a cluster responds slowly."))
        return found
