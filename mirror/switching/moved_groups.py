"""Move consumer groups to the target exactly, and see that they stand there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mirror.config.clients import client_options
from mirror.flows.offset_maps import FlowMaps
from mirror.flows.translation import Place, across
from mirror.kafka.group_offsets import GroupOffsets, patiently
from mirror.kafka.groups import MIRRORED, Group
from mirror.kafka.internal_topics import answered
from mirror.model.flow_plan import FlowPlan, Key
from mirror.switching.scope import Scope

AT_ONCE = 16


class Moved(NamedTuple):
    """Where a group stood on the source, and goes on on the target; `before` is where it stood there, None where nowhere."""

    group: str
    topic: str
    partition: int
    offset: int
    remote: str
    before: int | None
    after: int | None


def wanted_moves(scope: Scope, groups: Sequence[Group], there: Mapping[str, Group]) -> list[Moved]:
    """Return the place of each group on the target, along the flow and back along the one that leads here.

    `after` is None where no offset is known to go on from. Offsets that a mirror put on the source, and no reader has moved
    since, came from the target: they are left alone there.
    """
    ways: list[tuple[FlowPlan, FlowMaps, bool]] = [(*scope.plan_and_maps(), False)]
    if scope.back is not None:
        ways.append((*scope.reversed().plan_and_maps(), True))
    moves = []
    for group in groups:
        places = [
            Place(topic, partition, offset)
            for (topic, partition), offset in sorted(group.offsets.items())
            if (topic, partition) not in group.mirrored
        ]
        for plan, maps, is_back in ways:
            found = across(plan, maps, places, is_back=is_back)
            moves += [
                _move(group.name, here, to, there) for here, to in zip(places, found, strict=True) if to is not None
            ]
    return moves


def _move(group: str, here: Place, to: Place, there: Mapping[str, Group]) -> Moved:
    assert here.offset is not None
    before = there[group].offsets.get((to.topic, to.partition)) if group in there else None
    return Moved(
        group=group,
        topic=here.topic,
        partition=here.partition,
        offset=here.offset,
        remote=to.topic,
        before=before,
        after=to.offset,
    )


def move(scope: Scope, moves: Sequence[Moved]) -> dict[str, str]:
    """Commit the places on the target and read them back; return, by group, what did not come to stand as it should.

    Raises:
        ClusterUnavailable: the target does not answer, or refuses a group.
    """
    by_group: dict[str, dict[Key, tuple[int, str]]] = {}
    for each in moves:
        if each.after is not None:
            by_group.setdefault(each.group, {})[each.remote, each.partition] = (each.after, MIRRORED)

    async def commit() -> dict[str, str]:
        offsets = await GroupOffsets.connected(client_options(scope.flow.producer))
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(group: str, wanted: Mapping[Key, tuple[int, str]]) -> str:
            async with turns:
                await patiently(lambda: offsets.commit(group, wanted))
                found = await patiently(lambda: offsets.committed(group, wanted))
            wrong = [place for place, (offset, _) in wanted.items() if found.get(place, (-1, ""))[0] != offset]
            return f"{wrong[0][0]}-{wrong[0][1]} stands elsewhere" if wrong else ""

        try:
            answers = await asyncio.gather(*(one(group, wanted) for group, wanted in by_group.items()))
        finally:
            await offsets.close()
        return {group: wrong for group, wrong in zip(by_group, answers, strict=True) if wrong}

    return answered(commit(), cluster=scope.target.alias, what="groups cannot be moved")
