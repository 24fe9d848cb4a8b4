"""Take over the positions of an earlier MirrorMaker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror.config.clients import client_options
from mirror.config.settings import Flow
from mirror.errors import SettingsError
from mirror.flows.stored_positions import Position, answer_of_target, write_positions, write_with_maps
from mirror.flows.topics import offset_syncs_topic
from mirror.kafka.cluster import Cluster
from mirror.kafka.groups import is_idle
from mirror.kafka.internal_topics import partitions_of, read_topic
from mirror.model.flow_plan import FlowPlan
from mirror.model.mm2_records import NotThatRecord, OffsetSync
from mirror.model.offset_map import OffsetMap
from mirror.model.position_metadata import PositionMetadata
from mirror.model.topic_partition import TopicPartition


@dataclass(slots=True)
class TakenOver:
    """The state that MirrorMaker 2 left for one flow, by source topic and partition."""

    positions: dict[TopicPartition, int] = field(default_factory=dict)
    maps: dict[TopicPartition, OffsetMap] = field(default_factory=dict)


def take_over_group(flow: Flow, plan: FlowPlan, unplaced: Collection[TopicPartition], source: Cluster) -> int:
    """Set partitions to the positions of MirrorMaker 1's consumer group; return how many."""
    group = source.group(flow.source_group)
    if group is None:
        return 0
    if not is_idle(group.state):
        raise SettingsError(
            f"{flow.name}: a consumer still reads {flow.source.alias} as group {group.name} (it is {group.state}). "
            "Stop that MirrorMaker; kafka-mirror resumes where it stopped."
        )
    positions = {
        p.on_target: Position(group.offsets[p.on_source], p.topic_id)
        for p in plan.partitions
        if p.on_source in unplaced and p.on_source in group.offsets
    }
    if positions:
        write_positions(flow, positions)
    return len(positions)


def refuse_running(flow: Flow, target: Cluster) -> None:
    """Raise SettingsError if a MirrorMaker 2 still replicates the flow: records would be duplicated."""
    for workers in flow.connect_groups:
        group = target.group(workers, kinds=("connect",))
        if group is not None and not is_idle(group.state):
            raise SettingsError(
                f"{flow.name}: a MirrorMaker 2 still replicates into {flow.target.alias} (its group {workers} is "
                f"{group.state}). Stop it; kafka-mirror resumes where it stopped."
            )


def take_over(flow: Flow, plan: FlowPlan, unplaced: Collection[TopicPartition]) -> int:
    """Set partitions to the positions and offset syncs of a MirrorMaker 2.

    Returns:
        How many partitions resume where MirrorMaker stopped.

    Raises:
        ClusterUnavailable: the target does not respond.
    """
    left = answer_of_target(flow, _left_behind(flow))
    present = {p.on_source: p for p in plan.partitions if p.on_source in unplaced}
    known = {key: offset for key, offset in left.positions.items() if key in present}
    if not known:
        return 0
    positions = {}
    for key, offset in known.items():
        last = left.maps[key].last if key in left.maps else None
        tail = OffsetMap([last]).text() if last is not None else ""
        positions[present[key].on_target] = Position(offset, str(PositionMetadata(present[key].topic_id, tail)))
    maps = {key: runs for key, runs in left.maps.items() if key in present}
    answer_of_target(flow, write_with_maps(flow, positions, plan.offset_map_topic, maps))
    return len(known)


class StoredOffset(NamedTuple):
    """A source offset that Connect has stored, with its source partition, key and place."""

    place: TopicPartition
    offset: int | None  # of the last record copied; None: it was removed
    key: bytes
    partition: int  # of Connect's topic


async def stored_by_connect(flow: Flow, partitions: Iterable[int]) -> AsyncIterator[StoredOffset]:
    """Yield the offsets that Connect stored for a flow's source in some partitions, oldest first."""
    options = client_options(flow.target_admin)
    for partition in partitions:
        async for _, record in read_topic(options, flow.connect_offsets_topic, 0, partition):
            found = connect_offset(record.key, record.value, flow.takeover_connectors)
            if found is not None and found[0] == flow.source.alias:
                yield StoredOffset(found[1], found[2], record.key or b"", partition)


async def _left_behind(flow: Flow) -> TakenOver:
    target, source = client_options(flow.target_admin), client_options(flow.source_admin)
    found = TakenOver()
    async for one in stored_by_connect(flow, await partitions_of(target, flow.connect_offsets_topic)):
        if one.offset is None:
            found.positions.pop(one.place, None)
        else:
            found.positions[one.place] = one.offset + 1
    syncs = offset_syncs_topic(flow)
    if not found.positions or syncs is None:
        return found
    async for _, record in read_topic(source if flow.offset_syncs.at_source else target, syncs, 0):
        try:
            sync = OffsetSync.decode(record.key, record.value)
        except NotThatRecord:
            continue  # of another program: nothing is lost without this record
        found.maps.setdefault(TopicPartition(sync.topic, sync.partition), OffsetMap()).add(
            sync.upstream, sync.downstream, 1
        )
    return found


def connect_offset(
    key: bytes | None, value: bytes | None, connectors: Collection[str]
) -> tuple[str, TopicPartition, int | None] | None:
    """Decode a source offset that Connect has stored for one of MirrorMaker's source connectors.

    Args:
        key: Key of the record.
        value: Value of the record.
        connectors: Names of the connectors; the dedicated process names its own MirrorSourceConnector.

    Returns:
        (source alias, (topic, partition), offset of the last record copied, None if it was removed); None for any other
        record.
    """
    try:
        connector, where = json.loads(key or b"")
        if connector not in connectors:
            return None
        at = None if value is None else int(json.loads(value)["offset"])
        return str(where["cluster"]), TopicPartition(str(where["topic"]), int(where["partition"])), at
    except (ValueError, TypeError, KeyError):
        return None
