"""After a crash, find the records on the target after the committed positions.

Only the mirror writes to a remote partition, in the source's order. So the target's records after a position must be the
source's records after that position. They are compared one by one. If they differ, another producer writes to the partition, or
records were deleted: then delivery is at least once, and the log shows the number of possible duplicates.

A: A position moves only past records that are equal on both clusters. D is the exception.
B: A position never moves back.
C: Records above the high watermark count as unknown, not as absent: recovery waits for them, and for leaders that do not respond.
D: If the source's retention has deleted records after the position, the target's next records count as the deleted ones, in
   order. The deleted records cannot be copied again, and those on the target are not lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from mirror.kafka.errors import ErrorCode, KafkaError, is_code
from mirror.kafka.fetcher import Source
from mirror.kafka.log_reader import Sifted, TooMuchError, read_batches, records_from
from mirror.kafka.protocol import EARLIEST, LATEST
from mirror.model import record_batches
from mirror.model.gaps import Cause, Effect
from mirror.model.offset_map import OffsetMap
from mirror.model.record_batches import Batch
from mirror.model.transforms import TransformError, Transforms, transformed
from mirror.replication.partition import Partition, Pause
from mirror.replication.producer_registry import ProducerRegistry

log = logging.getLogger("mirror")

PIECES = (10_000, 500, 20)  # numbers of records to compare at once; fewer if they are large
AT_ONCE = 4
REPLICATED_WITHIN_S = 2.0
LOOK_AGAIN_S = 0.2
_FOR_GOOD = (ErrorCode.unknown_topic_or_partition, ErrorCode.topic_authorization_failed)


def matched(
    source: Iterable[Batch],
    target: Iterable[Batch],
    *,
    source_from: int,
    target_from: int,
    transforms: Transforms = (),
) -> OffsetMap | None:
    """Return the source offsets of the target's records from an offset; None if records differ.

    Args:
        source: Batches of the source's partition, at least as many records; batches of aborted transactions are empty.
        target: Batches of the remote partition, up to its end.
        source_from: Source offset of the first expected record.
        target_from: Target offset of the first compared record.
        transforms: The transforms of the flow.
    """
    found, theirs = OffsetMap(), _records(source, source_from, transforms)
    for ours in _records(target, target_from):
        origin = next(theirs, None)
        if origin is None or not ours.is_same(origin):
            return None
        found.add(origin.offset, ours.offset, 1)
    return found


class _Compared(NamedTuple):
    """A record for comparison: its content as written, and whether a broker set its timestamp."""

    offset: int
    timestamp: int
    body: bytes
    is_timed_by_broker: bool

    def is_same(self, other: _Compared) -> bool:
        """Return whether both are the same record; timestamps of brokers are not compared."""
        if self.body != other.body:
            return False
        return self.timestamp == other.timestamp or self.is_timed_by_broker or other.is_timed_by_broker


def _count(batches: Iterable[Batch], start: int, *, transforms: Transforms) -> int:
    """Return how many records of the batches the target has, without those that transforms skip."""
    return sum(1 for _ in _records(batches, start, transforms))


def _records(batches: Iterable[Batch], start: int, transforms: Transforms = ()) -> Iterator[_Compared]:
    for batch in batches:
        if not batch.is_control:
            for raw in record_batches.raws(batch):
                try:
                    record = transformed(transforms, raw) if transforms and raw.offset >= start else raw
                except TransformError:
                    return  # the record cannot be transformed: it and all later ones stay on the source
                if record is not None and record.offset >= start:
                    yield _Compared(*record, batch.is_timed_by_broker)


class ClusterPair(NamedTuple):
    """The two clusters, and for a bidirectional flow the owners of their records.

    `written_back`: recognizes the records on the source that the reverse flow wrote, which are never replicated. `own`:
    recognizes the records on the target that this flow wrote.
    """

    source: Source
    target: Source
    written_back: ProducerRegistry | None = None
    own: ProducerRegistry | None = None

    @property
    def sift_source(self) -> Sifted | None:
        """Return a filter that keeps the source's batches that may be on the target."""
        return None if self.written_back is None else partial(self.written_back.without, self.source)

    @property
    def sift_target(self) -> Sifted | None:
        """Return a filter that keeps the target's batches that this flow wrote."""
        return None if self.own is None else partial(self.own.only, self.target)


class ExpectedTail(NamedTuple):
    """A partition whose target has `records` more than its position shows."""

    partition: Partition
    source_from: int
    target_from: int
    target_end: int
    source_start: int = 0  # the source's current log start, if its leader reports it

    @property
    def records(self) -> int:
        """How many records may be written twice."""
        return self.target_end - self.target_from


async def resume_after_tails(
    name: str,
    unsettled: set[Partition],
    sides: ClusterPair,
    *,
    isolation_level: int,
    is_transactional: bool,
    was_transactional: bool,
    patience_s: float,
) -> None:
    """Move each partition past the target's records, and remove it from the set.

    A partition stays in the set if it cannot be compared yet: a leader does not respond, or its log end is beyond its high
    watermark.

    Args:
        name: The flow, for the log.
        unsettled: Partitions at their committed positions. Repartitioned ones cannot be compared; the ledger records that.
        sides: Reads both clusters.
        isolation_level: Isolation level with which the flow reads the source.
        is_transactional: The flow writes in transactions: the target's records count when they are committed.
        was_transactional: Earlier windows wrote in transactions.
        patience_s: How long to wait for leaders whose log end is beyond their high watermark.

    Raises:
        KafkaError: errors of the clients.
    """
    turns = asyncio.Semaphore(AT_ONCE)
    # Records of aborted transactions stay in the log, also for the default mode. If other producers write to a topic, a
    # `read_committed` consumer would see nothing after the start of their open transactions.
    is_committed = sides.own is None or is_transactional or was_transactional

    async def one(expected: ExpectedTail) -> None:
        async with turns:
            try:
                await _resume(name, expected, sides, isolation_level, is_committed=is_committed)
            except KafkaError as error:
                log.debug("%s: %s cannot be matched yet: %r", name, expected.partition.assigned, error)
            else:
                unsettled.discard(expected.partition)
                if was_transactional:
                    expected.partition.number(None)  # markers are among the records by which the numbers were counted

    spread = {p for p in unsettled if not p.assigned.keeps_partition}
    if not (is_transactional or was_transactional):
        _note_uncompared(name, spread)
    unsettled -= spread | {p for p in unsettled if p.pause.kind is not Pause.NONE}
    if sides.own is not None:
        # Sequence numbers, or transactions, are committed with a position before anything is written.
        unsettled -= {p for p in unsettled if p.start is not None}
    ordered = sorted(unsettled, key=lambda p: p.on_source)
    hidden = await _hidden(ordered, sides.target, patience_s)
    ours = [partition for partition in ordered if partition not in hidden]
    # A committed transaction ends with one marker. A position with sequence numbers was not committed in a transaction.
    with_marker = {p for p in ours if was_transactional and p.sequence is None}
    found, unknown = await _expected_tails(ours, sides.source, sides.target, with_marker=with_marker)
    unsettled -= set(ours) - unknown - {expected.partition for expected in found}
    await asyncio.gather(*(one(expected) for expected in found))
    if unsettled:
        sides.source.learn()  # a paused partition is in no fetch, so no refused fetch reveals its next leader


def _note_uncompared(name: str, spread: Iterable[Partition]) -> None:
    """Log that records of repartitioned topics may be written twice."""
    for partition in spread:
        where, said = f"{partition.assigned.topic}-{partition.assigned.partition}", "records may be written twice"
        why = "the topic has another number of partitions on the target: records cannot be compared"
        log.warning("%s: %s: %s from offset %d on: %s", name, where, said, partition.position, why)
        partition.record_gap(Effect.REPEATED, Cause.REPARTITIONED, partition.position, None, f"{said}: {why}")


async def _hidden(partitions: list[Partition], target: Source, patience_s: float) -> set[Partition]:
    """Return the partitions whose leaders do not respond, or have uncommitted records.

    If the replicas are healthy, records are committed within moments.
    """
    left = {p.on_target: p for p in partitions}
    deadline = time.monotonic() + patience_s
    while True:
        latest = dict.fromkeys(left, LATEST)
        log_ends = await target.offsets(latest, as_replica=True)
        shown = await target.offsets(latest)
        left = {
            place: partition for place, partition in left.items() if _is_more(log_ends.get(place), shown.get(place))
        }
        if not left or time.monotonic() > deadline:
            return set(left.values())
        await asyncio.sleep(LOOK_AGAIN_S)


def _is_more(log_end: int | KafkaError | None, shown: int | KafkaError | None) -> bool:
    """Return whether the log end is, or may be, beyond what is shown."""
    if isinstance(log_end, int) and isinstance(shown, int):
        return log_end > shown
    return not (_is_for_good(log_end) or _is_for_good(shown))


def _is_for_good(answer: int | KafkaError | None) -> bool:
    """Return whether a cluster will never report the partition's offset: the partition does not exist, or is not visible."""
    return not isinstance(answer, int) and is_code(answer, *_FOR_GOOD)


async def _expected_tails(
    partitions: list[Partition], source: Source, target: Source, *, with_marker: Collection[Partition] = ()
) -> tuple[list[ExpectedTail], set[Partition]]:
    """Return the partitions whose target may be ahead of their positions, and the uncertain ones.

    A partition is uncertain if its leader does not respond. For partitions in `with_marker`, one extra offset is a marker.
    """
    remote = {p.on_target: p for p in partitions}
    # The position may have been written before the first record: then all records of the topic may come after it.
    new = [p for p in partitions if p.start == EARLIEST or (p.start is None and p.tail.runs.last is None)]
    ends = await target.offsets(dict.fromkeys(remote, LATEST))
    target_starts = await target.offsets({p.on_target: EARLIEST for p in new})
    source_starts = await source.offsets({p.on_source: EARLIEST for p in new})
    found, unknown = [], set()
    for place, partition in remote.items():
        last = partition.tail.runs.last
        key = partition.on_source
        source_from: int | KafkaError | None
        target_from: int | KafkaError | None
        if last is not None:
            source_from, target_from = last.source + last.records, last.target + last.records
        elif partition in new:
            source_from = source_starts.get(key) if partition.start == EARLIEST else partition.position
            target_from = target_starts.get(place)
        else:
            continue  # it begins with what comes
        end = ends.get(place)
        if isinstance(source_from, int) and isinstance(target_from, int) and isinstance(end, int):
            if end > target_from + (partition in with_marker):
                found.append(ExpectedTail(partition, source_from, target_from, end))
        elif not any(map(_is_for_good, (source_from, target_from, end))):
            unknown.add(partition)
    starts = await source.offsets({expected.partition.on_source: EARLIEST for expected in found}) if found else {}
    return [_with_start(expected, starts.get(expected.partition.on_source)) for expected in found], unknown


def _with_start(expected: ExpectedTail, start: int | KafkaError | None) -> ExpectedTail:
    return expected._replace(source_start=start) if isinstance(start, int) else expected


async def _resume(
    name: str, expected: ExpectedTail, sides: ClusterPair, isolation_level: int, *, is_committed: bool
) -> None:
    """Move a partition past its target's records piece by piece, within a time limit.

    If time runs out, the next window continues. `is_committed`: aborted records on the target do not count.
    """
    partition, assigned = expected.partition, expected.partition.assigned
    where = f"{name}: {assigned.topic}-{assigned.partition}"
    more = expected.records
    if sides.own is None and expected.source_start > expected.source_from:
        expected = await _after_deleted(where, expected, sides.target, is_committed=is_committed)
    while expected.records > 0:
        try:
            runs = await _compared(expected, sides, isolation_level, is_committed=is_committed)
        except (TooMuchError, record_batches.CorruptBatch, KafkaError) as error:
            if isinstance(error, KafkaError) and not is_code(error, *_FOR_GOOD):
                raise
            _record_possible_repeats(where, expected, str(error))
            return
        if runs is None:
            _record_possible_repeats(where, expected, "the records after the last position are not the source's")
            return
        if (last := runs.last) is None:
            break  # markers of transactions, and records of other producers
        if not _moved(partition, expected, runs, is_shared=sides.own is not None):
            return
        expected = expected._replace(source_from=last.source + last.records, target_from=last.target + last.records)
    log.info(
        "%s: resuming at offset %d: the target has %d more records than the last position shows",
        where,
        partition.position,
        more,
    )


async def _after_deleted(where: str, expected: ExpectedTail, target: Source, *, is_committed: bool) -> ExpectedTail:
    """Move past records that only the target still has. Return the rest of `expected`.

    Each record on the target had at least one offset on the source, so the new position is never too high.
    """
    partition, assigned = expected.partition, expected.partition.assigned
    first, wanted = expected.source_from, min(expected.source_start - expected.source_from, expected.records)
    place = assigned.on_target
    try:
        ours = await read_batches(target, place, expected.target_from, wanted, int(is_committed))
    except (TooMuchError, record_batches.CorruptBatch):
        return expected
    runs = OffsetMap()
    for n, record in enumerate(islice(_records(ours, expected.target_from), wanted)):
        runs.add(first + n, record.offset, 1)
    if (last := runs.last) is None or not _moved(partition, expected, runs, is_shared=False):
        return expected
    last_kept = partition.position - 1
    said = (
        f"the source's retention deleted offsets {first} to {expected.source_start - 1}; "
        f"the target has those up to {last_kept}"
    )
    log.warning("%s: %s", where, said)
    partition.record_gap(Effect.KEPT, Cause.RETENTION, first, last_kept, said)
    return expected._replace(source_from=partition.position, target_from=last.target + last.records)


def _record_possible_repeats(where: str, expected: ExpectedTail, why: str) -> None:
    """Resume at the position, and log that the target may already have later records."""
    said = f"{expected.records} records may be written twice: {why}"
    log.warning("%s: %s", where, said)
    last = expected.source_from + expected.records - 1
    expected.partition.record_gap(Effect.REPEATED, Cause.TARGET_DIFFERS, expected.source_from, last, said)
    expected.partition.number(None)


async def _compared(
    expected: ExpectedTail, sides: ClusterPair, isolation_level: int, *, is_committed: bool
) -> OffsetMap | None:
    """Return the source offsets of as many target records as fit; None if records differ.

    Raises:
        TooMuchError: a few records exceed the limit.
        KafkaError, CorruptBatch: one of the logs cannot be read.
    """
    assigned = expected.partition.assigned
    for piece in PIECES:
        try:
            ours = await read_batches(
                sides.target,
                assigned.on_target,
                expected.target_from,
                min(piece, expected.records),
                int(is_committed),
                sifted=sides.sift_target,
            )
            theirs = await read_batches(
                sides.source,
                assigned.on_source,
                expected.source_from,
                records_from(ours, expected.target_from),
                isolation_level,
                sifted=sides.sift_source,
                counted=partial(_count, transforms=assigned.transforms) if assigned.transforms else records_from,
            )
        except TooMuchError:
            if piece == PIECES[-1]:
                raise
            continue
        return matched(
            theirs,
            ours,
            source_from=expected.source_from,
            target_from=expected.target_from,
            transforms=assigned.transforms,
        )
    return None


def _moved(partition: Partition, expected: ExpectedTail, runs: OffsetMap, *, is_shared: bool) -> bool:
    """Move past records that both clusters have. Return False if the position is already after them.

    `is_shared`: other producers write to the remote topic too, so its offsets do not count this flow's records.
    """
    last = runs.last
    assert last is not None
    position = last.source + last.records
    if partition.start is None and position < partition.position:
        return False
    sequence = partition.sequence
    if partition.start is not None:
        partition.place(expected.source_from)
    partition.tail.acknowledged(runs, 0)
    partition.rewind(position)
    # A broker counts everything that it appended, also records that compaction has removed since.
    appended = sum(run.records for run in runs) if is_shared else last.target + last.records - expected.target_from
    partition.number(sequence.after(appended) if sequence is not None else None)
    return True
