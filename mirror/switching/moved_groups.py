"""Move consumer groups to their exact offsets on the target, and verify that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mirror.config.clients import client_options
from mirror.errors import MirrorError
from mirror.flows.offset_maps import FlowMaps
from mirror.flows.set_offsets import GroupPlace, SetOffsets
from mirror.flows.topics import SOON_COMPACTED
from mirror.flows.translation import Place, across
from mirror.kafka.group_offsets import GroupOffsets, commit_with_metadata, patiently
from mirror.kafka.groups import Group
from mirror.kafka.internal_topics import answered, writer
from mirror.model.flow_plan import GROUP_OFFSETS_TOPIC, FlowPlan
from mirror.model.topic_partition import TopicPartition
from mirror.switching.scope import Scope

AT_ONCE = 16

Wanted = dict[TopicPartition, tuple[int, str]]  # offset and metadata by target partition


class Moved(NamedTuple):
    """A group's offset on the source, and its new offset on the target (`after`).

    `before`: its earlier offset on the target, None if it had none.
    """

    group: str
    topic: str
    partition: int
    offset: int
    remote: str
    before: int | None
    after: int | None
    metadata: str = ""  # that the group's consumer has committed with the offset


def wanted_moves(scope: Scope, groups: Sequence[Group], there: Mapping[str, Group]) -> list[Moved]:
    """Return each group's place on the target, along the flow and the reverse flow.

    `after` is None if no offset to resume from is known. If a mirror has set an offset on the source, and no consumer has moved
    it since, the offset came from the target: the group keeps its offset there.
    """
    set_by_mirror = set_on_source(scope)
    ways: list[tuple[FlowPlan, FlowMaps, bool]] = [(*scope.plan_and_maps(), False)]
    if scope.back is not None:
        ways.append((*scope.reversed().plan_and_maps(), True))
    moves = []
    for group in groups:
        left_alone = set_by_mirror.of(group)
        places = [Place(*key, offset) for key, offset in sorted(group.offsets.items()) if key not in left_alone]
        for plan, maps, is_back in ways:
            found = across(plan, maps, places, is_back=is_back)
            moves += [_move(group, here, to, there) for here, to in zip(places, found, strict=True) if to is not None]
    return moves


def _move(group: Group, here: Place, to: Place, there: Mapping[str, Group]) -> Moved:
    assert here.offset is not None
    before = there[group.name].offsets.get(TopicPartition(to.topic, to.partition)) if group.name in there else None
    return Moved(
        group=group.name,
        topic=here.topic,
        partition=here.partition,
        offset=here.offset,
        remote=to.topic,
        before=before,
        after=to.offset,
        metadata=group.metadata.get(TopicPartition(here.topic, here.partition), ""),
    )


def set_on_source(scope: Scope) -> SetOffsets:
    """Return the offsets that the reverse flow set for groups on the source; raises ClusterUnavailable."""
    found = SetOffsets(GROUP_OFFSETS_TOPIC.format(source=scope.target.alias))
    reading = found.refresh(client_options(scope.flow.source_admin))
    answered(reading, cluster=scope.source.alias, what="offsets that the mirror has set there cannot be read")
    return found


def move(scope: Scope, moves: Sequence[Moved], there: Mapping[str, Group]) -> dict[str, str]:
    """Commit the moves on the target and read them back; return the differences by group.

    `there` has the current groups on the target. Before an offset is set, a note of it is written.

    Raises:
        ClusterUnavailable: the target does not respond, or refuses a group.
        MirrorError: the topic of the notes cannot be created.
    """
    notes = SetOffsets(GROUP_OFFSETS_TOPIC.format(source=scope.source.alias))
    by_group: dict[str, Wanted] = {}
    for each in moves:
        if each.after is not None:
            by_group.setdefault(each.group, {})[TopicPartition(each.remote, each.partition)] = (
                each.after,
                each.metadata,
            )
    if not by_group:
        return {}
    _create(scope, notes.topic)

    async def commit() -> dict[str, str]:
        await notes.refresh(client_options(scope.flow.target_admin))
        async with writer(scope.flow.producer, [notes.topic]) as target:
            await notes.write(target, _notes(notes, by_group, there))
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(group: str, wanted: Wanted) -> str:
            known = there[group].offsets if group in there else {}
            async with turns:
                return await _commit(offsets, group, wanted, known)

        offsets = await GroupOffsets.connected(client_options(scope.flow.producer))
        try:
            answers = await asyncio.gather(*(one(group, wanted) for group, wanted in by_group.items()))
        finally:
            await offsets.close()
        return {group: wrong for group, wrong in zip(by_group, answers, strict=True) if wrong}

    return answered(commit(), cluster=scope.target.alias, what="groups cannot be moved")


def _notes(
    known: SetOffsets, by_group: Mapping[str, Wanted], there: Mapping[str, Group]
) -> dict[GroupPlace, tuple[int, ...]]:
    found: dict[GroupPlace, tuple[int, ...]] = {}
    for group, wanted in by_group.items():
        offsets = {place: offset for place, (offset, _) in wanted.items()}
        found |= known.before(there.get(group, Group(group, "")), offsets)
    return found


async def _commit(offsets: GroupOffsets, group: str, wanted: Wanted, known: Mapping[TopicPartition, int]) -> str:
    """Commit a group's offsets. Return a sentence if they differ before or after the commit, else "".

    If this conductor was suspended, another conductor may have ended the run, and the group may have read on since.
    """
    found = await patiently(lambda: offsets.committed(group, wanted))
    for place, (offset, _) in wanted.items():
        if (at := found.get(place, (None, ""))[0]) not in (known.get(place), offset):
            return f"{place[0]}-{place[1]} was set to {at} meanwhile"
    await patiently(lambda: commit_with_metadata(offsets, group, wanted))
    found = await patiently(lambda: offsets.committed(group, wanted))
    wrong = [place for place, (offset, _) in wanted.items() if found.get(place, (-1, ""))[0] != offset]
    return f"{wrong[0][0]}-{wrong[0][1]} is at another offset" if wrong else ""


def _create(scope: Scope, topic: str) -> None:
    """Create the topic of the notes, if the flow's processes have not created it."""
    factor, configs = scope.flow.replication_factor, {"cleanup.policy": "compact", **SOON_COMPACTED}
    objection = scope.target.create(topic, partitions=1, replication_factor=factor, configs=configs)
    if objection:
        raise MirrorError(f"{topic} cannot be created on {scope.target.alias}: {objection}")
