"""Copy again the records that were cut from the end of a target log.

An unclean leader election or a power failure can lose records that all in-sync replicas had acknowledged. If the records of a
log end before the last acknowledged one, the log was cut. The window then resumes at the end of the records, before it appends
anything. Markers and aborted transactions are not records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from mirror.config.clients import client_options
from mirror.handover.lease import NETWORK
from mirror.kafka.errors import ErrorCode, check
from mirror.kafka.fetcher import Source
from mirror.kafka.internal_topics import COMMITTED, read_followed
from mirror.kafka.log_reader import read_part
from mirror.kafka.protocol import LATEST
from mirror.model import record_batches
from mirror.model.flow_plan import FlowPlan
from mirror.model.gaps import Cause, Effect
from mirror.model.offset_map import OffsetMap
from mirror.model.offset_map_tail import MapRecord, Tail
from mirror.model.topic_partition import TopicPartition
from mirror.policy.recreated import TopicIds
from mirror.replication.partition import Partition

log = logging.getLogger("mirror")

WITHIN_S = 5.0
LOOK_BACK = 1_000  # offsets to read first; ten times as many after each read that finds no record


async def go_back_to_cuts(
    plan: FlowPlan,
    partitions: Collection[Partition],
    warn: Callable[[str, BaseException], None],
    *,
    may_have_aborted: bool,
) -> None:
    """Move each partition back whose target has lost acknowledged records.

    Args:
        plan: The flow.
        partitions: Partitions of the window, as they were placed.
        warn: Called with what failed, and the error. A later window tries again.
        may_have_aborted: An aborted transaction may follow a cut, so logs that are long enough are read too.
    """
    asked = {p.on_target: p for p in partitions if _may_be_cut(p)}
    if not asked:
        return
    target = Source(client_options(plan.producer))
    try:
        async with asyncio.timeout(WITHIN_S):
            await target.open({topic for topic, _ in asked} | {plan.offset_map_topic})
            ends = await target.offsets(dict.fromkeys(asked, LATEST), as_replica=True)
            cut: dict[Partition, int] = {}
            for place, partition in asked.items():
                end, known = ends.get(place), partition.next_target_offset
                if not isinstance(end, int) or target.topic_id(place[0]) != TopicIds.parse(partition.ids).target:
                    continue
                if end < known or (may_have_aborted and end > known + 1):
                    found = await _end_of_records(target, place, min(end, known))
                    if found is not None and found < known:
                        cut[partition] = found
            if cut:
                maps = await _maps(target, plan, {partition.on_source for partition in cut})
                for partition, found in cut.items():
                    _go_back(plan.name, partition, found, maps[partition.on_source])
    except NETWORK as error:
        warn("ask where the target's logs end", error)
    finally:
        await target.close()


def _may_be_cut(partition: Partition) -> bool:
    """Return whether the end of the target's log can show a cut.

    Only this flow must write to it, and its target offsets must be known.
    """
    is_ours = partition.assigned.keeps_partition and partition.registered is None and partition.remote_log is None
    return is_ours and partition.start is None and bool(TopicIds.parse(partition.ids).target)


async def _end_of_records(target: Source, place: TopicPartition, end: int) -> int | None:
    """Return the offset after the last committed record before `end`, None if unknown.

    It is unknown while the leader does not show everything before `end`, or if a batch is corrupt.
    """
    look_back = LOOK_BACK
    while True:
        start = max(0, end - look_back)
        found = offset = start
        while offset < end:
            part = await read_part(target, place, offset, COMMITTED)
            if part.error is ErrorCode.offset_out_of_range and start == offset:
                return end  # retention has deleted the records before it
            check(part.error, f"{place[0]}-{place[1]}")
            try:
                fresh = list(record_batches.batches(part.records))
            except record_batches.CorruptBatch as error:
                log.warning("%s-%d: the end of its records cannot be read: %s", *place, error)
                return None
            if not fresh:
                return None
            offset = fresh[-1].last_offset + 1
            for batch in record_batches.committed(fresh, part.aborted):
                if batch.count and not batch.is_control:
                    found = max(found, min(batch.last_offset + 1, end))
        if found > start or start == 0:
            return found
        look_back *= 10


async def _maps(
    target: Source, plan: FlowPlan, wanted: Collection[TopicPartition]
) -> Mapping[TopicPartition, OffsetMap]:
    """Read the offset maps of some partitions from the map's topic; raises KafkaError."""
    found = {key: OffsetMap() for key in wanted}
    if target.shows(plan.offset_map_topic, 0):
        async for _, record in read_followed(target, TopicPartition(plan.offset_map_topic, 0), 0):
            decoded = MapRecord.decode(record.key, record.value)
            if decoded is not None and TopicPartition(decoded.topic, decoded.partition) in found:
                found[TopicPartition(decoded.topic, decoded.partition)].extend(decoded.runs)
    return found


def _go_back(name: str, partition: Partition, end: int, runs: OffsetMap) -> None:
    assigned, acked = partition.assigned, partition.acked
    runs.extend(partition.tail.runs)
    first = runs.first
    runs.cut(end)
    if not runs and first is not None and first.target == end:
        runs.add(first.source, end, 0)  # the cut is before the first record that the map has
    where = f"{name}: {assigned.remote_topic}-{assigned.partition}"
    what = f"the target's records end at offset {end}, and it had acknowledged all records before {partition.next_target_offset}"
    if (last := runs.last) is None:
        said = f"{what}: it was cut; the lost records are unknown, because the offset map does not reach back so far"
        log.error("%s: %s", where, said)
        partition.record_gap(Effect.LOST, Cause.TARGET_CUT, None, acked - 1, said)
        partition.map_again(Tail(), end)
        return
    position = last.source + last.records
    log.error("%s: %s: it was cut; offsets %d to %d of the source are copied again", where, what, position, acked - 1)
    partition.moved(position)
    partition.map_again(Tail(OffsetMap([last]).text()), end)
    partition.tally.rewinds += 1
