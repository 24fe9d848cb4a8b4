"""Pause and resume partitions one by one, so that no other partition waits. Log each pause once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass

from metrics.error_kind import ErrorKind
from mirror.kafka.errors import has_too_few_replicas, is_absent, standstill
from mirror.kafka.producer import NotAppendedError, UncertainError
from mirror.kafka.target import Target
from mirror.model.flow_plan import PlannedPartition
from mirror.model.gaps import Cause, Effect
from mirror.model.paused_topics import Paused
from mirror.model.reports import ABSENT, GOES_ROUND
from mirror.policy.java_regex import JavaPattern, SlowPattern
from mirror.replication.partition import Partition, Pause
from mirror.replication.read_ahead import ReadAhead
from mirror.runtime.logs import first_few


class LoggedReasons:
    """The last logged reason of each paused partition."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str, int], str] = {}

    def record(self, flow: str, assigned: PlannedPartition, reason: str) -> bool:
        """Record a reason as logged; return False if it was recorded before."""
        key = (flow, assigned.topic, assigned.partition)
        if self._reasons.get(key) == reason:
            return False
        self._reasons[key] = reason
        return True

    def forget(self, flow: str, assigned: PlannedPartition) -> None:
        """Forget the reason of a partition that is replicated again."""
        self._reasons.pop((flow, assigned.topic, assigned.partition), None)


log = logging.getLogger("mirror")

LEARN_EVERY_S = 2.0  # interval of metadata requests for partitions to which the target appends nothing
GATHER_S = 0.5  # standstills within this time are logged in one line
STANDS_STILL = "the target accepts no writes for it"


@dataclass(kw_only=True, eq=False, repr=False)
class Pauses:
    """The pauses of a flow's partitions in one window."""

    name: str  # the flow, for the log
    target: Target  # a change of its metadata ends a standstill
    partitions: Collection[Partition]  # those of the window, as they were placed
    read_ahead: ReadAhead  # holds the records that were read
    tries_all: bool  # also retry partitions to which the target appended nothing, although its metadata show no change
    logged_reasons: LoggedReasons  # the reasons that this process has logged

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._learns_s = 0.0
        self._unsaid: dict[str, list[str]] = {}  # by reason: partitions for the next log line
        self._at_standstill = {p for p in self.partitions if p.in_sync is not None and p.pause.kind is Pause.NONE}
        for partition in self._at_standstill:
            partition.pause.begin(Pause.STANDSTILL, STANDS_STILL, error=ErrorKind.TARGET_UNAVAILABLE)
        for partition in self.partitions:
            if partition.assigned.is_loop:
                self.until_next_window(partition, GOES_ROUND)

    def follow(self, paused: Paused) -> None:
        """Pause the topics that an operator paused, and resume the others.

        Batches in flight still arrive.
        """
        pattern = paused.pattern()
        for partition in self.partitions:
            topic = partition.assigned.topic
            partition.pause.set_by_operator(is_paused=pattern is not None and _is_meant(pattern, topic))

    def back_off(
        self, partition: Partition, reason: str, *, lacks_topic: bool = False, error: ErrorKind = ErrorKind.OTHER
    ) -> None:
        """Retry a partition after a pause, from the last acknowledged offset."""
        due_s = self._loop.time() + partition.pause.next_back_off_s()
        self._pause(partition, Pause.BACK_OFF, reason, due_s, lacks_topic=lacks_topic, error=error)

    def refused(self, partition: Partition, reason: str, error: ErrorKind = ErrorKind.OTHER) -> None:
        """Back off because a record was refused, and record it as a gap."""
        partition.record_gap(Effect.REFUSED, Cause.REFUSAL, partition.acked, None, reason)
        self.back_off(partition, reason, error=error)

    def until_next_window(
        self, partition: Partition, reason: str, *, lacks_topic: bool = False, error: ErrorKind = ErrorKind.OTHER
    ) -> None:
        """Leave a partition to the next window."""
        self._pause(partition, Pause.NEXT_WINDOW, reason, lacks_topic=lacks_topic, error=error)

    def absent(self, partition: Partition) -> None:
        """Pause a partition that does not exist on the target."""
        assigned = partition.assigned
        lacks = f"with {assigned.spread_over} partitions" if assigned.spread_over else f"partition {assigned.partition}"
        reason = f"{assigned.remote_topic} {lacks} {ABSENT}"
        if partition.tail.runs:  # it existed before: the next window checks whether the topic is the same
            self.until_next_window(partition, reason, lacks_topic=True)
            partition.doubt()
        else:
            self.back_off(partition, reason, lacks_topic=True)

    def standstill(self, partition: Partition, error: NotAppendedError | UncertainError) -> None:
        """Pause a partition until the target's metadata show a change."""
        if is_absent(error.why):
            self.absent(partition)
            return
        place = partition.on_target
        partition.record_in_sync(self.target.in_sync(*place) if has_too_few_replicas(error.why) else 0)
        reason = f"{STANDS_STILL}: {standstill(error.why)}"
        if self.logged_reasons.record(self.name, partition.assigned, reason):
            self._say_soon(partition, reason)
        self._pause(partition, Pause.STANDSTILL, reason, error=ErrorKind.TARGET_UNAVAILABLE)
        self._at_standstill.add(partition)

    def end_standstills(self) -> None:
        """Retry stalled partitions whose metadata on the target have changed."""
        if self._at_standstill and self._loop.time() > self._learns_s:
            self._learns_s = self._loop.time() + LEARN_EVERY_S
            self.target.learn()
        for partition in tuple(self._at_standstill):
            place = partition.on_target
            in_sync = self.target.in_sync(*place) if self.target.leader(*place) is not None else 0
            if partition.in_sync is None or in_sync > partition.in_sync or (in_sync and self.tries_all):
                self._at_standstill.discard(partition)
                if partition.pause.kind is Pause.STANDSTILL and not partition.outcome_unknown_until_ms:
                    partition.pause.retry()

    def end(self, partition: Partition) -> None:
        """Resume a partition after a placement or an acknowledgement."""
        partition.record_in_sync(None)
        partition.pause.end()
        self.logged_reasons.forget(self.name, partition.assigned)

    def _pause(
        self,
        partition: Partition,
        pause: Pause,
        reason: str,
        due_s: float | None = None,
        *,
        lacks_topic: bool = False,
        error: ErrorKind = ErrorKind.OTHER,
    ) -> None:
        self.read_ahead.clear(partition)
        partition.rewind()
        partition.pause.begin(pause, reason, due_s, lacks_topic=lacks_topic, error=error)
        if self.logged_reasons.record(self.name, partition.assigned, reason):
            assigned = partition.assigned
            log.error("%s: %s-%d paused: %s", self.name, assigned.topic, assigned.partition, reason)

    def _say_soon(self, partition: Partition, reason: str) -> None:
        if not self._unsaid:
            self._loop.call_later(GATHER_S, self._say)
        self._unsaid.setdefault(reason, []).append(f"{partition.assigned.topic}-{partition.assigned.partition}")

    def _say(self) -> None:
        unsaid, self._unsaid = self._unsaid, {}
        for reason, who in unsaid.items():
            log.warning("%s: %d partitions paused (%s): %s", self.name, len(who), first_few(who), reason)


def _is_meant(pattern: JavaPattern, topic: str) -> bool:
    """Return whether an operator paused a topic, or its pattern takes too long to match."""
    try:
        return pattern.matches(topic)
    except SlowPattern:
        return True
