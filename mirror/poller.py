"""Read both clusters, away from the data path: lag in records and seconds, headroom, a verdict per topic-partition.

Independent of the stream's reports on purpose: a mirror that hangs reports nothing, and its lag must be seen all the same.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

from metrics.cap import Labels
from metrics.headroom import Retention, headroom
from metrics.recorder import Recorder
from metrics.verdict import History, Sample, Status, judge
from mirror import offsets
from mirror.admin import Admin
from mirror.errors import ClusterUnavailable
from mirror.first_unreplicated import FirstUnreplicated
from mirror.offsets import LogBounds
from mirror.replication.plan import FlowPlan, Key

log = logging.getLogger("mirror")

SAVE_EVERY_S = 30.0
SILENT_WINDOWS = 4  # a report comes each window; a flow that misses this many has stopped
RETENTION_EVERY_S = 300.0
HISTORY_AGE_S = 600.0  # older polls say nothing about a partition that we see again now

Answer = TypeVar("Answer")


class Poller:
    """Feeds the recorder; keeps the last polls in a file, so that verdicts survive a restart."""

    def __init__(
        self,
        recorder: Recorder,
        history_file: Path,
        *,
        window_s: float,
        publishes: bool = False,
        reads: Callable[[FlowPlan], FirstUnreplicated] = FirstUnreplicated,
    ) -> None:
        self._recorder = recorder
        self._file = history_file
        self._silence_s = SILENT_WINDOWS * window_s
        self._history = History()
        self._publishes = publishes
        self._positions: dict[str, dict[Key, int]] = {}  # by flow: of the last poll that the target answered
        self._unpolled: set[str] = set()  # flows with a cluster that does not answer; said once
        self._unpublished: set[str] = set()  # flows whose positions the source refuses; said once
        self._reads = reads
        self._readers: dict[str, FirstUnreplicated] = {}  # by flow
        self._retention: dict[str, dict[str, Retention]] = {}  # by flow and source topic
        self._retention_at_s: dict[str, float] = {}
        self._saved_s = time.monotonic()
        self._started_s = time.time()
        self.polls = 0  # done, good or bad

    def load(self) -> None:
        """Read the polls of the last run."""
        self._history.load(self._file, now_s=time.time(), max_age_s=HISTORY_AGE_S)

    def keep_only(self, partitions: Collection[Labels]) -> None:
        """Forget topic-partitions that left their flow."""
        self._history.keep_only(partitions)

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
        is seen to grow. While the source does not, nothing new is known.
        """
        flow = (plan.source, plan.target)
        began = time.monotonic()
        failures: list[ClusterUnavailable] = []
        try:
            self._positions[plan.name] = self._asked(target, lambda: offsets.positions(plan, target))
        except ClusterUnavailable as error:
            failures.append(error)
        positions = self._positions.get(plan.name, {})
        try:
            logs = self._asked(source, lambda: offsets.bounds(plan, source))
        except ClusterUnavailable as error:
            failures.append(error)
        else:
            self._take_in(labels, positions, logs)
            self._time_lag(plan, source, labels, offsets.lagging(positions, logs), positions.keys() & logs.ends.keys())
            if self._publishes:
                self._publish(plan, source, positions)
        self._judge(flow, labels.values(), time.time(), since_s)
        for failure in failures:
            self._recorder.count("kafka_mirror_poll_errors_total", flow)
            say = log.debug if plan.name in self._unpolled else log.warning
            say("%s: lag not polled: %s", plan.name, failure)
        if failures:
            self._unpolled.add(plan.name)
        elif plan.name in self._unpolled:
            self._unpolled.discard(plan.name)
            log.info("%s: lag is polled again", plan.name)
        if not failures:
            self._recorder.polled(flow, now_s=time.time(), took_s=time.monotonic() - began)
        if time.monotonic() - self._saved_s > SAVE_EVERY_S:
            self.save()
        self.polls += 1  # last: who counts polls finds what they brought

    def _take_in(self, labels: Mapping[Key, Labels], positions: Mapping[Key, int], logs: LogBounds) -> None:
        now_s = time.time()
        for key, end in logs.ends.items():
            replicated = positions.get(key)
            self._recorder.offsets(labels[key], start=logs.starts.get(key), end=end, replicated=replicated)
            if replicated is not None:
                lost = self._recorder.value("kafka_mirror_records_lost_total", labels[key]) or 0
                self._history.add(labels[key], Sample(now_s, replicated, end, int(lost), logs.starts.get(key, 0)))

    def save(self) -> None:
        """Write the last polls to the file; without it only the next start is blind for a window."""
        self._saved_s = time.monotonic()
        try:
            self._history.save(self._file)
        except OSError as error:
            log.warning("the last polls cannot be kept in %s: %s", self._file, error)

    def close(self) -> None:
        """Close the connections of its own."""
        for reader in self._readers.values():
            reader.close()

    def _time_lag(
        self,
        plan: FlowPlan,
        source: Admin,
        labels: Mapping[Key, Labels],
        lagging: Mapping[Key, int],
        known: Collection[Key],
    ) -> None:
        """Record how long each topic-partition's next record waits, and how long retention still leaves it."""
        reader = self._readers.get(plan.name)
        if reader is None:
            reader = self._readers[plan.name] = self._reads(plan)
        timestamps = reader.timestamps(lagging)
        retention = self._retention_of(plan, source)
        now_ms = time.time() * 1000
        nearest: dict[Labels, float | None] = {labels[key][:3]: None for key in known}
        for key in known:
            lag_s = (now_ms - timestamps[key]) / 1000 if key in timestamps else None if key in lagging else 0.0
            self._recorder.lag_seconds(labels[key], lag_s)
            left = headroom(retention.get(key[0], Retention()), self._history.of(labels[key]), lag_s or 0.0)
            topic = labels[key][:3]
            so_far = nearest[topic]
            nearest[topic] = left if so_far is None else so_far if left is None else min(so_far, left)
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

    def _publish(self, plan: FlowPlan, source: Admin, positions: dict[Key, int]) -> None:
        """Commit positions to a group on the source, where every lag tool looks; nothing depends on them."""
        if not positions or source.holds(plan.shown_as, positions):
            return
        objection = source.publish(plan.shown_as, positions)
        if objection and plan.name not in self._unpublished:
            log.warning("%s: positions are not shown to lag tools on %s: %s", plan.name, source.alias, objection)
            self._unpublished.add(plan.name)
        elif not objection:
            self._unpublished.discard(plan.name)

    def _asked(self, cluster: Admin, question: Callable[[], Answer]) -> Answer:
        try:
            answer = question()
        except ClusterUnavailable:
            self._recorder.cluster(cluster.alias, is_up=False)
            raise
        self._recorder.cluster(cluster.alias, is_up=True)
        return answer

    def _judge(self, flow: tuple[str, str], partitions: Collection[Labels], now_s: float, since_s: float) -> None:
        reported_s = self._recorder.value("kafka_mirror_last_progress_timestamp_seconds", flow)
        last_report_s = max(reported_s or self._started_s, since_s)
        counts = Counter(dict.fromkeys(Status, 0))
        for labels in partitions:
            verdict = judge(
                self._history.of(labels), last_report_s=last_report_s, now_s=now_s, silence_s=self._silence_s
            )
            counts[verdict.status] += 1
            before = self._recorder.value("kafka_mirror_partition_status", labels)
            if verdict.status != (before or Status.OK):
                say = log.info if verdict.status == Status.OK else log.warning
                say("%s->%s: %s-%s is %s: %s", *labels, verdict.status.name, verdict.reason)
            self._recorder.status(labels, verdict.status)
        self._recorder.statuses(flow, {status.name.lower(): count for status, count in counts.items()})
