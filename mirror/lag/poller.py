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

from metrics.as_of import Horizon
from metrics.cap import Labels
from metrics.headroom import Retention, headroom
from metrics.history import History
from metrics.recorder import Recorder
from metrics.trend import TREND_FILE, Trend
from metrics.verdict import FLOW_STATUSES, Status
from mirror.errors import ClusterUnavailable
from mirror.kafka.admin import Admin
from mirror.lag.first_unreplicated import FirstUnreplicated
from mirror.lag.flow_lag import FlowLag
from mirror.lag.flow_point import point_of
from mirror.lag.judgement import HISTORY_AGE_S, Judge, status_in_plan
from mirror.lag.partition_offsets import FlowOffsets
from mirror.lag.patient_poll import PatientPoll, Questions
from mirror.lag.source_retention import SourceRetention
from mirror.lag.verdict_log import VerdictLog
from mirror.model.flow_plan import FlowPlan, Key

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
        horizon: Horizon,
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

    def poll(self, plan: FlowPlan, source: Admin, target: Admin, *, since_s: float = 0.0) -> None:
        """Poll one flow, which this process serves since `since_s` (epoch).

        Verdicts are made also where a cluster does not answer, by what is known (mirror.lag.flow_lag).
        """
        name, labels, began = (plan.source, plan.target), plan.labels, time.monotonic()
        if plan.name not in self._flows:
            self._flows[plan.name] = _Flow(FlowLag(self._history, reads=self._reads))
        flow = self._flows[plan.name]
        clusters = PatientPoll(
            flow.questions,
            source,
            target,
            on_answer=lambda alias, is_up: self._recorder.cluster(name, alias, is_up=is_up),
        )
        found = flow.lag.read(plan, clusters)
        until_s: Mapping[Key, float] = {}
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
            self._recorder.polled(name, now_s=time.time(), took_s=time.monotonic() - began)
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

    def _record_offsets(self, labels: Mapping[Key, Labels], found: FlowOffsets, read_s: float) -> None:
        for key, at in found.of.items():
            if at.log_end is None:
                continue
            where = labels[key]
            self._recorder.offsets(where, start=at.log_start, end=at.log_end, replicated=at.position, now_s=read_s)
            lost = int(self._recorder.value("kafka_mirror_records_lost_total", where) or 0)
            self._judge.take_in(where, at, time_s=read_s, position_s=found.positions.read_s, lost=lost)

    def _record_time_lag(
        self,
        labels: Mapping[Key, Labels],
        found: FlowOffsets,
        replicated_until_s: Mapping[Key, float],
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
            self._recorder.replicated_until(where, until_s)
            lag_s = now_s - until_s if lag else 0.0
            left = headroom(retention.get(key[0], Retention()), self._history.of(where), lag_s)
            so_far = nearest[where[:3]]
            nearest[where[:3]] = left if so_far is None else so_far if left is None else min(so_far, left)
        for topic, left in nearest.items():
            self._recorder.headroom(topic, left)

    def _record_verdicts(
        self, plan: FlowPlan, held: Mapping[Key, str], now_s: float, since_s: float
    ) -> Collection[Status]:
        """Record a verdict for each topic-partition; return those that there are."""
        flow = plan.source, plan.target
        reported_s = self._recorder.value("kafka_mirror_last_progress_timestamp_seconds", flow)
        last_report_s = max(reported_s or self._started_s, since_s)
        verdicts = []
        for place in plan.places:
            labels = plan.labels[place.key]
            polled = self._judge.verdict(labels, now_s=now_s, last_report_s=last_report_s)
            verdict = status_in_plan(polled, place, held)
            verdicts.append((labels, verdict))
            self._recorder.status(labels, verdict.status)
            self._recorder.held(labels, is_held=place.key in held)
        counts = Counter(verdict.status for _, verdict in verdicts)
        self._recorder.statuses(flow, {status.name.lower(): counts[status] for status in FLOW_STATUSES}, now_s=now_s)
        self._verdict_log.log_changes(flow, verdicts)
        return counts

    def _publish(self, plan: FlowPlan, source: Admin, flow: _Flow, positions: Mapping[Key, int]) -> None:
        """Commit positions to a group on the source, where every lag tool looks; nothing depends on them."""
        if not positions or source.holds(plan.shown_as, positions):
            return
        objection = source.publish(plan.shown_as, positions)
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
