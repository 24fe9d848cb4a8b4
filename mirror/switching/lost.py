"""Do the steps of a failover whose source is lost: report the gap, and move the groups."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from metrics.partition_status import Sample
from mirror.config.clients import client_options
from mirror.flows.gaps import note
from mirror.flows.stored_positions import read_positions
from mirror.kafka.groups import Group
from mirror.kafka.internal_topics import answered, read_checkpoints
from mirror.lag.text import duration, pluralized
from mirror.model.gaps import Cause, Effect, Gap
from mirror.model.mm2_records import Checkpoint
from mirror.model.topic_partition import TopicPartition
from mirror.policy.topic_acls import denials
from mirror.runtime.logs import first_few
from mirror.switching import fence
from mirror.switching.group_step import carry_out, remembered, stands_there
from mirror.switching.journal import FENCE
from mirror.switching.moved_groups import Moved
from mirror.switching.scope import Scope
from mirror.switching.work import StepContext, StepResult

GAPS = "gaps"  # a fact of the step GAP


def tell_gap(work: StepContext) -> StepResult:
    """Report each partition's replicated offset, and the last log end that was seen."""
    scope = work.scope
    plan = scope.plan()
    places = scope.partitions(plan)
    positions = read_positions(scope.flow)
    newest = scope.target.newest_ms([assigned.on_target for assigned in places])
    gaps = []
    for assigned in places:
        place = assigned.on_target
        at = positions.get(place)
        gaps.append(
            gap(
                assigned.topic,
                assigned.partition,
                at.offset if at is not None else None,
                newest.get(place, -1),
                work.seen.get(place),
            )
        )
    for (name, partition), sample in sorted(scope.seen_only(plan, work.seen).items()):
        gaps.append(gap(scope.origin(name), partition, sample.position, -1, sample))
    now_s = time.time()
    note(scope.flow, (_entry(each, int(now_s * 1000)) for each in gaps if each["missing"]))
    return StepResult(gap_sentences(gaps, now_s), {GAPS: gaps})


def _entry(found: dict[str, Any], now_ms: int) -> Gap:
    """Return the ledger entry for a partition whose records are missing."""
    first, last = found["position"], found["seen_end"] - 1
    said = "seen on the lost source, and not on the target; later records are unknown"
    return Gap(found["topic"], found["partition"], Effect.LOST, Cause.SOURCE_LOST, first, last, now_ms, said)


def gap(topic: str, partition: int, position: int | None, newest_ms: int, seen: Sample | None) -> dict[str, Any]:
    """Return the known facts of one partition; an unknown fact is None.

    `missing` counts records that were seen on the source and not replicated; records written after `seen_s` are unknown.
    """
    return {
        "topic": topic,
        "partition": partition,
        "position": position,
        "replicated_until_ms": newest_ms if newest_ms >= 0 else None,
        "seen_end": seen.end if seen is not None else None,
        "seen_s": seen.time_s if seen is not None else None,
        "missing": missing(position, seen),
    }


def missing(position: int | None, seen: Sample | None) -> int | None:
    """Return how many records were seen and not replicated; None if unknown."""
    return None if position is None or seen is None else max(0, seen.end - position)


def gap_sentences(gaps: list[dict[str, Any]], now_s: float) -> list[str]:
    """Return sentences about the gaps."""
    known = [each for each in gaps if each["missing"] is not None]
    said = []
    if known:
        waiting = {
            TopicPartition(each["topic"], each["partition"]): each["missing"] for each in known if each["missing"]
        }
        count = sum(waiting.values())
        named = f": {fence.named(waiting)}" if waiting else ""
        said.append(f"{pluralized(count, 'record')} seen on the source and not on the target{named}")
        oldest_s = min(each["seen_s"] for each in known)
        said.append(f"records of the last {duration(max(0.0, now_s - oldest_s))} are unknown, and not counted")
    if len(known) < len(gaps):
        unknown = pluralized(len(gaps) - len(known), "partition")
        said.append(f"unknown for {unknown}: the position, or the end of the log was never seen")
    return said


def recover_groups(work: StepContext) -> StepResult:
    """Move each group to the target offset of its last checkpoint, but never back."""
    scope = work.scope
    last = last_checkpoints(scope)
    there = scope.groups_on_target(sorted({group for group, _, _ in last}))
    moves = remembered(work, recovered(scope, last.values(), there))
    ahead = [each for each in moves if stands_there(each, there)]
    wanted = [each for each in moves if each not in ahead]
    carry_out(work, moves, wanted, there)
    names = {each.group for each in moves}
    moved = f"{pluralized(len(wanted), 'offset')} moved"
    said = [
        f"{pluralized(len(names), 'group')} moved to where the last checkpoint leads on {scope.target.alias} ({moved})"
    ]
    if ahead:
        said.append(f"{pluralized(len(ahead), 'offset')} had reached that offset already")
    return StepResult(said, {"groups": sorted(names), "offsets": len(wanted)})


def last_checkpoints(scope: Scope) -> dict[tuple[str, str, int], Checkpoint]:
    """Return the last checkpoint of each chosen group; raises ClusterUnavailable.

    Its key is group, remote topic and partition.
    """
    topic = scope.flow.policy.checkpoints_topic(scope.flow.source.alias)
    reading = read_checkpoints(client_options(scope.flow.target_admin), topic)
    found, _ = answered(reading, cluster=scope.target.alias, what=f"checkpoints of {scope.flow.name} cannot be read")
    return {(at.group, at.topic, at.partition): at for at in found if scope.wants_group(at.group)}


def recovered(scope: Scope, checkpoints: Iterable[Checkpoint], there: Mapping[str, Group]) -> list[Moved]:
    """Return the target offsets of checkpoints: by the current map if possible, else as checkpointed."""
    plan, maps = scope.plan_and_maps()
    names = {p.on_target: p.topic for p in scope.partitions(plan)}
    return [
        _recovered(
            at,
            topic,
            maps.maps.get(TopicPartition(topic, at.partition)),
            there[at.group].offsets if at.group in there else {},
        )
        for at in sorted(checkpoints)
        if (topic := names.get(TopicPartition(at.topic, at.partition))) is not None
    ]


def _recovered(at: Checkpoint, topic: str, offsets: Any, there: Mapping[TopicPartition, int]) -> Moved:
    now = offsets.translate(at.upstream) if offsets is not None else None
    return Moved(
        group=at.group,
        topic=topic,
        partition=at.partition,
        offset=at.upstream,
        remote=at.topic,
        before=there.get(TopicPartition(at.topic, at.partition)),
        after=at.downstream if now is None else now,
        metadata=at.metadata,
    )


def open_target(work: StepContext) -> StepResult:
    """Allow producers to write to the target, if an earlier failback fenced it.

    Other ACLs stay, and are reported.
    """
    scope = work.scope
    if scope.back is None:
        return StepResult(["no flow leads back, so no switch has fenced the target"])
    there, kept = scope.target.topic_acls(), work.journal.read()
    work.journal.confirm()
    opened = fence.lifted(scope.target, sorted(kept.fences() & there))
    work.journal.forget([key for key in kept.values if key.startswith(FENCE)])
    said = [fence.open_again(scope.target, opened)] if opened else [f"no fence of a switch is on {scope.target.alias}"]
    closed = {acl.topic for acl in there - kept.fences() if acl in denials([acl.topic])}
    if others := [name for name in sorted(closed) if scope.back.topics.matches(name)]:
        said.append(
            f"{pluralized(len(others), 'topic')} of {scope.target.alias} cannot be written, because ACLs that no switch has "
            f"added deny WRITE to all: {first_few(others)}"
        )
    return StepResult(said, {"opened": opened})
