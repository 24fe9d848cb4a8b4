"""Keep the offsets of remote partitions identical: compare logs before the first write, and fill gaps.

A partition with identical offsets is written only after its remote log was compared with the source's. That happens once a
window, and again after each failure. `mirror.model.identical_offsets` decides what a comparison leads to.

A: A log that was not compared since the last failure is not written.
B: Before a log is compared, earlier transactions are ended, and a process that still fills the log is fenced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from metrics.error_kind import ErrorKind
from mirror.kafka.errors import BrokerError, KafkaError
from mirror.kafka.fetcher import Source
from mirror.kafka.internal_topics import COMMITTED
from mirror.kafka.log_reader import TooMuchError, read_batches
from mirror.kafka.remote_logs import RemoteLogs, bounds_of
from mirror.model.gaps import Cause, Effect
from mirror.model.identical_offsets import NO_RECORD, Aligned, Compare, Diverged, Fill, Log, alignment, are_equal
from mirror.model.record_batches import Batch, CorruptBatch, raws
from mirror.model.records import Raw
from mirror.model.reports import NOT_IDENTICAL
from mirror.model.transforms import TransformError, Transforms, transformed
from mirror.policy.recreated import TopicIds
from mirror.replication.partition import Partition, Pause, named
from mirror.replication.pauses import Pauses
from mirror.replication.read_ahead import ReadAhead
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import describe

log = logging.getLogger("mirror")

RETRY_S = 0.2
SLOW_S = 1.0  # a window that ends after this time of a comparison logs it
TOLD_FAILURE = 2  # the first failure in a window is often a leader that moves
ADVICE = (
    "stop the mirror and create the remote topic again (kafka-mirror positions reset --recreate), or leave it out of "
    "mirror.offsets.identical.topics"
)


class LogComparison(NamedTuple):
    """How a window compares logs.

    `open_elsewhere`: after an unclean end, the transactional ids of other slots whose transactions may be open; None after a
    clean end. `is_complete`: partitions that have nothing to send are compared too.
    """

    logs: RemoteLogs
    open_elsewhere: Sequence[str] | None
    is_complete: bool


@dataclass(kw_only=True, eq=False, repr=False)
class Alignment:
    """Compares the logs of one flow in one window."""

    name: str  # the flow, for the log
    source: Source  # reads the source
    comparison: LogComparison
    partitions: Collection[Partition]  # those with identical offsets
    pauses: Pauses
    read_ahead: ReadAhead
    isolation_level: int  # isolation level with which the flow reads the source
    on_aligned: Callable[[Partition], None]  # called with a partition that may be written
    on_doubt: Callable[[Partition], None]  # called with a partition whose remote topic may be another one

    def __post_init__(self) -> None:
        self._waiting: dict[Partition, None] = dict.fromkeys(self.partitions if self.comparison.is_complete else ())
        self._is_needed = asyncio.Event()
        self._is_needed.set()
        self._open_elsewhere = self.comparison.open_elsewhere
        self._failures = 0
        self._disposing: set[asyncio.Task[None]] = set()
        self._logs = self.comparison.logs
        self._logs.begin_window()

    def admit(self, partition: Partition) -> bool:
        """Return whether a partition may be written now; if not, schedule its comparison."""
        if partition.remote_log is None or partition.remote_log.end is not None:
            return True
        self._waiting[partition] = None
        self._is_needed.set()
        return False

    def stop(self, partition: Partition, reason: str) -> None:
        """Pause a partition whose offsets differ, before its records get other offsets."""
        assert partition.remote_log is not None
        partition.remote_log.diverged()
        self.pauses.until_next_window(
            partition, f"{NOT_IDENTICAL}: {reason}. To continue, {ADVICE}", error=ErrorKind.OFFSETS_DIFFER
        )

    async def run(self) -> None:
        """Compare logs until cancelled."""
        while True:
            await self._is_needed.wait()
            self._is_needed.clear()
            asked, began_s = self._due(), asyncio.get_running_loop().time()
            try:
                await self._compare(asked)
            except asyncio.CancelledError:
                self._log_interruption(asked, asyncio.get_running_loop().time() - began_s)
                raise
            except (KafkaError, OSError, TimeoutError) as error:
                self._log_failure(error)
                if isinstance(error, BrokerError) and not error.is_retriable:
                    self._give_up(asked, error)
            if self._waiting:
                await asyncio.sleep(RETRY_S)
                self._is_needed.set()

    def fill(self, partition: Partition, fill: Fill) -> asyncio.Future[int]:
        """Occupy the first offsets of a gap.

        The returned future has the new log end, or a KafkaError.
        """
        remote_log = partition.remote_log
        assert remote_log is not None
        ready = partition.backlog.ready
        timestamp_ms = ready[0].first.min_timestamp if ready else int(now_ms())
        remote_log.doubt()  # until the outcome is known
        outcome = self._logs.fill(partition.on_target, fill, max(0, timestamp_ms))

        def filled(done: asyncio.Future[int]) -> None:
            if done.cancelled() or done.exception() is not None:
                return
            end = done.result()
            is_head = fill.end <= remote_log.disposable_before
            remote_log.grow(end)
            partition.filled(Fill(fill.start, end), is_mapped=not is_head)
            self.read_ahead.let_go(partition)
            if is_head and end == fill.end:
                task = asyncio.get_running_loop().create_task(self._dispose(partition, end))
                self._disposing.add(task)
                task.add_done_callback(self._disposing.discard)

        outcome.add_done_callback(filled)
        return outcome

    async def _dispose(self, partition: Partition, offset: int) -> None:
        """Delete filler at the start of a log. If that is not allowed, the filler stays; `read_committed` consumers skip it."""
        try:
            await self._logs.delete_before(partition.on_target, offset)
        except (KafkaError, OSError, TimeoutError) as error:
            log.warning(
                "%s: %s-%d: the log keeps its filler before offset %d: %s",
                self.name,
                *partition.on_target,
                offset,
                describe(error),
            )

    # --- comparing ------------------------------------------------------------------------------------------------

    def _log_failure(self, error: Exception) -> None:
        self._failures += 1
        level = logging.WARNING if self._failures == TOLD_FAILURE else logging.DEBUG
        log.log(level, "%s: logs cannot be compared (%s), retrying", self.name, describe(error))

    def _log_interruption(self, asked: Collection[Partition], took_s: float) -> None:
        if took_s > SLOW_S:
            said = "%s: the window ended %.1f s after the comparison of the logs of %d partitions (%s) began"
            log.warning(said, self.name, took_s, len(asked), named(asked))

    def _give_up(self, asked: Iterable[Partition], error: BrokerError) -> None:
        """Pause partitions that could not be compared. The reason may be a right that the principal lacks."""
        for partition in asked:
            if partition in self._waiting:
                self._waiting.pop(partition)
                self.pauses.back_off(partition, f"its log cannot be compared with the source's: {error}")

    def _due(self) -> list[Partition]:
        """Return the waiting partitions that may be compared now."""
        now = asyncio.get_running_loop().time()
        asked = [
            p
            for p in self._waiting
            if p.is_placed and p.pause.is_due(now) and p.pause.kind is not Pause.OUTCOME_UNKNOWN and not p.in_flight
        ]
        for partition in self._waiting.keys() - set(asked):
            if not partition.is_placed or not partition.pause.is_due(now):
                self._waiting.pop(partition)  # `admit` adds it again when it has something to send
        return asked

    async def _compare(self, asked: Collection[Partition]) -> None:
        if not asked:
            return
        await self._logs.reader.open({p.assigned.remote_topic for p in asked})
        asked = [p for p in asked if self._check_topic(p)]
        settled = await self._logs.settle([p.on_target for p in asked], self._open_elsewhere)
        self._open_elsewhere = None
        asked = [p for p in asked if p.on_target in settled]
        theirs, ours = await asyncio.gather(
            bounds_of(self._logs.reader, [p.on_target for p in asked], is_settled=True),
            bounds_of(self.source, [p.on_source for p in asked], is_settled=False),
        )
        for partition in asked:
            target, source = theirs.get(partition.on_target), ours.get(partition.on_source)
            if target is not None and source is not None:
                await self._align(partition, target, source)

    def _check_topic(self, partition: Partition) -> bool:
        """Return whether the remote topic is the expected one; pause or doubt others."""
        assigned, known = partition.assigned, TopicIds.parse(partition.ids).target
        if not self._logs.reader.knows(assigned.remote_topic, assigned.partition):
            self._waiting.pop(partition)
            self.pauses.absent(partition)
        elif known and self._logs.reader.topic_id(assigned.remote_topic) != known:
            self._waiting.pop(partition)
            self.on_doubt(partition)
        else:
            return True
        return False

    async def _align(self, partition: Partition, target: Log, source: Log) -> None:
        found = alignment(partition.acked, target, source, partition.tail.runs.last)
        appended = 0
        if isinstance(found, Compare):
            try:
                found, appended = await self._compared(partition, found)
            except (TooMuchError, CorruptBatch, TransformError) as error:
                found = Diverged(f"the ends of the logs cannot be compared: {error}")
        self._waiting.pop(partition, None)
        if isinstance(found, Diverged):
            self.stop(partition, found.reason)
        else:
            self._continue(partition, found, target, source, appended)
            self.on_aligned(partition)

    async def _compared(self, partition: Partition, compared: Compare) -> tuple[Aligned | Diverged, int]:
        """Compare the ends of both logs. Return the result, and the number that `_appended` returns."""
        first, end = compared.first, compared.end
        ours, theirs = await asyncio.gather(
            read_batches(self._logs.reader, partition.on_target, first, end - first, COMMITTED),
            read_batches(self.source, partition.on_source, first, end - first, self.isolation_level),
        )
        if are_equal(_by_offset(ours, compared), _by_offset(theirs, compared, partition.assigned.transforms)):
            return compared.then, _appended(partition, ours, end)
        return Diverged(f"records from offset {first} to {end - 1} differ from the source's"), 0

    def _continue(self, partition: Partition, found: Aligned, target: Log, source: Log, appended: int) -> None:
        remote_log = partition.remote_log
        assert remote_log is not None
        if found.lost is not None:
            self._tell_loss(partition, found.lost)
        complete_map(partition, found.log_end)
        if found.position != partition.acked:
            self._move(partition, found, appended)
        elif partition.sequence is not None and partition.sequence.is_doubted:
            partition.number(None)
        is_empty = target.start == target.end
        is_new = is_empty and partition.tail.runs.last is None
        remote_log.compared(found.log_end, disposable_before=found.position if is_new else source.start)

    def _move(self, partition: Partition, found: Aligned, appended: int) -> None:
        assigned, before = partition.assigned, partition.acked
        self.read_ahead.clear(partition)
        partition.align(found.position, found.log_end, appended)
        if found.position > before:
            said = "%s: %s-%d: resuming at offset %d: the target has all records before it"
        else:
            partition.tally.rewinds += 1
            said = "%s: %s-%d: resuming at offset %d: the target's log was cut there"
        log.warning(said, self.name, assigned.topic, assigned.partition, found.position)

    def _tell_loss(self, partition: Partition, lost: Fill) -> None:
        assigned = partition.assigned
        said = f"{assigned.remote_topic} lost offsets {lost.start} to {lost.end - 1}, and the source no longer has them"
        log.error("%s: %s-%d: %s", self.name, assigned.topic, assigned.partition, said)
        partition.record_gap(Effect.LOST, Cause.TARGET_CUT, lost.start, lost.end - 1, said)
        partition.tally.lost += lost.offsets


def complete_map(partition: Partition, log_end: int) -> None:
    """Complete a partition's offset map up to the target's log end. Both logs have the same offsets before it.

    A window that was ended early may not have recorded the offsets that it filled last.
    """
    last = partition.tail.runs.last
    start = partition.acked if last is None else last.source + last.records
    if start < log_end:
        partition.tail.add_equal(start, log_end)
        partition.rewrite_position()


def _by_offset(batches: Iterable[Batch], compared: Compare, transforms: Transforms = ()) -> dict[int, object]:
    """Return, for each offset, the content of its record after the transforms, or NO_RECORD.

    Timestamps are not compared: brokers may set them.
    """
    found: dict[int, object] = {}
    for batch in batches:
        if batch.is_control:  # a batch of an aborted transaction is one too, without its records
            offsets = range(max(batch.base_offset, compared.first), min(batch.last_offset + 1, compared.end))
            found |= dict.fromkeys(offsets, NO_RECORD)
        else:
            kept = (record for record in raws(batch) if compared.first <= record.offset < compared.end)
            found |= {record.offset: _body(record, transforms) for record in kept}
    return found


def _body(record: Raw, transforms: Transforms) -> bytes | None:
    changed = transformed(transforms, record) if transforms else record
    return changed.body if changed is not None else None


def _appended(partition: Partition, batches: Iterable[Batch], end: int) -> int:
    """Return how many records from the position to before `end` have the partition's sequence numbers.

    -1 if the partition has no sequence numbers. Records of other producers do not count. If a process that has just lost the slot
    appends more meanwhile, the next batch therefore gets a number that the broker refuses.
    """
    if (sequence := partition.sequence) is None:
        return -1
    numbered = (batch for batch in batches if batch.producer_id == sequence.producer_id)
    return sum(batch.count for batch in numbered if partition.acked <= batch.base_offset < end)
