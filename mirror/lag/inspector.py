"""Poll the clusters of a settings file for everything that the lag inspector shows. Works with the appliance down.

A cluster that does not answer costs seconds once a poll, and no row: rows are judged again by what is known, and what is not
known is shown as unknown.
"""

from __future__ import annotations

import logging
import threading
import time
import urllib.error
from collections.abc import Mapping

from metrics.as_of import MaxAge
from metrics.history import HISTORY_FILE, History
from metrics.verdict import KNOWN_POLLS, Sample
from mirror.config.settings import ClusterSettings, Flow, Settings
from mirror.kafka.cluster import Cluster
from mirror.lag.cluster_offsets import BoundedPoll
from mirror.lag.inspector_rows import FlowRows, GroupRows
from mirror.lag.judgement import HISTORY_AGE_S, Judge
from mirror.lag.rows import LagRow, RowJudge, Snapshot

log = logging.getLogger("mirror")

READY_S = 2.0
# How long a cluster may take to answer a question; after one that it does not answer it is asked no more in this poll
CLUSTER_S = 3.0


class Inspector:
    """Reads only; one `poll` at a time, from whichever thread."""

    def __init__(self, settings: Settings) -> None:
        self._mirror = settings.mirror
        self._lock = threading.Lock()
        self._history = History()
        judge = Judge(self._history, MaxAge(known_s=KNOWN_POLLS * settings.mirror.poll_interval_s))
        rows = RowJudge(judge, self._history)
        clusters = {end.alias: end for flow in settings.flows for end in (flow.source, flow.target)}
        options = {alias: _admin_options(settings.flows, end) for alias, end in clusters.items()}
        admins = {alias: Cluster(alias, own, within_s=CLUSTER_S) for alias, own in options.items()}
        hidden: set[str] = set()
        self._flows = [
            FlowRows(
                flow=flow,
                source=admins[flow.source.alias],
                target=admins[flow.target.alias],
                history=self._history,
                judge=rows,
            )
            for flow in settings.flows
        ]
        self._clusters = {alias: GroupRows(admins[alias], rows, hidden) for alias in clusters}
        # The appliance keeps its polls: with them verdicts are there at once.
        now_s = time.time()
        self._history.load(settings.mirror.state_dir / HISTORY_FILE, within_s=(now_s - HISTORY_AGE_S, now_s))

    def poll(self) -> Snapshot:
        """Return what is known now, and a sentence on each cluster that does not answer."""
        with self._lock:
            poll = BoundedPoll(time.time(), self._owner())
            rows: list[LagRow] = []
            for flow in self._flows:
                rows += flow.read(poll)
            for cluster in self._clusters.values():
                rows += cluster.read(poll)
            if not poll.problems:
                self._history.keep_only([row.key for row in rows])
            return Snapshot(
                time_s=poll.now_s,
                rows=tuple(rows),
                problems=tuple(poll.problems.values()),
                clusters=tuple((alias, alias not in poll.problems) for alias in self._clusters),
            )

    def window(self, row: LagRow) -> list[Sample]:
        """Return the polls that a row's verdict is made from, oldest first."""
        return self._history.of(row.key)

    def close(self) -> None:
        """Close the connections."""
        for flow in self._flows:
            flow.close()

    def _owner(self) -> str:
        """Return where the appliance of this file answers, "" when it does not."""
        address = self._mirror.metrics_address
        try:
            self._mirror.http.read(address, "/ready", timeout_s=READY_S)
        except urllib.error.HTTPError as error:
            error.close()
        except (urllib.error.URLError, TimeoutError) as error:
            log.debug("the appliance at %s does not answer: %s", address, error)
        else:
            return address
        return ""


def _admin_options(flows: tuple[Flow, ...], cluster: ClusterSettings) -> Mapping[str, str]:
    """Return the control-plane client's settings for a cluster, as the first flow that has it says."""
    return next(
        flow.source_admin if flow.source.alias == cluster.alias else flow.target_admin
        for flow in flows
        if cluster.alias in (flow.source.alias, flow.target.alias)
    )
