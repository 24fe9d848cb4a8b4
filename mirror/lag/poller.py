"""Poll flows for their metrics: lag in records and seconds, headroom, a verdict per topic-partition.

Independent of the stream's reports on purpose: a mirror that hangs reports nothing, and its lag must be seen all the same.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from metrics.as_of import MaxAge
from metrics.headroom import Retention, headroom
from metrics.history import History
from metrics.recorder import Recorder
from metrics.series import Labels
from metrics.trend import TREND_FILE, Trend
from metrics.verdict import FLOW_STATUSES, Status, Verdict
from mirror.errors import ClusterUnavailable
from mirror.flows.flow import FlowState, led_flows
from mirror.kafka.cluster import Cluster
from mirror.lag.cluster_offsets import PatientPoll, Questions
from mirror.lag.first_unreplicated import FirstUnreplicated
from mirror.lag.flow_lag import FlowLag
from mirror.lag.flow_summary import point_of
from mirror.lag.judgement import HISTORY_AGE_S, Judge, status_in_plan
from mirror.lag.partition_offsets import FlowOffsets
from mirror.model.flow_plan import FlowPlan
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import first_few

RETENTION_EVERY_S = 300.0


class SourceRetention:
    """The retention of one flow's source topics."""

    def __init__(self) -> None:
        self._known: dict[str, Retention] = {}
        self._read_s = float("-inf")

    def of(self, plan: FlowPlan, source: Cluster) -> Mapping[str, Retention]:
        """Return the retention by source topic; asks when topics appear, and when the last answer is old."""
        topics = {topic for topic, _ in plan.labels}
        is_due = time.monotonic() - self._read_s > RETENTION_EVERY_S
        if is_due or not topics <= self._known.keys():
            # A topic that does not answer keeps what is known of it, and is not asked for at each poll.
            kept = {topic: self._known.get(topic, Retention()) for topic in topics}
            self._known = {**kept, **source.retention(topics)}
            self._read_s = time.monotonic()
        return self._known


class VerdictLog:
    """Knows the verdict that was logged last of each topic-partition; OK where none was."""

    def __init__(self) -> None:
        self._logged: dict[Labels, Status] = {}

    def keep_only(self, partitions: Collection[Labels]) -> None:
        """Forget topic-partitions that left their flow."""
        wanted = set(partitions)
        self._logged = {labels: status for labels, status in self._logged.items() if labels in wanted}

    def log_changes(self, flow: Labels, verdicts: Sequence[tuple[Labels, Verdict]]) -> None:
        """Log what changed since the last time. UNKNOWN for lack of polls is not logged: so every start begins."""
        changes: dict[Status, list[tuple[Labels, str]]] = {}
        for labels, verdict in verdicts:
            is_new = verdict.status is not self._logged.get(labels, Status.OK)
            if is_new and (verdict.is_complete or verdict.status is not Status.UNKNOWN):
                self._logged[labels] = verdict.status
                changes.setdefault(verdict.status, []).append((labels, verdict.reason))
        for status, changed in changes.items():
            _log(flow, status, changed)


def _log(flow: Labels, status: Status, changed: Sequence[tuple[Labels, str]]) -> None:
    write = log.info if status is Status.OK else log.warning
    names = [f"{topic}-{partition}" for (_, _, topic, partition), _ in changed]
    reason = changed[0][1]
    if len(changed) == 1:
        write("%s->%s: %s is %s: %s", *flow, names[0], status.name, reason)
        return
    shown = first_few(names)
    write("%s->%s: %d topic-partitions are %s (%s); of the first: %s", *flow, len(changed), status.name, shown, reason)


log = logging.getLogger("mirror")

SAVE_EVERY_S = 30.0


@dataclass(slots=True)
class _Flow:
    """What is kept of one flow from poll to poll."""

    lag: FlowLag
    questions: Questions = field(default_factory=Questions)
    retention: SourceRetention = field(default_factory=SourceRetention)
    had_failure: bool = False  # a cluster did not answer, as logged
    had_objection: bool = False  # the source refused to show positions, as logged


class Poller:
    """Feeds the recorder; keeps the last polls in a file, so that verdicts survive a restart.

    Each flow may be polled by a thread of its own: a cluster that hangs makes no other flow's numbers old.
    """

    def __init__(
        self,
        recorder: Recorder,
        history_file: Path,
        *,
        horizon: MaxAge,
        publishes: bool = False,
        reads: Callable[[FlowPlan], FirstUnreplicated] = FirstUnreplicated,
    ) -> None:
        self._recorder = recorder
        self._file = history_file
        self._history = History()
        self._judge = Judge(self._history, horizon)
        self._verdict_log = VerdictLog()
        self._trend_file = history_file.with_name(TREND_FILE)
        self._trend = Trend()
        self._publishes = publishes
        self._reads = reads
        self._flows: dict[str, _Flow] = {}
        self._saving = threading.Lock()
        self._saved_s = float("-inf")
        self._started_s = time.time()
        self.polls = 0  # done, good or bad

    def load(self) -> None:
        """Read the polls of the last run, and its flows' last hour."""
        now_s = time.time()
        self._history.load(self._file, within_s=(now_s - HISTORY_AGE_S, now_s))
        self._trend.load(self._trend_file, now_s=now_s)

    def keep_only(self, partitions: Collection[Labels]) -> None:
        """Forget topic-partitions that left their flow."""
        self._history.keep_only(partitions)
        self._verdict_log.keep_only(partitions)

    def is_answered(self, plan: FlowPlan) -> bool:
        """Tell whether both clusters of a flow answered its last poll."""
        return plan.name not in self._flows or not self._flows[plan.name].had_failure

    def last_position(self, labels: Labels) -> int | None:
        """Return the last position that a topic-partition was seen to have, None when none was."""
        samples = self._history.of(labels)
        return samples[-1].position if samples else None

    def poll(self, plan: FlowPlan, source: Cluster, target: Cluster, *, since_s: float = 0.0) -> None:
        """Poll one flow, which this process serves since `since_s` (epoch).

        Verdicts are made also where a cluster does not answer, by what is known (mirror.lag.flow_lag).
        """
        name, labels, began = (plan.source, plan.target), plan.labels, time.monotonic()
        if plan.name not in self._flows:
            self._flows[plan.name] = _Flow(FlowLag(self._history, reads=self._reads))
        flow = self._flows[plan.name]
        clusters = PatientPoll(
            questions=flow.questions,
            source=source,
            target=target,
            on_answer=lambda alias, is_up: self._recorder.record_cluster(name, alias, is_up=is_up),
        )
        found = flow.lag.read(plan, clusters)
        until_s: Mapping[TopicPartition, float] = {}
        if found.logs is not None:
            self._record_offsets(labels, found, found.logs.read_s)
            until_s = flow.lag.replicated_until_s(plan, found)
            self._record_time_lag(labels, found, until_s, flow.retention.of(plan, source))
            if self._publishes and found.is_target_read:
                self._publish(plan, source, flow, found.positions.offsets)
        statuses = self._record_verdicts(plan, found.held, time.time(), since_s)
        seen = [self._history.of(where) for where in labels.values()]
        self._trend.take_in(
            plan.name, point_of(found, until_s, seen, max(statuses, default=Status.UNKNOWN), time.time())
        )
        is_whole = found.is_target_read and found.logs is not None
        has_just_failed = bool(clusters.failures) and not flow.had_failure
        self._log_failures(plan, flow, clusters.failures, is_whole=is_whole)
        if is_whole:
            self._recorder.record_poll(name, now_s=time.time(), took_s=time.monotonic() - began)
        # What was seen last of a cluster that is lost is what a fail-over knows of it.
        if time.monotonic() - self._saved_s > SAVE_EVERY_S or has_just_failed:
            self.save()
        self.polls += 1  # last: who counts polls finds what they brought

    def save(self) -> None:
        """Write the last polls to the file; without it only the next start is blind for a window."""
        with self._saving:
            self._saved_s = time.monotonic()
            try:
                self._history.save(self._file)
                self._trend.save(self._trend_file)
            except OSError as error:
                log.warning("the last polls cannot be kept in %s: %s", self._file, error)

    def close(self) -> None:
        """Close the connections of its own."""
        for flow in self._flows.values():
            flow.lag.close()
        for flow in self._flows.values():
            flow.questions.close()

    def _record_offsets(self, labels: Mapping[TopicPartition, Labels], found: FlowOffsets, read_s: float) -> None:
        for key, at in found.of.items():
            if at.log_end is None:
                continue
            where = labels[key]
            self._recorder.record_offsets(
                where, start=at.log_start, end=at.log_end, replicated=at.position, now_s=read_s
            )
            lost = int(self._recorder.value("kafka_mirror_records_lost_total", where) or 0)
            self._judge.take_in(where, at, time_s=read_s, position_s=found.positions.read_s, lost=lost)

    def _record_time_lag(
        self,
        labels: Mapping[TopicPartition, Labels],
        found: FlowOffsets,
        replicated_until_s: Mapping[TopicPartition, float],
        retention: Mapping[str, Retention],
    ) -> None:
        """Record up to when each topic-partition is replicated, and how long retention leaves its next record."""
        now_s = time.time()
        measured = {key: at.lag for key, at in found.of.items() if at.lag is not None}
        nearest: dict[Labels, float | None] = {labels[key][:3]: None for key in measured}
        for key, lag in measured.items():
            where = labels[key]
            until_s = replicated_until_s.get(key)
            if until_s is None:
                continue  # nothing is known of the record that waits
            self._recorder.record_replicated_until(where, until_s)
            lag_s = now_s - until_s if lag else 0.0
            left = headroom(retention.get(key[0], Retention()), self._history.of(where), lag_s)
            so_far = nearest[where[:3]]
            nearest[where[:3]] = left if so_far is None else so_far if left is None else min(so_far, left)
        for topic, left in nearest.items():
            self._recorder.record_headroom(topic, left)

    def _record_verdicts(
        self, plan: FlowPlan, held: Mapping[TopicPartition, str], now_s: float, since_s: float
    ) -> Collection[Status]:
        """Record a verdict for each topic-partition; return those that there are."""
        flow = plan.source, plan.target
        reported_s = self._recorder.value("kafka_mirror_last_progress_timestamp_seconds", flow)
        last_report_s = max(reported_s or self._started_s, since_s)
        verdicts = []
        for place in plan.places:
            labels = plan.labels[place.on_source]
            polled = self._judge.verdict(labels, now_s=now_s, last_report_s=last_report_s)
            verdict = status_in_plan(polled, place, held)
            verdicts.append((labels, verdict))
            self._recorder.record_status(labels, verdict.status)
            self._recorder.record_hold(labels, is_held=place.on_source in held)
        counts = Counter(verdict.status for _, verdict in verdicts)
        self._recorder.record_status_counts(
            flow, {status.name.lower(): counts[status] for status in FLOW_STATUSES}, now_s=now_s
        )
        self._verdict_log.log_changes(flow, verdicts)
        return counts

    def _publish(self, plan: FlowPlan, source: Cluster, flow: _Flow, positions: Mapping[TopicPartition, int]) -> None:
        """Commit positions to a group on the source, where every lag tool looks; nothing depends on them."""
        if not positions or source.holds(plan.source_group_id, positions):
            return
        objection = source.publish(plan.source_group_id, positions)
        if objection and not flow.had_objection:
            log.warning("%s: positions are not shown to lag tools on %s: %s", plan.name, source.alias, objection)
        flow.had_objection = bool(objection)

    def _log_failures(
        self, plan: FlowPlan, flow: _Flow, failures: Sequence[ClusterUnavailable], *, is_whole: bool
    ) -> None:
        for failure in failures:
            self._recorder.count("kafka_mirror_poll_errors_total", (plan.source, plan.target))
            level = logging.DEBUG if flow.had_failure else logging.WARNING
            log.log(level, "%s: lag not polled: %s", plan.name, failure)
        if failures:
            flow.had_failure = True
        elif is_whole and flow.had_failure:
            flow.had_failure = False
            log.info("%s: lag is polled again", plan.name)


class TrackedSeries:
    """What this process is to measure of each flow, as far as it is known which slots it serves."""

    def __init__(self, flows: Sequence[FlowState], recorder: Recorder, poller: Poller) -> None:
        self._flows = flows
        self._recorder = recorder
        self._poller = poller

    def share(self) -> None:
        """Take in which slots this process serves, and how many share them."""
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
        """Have the series of what is to be measured, and no others.

        While it is not known yet what of a flow is ours, what the last run has seen of it stays.
        """
        plans = [state.served() or state.plan for state in self._flows]
        present = [labels for plan in plans if plan is not None for labels in plan.labels.values()]
        self._recorder.keep_only(present)
        self._poller.keep_only(present)
        owned = {s.name: s.membership.owned if s.membership is not None else None for s in self._flows}
        unknown = {name for name, slots in owned.items() if slots is None}
        served, ours = {name for name, slots in owned.items() if slots} | unknown, led_flows(self._flows) | unknown
        self._recorder.keep_flows(served=served, led=ours)
        for state in self._flows:
            self._recorder.record_flow(state.name, has_begun=state.plan is not None)
            if state.name in served:
                emits_heartbeats = state.flow.heartbeats.enabled and state.name in ours
                self._recorder.record_expected_heartbeats(state.name, heartbeats=emits_heartbeats, now_s=time.time())
            if state.matching is not None:
                self._recorder.record_matched_topics(state.name, topics=state.matching)
            if state.plan is not None:
                served_plan = state.served()
                self._recorder.record_served_partitions(
                    state.name,
                    served_plan.labels.values() if served_plan is not None else (),
                    expected=len(state.plan.labels),
                    slots=owned[state.name] or (),
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
        """Wait for the polls that run, `once_more` poll what answered, and keep what is known for the next start.

        Returns:
            The flows of which a cluster does not answer.
        """
        ends_s = time.monotonic() + within_s
        for thread in self._threads:
            if thread.ident is not None:  # a stop asked for while Spark starts comes before the first poll
                thread.join(max(0.0, ends_s - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            for state in self.flows if once_more else ():
                if state.plan is not None and self.poller.is_answered(state.plan):
                    self._poll(state)
            self.poller.save()
            self.poller.close()
        return [
            state.flow.name
            for state, thread in zip(self.flows, self._threads, strict=True)
            if state.plan is not None and (thread.is_alive() or not self.poller.is_answered(state.plan))
        ]

    def _keep_on(self, state: FlowState) -> None:
        while not self.stop.is_set():
            try:
                self._poll(state)
            except Exception:
                log.exception("%s: a poll failed", state.flow.name)
                self.recorder.count("kafka_mirror_poll_errors_total", state.name)
            self.stop.wait(self.every_s)

    def _poll(self, state: FlowState) -> None:
        plan = state.served()
        if plan is not None and plan.labels:
            for names in {(labels[2], topic) for (topic, _), labels in plan.labels.items()}:
                self.recorder.info("kafka_mirror_topic_info", (*state.name, *names))
            since_s = state.membership.since_s if state.membership is not None else 0.0
            self.poller.poll(plan, state.source, state.target, since_s=since_s)
