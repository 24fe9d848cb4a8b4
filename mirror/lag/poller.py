"""Poll flows for their metrics: make, record, log and keep the rows of each flow.

Independent of the stream's reports: a mirror that hangs reports nothing, but its lag must be visible.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from metrics.as_of import MaxAge
from metrics.headroom import Retention, nearest
from metrics.history import History
from metrics.lag_row import LagRow
from metrics.partition_status import Status
from metrics.recorder import Recorder
from metrics.series import Labels
from metrics.trend import TREND_FILE, Trend
from mirror.errors import ClusterUnavailable
from mirror.flows.flow import Due, FlowState, led_flows
from mirror.kafka.cluster import Cluster
from mirror.lag.first_unreplicated import FirstUnreplicated
from mirror.lag.flow_lag import SETTLES_S, FlowLag
from mirror.lag.flow_progress import FlowProgress
from mirror.lag.flow_summary import summary
from mirror.lag.judgement import HISTORY_AGE_S, Judge
from mirror.lag.polls import PatientPoll, PendingRequests
from mirror.model.flow_plan import FlowPlan
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import first_few

log = logging.getLogger("mirror")

SAVE_EVERY_S = 30.0
RETENTION_EVERY_S = 300.0
# How often to search for series that a late report brought back, after the partitions have changed.
SEARCH_EVERY_S = 30.0


class SourceRetention:
    """The retention of one flow's source topics."""

    def __init__(self) -> None:
        self._known: dict[str, Retention] = {}
        self._read_s = float("-inf")

    def of(self, plan: FlowPlan, source: Cluster) -> Mapping[str, Retention]:
        """Return the retention by source topic; read it if topics appeared or it is old."""
        topics = {topic for topic, _ in plan.labels}
        is_due = time.monotonic() - self._read_s > RETENTION_EVERY_S
        if is_due or not topics <= self._known.keys():
            # A topic whose retention cannot be read keeps the known one, and is not requested at each poll.
            kept = {topic: self._known.get(topic, Retention()) for topic in topics}
            self._known = {**kept, **source.retention(topics)}
            self._read_s = time.monotonic()
        return self._known


class StatusLog:
    """Logs the status of partitions when it changes. At first each counts as OK."""

    def __init__(self) -> None:
        self._logged: dict[Labels, Status] = {}

    def keep_only(self, partitions: Collection[Labels]) -> None:
        """Forget partitions that left their flow."""
        wanted = set(partitions)
        self._logged = {labels: status for labels, status in self._logged.items() if labels in wanted}

    def log_changes(self, rows: Sequence[LagRow]) -> None:
        """Log changes, except UNKNOWN for lack of polls, which every start has."""
        changes: dict[Status, list[LagRow]] = {}
        for row in rows:
            is_new = row.status is not self._logged.get(row.key, Status.OK)
            if is_new and (row.is_complete or row.status is not Status.UNKNOWN):
                self._logged[row.key] = row.status
                changes.setdefault(row.status, []).append(row)
        for status, changed in changes.items():
            _log(status, changed)


def _log(status: Status, changed: Sequence[LagRow]) -> None:
    write = log.info if status is Status.OK else log.warning
    names = [f"{row.remote_topic}-{row.partition}" for row in changed]
    flow, reason = changed[0].group, changed[0].reason
    if len(changed) == 1:
        write("%s: %s is %s: %s", flow, names[0], status.name, reason)
        return
    shown = first_few(names)
    write("%s: %d partitions are %s (%s); reason of the first: %s", flow, len(changed), status.name, shown, reason)


@dataclass(slots=True)
class _Flow:
    """The state of one flow between polls."""

    lag: FlowLag
    pending: PendingRequests = field(default_factory=PendingRequests)
    retention: SourceRetention = field(default_factory=SourceRetention)
    had_failure: bool = False  # a cluster did not respond, as logged
    had_objection: bool = False  # the source refused to show positions, as logged


class Poller:
    """Polls flows, and records, logs and keeps their rows.

    The last polls are kept in a file, so that a status survives a restart. Each flow may be polled by its own thread, so that
    a cluster that hangs delays no other flow.
    """

    def __init__(
        self,
        recorder: Recorder,
        history_file: Path,
        *,
        progress: FlowProgress,
        horizon: MaxAge,
        publishes: bool = False,
        reads: Callable[[FlowPlan], FirstUnreplicated] = FirstUnreplicated,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        """Poll into a recorder; `wait(seconds)` returns early if the process stops."""
        self._recorder = recorder
        self._file = history_file
        self._progress = progress
        self._history = History()
        self._judge = Judge(history=self._history, horizon=horizon, lost_offsets=progress.lost_offsets)
        self._status_log = StatusLog()
        self._trend_file = history_file.with_name(TREND_FILE)
        self._trend = Trend()
        self._publishes = publishes
        self._reads = reads
        self._wait = wait
        self._flows: dict[str, _Flow] = {}
        self._saving = threading.Lock()
        self._saved_s = float("-inf")
        self._started_s = time.time()
        self.polls = 0  # finished, successful or not

    def load(self) -> None:
        """Read the polls of the last run, and its flows' last hour."""
        now_s = time.time()
        self._history.load(self._file, within_s=(now_s - HISTORY_AGE_S, now_s))
        self._trend.load(self._trend_file, now_s=now_s)

    def keep_only(self, partitions: Collection[Labels]) -> None:
        """Forget partitions that left their flow."""
        self._history.keep_only(partitions)
        self._status_log.keep_only(partitions)

    def has_responses(self, plan: FlowPlan) -> bool:
        """Return whether both clusters of a flow responded to its last poll."""
        return plan.name not in self._flows or not self._flows[plan.name].had_failure

    def last_position(self, labels: Labels) -> int | None:
        """Return the last known position of a partition, None if none is known."""
        samples = self._history.of(labels)
        return samples[-1].position if samples else None

    def poll(self, plan: FlowPlan, source: Cluster, target: Cluster, *, since_s: float = 0.0) -> None:
        """Poll one flow, which this process serves since `since_s` (epoch).

        If a cluster does not respond, the rows are made from known values (mirror.lag.flow_lag).
        """
        name, began = (plan.source, plan.target), time.monotonic()
        if plan.name not in self._flows:
            self._flows[plan.name] = _Flow(FlowLag(self._judge, reads=self._reads))
        flow = self._flows[plan.name]
        poll = PatientPoll(
            pending=flow.pending,
            on_response=lambda alias, is_up: self._recorder.record_cluster(name, alias, is_up=is_up),
        )
        found = flow.lag.read(plan, source, target, poll)
        if flow.lag.is_copying(plan, found):
            self._wait(SETTLES_S)
            found = flow.lag.read_settled(plan, found, target, poll)
        found, now_s = flow.lag.keep(plan, found), time.time()
        last_report_s = max(self._progress.last_report_s(name) or self._started_s, since_s)
        rows = flow.lag.rows(plan, found, now_s=now_s, last_report_s=last_report_s)
        read_s = found.logs.read_s if found.logs else now_s
        self._recorder.record_rows(name, rows, read_s=read_s, now_s=now_s, seen_s=found.seen_s)
        self._status_log.log_changes(rows)
        if rows:
            self._trend.record(plan.name, summary(plan.name, rows).point(now_s))
        if found.logs is not None:
            for topic, left_s in nearest(rows, flow.retention.of(plan, source), self._history.of).items():
                self._recorder.record_headroom(topic, left_s)
        if self._publishes and found.is_whole:
            self._publish(plan, source, flow, found.positions.offsets)
        has_just_failed = bool(poll.failures) and not flow.had_failure
        self._log_failures(plan, flow, poll.failures, is_whole=found.is_whole)
        if found.is_whole:
            self._recorder.record_poll(name, now_s=time.time(), took_s=time.monotonic() - began)
        # The last polls of a lost cluster are all that a failover knows of it.
        if time.monotonic() - self._saved_s > SAVE_EVERY_S or has_just_failed:
            self.save()
        self.polls += 1  # last: when a poll counts, its results are recorded

    def save(self) -> None:
        """Write the last polls to the file for the next start."""
        with self._saving:
            self._saved_s = time.monotonic()
            try:
                self._history.save(self._file)
                self._trend.save(self._trend_file)
            except OSError as error:
                log.warning(
                    "the last polls cannot be saved to %s: %s. A restart will begin without them.", self._file, error
                )

    def close(self) -> None:
        """Close the connections."""
        for flow in self._flows.values():
            flow.lag.close()
            flow.pending.close()

    def _publish(self, plan: FlowPlan, source: Cluster, flow: _Flow, positions: Mapping[TopicPartition, int]) -> None:
        """Commit positions to a group on the source, for lag tools; nothing depends on them."""
        if not positions or source.holds(plan.source_group_id, positions):
            return
        objection = source.publish(plan.source_group_id, positions)
        if objection and not flow.had_objection:
            log.warning("%s: positions for lag tools cannot be committed on %s: %s", plan.name, source.alias, objection)
        flow.had_objection = bool(objection)

    def _log_failures(
        self, plan: FlowPlan, flow: _Flow, failures: Sequence[ClusterUnavailable], *, is_whole: bool
    ) -> None:
        for failure in failures:
            self._recorder.store.count("kafka_mirror_poll_errors_total", (plan.source, plan.target))
            level = logging.DEBUG if flow.had_failure else logging.WARNING
            log.log(level, "%s: the lag cannot be polled: %s", plan.name, failure)
        if failures:
            flow.had_failure = True
        elif is_whole and flow.had_failure:
            flow.had_failure = False
            log.info("%s: lag is polled again", plan.name)


class _Share(NamedTuple):
    """What this process measures of a flow."""

    plan: FlowPlan | None
    served: FlowPlan | None
    slots: Collection[int]


class TrackedSeries:
    """The partitions of each flow that this process measures."""

    def __init__(self, flows: Sequence[FlowState], recorder: Recorder, poller: Poller, progress: FlowProgress) -> None:
        self._flows = flows
        self._recorder = recorder
        self._poller = poller
        self._progress = progress
        self._shares: list[_Share] = []
        self._reports: tuple[Set[Labels], Set[Labels]] = (set(), set())  # flows that are served, and led
        self._search_due = Due()

    def share(self) -> None:
        """Record which slots this process serves, and how many processes share them."""
        for state in self._flows:
            if (membership := state.membership) is not None and membership.owned is not None:
                self._recorder.record_share(
                    state.name,
                    owned=membership.owned,
                    slots=membership.layout.slots,
                    processes=membership.processes,
                    has_conflict=membership.has_conflict,
                )

    def keep(self) -> None:
        """Remove the series of partitions that are no longer measured.

        While it is unknown which slots of a flow this process serves, the series from the last run stay.
        """
        owned = {s.name: s.membership.owned if s.membership is not None else None for s in self._flows}
        unknown = {name for name, slots in owned.items() if slots is None}
        served, ours = {name for name, slots in owned.items() if slots} | unknown, led_flows(self._flows) | unknown
        shares = [_Share(state.plan, state.served(), owned[state.name] or ()) for state in self._flows]
        if shares != self._shares or (served, ours) != self._reports or self._search_due.take(SEARCH_EVERY_S):
            self._shares, self._reports = shares, (served, ours)
            self._sweep(served=served, led=ours)
        self._progress.expect(served, now_s=time.time())
        for state in self._flows:
            self._recorder.record_flow(state.name, has_begun=state.plan is not None)
            if state.name in served:
                emits_heartbeats = state.flow.heartbeats.enabled and state.name in ours
                self._recorder.record_expected_heartbeats(state.name, heartbeats=emits_heartbeats, now_s=time.time())
            if state.matching is not None:
                self._recorder.record_matched_topics(state.name, topics=state.matching)

    def _sweep(self, *, served: Set[Labels], led: Set[Labels]) -> None:
        """Create the series of all partitions of this process; remove those of others."""
        plans = [share.served or share.plan for share in self._shares]
        present = [labels for plan in plans if plan is not None for labels in plan.labels.values()]
        for kept in (self._recorder, self._poller, self._progress):
            kept.keep_only(present)
        self._recorder.keep_flows(served=served, led=led)
        for state, share in zip(self._flows, self._shares, strict=True):
            if share.plan is not None:
                self._recorder.record_served_partitions(
                    state.name,
                    share.served.labels.values() if share.served is not None else (),
                    expected=len(share.plan.labels),
                    slots=share.slots,
                )


@dataclass(eq=False, repr=False)
class Polling:
    """The threads that poll."""

    flows: Sequence[FlowState]
    poller: Poller
    recorder: Recorder
    every_s: float
    stop: threading.Event

    def __post_init__(self) -> None:
        self._threads = [
            threading.Thread(target=self._keep_on, args=(state,), name=f"poller {state.flow.name}", daemon=True)
            for state in self.flows
        ]

    def start(self) -> None:
        """Begin to poll."""
        for thread in self._threads:
            thread.start()

    def end(self, *, within_s: float, once_more: bool) -> list[str]:
        """Wait for running polls, optionally poll once more, and save the last polls.

        Returns:
            The flows of which a cluster does not respond.
        """
        ends_s = time.monotonic() + within_s
        for thread in self._threads:
            if thread.ident is not None:  # a stop while Spark starts comes before the first poll
                thread.join(max(0.0, ends_s - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            for state in self.flows if once_more else ():
                if state.plan is not None and self.poller.has_responses(state.plan):
                    self._poll(state)
            self.poller.save()
            self.poller.close()
        return [
            state.flow.name
            for state, thread in zip(self.flows, self._threads, strict=True)
            if state.plan is not None and (thread.is_alive() or not self.poller.has_responses(state.plan))
        ]

    def _keep_on(self, state: FlowState) -> None:
        while not self.stop.is_set():
            due_s = time.monotonic() + self.every_s
            try:
                self._poll(state)
            except Exception:
                log.exception("%s: a poll failed", state.flow.name)
                self.recorder.store.count("kafka_mirror_poll_errors_total", state.name)
            self.stop.wait(max(0.0, due_s - time.monotonic()))

    def _poll(self, state: FlowState) -> None:
        plan = state.served()
        if plan is not None and plan.labels:
            for names in {(labels[2], topic) for (topic, _), labels in plan.labels.items()}:
                self.recorder.store.info("kafka_mirror_topic_info", (*state.name, *names))
            since_s = state.membership.since_s if state.membership is not None else 0.0
            self.poller.poll(plan, state.source, state.target, since_s=since_s)
