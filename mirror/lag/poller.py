"""Read both clusters, away from the data path: lag in records and seconds, headroom, a verdict per topic-partition.

Independent of the stream's reports on purpose: a mirror that hangs reports nothing, and its lag must be seen all the same.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from metrics.as_of import UNTIL, Horizon
from metrics.cap import Labels
from metrics.headroom import Retention, headroom
from metrics.history import History
from metrics.recorder import Recorder
from metrics.verdict import KNOWN_POLLS, LONG_AGO_S, Sample, Status, judge, written_by_s
from mirror.errors import ClusterUnavailable
from mirror.kafka.admin import Admin
from mirror.lag import log_bounds
from mirror.lag.first_unreplicated import FirstUnreplicated
from mirror.lag.log_bounds import LogBounds
from mirror.model.flow_plan import FlowPlan, Key
from mirror.runtime.logs import some
from mirror.runtime.question import Question

log = logging.getLogger("mirror")

SAVE_EVERY_S = 30.0
SILENT_WINDOWS = 4  # a report comes each window; a flow that misses this many has stopped
PATIENCE_S = 1.0  # for an answer of one cluster, before what the other one says is asked for
LEAST_KNOWN_S = 3.0  # no poll need be faster than this to count as known
RETENTION_EVERY_S = 300.0
HISTORY_AGE_S = 600.0  # older polls say nothing about a partition that we see again now

Answer = TypeVar("Answer")


class Positions(NamedTuple):
    """The next source offset of each topic-partition that has one, and when they were read, epoch seconds."""

    offsets: Mapping[Key, int]
    read_s: float


NOTHING = Positions({}, LONG_AGO_S)


def horizon_of(*, poll_interval_s: float, window_s: float) -> Horizon:
    """Return how old answers of clusters, and a flow's last report, may be."""
    return Horizon(known_s=max(KNOWN_POLLS * poll_interval_s, LEAST_KNOWN_S), silence_s=SILENT_WINDOWS * window_s)


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
        self._horizon = horizon
        self._history = History()
        self._publishes = publishes
        self._positions: dict[str, Positions] = {}  # by flow: the last ones
        self._unpolled: set[str] = set()  # flows with a cluster that does not answer; said once
        self._unpublished: set[str] = set()  # flows whose positions the source refuses; said once
        self._questions: dict[
            str, tuple[Question[dict[Key, int]], Question[LogBounds]]
        ] = {}  # by flow: to target and source
        self._reads = reads
        self._readers: dict[str, FirstUnreplicated] = {}  # by flow
        self._told: dict[Labels, Status] = {}  # of topic-partitions that have or had a verdict to tell of
        self._retention: dict[str, dict[str, Retention]] = {}  # by flow and source topic
        self._retention_at_s: dict[str, float] = {}
        self._saving = threading.Lock()
        self._saved_s = float("-inf")
        self._started_s = time.time()
        self.polls = 0  # done, good or bad

    def load(self) -> None:
        """Read the polls of the last run."""
        self._history.load(self._file, now_s=time.time(), max_age_s=HISTORY_AGE_S)

    def keep_only(self, partitions: Collection[Labels]) -> None:
        """Forget topic-partitions that left their flow."""
        self._history.keep_only(partitions)
        wanted = set(partitions)
        self._told = {labels: status for labels, status in self._told.items() if labels in wanted}

    def is_answered(self, plan: FlowPlan) -> bool:
        """Tell whether both clusters of a flow answered its last poll."""
        return plan.name not in self._unpolled

    def last_position(self, labels: Labels) -> int | None:
        """Return the last position that a topic-partition was seen to have, None when none was."""
        samples = self._history.of(labels)
        return samples[-1].position if samples else None

    def poll(
        self, plan: FlowPlan, source: Admin, target: Admin, labels: Mapping[Key, Labels], *, since_s: float = 0.0
    ) -> None:
        """Poll one flow, which this process serves since `since_s` (epoch).

        `labels` maps (source topic, partition) to the labels of its series.

        While the target does not answer, positions are those of the last poll, for nothing can commit there; so the lag
        is seen to grow. While the source does not, nothing new is known. Verdicts are made all the same, by what is known.
        """
        flow = (plan.source, plan.target)
        began = time.monotonic()
        failures: list[ClusterUnavailable] = []
        if plan.name not in self._questions:
            self._questions[plan.name] = Question(), Question()
        of_target, of_source = self._questions[plan.name]
        positions = self._answer(flow, target, of_target, lambda: log_bounds.positions(plan, target), failures)
        if positions is not None:
            self._positions[plan.name] = Positions(*positions)
        elif not self._positions.get(plan.name, NOTHING).offsets:
            self._positions[plan.name] = self._last_positions(plan, source, labels)
        known = self._positions[plan.name]
        bounds = self._answer(flow, source, of_source, lambda: log_bounds.bounds(plan, source), failures)
        if bounds is not None:
            logs, asked_s = _only(bounds[0], labels), bounds[1]
            self._take_in(labels, known, logs, asked_s)
            lagging, both = log_bounds.lagging(known.offsets, logs), known.offsets.keys() & logs.ends.keys()
            lagging = {key: position for key, position in lagging.items() if key in labels}
            self._time_lag(plan, source, labels, lagging, both, min(asked_s, known.read_s))
            if self._publishes and positions is not None:
                self._publish(plan, source, known.offsets)
        self._judge(flow, labels.values(), time.time(), since_s)
        self._tell_failures(plan, flow, failures, is_whole=positions is not None and bounds is not None)
        if positions is not None and bounds is not None:
            self._recorder.polled(flow, now_s=time.time(), took_s=time.monotonic() - began)
        if time.monotonic() - self._saved_s > SAVE_EVERY_S:
            self.save()
        self.polls += 1  # last: who counts polls finds what they brought

    def _tell_failures(
        self, plan: FlowPlan, flow: Labels, failures: Sequence[ClusterUnavailable], *, is_whole: bool
    ) -> None:
        for failure in failures:
            self._recorder.count("kafka_mirror_poll_errors_total", flow)
            say = log.debug if plan.name in self._unpolled else log.warning
            say("%s: lag not polled: %s", plan.name, failure)
        if failures:
            self._unpolled.add(plan.name)
        elif is_whole and plan.name in self._unpolled:
            self._unpolled.discard(plan.name)
            log.info("%s: lag is polled again", plan.name)

    def _last_positions(self, plan: FlowPlan, source: Admin, labels: Mapping[Key, Labels]) -> Positions:
        """Return what is known of positions before the target has answered: from the polls of the last run, or from the source.

        The source has a group for lag tools that shows them (mirror.source.group.enabled); nobody knows how old that is.
        """
        polled = {key: samples[-1] for key, where in labels.items() if (samples := self._history.of(where))}
        if polled:
            read_s = min(sample.position_s or sample.time_s for sample in polled.values())
            return Positions({key: sample.position for key, sample in polled.items()}, read_s)
        try:
            return Positions(log_bounds.shown(plan, source), LONG_AGO_S)
        except ClusterUnavailable:
            return NOTHING  # the source is asked for more at once, and says it then

    def _take_in(self, labels: Mapping[Key, Labels], known: Positions, logs: LogBounds, asked_s: float) -> None:
        for key, end in logs.ends.items():
            replicated = known.offsets.get(key)
            where, start = labels[key], logs.starts.get(key)
            self._recorder.offsets(where, start=start, end=end, replicated=replicated, now_s=asked_s)
            if replicated is not None:
                lost = self._recorder.value("kafka_mirror_records_lost_total", where) or 0
                sample = Sample(asked_s, replicated, end, int(lost), start or 0, known.read_s)
                self._history.add(where, sample)

    def save(self) -> None:
        """Write the last polls to the file; without it only the next start is blind for a window."""
        with self._saving:
            self._saved_s = time.monotonic()
            try:
                self._history.save(self._file)
            except OSError as error:
                log.warning("the last polls cannot be kept in %s: %s", self._file, error)

    def close(self) -> None:
        """Close the connections of its own."""
        for reader in self._readers.values():
            reader.close()
        for questions in self._questions.values():
            for question in questions:
                question.close()

    def _time_lag(
        self,
        plan: FlowPlan,
        source: Admin,
        labels: Mapping[Key, Labels],
        lagging: Mapping[Key, int],
        known: Collection[Key],
        seen_s: float,
    ) -> None:
        """Record up to when each topic-partition is replicated, and how long retention leaves its next record.

        What does not lag was replicated up to `seen_s`, when both its position and its log's end were known.
        """
        reader = self._readers.get(plan.name)
        if reader is None:
            reader = self._readers[plan.name] = self._reads(plan)
        timestamps = reader.timestamps(lagging)
        retention = self._retention_of(plan, source)
        now_s = time.time()
        nearest: dict[Labels, float | None] = {labels[key][:3]: None for key in known}
        for key in known:
            where = labels[key]
            until_s = self._recorder.value(UNTIL, where)
            if key in timestamps:
                until_s = written_by_s(timestamps[key] / 1000, self._history.of(where), before_s=until_s)
            if key not in lagging and seen_s > LONG_AGO_S:
                until_s = seen_s
            if until_s is None:
                continue  # nothing is known of the record that waits
            self._recorder.replicated_until(where, until_s)
            lag_s = now_s - until_s if key in lagging else 0.0
            left = headroom(retention.get(key[0], Retention()), self._history.of(where), lag_s)
            so_far = nearest[where[:3]]
            nearest[where[:3]] = left if so_far is None else so_far if left is None else min(so_far, left)
        for topic, left in nearest.items():
            self._recorder.headroom(topic, left)

    def _retention_of(self, plan: FlowPlan, source: Admin) -> dict[str, Retention]:
        """Return the source topics' retention, asked again from time to time and when topics appear."""
        topics = {assigned.topic for assigned in plan.partitions}
        known = self._retention.get(plan.name, {})
        is_due = time.monotonic() - self._retention_at_s.get(plan.name, float("-inf")) > RETENTION_EVERY_S
        if is_due or not topics <= known.keys():
            # A topic that does not answer keeps what is known of it, and is not asked for at each poll.
            kept = {topic: known.get(topic, Retention()) for topic in topics}
            known = self._retention[plan.name] = {**kept, **source.retention(topics)}
            self._retention_at_s[plan.name] = time.monotonic()
        return known

    def _publish(self, plan: FlowPlan, source: Admin, positions: Mapping[Key, int]) -> None:
        """Commit positions to a group on the source, where every lag tool looks; nothing depends on them."""
        if not positions or source.holds(plan.shown_as, positions):
            return
        objection = source.publish(plan.shown_as, positions)
        if objection and plan.name not in self._unpublished:
            log.warning("%s: positions are not shown to lag tools on %s: %s", plan.name, source.alias, objection)
            self._unpublished.add(plan.name)
        elif not objection:
            self._unpublished.discard(plan.name)

    def _answer(
        self,
        flow: Labels,
        cluster: Admin,
        question: Question[Answer],
        ask: Callable[[], Answer],
        failures: list[ClusterUnavailable],
    ) -> tuple[Answer, float] | None:
        """Return a cluster's answer and when it was asked for; None while there is none, for which nothing else waits."""
        try:
            answer = question.asked(ask, within_s=PATIENCE_S)
        except ClusterUnavailable as error:
            failures.append(error)
            self._recorder.cluster(flow, cluster.alias, is_up=False)
            return None
        if answer is not None:
            self._recorder.cluster(flow, cluster.alias, is_up=True)
        return answer

    def _judge(self, flow: Labels, partitions: Collection[Labels], now_s: float, since_s: float) -> None:
        reported_s = self._recorder.value("kafka_mirror_last_progress_timestamp_seconds", flow)
        last_report_s = max(reported_s or self._started_s, since_s)
        counts = Counter(dict.fromkeys(Status, 0))
        news: dict[Status, list[tuple[Labels, str]]] = {}
        for labels in partitions:
            verdict = judge(
                self._history.of(labels),
                last_report_s=last_report_s,
                now_s=now_s,
                silence_s=self._horizon.silence_s,
                known_s=self._horizon.known_s,
            )
            counts[verdict.status] += 1
            self._recorder.status(labels, verdict.status)
            is_new = verdict.status is not self._told.get(labels, Status.OK)
            if is_new and (verdict.is_complete or verdict.status is not Status.UNKNOWN):
                self._told[labels] = verdict.status
                news.setdefault(verdict.status, []).append((labels, verdict.reason))
        self._recorder.statuses(flow, {status.name.lower(): count for status, count in counts.items()}, now_s=now_s)
        for status, changed in news.items():
            _log(flow, status, changed)


def _only(logs: LogBounds, wanted: Collection[Key]) -> LogBounds:
    """Return the bounds of what is polled now: an answer may have been asked for when that was more."""
    return LogBounds(
        {key: start for key, start in logs.starts.items() if key in wanted},
        {key: end for key, end in logs.ends.items() if key in wanted},
    )


def _log(flow: Labels, status: Status, changed: Sequence[tuple[Labels, str]]) -> None:
    """Log a verdict of one or more topic-partitions in one line."""
    say = log.info if status is Status.OK else log.warning
    names = [f"{topic}-{partition}" for (_, _, topic, partition), _ in changed]
    reason = changed[0][1]
    if len(changed) == 1:
        say("%s->%s: %s is %s: %s", *flow, names[0], status.name, reason)
    else:
        say(
            "%s->%s: %d topic-partitions are %s (%s); of the first: %s",
            *flow,
            len(changed),
            status.name,
            some(names),
            reason,
        )
