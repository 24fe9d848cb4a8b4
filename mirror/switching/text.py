"""Format the plan and the result of a switch for a person. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mirror.lag.text import duration, pluralized, utc
from mirror.runtime.text_columns import aligned, one_line
from mirror.switching.drill import Drill
from mirror.switching.moved_groups import Moved
from mirror.switching.preflight import Preflight, sentences
from mirror.switching.run import STEPS, Kind, RunState, Step, StepState, SwitchRun

SHOWN = 20  # most lines of a long list
MOVES = ("group", "topic", "partition", "offset", "resumes in", "before", "after")

DOES: dict[Step, str] = {
    Step.GAP: "report the records of {source} that were seen and are not on {target}",
    Step.FENCE: "deny writing the topics on {source}; wait until no producer writes",
    Step.DRAIN: "wait until {target} has every record",
    Step.VERIFY: "compare the last {last} records of each partition",
    Step.SETTINGS: "copy settings and ACLs of topics once more",
    Step.TAIL: "write the records of {target} that never reached {source} to a file",
    Step.GROUPS: "wait until the groups have no members on {source}; move each to its exact place",
    Step.PAUSE: "pause {source}->{target}",
    Step.REVERSE: "check that {target}->{source} replicates",
    Step.OPEN: "remove the fence that an earlier switch in the other direction left on {target}",
}


DOES_LOST: dict[Step, str] = {
    Step.GROUPS: "move each group to where its last checkpoint leads",
    Step.OPEN: "remove the fence that an earlier switch-back left on {target}",
}


def _does(run: SwitchRun, step: Step) -> str:
    source, _, target = run.flow.partition("->")
    said = DOES_LOST.get(step, DOES[step]) if run.kind is Kind.FAIL_OVER else DOES[step]
    return said.format(source=source, target=target, last=run.last)


def ahead_text(run: SwitchRun, ahead: Preflight) -> str:
    """Return the plan: topics, groups, expected losses and time, steps, and what blocks it."""
    source = run.flow.partition("->")[0]
    rows = [("topic", "remote topic", "partitions", "missing", "waits")]
    for each in ahead.topics[:SHOWN]:
        missing = "unknown" if each.missing is None else f"{each.missing:,}"
        rows.append((each.topic, each.remote, str(each.partitions), missing, duration(each.waits_s) or "unknown"))
    lines = [f"{run.kind.value} {run.flow}", *_indented(aligned(rows, right=(2, 3)).splitlines())]
    if more := len(ahead.topics) - SHOWN:
        lines += [f"  and {more:,} more topics"] if more > 0 else []
    groups = pluralized(len(ahead.groups), "group") + (
        f", {len(ahead.active):,} with members on {source}" if ahead.active else ""
    )
    lines += ["", *_indented([groups, *sentences(ahead)]), "", "steps"]
    lines += [f"  {_mark(run.step(step).state)} {step.value:<9} {_does(run, step)}" for step in STEPS[run.kind]]
    lines += [f"warning: {warning}" for warning in ahead.warnings]
    lines += [f"blocked: {block}" for block in ahead.blocks]
    return "\n".join(lines) + "\n"


def run_text(run: SwitchRun, moves: Sequence[Moved]) -> str:
    """Return the result of a run: its steps with their times, and the offsets of its groups."""
    began = utc(run.began_s)
    lines = [
        f"{run.kind.value} {run.flow}: {run.state.value}",
        f"  {run.id}, begun {began} by {run.by}, version {run.version}",
    ]
    if (whole_s := took_s(run)) is not None:
        lines.append(f"  took {duration(whole_s)} in all")
    for step in STEPS[run.kind]:
        record = run.step(step)
        took = duration(record.took_s) or ""
        first, *others = record.said or (record.state.value,)
        lines.append(f"  {_mark(record.state)} {step.value:<9} {took:>8}  {one_line(first)}")
        lines += [f"{'':23}{one_line(sentence)}" for sentence in others]
    lines += moves_lines(moves)
    return "\n".join(lines) + "\n"


def run_plain(run: SwitchRun, moves: Sequence[Moved]) -> dict[str, Any]:
    """Return a run with its moves as a JSON object."""
    return {**json.loads(run.text()), "moves": [each._asdict() for each in moves]}


def end_text(run: SwitchRun, moves: Sequence[Moved]) -> str:
    """Return the result of a run, without its steps."""
    whole_s = took_s(run)
    ended = f"{run.state.value}" + (f" in {duration(whole_s)}" if whole_s is not None else "")
    return "\n".join([f"{run.kind.value} {run.flow}: {ended} ({run.id})", *moves_lines(moves)]) + "\n"


def moves_lines(moves: Sequence[Moved]) -> list[str]:
    """Return the first few moves of groups as a table."""
    if not moves:
        return []
    rows = [
        MOVES,
        *(tuple("-" if cell is None else str(cell) for cell in each[: len(MOVES)]) for each in moves[:SHOWN]),
    ]
    more = [f"  and {len(moves) - SHOWN:,} more; --json has all"] if len(moves) > SHOWN else []
    return ["", *_indented(aligned(rows, right=(2, 3, 5, 6)).splitlines()), *more]


def drill_text(drill: Drill) -> str:
    """Return the result of a drill."""
    began = utc(drill.began_s)
    rpo = "unknown" if drill.rpo_records is None else pluralized(drill.rpo_records, "record")
    lines = [
        f"drill {drill.flow}: {drill.outcome}",
        f"  {drill.id}, begun {began} by {drill.by}, version {drill.version}",
        *([f"  {one_line(drill.failure)}"] if drill.failure else []),
        f"  {pluralized(drill.records, 'record')} written, {drill.lost:,} lost, {drill.repeated:,} read twice",
        f"  RPO: {rpo}, had the source been lost under this load",
        f"  RTO: {duration(drill.rto_s) or 'unknown'} over, {duration(drill.back_s) or 'unknown'} back",
    ]
    for kind, steps in drill.steps.items():
        lines.append(f"  {kind:<12} " + ", ".join(f"{step} {duration(took_s)}" for step, took_s in steps.items()))
    return "\n".join(lines) + "\n"


def took_s(run: SwitchRun) -> float | None:
    """Return how long consumers and producers waited, over all steps; None if unfinished."""
    steps = [run.step(step) for step in STEPS[run.kind]]
    began, ends = steps[0].began_s, [step.ended_s for step in steps]
    if run.state is not RunState.DONE or began is None or None in ends:
        return None
    return max(end for end in ends if end is not None) - began


def _mark(state: StepState) -> str:
    return {StepState.DONE: "*", StepState.FAILED: "!", StepState.RUNNING: ">", StepState.UNDONE: "<"}.get(state, "-")


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
