"""Wait until groups have stopped reading, then record, make and verify their moves."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from mirror.errors import MirrorError
from mirror.kafka.groups import Group, is_idle
from mirror.lag.text import pluralized
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import first_few
from mirror.switching.fence_step import fenced_ends
from mirror.switching.moved_groups import Moved, move, set_on_source
from mirror.switching.readers import LOOK, look, moved_between
from mirror.switching.run import MOVING, Step
from mirror.switching.work import StepContext

LOOK_S = 0.5
QUIET_S = 5.0  # a group without members whose offsets have not moved for this time has stopped


def remembered(work: StepContext, moves: Sequence[Moved]) -> list[Moved]:
    """Return moves with the groups' original offsets, if an earlier attempt ended in a crash."""
    before = {each[:3]: each.before for each in work.journal.read().moves(work.run)}
    return [each._replace(before=before[each[:3]]) if each[:3] in before else each for each in moves]


def stands_there(each: Moved, there: Mapping[str, Group]) -> bool:
    """Return whether a group has reached its place on the target: it was moved, or has read on from it."""
    group = there.get(each.group)
    offset = group.offsets.get(TopicPartition(each.remote, each.partition)) if group is not None else None
    return offset is not None and each.after is not None and offset >= each.after


def carry_out(work: StepContext, moves: Sequence[Moved], wanted: Sequence[Moved], there: Mapping[str, Group]) -> None:
    """Record all moves, and make the wanted ones.

    Raises:
        MirrorError: a group already reads on the target, or was not moved to its place.
    """
    active = sorted({each.group for each in wanted if each.group in there and not is_idle(there[each.group].state)})
    if active:
        raise MirrorError(
            f"{first_few(active)} read on {work.scope.target.alias} before they were moved. Stop them, and run it again."
        )
    work.journal.save(work.run.with_step(Step.GROUPS, facts={MOVING: True}), moves)
    wrong = move(work.scope, wanted, there)
    if wrong:
        raise MirrorError(
            f"not moved: {first_few([f'{group} ({why})' for group, why in wrong.items()])}. Run it again."
        )


def left(work: StepContext) -> list[Group]:
    """Wait until no chosen group reads on the source; return the groups.

    Raises:
        MirrorError: some groups still read at the end of the step's time.
    """
    deadline_s, alias = time.monotonic() + work.within_s, work.scope.source.alias
    fenced, before = fenced_ends(work), work.run.step(Step.FENCE).facts.get(LOOK, {})
    quiet_s: dict[str, float] = {}  # when a moving group without members counts as stopped
    while True:
        groups, now_s = work.scope.groups_on_source(), time.monotonic()
        now = look(groups, work.scope.concerns)
        quiet_s |= dict.fromkeys(moved_between(before, now), now_s + QUIET_S)
        before = now
        members = [group.name for group in groups if not is_idle(group.state)]
        moving = [group for group in groups if group.name in now and now_s < quiet_s.get(group.name, 0.0)]
        others = [group.name for group in moving if _may_go_on(work, group, fenced)]
        if not members and not others:
            return groups
        if members:
            work.say(f"members of {pluralized(len(members), 'group')} are still on {alias}: {first_few(members)}")
        if others:
            work.say(
                f"{first_few(others)} read on {alias} without members, so their consumers assign partitions themselves "
                "(Flink, Spark, sink connectors). Stop them"
            )
        if now_s > deadline_s:
            raise MirrorError(
                f"{first_few(members + others)} still read on {alias} after {work.within_s:.0f} s. Stop them, and run the same "
                "command again."
            )
        time.sleep(LOOK_S)


def _may_go_on(work: StepContext, group: Group, fenced: Mapping[TopicPartition, int]) -> bool:
    """Return whether a group still has records to read: up to the fence, or of the target's topics."""
    return any(
        offset < fenced.get(place, offset + 1)
        for place, offset in group.offsets.items()
        if work.scope.concerns(place[0])
    )


def refuse_if_read_on(work: StepContext, moves: Sequence[Moved]) -> None:
    """Raise MirrorError if an undetected consumer has read on the source during a move."""
    groups = {group.name: group for group in work.scope.groups_on_source()}
    ours = set_on_source(work.scope)
    later = set()
    for each in moves:
        if (group := groups.get(each.group)) is not None:
            place = TopicPartition(each.topic, each.partition)
            if group.offsets.get(place, each.offset) > each.offset and place not in ours.of(group):
                later.add(each.group)
    if later:
        raise MirrorError(
            f"{first_few(sorted(later))} read on {work.scope.source.alias} while they were moved. Stop their readers there, and "
            "run the same command again: it moves them to their new offsets."
        )
