"""Restore positions from the offset map if the target has lost them: group offsets expire or are deleted.

A partition without a position is not necessarily new. The map has its last known position. Later records are found by comparing
the logs (mirror.replication.recovery).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from mirror.config.clients import client_options
from mirror.kafka.fetcher import Source
from mirror.kafka.internal_topics import read_followed
from mirror.kafka.protocol import LATEST
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.model.offset_map import OffsetMap
from mirror.model.offset_map_tail import PAUSED, MapRecord
from mirror.model.paused_topics import Paused
from mirror.model.position_metadata import PositionMetadata
from mirror.model.topic_partition import TopicPartition
from mirror.policy.recreated import TopicIds
from mirror.runtime.logs import first_few

log = logging.getLogger("mirror")

WITHIN_S = 10.0


class Recalled(NamedTuple):
    """The content of the offset map's topic for a flow.

    Attributes:
        positions: Positions as a group stores them, by remote topic and partition.
        has_run: The topic has a record of a partition. Then the flow is not new, even if its positions and leases have expired.
    """

    positions: dict[TopicPartition, tuple[int, str]]
    has_run: bool = False


async def recalled(plan: FlowPlan, lacking: Collection[PlannedPartition], *, knows_paused: bool) -> Recalled:
    """Return the positions in the offset map, and whether the map has any partition.

    Args:
        plan: The flow.
        lacking: Partitions without a position.
        knows_paused: Whether the group has the paused topics. If not, they are returned too, even if no topic is paused.

    Raises:
        KafkaError, TimeoutError: the target does not respond.
    """
    remote = {p.on_source: p.on_target for p in lacking}
    target = Source(client_options(plan.producer))
    try:
        async with asyncio.timeout(WITHIN_S):
            await target.open({topic for topic, _ in remote.values()} | {plan.offset_map_topic})
            answers = await target.offsets(dict.fromkeys(remote.values(), LATEST))
            ends = {key: end for key, place in remote.items() if isinstance(end := answers.get(place), int) and end}
            newest: dict[TopicPartition, MapRecord] = {}
            paused, has_run = Paused(), False
            if ends or not knows_paused:
                newest, paused, has_run = await _newest(target, plan, ends)
    finally:
        await target.close()
    found = {
        remote[assigned.on_source]: position
        for assigned in lacking
        if assigned.on_source in newest
        and (position := _position(assigned, newest[assigned.on_source], ends[assigned.on_source])) is not None
    }
    if not knows_paused and paused.patterns:
        named = first_few(list(paused.patterns))
        log.warning("%s: %s had forgotten the paused topics: %s stay paused", plan.name, plan.target, named)
    if found:
        log.warning(
            "%s: %s had forgotten %d positions (%s): they are restored from the offset map",
            plan.name,
            plan.target,
            len(found),
            first_few([f"{topic}-{partition}" for topic, partition in sorted(found)]),
        )
    if not knows_paused:
        found[plan.paused_key] = (len(paused.patterns), paused.text())
    return Recalled(found, has_run)


async def _newest(
    target: Source, plan: FlowPlan, wanted: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, MapRecord], Paused, bool]:
    """Return each partition's newest record, the paused topics, and whether the topic has runs."""
    newest: dict[TopicPartition, MapRecord] = {}
    paused, has_run = Paused(), False
    place = TopicPartition(plan.offset_map_topic, 0)
    if target.shows(*place):
        async for _, record in read_followed(target, place, 0):
            if record.key == PAUSED and record.value is not None:
                paused = Paused.parse(record.value.decode())
            decoded = MapRecord.decode(record.key, record.value)
            if decoded is not None and decoded.runs.last is not None:
                has_run = True
                if TopicPartition(decoded.topic, decoded.partition) in wanted:
                    newest[TopicPartition(decoded.topic, decoded.partition)] = decoded
    return newest, paused, has_run


def _position(assigned: PlannedPartition, record: MapRecord, end: int) -> tuple[int, str] | None:
    """Return the position that a record of the map implies, with the record's topic ids.

    If the remote topic has the same id and fewer records than the map shows, its log was cut. Return None if the topic must be
    filled again: the log ends before all runs of the record, or brokers have no topic ids.
    """
    ids, now = TopicIds.parse(record.ids), TopicIds(assigned.topic_id, assigned.remote_id)
    is_other = bool(ids.other_than(now))
    runs = OffsetMap(record.runs)
    if not is_other and ids.target:
        runs.cut(end)
    if (last := runs.last) is None or (not is_other and end < last.target + last.records):
        return None
    kept = ids if is_other else ids.updated(now)
    return last.source + last.records, str(PositionMetadata(str(kept), OffsetMap([last]).text()))
