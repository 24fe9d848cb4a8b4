"""Fence the source's producers, and check that no source record would be left behind."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from mirror.errors import MirrorError
from mirror.lag.text import pluralized
from mirror.model.flow_plan import FlowPlan
from mirror.model.topic_partition import TopicPartition
from mirror.policy.topic_acls import Acl
from mirror.runtime.logs import first_few
from mirror.switching import fence
from mirror.switching.readers import LOOK, look
from mirror.switching.run import Step, SwitchRun
from mirror.switching.scope import Fencing, Scope
from mirror.switching.work import StepContext, StepResult

COUNTERPARTS_S = 5.0
ACLS = "acls"  # a fact of the step FENCE: the ACLs that the step added
ENDS = "ends"  # a fact of the step FENCE: the log ends


def fence_writers(work: StepContext) -> StepResult:
    """Deny writes to the source's topics, and wait until their logs are stable. Repeat this for new topics."""
    scope = work.scope
    acls: set[Acl] = set(acls_of(work.run))
    ends: Mapping[TopicPartition, int] = {}
    has_fence = scope.fence is not Fencing.NONE
    readers = look(scope.groups_on_source(), scope.concerns)
    while places := [place for place in _places_on_source(scope) if place not in ends]:
        if has_fence:
            topics = list(dict.fromkeys(topic for topic, _ in places))
            lacking = fence.lacking(scope.source, topics, keeps_readers=scope.fence is Fencing.ACLS_AND_READ)
            acls.update(lacking)
            # Saved before the change: a process that removes the fence after a crash must know which ACLs are ours.
            work.journal.save(work.run.with_step(Step.FENCE, facts={ACLS: [list(acl) for acl in sorted(acls)]}))
            _keep_there(work, acls)
            work.journal.confirm()
            has_fence = fence.denied(scope.source, lacking)
        ends = fence.until_quiet(scope.source, [*ends, *places], within_s=work.within_s, say=work.say)
    if has_fence:
        count = len({topic for topic, _ in ends})
        said = f"writing is denied on {pluralized(count, 'topic')} of {scope.source.alias}"
    elif scope.fence is Fencing.NONE:
        said = "no fence was requested: operators stop the producers"
    else:
        said = f"{scope.source.alias} has no authorizer: operators stop its producers"
    return StepResult(
        [said, f"{pluralized(len(ends), 'log')} did not grow for {fence.QUIET_S:.0f} s"],
        {ACLS: [list(acl) for acl in sorted(acls)] if has_fence else [], ENDS: listed(ends.items()), LOOK: readers},
    )


def _keep_there(work: StepContext, acls: Collection[Acl]) -> None:
    """Record our ACLs on the fenced cluster too, if there is a reverse flow.

    A failover to the fenced cluster then removes only these ACLs.
    """
    back = work.scope.back
    if back is not None and not work.scope.canary:
        work.journal.of(back, work.scope.source).keep_fence(work.run.id, acls)


def _places_on_source(scope: Scope) -> list[TopicPartition]:
    """Return the chosen partitions on the source, including partitions that the target lacks."""
    return [
        TopicPartition(topic.source.name, part) for topic in scope.matched() for part in range(topic.source.partitions)
    ]


def fenced_ends(work: StepContext) -> dict[TopicPartition, int]:
    """Return the log ends after the fence."""
    return {TopicPartition(topic, partition): end for topic, partition, end in work.run.step(Step.FENCE).facts[ENDS]}


def whole_plan(work: StepContext) -> FlowPlan:
    """Return the flow's plan, which must include every chosen partition of the source.

    Raises:
        MirrorError: some partitions are not on the target, or were created after the fence, and would be left behind.
    """
    scope, plan, fenced = work.scope, work.scope.plan(), fenced_ends(work)
    if absent := scope.absent(plan):
        raise MirrorError(
            f"{first_few([f'{place.topic}-{place.partition}' for place in absent])} would be left behind: {absent[0].reason}. "
            "Fix that, or leave the topic out with --without-topic NAME, and run the same command again."
        )
    if new := [assigned.on_source for assigned in scope.partitions(plan) if assigned.on_source not in fenced]:
        raise MirrorError(
            f"{first_few([f'{topic}-{partition}' for topic, partition in new])} appeared after the fence and may be written. "
            "Revert this run with --abort and start again, or leave the topic out with --without-topic NAME."
        )
    return plan


def await_counterparts(work: StepContext) -> None:
    """Wait until the mirror has created the target's missing topics, within the step's limit."""
    deadline = time.monotonic() + work.within_s
    while absent := work.scope.absent(work.scope.plan()):
        if time.monotonic() > deadline:
            return  # the next check of the plan reports the reason
        work.say(f"{pluralized(len(absent), 'partition')} are not on {work.scope.target.alias}: {absent[0].reason}")
        time.sleep(COUNTERPARTS_S)


def open_left_out(work: StepContext) -> list[str]:
    """Remove the fence from topics that were left out later; return a sentence about it."""
    source, without = work.scope.source, work.scope.without
    left_out = [acl for acl in acls_of(work.run) if acl.topic in without]
    if not left_out:
        return []
    work.journal.confirm()
    return [fence.open_again(source, fence.lifted(source, left_out))]


def undo_fence(work: StepContext) -> StepResult:
    """Remove the fence of this run."""
    source, acls = work.scope.source, acls_of(work.run)
    work.journal.confirm()
    opened = fence.open_again(source, fence.lifted(source, acls))
    if acls:
        _keep_there(work, ())
    return StepResult([opened])


def acls_of(run: SwitchRun) -> list[Acl]:
    """Return the ACLs that a run's fence added."""
    return [Acl(*fields) for fields in run.step(Step.FENCE).facts.get(ACLS, [])]


def listed(at: Iterable[tuple[TopicPartition, int]]) -> list[list[Any]]:
    """Return offsets in the format of the journal."""
    return [[topic, partition, offset] for (topic, partition), offset in sorted(at)]
