"""Carry out moves of groups, whether they are exact or by checkpoints: kept before they are made, and seen to be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror.errors import MirrorError
from mirror.kafka.groups import Group, is_idle
from mirror.runtime.logs import some
from mirror.switching.moved_groups import Moved, move
from mirror.switching.run import MOVING, Step
from mirror.switching.work import Work


def remembered(work: Work, moves: Sequence[Moved]) -> list[Moved]:
    """Return moves with where the groups stood before an attempt that a crash ended."""
    before = {each[:3]: each.before for each in work.journal.read().moves(work.run)}
    return [each._replace(before=before[each[:3]]) if each[:3] in before else each for each in moves]


def stands_there(each: Moved, there: Mapping[str, Group]) -> bool:
    """Tell whether a group stands at its place on the target, or further: it was moved already, or has read on."""
    group = there.get(each.group)
    offset = group.offsets.get((each.remote, each.partition)) if group is not None else None
    return offset is not None and each.after is not None and offset >= each.after


def carry_out(work: Work, moves: Sequence[Moved], wanted: Sequence[Moved], there: Mapping[str, Group]) -> None:
    """Keep all moves, and make those that are wanted.

    Raises:
        MirrorError: a group reads on the target already, or does not come to stand where it should.
    """
    active = sorted({each.group for each in wanted if each.group in there and not is_idle(there[each.group].state)})
    if active:
        raise MirrorError(
            f"{some(active)} read on {work.scope.target.alias} before they were moved. Stop them, and run it again."
        )
    work.journal.save(work.run.with_step(Step.GROUPS, facts={MOVING: True}), moves)
    wrong = move(work.scope, wanted, there)
    if wrong:
        raise MirrorError(f"not moved: {some([f'{group} ({why})' for group, why in wrong.items()])}. Run it again.")
