"""Do the steps of a switch. Each step may be repeated after a crash with the same result."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

from mirror.errors import MirrorError
from mirror.flows.stored_positions import Position, is_served, paused_topics, read_positions, write_paused
from mirror.flows.sync import sync_acls, sync_configs
from mirror.flows.translation import maps_of
from mirror.kafka.groups import is_idle
from mirror.lag.text import pluralized
from mirror.model.flow_plan import PlannedPartition
from mirror.model.paused_topics import Paused
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import first_few
from mirror.switching import fence, lost, tail
from mirror.switching.fence_step import (
    acls_of,
    await_counterparts,
    fence_writers,
    fenced_ends,
    listed,
    open_left_out,
    whole_plan,
)
from mirror.switching.group_step import carry_out, left, refuse_if_read_on, remembered, stands_there
from mirror.switching.journal import FENCE
from mirror.switching.moved_groups import wanted_moves
from mirror.switching.run import Kind, Step
from mirror.switching.scope import Scope
from mirror.switching.work import StepContext, StepResult
from mirror.verification.compare import check_pieces, scope_over

LOOK_S = 0.5
PATTERNS = "patterns"  # a fact of the step PAUSE


def drain(work: StepContext) -> StepResult:
    """Wait until the target has every record: each position is at a log end that is stable since the fence."""
    scope = work.scope
    opened = open_left_out(work)
    await_counterparts(work)
    plan, fenced = whole_plan(work), fenced_ends(work)
    places = scope.partitions(plan)
    last, moved_s = None, time.monotonic()
    while True:
        found = read_positions(scope.flow)
        ends = scope.source.end_offsets([assigned.on_source for assigned in places])
        grown = {
            place: ends[place] - fenced[place] for place in ends if place in fenced and ends[place] > fenced[place]
        }
        if grown:
            raise fence.StillWrittenError(
                f"records were written after the fence: {fence.named(grown)}. Stop the producers, and run the same command again."
            )
        waiting = {assigned.on_source: _missing(assigned, found, ends) for assigned in places}
        behind = {place: count for place, count in waiting.items() if count}
        if not behind:
            return StepResult(
                [*opened, f"{scope.target.alias} has every record of {pluralized(len(places), 'partition')}"],
                {"positions": listed((assigned.on_source, _position(assigned, found)) for assigned in places)},
            )
        total = sum(behind.values())
        work.say(f"{pluralized(total, 'record')} of {pluralized(len(behind), 'partition')} wait")
        if total != last:
            last, moved_s = total, time.monotonic()
        if time.monotonic() > moved_s + work.within_s:
            raise MirrorError(
                f"nothing was replicated for {work.within_s:.0f} s, and {fence.named(behind)} wait. Does 'kafka-mirror run' "
                f"replicate {scope.flow.name}? 'kafka-mirror lag --wide' shows the reason. Then run the same command again."
            )
        time.sleep(LOOK_S)


def _missing(assigned: PlannedPartition, found: dict[TopicPartition, Position], ends: dict[TopicPartition, int]) -> int:
    if assigned.on_source not in ends:
        raise MirrorError(f"{assigned.topic}-{assigned.partition} does not report its log end.")
    return max(0, ends[assigned.on_source] - _position(assigned, found))


def _position(assigned: PlannedPartition, found: dict[TopicPartition, Position]) -> int:
    at = found.get(assigned.on_target)
    return at.offset if at is not None else 0


def verify(work: StepContext) -> StepResult:
    """Compare the newest records of each partition on both clusters."""
    scope = work.scope
    plan = whole_plan(work)
    maps = maps_of(scope.flow, plan)
    wanted = scope_over(scope.partitions(plan), maps, scope.source, scope.target, last=work.run.last)
    findings = asyncio.run(check_pieces(plan, list(wanted.pieces())))
    wrong = [finding for finding in findings.values() if not finding.is_equal]
    if wrong:
        first = wrong[0].failure or wrong[0].first or "records are missing"
        raise MirrorError(
            f"{len(wrong)} partitions differ on {scope.target.alias}: {first}. Nothing has been moved. "
            "'kafka-mirror verify' compares all; --abort removes the fence."
        )
    count = sum(finding.compared for finding in findings.values())
    said = [f"{pluralized(count, 'record')} of {pluralized(len(findings), 'partition')} are equal on both sides"]
    ends = scope.target.end_offsets([each.on_target for each in wanted.unmapped])
    left = [each.on_source for each in wanted.unmapped if ends.get(each.on_target) != 0]
    if left:
        named = first_few([f"{topic}-{partition}" for topic, partition in left])
        said.append(
            f"{pluralized(len(left), 'partition')} not compared, because no offset map has its records: {named}"
        )
    return StepResult(
        said,
        {
            "compared": count,
            "not_compared": [list(key) for key in left],
            "digests": {f"{topic}-{part}": found.digest for (topic, part), found in findings.items()},
        },
    )


def carry_settings(work: StepContext) -> StepResult:
    """Sync settings and ACLs of topics once more, if the flow syncs them."""
    scope = work.scope
    topics = scope.matched()
    present = scope.target.topics()
    work.journal.confirm()
    drift = sync_configs(scope.flow, topics, scope.source, scope.target, present=present)
    acls = sync_acls(scope.flow, topics, scope.source, scope.target)
    differing = sorted(topic for topic, count in drift.items() if count)
    found = StepResult([f"{pluralized(len(drift), 'topic')} compared"], {"differing": differing, "acls": len(acls)})
    if unread := sorted({topic.remote for topic in topics if topic.remote in present} - drift.keys()):
        found.said.append(f"settings of {first_few(unread)} cannot be read")
    if differing:
        found.said.append(f"settings still differ on {first_few(differing)}")
    if acls:
        found.said.append(f"{pluralized(len(acls), 'ACL')} of the source are not on {scope.target.alias}")
    return found


def move_groups(work: StepContext) -> StepResult:
    """Wait until no chosen group reads on the source; move each to its target offset."""
    scope = work.scope
    groups = left(work)
    whole_plan(work)
    there = scope.groups_on_target([group.name for group in groups])
    moves = remembered(work, wanted_moves(scope, groups, there))
    unknown = [each for each in moves if each.after is None]
    if unknown:
        named = first_few([f"{each.group} in {each.topic}-{each.partition}" for each in unknown])
        raise MirrorError(
            f"no offset on {scope.target.alias} is known for {named}: their offsets were never replicated. Leave the groups out "
            "with --groups, or set their offsets yourself."
        )
    # A group that was moved before a crash may already have been started on the target.
    reading_on = {name for name, group in there.items() if not is_idle(group.state)}
    wanted = [each for each in moves if not (each.group in reading_on and stands_there(each, there))]
    carry_out(work, moves, wanted, there)
    refuse_if_read_on(work, moves)
    names = {each.group for each in moves}
    return StepResult(
        [
            f"{pluralized(len(names), 'group')} moved to the exact place on {scope.target.alias} "
            f"({pluralized(len(moves), 'offset')})"
        ],
        {"groups": sorted(names), "offsets": len(moves)},
    )


def pause(work: StepContext) -> StepResult:
    """Pause the flow's topics, so that no record arrives after the groups have moved."""
    scope = work.scope
    plan = scope.plan()
    known = paused_topics(read_positions(scope.flow), plan.paused_key)
    patterns = pause_patterns(scope)
    work.journal.confirm()
    try:
        write_paused(scope.flow, plan, Paused(tuple(dict.fromkeys([*known.patterns, *patterns]))))
    except ValueError as error:
        raise MirrorError(f"{scope.flow.name}: its topics cannot be paused: {error}") from None
    return StepResult([f"{scope.flow.name} is paused"], {PATTERNS: list(patterns)})


def pause_patterns(scope: Scope) -> tuple[str, ...]:
    """Return patterns of the switched topics. Heartbeats continue, because they show that the flow is alive."""
    if scope.canary:
        return (literally(scope.canary),)
    asked = scope.topics.split(",") if scope.topics else scope.flow.topics.include
    left_out = "".join(rf"(?!{literally(topic)}$)" for topic in sorted(scope.without))
    return tuple(rf"(?!(.*\.)?heartbeats){left_out}(?:{pattern})" for pattern in asked)


def literally(topic: str) -> str:
    """Return a Java regular expression that matches one topic."""
    return re.escape(topic).replace(r"\-", "-")


def start_reverse(work: StepContext) -> StepResult:
    """Resume the reverse flow if a switch paused it, and check that it replicates."""
    scope = work.scope
    if scope.back is None:
        return StepResult(["no reverse flow is needed"])
    back = scope.reversed()
    plan = back.plan()
    known = paused_topics(read_positions(back.flow), plan.paused_key)
    tailed = work.run.step(Step.TAIL).facts.get(tail.TOPICS, [])  # their records must not be replicated automatically
    ours = {*pause_patterns(back), *(_paused_before(work, back) if not scope.topics else ())}
    left = tuple(pattern for pattern in known.patterns if pattern not in ours)
    left = tuple(dict.fromkeys([*left, *map(literally, tailed)]))
    if left != known.patterns:
        work.journal.confirm()
        write_paused(back.flow, plan, Paused(left))
    found = read_positions(back.flow)
    if not plan.partitions and back.has_process(plan):
        return StepResult([f"{back.flow.name} matches no topic of {back.source.alias} yet"], {"resumed": []})
    if not is_served(found, plan.lease_topic, window_ms=work.window_ms, now_ms=time.time() * 1000):
        raise MirrorError(
            f"no process replicates {back.flow.name}. Start 'kafka-mirror run', and run the same command again."
        )
    said = [f"{back.flow.name} replicates {pluralized(len(plan.partitions), 'partition')}"]
    if left:
        said.append(f"its topics stay paused: {first_few(left)} (kafka-mirror positions resume)")
    return StepResult(said, {"resumed": [pattern for pattern in known.patterns if pattern not in left]})


def _paused_before(work: StepContext, back: Scope) -> set[str]:
    """Return the patterns that earlier switches in the other direction have paused."""
    runs = work.journal.of(back.flow, back.target).read().runs()
    return {pattern for run in runs for pattern in run.step(Step.PAUSE).facts.get(PATTERNS, ())}


def open_target(work: StepContext) -> StepResult:
    """Remove from the target's topics the fence of an earlier switch in the other direction."""
    scope = work.scope
    if scope.back is None:
        return StepResult([f"no fence of an earlier switch is on {scope.target.alias}"])
    back = scope.reversed()
    runs = work.journal.of(back.flow, back.target).read().runs()
    earlier = {acl for run in runs if not run.is_aborted for acl in acls_of(run)}
    work.journal.confirm()
    opened = fence.lifted(scope.target, sorted(earlier & scope.target.topic_acls()))
    work.journal.forget([key for key in work.journal.read().values if key.startswith(FENCE)])
    if not opened:
        return StepResult([f"no fence of an earlier switch is on {scope.target.alias}"])
    return StepResult([fence.open_again(scope.target, opened)], {"opened": opened})


DO: dict[Step, Callable[[StepContext], StepResult]] = {
    Step.GAP: lost.tell_gap,
    Step.FENCE: fence_writers,
    Step.DRAIN: drain,
    Step.VERIFY: verify,
    Step.SETTINGS: carry_settings,
    Step.TAIL: tail.write_tail,
    Step.GROUPS: move_groups,
    Step.PAUSE: pause,
    Step.REVERSE: start_reverse,
    Step.OPEN: open_target,
}
# Other steps replace these if the source is lost.
DO_LOST: dict[Step, Callable[[StepContext], StepResult]] = {
    Step.GROUPS: lost.recover_groups,
    Step.OPEN: lost.open_target,
}


def does(kind: Kind, step: Step) -> Callable[[StepContext], StepResult]:
    """Return the function of a step."""
    return DO_LOST.get(step, DO[step]) if kind is Kind.FAIL_OVER else DO[step]
