"""A flow's positions, outside of its windows: read, set, and taken over from a MirrorMaker 2 that ran before.

A position is an offset of the flow's group on the target, keyed by remote topic and partition; its metadata is the source
topic's id and the tail of the offset map (mirror.replication.tail).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from mirror.checkpoints.map_reader import FlowMaps
from mirror.checkpoints.reads import answered, committed, ends, partitions_of, read_topic
from mirror.checkpoints.rules import is_idle
from mirror.checkpoints.writes import REQUEST_BYTES, write, writer
from mirror.config.clients import aiokafka_options
from mirror.config.settings import Flow
from mirror.errors import ClusterUnavailable, SettingsError
from mirror.groups import Groups
from mirror.logs import some
from mirror.mm2_records import NotThatRecord, OffsetSync
from mirror.offset_map import OffsetMap
from mirror.replication.group_offsets import patiently
from mirror.replication.note import Note
from mirror.replication.plan import Assigned, FlowPlan, Key
from mirror.replication.recreated import OnRecreated
from mirror.replication.tail import MapRecord
from mirror.replication.wire import KafkaError, Target
from mirror.topics import offset_syncs_topic

log = logging.getLogger("mirror")

Found = TypeVar("Found")


class Position(NamedTuple):
    """Next source offset of a topic-partition, and the metadata kept with it."""

    offset: int
    metadata: str


@dataclass(slots=True)
class TakenOver:
    """What a MirrorMaker 2 left on the clusters about one flow, by source topic and partition."""

    positions: dict[Key, int] = field(default_factory=dict)
    maps: dict[Key, OffsetMap] = field(default_factory=dict)


def read_positions(flow: Flow, group: str) -> dict[Key, Position]:
    """Return every offset of the flow's group on the target, its batons included; raises ClusterUnavailable."""
    found = _asked(flow, committed(aiokafka_options(flow.target_admin), group))
    return {place: Position(*at) for place, at in found.items() if at[0] >= 0}


def write_positions(flow: Flow, group: str, positions: Mapping[Key, Position]) -> None:
    """Set positions by remote topic and partition; raises ClusterUnavailable."""
    _asked(flow, _write(flow, group, positions, "", {}))


def begin(flow: Flow, plan: FlowPlan) -> frozenset[Key]:
    """Make sure that no topic-partition starts over whose progress is known somewhere, before the first window.

    A flow that never ran goes on where a MirrorMaker 2 stopped. Of one that ran, positions that are gone (offsets of a group
    without members expire) come back from the offset map.

    Returns:
        The source's topic-partitions that are there when the flow begins, so that auto.offset.reset is about them; none
        when it began before: then what has no position yet has appeared since.

    Raises:
        SettingsError: that MirrorMaker still runs.
        ClusterUnavailable: the target does not answer.
    """
    if not flow.source_group:
        refuse_running(flow)
    present = {(p.topic, p.partition): p for p in plan.partitions}
    placed = read_positions(flow, plan.group)
    unplaced = {key: p for key, p in present.items() if (p.remote_topic, p.partition) not in placed}
    known = _asked(flow, _from_map(flow, plan, unplaced)) if unplaced else {}
    if known:
        write_positions(flow, plan.group, {(unplaced[key].remote_topic, key[1]): at for key, at in known.items()})
        log.warning(
            "%s: the positions of %d topic-partitions were gone; they go on where the offset map ends, which repeats "
            "at most their last minute", flow.name, len(known),
        )  # fmt: skip
    missing = unplaced.keys() - known.keys()
    if flow.source_group and missing and (count := _take_over_group(flow, plan, missing)):
        log.info("%s: %d topic-partitions go on where group %s stands", flow.name, count, flow.source_group)
    if known or any(topic == plan.baton_topic for topic, _ in placed):
        return frozenset()
    if not flow.source_group and (count := take_over(flow, plan, missing)):
        log.info("%s: %d topic-partitions go on where MirrorMaker 2 stopped", flow.name, count)
    elif not flow.source_group and _went_on_as_shown(flow, plan):
        return frozenset()
    return frozenset(present)


def _went_on_as_shown(flow: Flow, plan: FlowPlan) -> bool:
    """Do what the flow's policy says when the target knows nothing of it and the source shows how far it was.

    So it is with a target that was rebuilt, or an address that leads to another cluster than before.

    Returns:
        True when it goes on at the positions that the source shows.

    Raises:
        SettingsError: it is not to begin by itself then.
    """
    try:
        shown = Groups(flow.source.alias, flow.source_admin).one(plan.shown_as)
    except ClusterUnavailable as error:
        log.debug("%s: whether it ran before is not known: %s", flow.name, error)
        return False
    offsets = {key: offset for key, offset in shown.offsets.items() if offset > 0} if shown is not None else {}
    places = [p for p in plan.partitions if (p.topic, p.partition) in offsets]
    if not places:
        return False
    ranges = [f"{p.topic}-{p.partition} up to offset {offsets[p.topic, p.partition]}" for p in places]
    what = (
        f"{flow.name}: {flow.target.alias} knows nothing of this flow, which had replicated {some(ranges)} (group "
        f"{plan.shown_as} on {flow.source.alias}): it was rebuilt, or is another cluster"
    )
    if flow.on_recreated is OnRecreated.STOP:
        raise SettingsError(
            f"{what}. Say where it is to begin (kafka-mirror positions set), or set mirror.recreated.topics to another value."
        )
    if flow.on_recreated is OnRecreated.RESTART:
        log.error("%s; everything is replicated from the start", what)
        return False
    log.error("%s; going on there", what)
    positions = {(p.remote_topic, p.partition): Position(offsets[p.topic, p.partition], p.topic_id) for p in places}
    write_positions(flow, plan.group, positions)
    return True


def fence_unused(flow: Flow, plan: FlowPlan, *, slots: int, slots_before: int) -> None:
    """End the transactions that producers of slots have left open which no window opens any more.

    Slots change with tasks.max and mirror.slots. Readers of committed records would wait for such a transaction until the
    broker's transaction.timeout.ms ends it.

    Raises:
        ClusterUnavailable: the target does not answer, or refuses.
    """
    used = {plan.slot_of(p, slots=slots) for p in plan.partitions}

    async def fence() -> None:
        for slot in sorted(set(range(slots_before)) - used):
            name = plan.transactional_id(slot)
            target = Target(aiokafka_options(flow.producer), request_bytes=REQUEST_BYTES, transactional_id=name)
            try:
                await target.open(())
                await target.fence()
            finally:
                await target.close()

    _asked(flow, fence())


async def _from_map(flow: Flow, plan: FlowPlan, unplaced: Mapping[Key, Assigned]) -> dict[Key, Position]:
    """Return the positions that the offset map tells, of topic-partitions whose target still has what the map says it has."""
    maps, target = FlowMaps(plan), aiokafka_options(flow.target_admin)
    await maps.refresh(flow.target_admin)
    last_runs = {
        key: last for key, offsets in maps.maps.items() if key in unplaced and (last := offsets.last) is not None
    }
    there = await ends(target, [(unplaced[key].remote_topic, key[1]) for key in last_runs])
    return {
        key: Position(last.source + last.records, str(Note(unplaced[key].topic_id, OffsetMap([last]).text())))
        for key, last in last_runs.items()
        # A topic that was created anew on the target is to be filled anew.
        if _end(there, (unplaced[key].remote_topic, key[1])) >= last.target + last.records
    }


def _end(ends_there: Mapping[Key, int], place: Key) -> int:
    if place not in ends_there:
        raise KafkaError(f"{place[0]}-{place[1]}: its leader does not tell where its log ends")
    return ends_there[place]


def _take_over_group(flow: Flow, plan: FlowPlan, unplaced: Collection[Key]) -> int:
    """Give topic-partitions the positions of the consumer group that read them before: MirrorMaker 1 kept them there."""
    group = Groups(flow.source.alias, flow.source_admin).one(flow.source_group)
    if group is None:
        return 0
    if not is_idle(group.state):
        raise SettingsError(
            f"{flow.name}: somebody still reads {flow.source.alias} as group {group.name} (it is {group.state}). "
            "Stop that MirrorMaker; this program goes on where it stopped."
        )
    positions = {
        (p.remote_topic, p.partition): Position(group.offsets[p.topic, p.partition], p.topic_id)
        for p in plan.partitions
        if (p.topic, p.partition) in unplaced and (p.topic, p.partition) in group.offsets
    }
    if positions:
        write_positions(flow, plan.group, positions)
    return len(positions)


def refuse_running(flow: Flow) -> None:
    """Raise SettingsError when a MirrorMaker 2 still replicates the flow: every record would be written twice."""
    worker = f"{flow.source.alias}-mm2"
    group = Groups(flow.target.alias, flow.target_admin).one(worker, kinds=("connect",))
    if group is not None and not is_idle(group.state):
        raise SettingsError(
            f"{flow.name}: a MirrorMaker 2 still replicates into {flow.target.alias} (its group {worker} is "
            f"{group.state}). Stop it; this program goes on where it stopped."
        )


def take_over(flow: Flow, plan: FlowPlan, unplaced: Collection[Key]) -> int:
    """Give topic-partitions the positions of a MirrorMaker 2, and what that told of where their records went.

    Returns:
        How many topic-partitions go on where MirrorMaker stopped.

    Raises:
        ClusterUnavailable: the target does not answer.
    """
    left = _asked(flow, _left_behind(flow))
    present = {(p.topic, p.partition): p for p in plan.partitions if (p.topic, p.partition) in unplaced}
    known = {key: offset for key, offset in left.positions.items() if key in present}
    if not known:
        return 0
    positions = {}
    for key, offset in known.items():
        last = left.maps[key].last if key in left.maps else None
        tail = OffsetMap([last]).text() if last is not None else ""
        positions[present[key].remote_topic, key[1]] = Position(offset, str(Note(present[key].topic_id, tail)))
    maps = {key: runs for key, runs in left.maps.items() if key in present}
    _asked(flow, _write(flow, plan.group, positions, plan.offset_map_topic, maps))
    return len(known)


async def _left_behind(flow: Flow) -> TakenOver:
    target, source = aiokafka_options(flow.target_admin), aiokafka_options(flow.source_admin)
    found = TakenOver()
    for partition in await partitions_of(target, flow.connect_offsets_topic):
        async for _, record in read_topic(target, flow.connect_offsets_topic, 0, partition):
            left = connect_offset(record.key, record.value)
            if left is None or left[0] != flow.source.alias:
                continue
            if left[2] is None:
                found.positions.pop(left[1], None)
            else:
                found.positions[left[1]] = left[2] + 1
    syncs = offset_syncs_topic(flow)
    if not found.positions or syncs is None:
        return found
    async for _, record in read_topic(source if flow.offset_syncs.at_source else target, syncs, 0):
        try:
            sync = OffsetSync.decode(record.key, record.value)
        except NotThatRecord:
            continue  # somebody else's: nothing is lost without it
        found.maps.setdefault((sync.topic, sync.partition), OffsetMap()).add(sync.upstream, sync.downstream, 1)
    return found


def connect_offset(key: bytes | None, value: bytes | None) -> tuple[str, Key, int | None] | None:
    """Read a source offset that Connect has stored for MirrorMaker's source connector.

    Returns:
        (source alias, (topic, partition), offset of the last record copied, None when it was removed); None for any other
        record.
    """
    try:
        connector, where = json.loads(key or b"")
        if connector != "MirrorSourceConnector":
            return None
        at = None if value is None else int(json.loads(value)["offset"])
        return str(where["cluster"]), (str(where["topic"]), int(where["partition"])), at
    except (ValueError, TypeError, KeyError):
        return None


async def _write(
    flow: Flow, group: str, positions: Mapping[Key, Position], map_topic: str, maps: Mapping[Key, OffsetMap]
) -> None:
    async with writer(flow.producer, {map_topic} if maps else ()) as target:
        await write(target, map_topic, (MapRecord(*key, runs).encode() for key, runs in maps.items()))
        await patiently(lambda: target.commit(group, positions))


def _asked(flow: Flow, question: Coroutine[Any, Any, Found]) -> Found:
    return answered(question, cluster=flow.target.alias, what=f"positions of {flow.name} cannot be read or set")
