"""After a crash: find what the target has behind the last committed positions among the source's records, to write none twice.

A remote topic-partition is written by the mirror alone and in the source's order. So what it has behind the last position is what
the source has behind it, and both are compared record by record. Where they differ somebody else writes there too, or something
was deleted: then delivery is at least once, and the log says how many records may be there twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mirror.offset_map import OffsetMap
from mirror.replication import batches as wire_batches
from mirror.replication.batches import Batch
from mirror.replication.log_reader import TooMuchError, read_batches
from mirror.replication.partition import Partition
from mirror.replication.plan import Key
from mirror.replication.wire import EARLIEST, LATEST, Source

log = logging.getLogger("mirror")

MOST_BYTES = (
    64 << 20
)  # of one topic-partition that are read back: about what is written between two commits at full speed
AT_ONCE = 4
_LOG_APPEND_TIME = 1


def matched(
    source: Iterable[Batch], target: Iterable[Batch], *, source_from: int, target_from: int
) -> OffsetMap | None:
    """Return where the target's records from `target_from` on were on the source; None where they are not those.

    Args:
        source: Batches of the source's topic-partition, those of aborted transactions emptied; at least as many records.
        target: Batches of the remote topic-partition, up to its end.
        source_from: Source offset of the record that is expected first.
        target_from: Target offset of the record that is looked at first.
    """
    found, theirs = OffsetMap(), _records(source, source_from)
    for ours in _records(target, target_from):
        origin = next(theirs, None)
        if origin is None or not _is_same(ours, origin):
            return None
        found.add(origin.offset, ours.offset, 1)
    return found


def _records(batches: Iterable[Batch], start: int) -> Iterator[Any]:
    for batch in batches:
        if not batch.is_control:
            yield from (record for record in wire_batches.records(batch.data) if record.offset >= start)


def _is_same(ours: Any, origin: Any) -> bool:
    if (ours.key, ours.value, list(ours.headers)) != (origin.key, origin.value, list(origin.headers)):
        return False
    return bool(ours.timestamp == origin.timestamp or _LOG_APPEND_TIME in (ours.timestamp_type, origin.timestamp_type))


class Behind(NamedTuple):
    """A topic-partition whose target has `records` more than its position tells."""

    partition: Partition
    source_from: int
    target_from: int
    target_end: int

    @property
    def records(self) -> int:
        """How many may be written twice."""
        return self.target_end - self.target_from


async def resume_behind_tails(
    name: str,
    partitions: Iterable[Partition],
    source: Source,
    target: Source,
    *,
    isolation_level: int,
    is_transactional: bool,
) -> None:
    """Move each topic-partition behind what the target has of it; raises what the clients raise.

    Args:
        name: The flow, for the log.
        partitions: Topic-partitions as their positions were read; spread ones are left as they are.
        source: Reads the source.
        target: Reads the target.
        isolation_level: As the flow reads the source.
        is_transactional: The target's records count when they are committed.
    """
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(behind: Behind) -> None:
        async with turns:
            await _resume(name, behind, source, target, isolation_level, is_transactional=is_transactional)

    ours = [p for p in partitions if not p.assigned.spread_over and not p.reason]
    # A transaction that is told of ends with one marker.
    found = await _behind(ours, source, target, more_than=1 if is_transactional else 0)
    await asyncio.gather(*(one(behind) for behind in found))


async def _behind(partitions: list[Partition], source: Source, target: Source, *, more_than: int = 0) -> list[Behind]:
    """Return the topic-partitions whose target has more than so many offsets that the positions do not tell of."""
    remote = {(p.assigned.remote_topic, p.assigned.partition): p for p in partitions}
    # A position may have been written before the first record: then all that its topic has may be behind it.
    new = {p for p in partitions if p.begins == EARLIEST or (p.begins is None and p.tail.runs.last is None)}
    ends = await target.offsets(dict.fromkeys(remote, LATEST))
    target_starts = await target.offsets({(p.assigned.remote_topic, p.assigned.partition): EARLIEST for p in new})
    source_starts = await source.offsets({(p.assigned.topic, p.assigned.partition): EARLIEST for p in new})
    found = []
    for place, partition in remote.items():
        last = partition.tail.runs.last
        key: Key = (partition.assigned.topic, partition.assigned.partition)
        source_from: object
        target_from: object
        if last is not None:
            source_from, target_from = last.source + last.records, last.target + last.records
        elif partition in new:
            source_from = source_starts.get(key) if partition.begins == EARLIEST else partition.position
            target_from = target_starts.get(place)
        else:
            continue  # it begins with what comes
        end = ends.get(place)
        if (
            isinstance(source_from, int)
            and isinstance(target_from, int)
            and isinstance(end, int)
            and end > target_from + more_than
        ):
            found.append(Behind(partition, source_from, target_from, end))
    return found


async def _resume(
    name: str, behind: Behind, source: Source, target: Source, isolation_level: int, *, is_transactional: bool
) -> None:
    partition, assigned = behind.partition, behind.partition.assigned
    where = f"{name}: {assigned.topic}-{assigned.partition}"
    try:
        ours = await read_batches(
            target,
            (assigned.remote_topic, assigned.partition),
            behind.target_from,
            behind.records,
            int(is_transactional),
        )
        theirs = await read_batches(
            source, (assigned.topic, assigned.partition), behind.source_from, behind.records, isolation_level
        )
        runs = matched(theirs, ours, source_from=behind.source_from, target_from=behind.target_from)
    except (TooMuchError, wire_batches.CorruptBatch) as error:
        log.warning("%s: %d records may be written twice: %s", where, behind.records, error)
        return
    if runs is None:
        log.warning("%s: %d records may be written twice: those behind the last position are not the source's",
                    where, behind.records)  # fmt: skip
        return
    if runs.last is None:
        return  # markers of transactions only
    position = runs.last.source + runs.last.records
    if partition.begins is None and position < partition.position:
        return
    if partition.begins is not None:
        partition.place(behind.source_from)
    partition.tail.acknowledged(runs, 0)
    partition.position = partition.acked = position
    log.info("%s: going on at offset %d: the target has %d records more than the last position told",
             where, position, behind.records)  # fmt: skip
