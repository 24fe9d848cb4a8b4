"""Determine whether consumers may fail over to a flow's target now, and at what cost. Pure.

The page, the terminal and the metric all use it. A source that is down is a reason to fail over; a target that is down
forbids a failover.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple

from metrics.partition_status import Status
from metrics.process_status import ProcessStatus
from metrics.series import Labels
from mirror.checkpoints.rules import State
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import pluralized
from mirror.runtime.logs import first_few

_SERVED = _STATES, _REREAD, _CHECKPOINTS, _DIFFERENCES, _SLOTS, _OWNED, _PROCESSES = tuple(
    f"kafka_mirror_{name}"
    for name in (
        "group_partitions",
        "failover_reread_records",
        "checkpoints_total",
        "verify_differences_total",
        "slots",
        "slots_owned",
        "processes",
    )
)
OLD_S = 60.0  # older numbers do not show what a failover costs now
# A group in one of these states has no offset to continue from.
NO_WAY = (State.NO_MAP, State.REFUSED, State.PAST_END, State.SHARED, State.UNSUPPORTED)


class Answer(IntEnum):
    """Result of the failover check. Larger is better; the numbers are those of the metric."""

    NO = 0
    GO_WITH_LOSS = 1
    GO = 2

    @property
    def words(self) -> str:
        """The result as shown: GO WITH LOSS."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one flow. None is unknown, which never counts as healthy."""

    flow: str  # "A->B"
    source_up: bool  # whether the source responds
    target_up: bool
    partitions: int  # of the flow
    unknown: int = 0  # partitions whose lag is unknown
    absent: Sequence[str] = ()  # partitions that the target lacks, by the names that they would have there
    missing: int = 0  # records that are not on the target, of the known partitions
    waits_s: float | None = 0.0  # how long the first of them has waited; None if unknown for any partition
    age_s: float = 0.0  # of these numbers
    level_in_s: float | None = None  # until all are on the target at the present rates; None if the lag does not shrink
    groups: Mapping[str, Mapping[str, int]] | None = None  # partitions by group of the source and state of their offset
    reread: Mapping[str, int] = field(default_factory=dict)  # records that each group would read again
    differences: int | None = None  # records that `verify` found different; None if nothing was compared
    unserved: int | None = None  # slots that no process serves


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverReadiness:
    """The result for one flow, with vetoes, costs and unknowns."""

    flow: str
    answer: Answer
    vetoes: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()
    unknowns: tuple[str, ...] = ()
    seconds: float | None = None
    records: int | None = None
    groups_that_reread: int | None = None
    level_in_s: float | None = None


def judged(facts: Facts) -> FailoverReadiness:
    """Return whether the flow's consumers may fail over to the target."""
    vetoes, costs, unknowns = tuple(_vetoes(facts)), tuple(_costs(facts)), tuple(_unknowns(facts))
    answer = Answer.NO if vetoes else Answer.GO_WITH_LOSS if costs or unknowns else Answer.GO
    rereading = sum(count > 0 for count in facts.reread.values()) if facts.groups is not None else None
    return FailoverReadiness(
        flow=facts.flow,
        answer=answer,
        vetoes=vetoes,
        costs=costs,
        unknowns=unknowns,
        seconds=facts.waits_s if facts.source_up and not facts.unknown else None,
        records=facts.missing if facts.source_up and not facts.unknown else None,
        groups_that_reread=rereading,
        level_in_s=0.0 if facts.source_up and not (facts.missing or facts.unknown) else facts.level_in_s,
    )


def _vetoes(facts: Facts) -> Iterable[str]:
    if not facts.target_up:
        yield "the target does not respond"
    if not facts.partitions:
        yield "the flow has no partition"
    if facts.differences:
        yield f"verify found {pluralized(facts.differences, 'record')} that differ between source and target"
    for group, states in sorted((facts.groups or {}).items()):
        lost = {state.value: states[state.value] for state in NO_WAY if states.get(state.value)}
        if lost:
            counts = ", ".join(f"{name} {count}" for name, count in lost.items())
            yield f"group {group} has no offset to resume from on some partitions ({counts})"
    if facts.source_up:  # else waiting does not help
        if facts.age_s > OLD_S:
            yield f"the last measurement is {facts.age_s:.0f} s old"
        if facts.unknown:
            yield f"the lag of {facts.unknown:,} of {pluralized(facts.partitions, 'partition')} is unknown"
        if facts.absent:
            yield _not_there(facts)
        if facts.unserved:
            yield f"no process serves {pluralized(facts.unserved, 'slot')}"


def _costs(facts: Facts) -> Iterable[str]:
    if facts.missing:
        waits = "" if facts.waits_s is None else f"; the oldest has waited for {facts.waits_s:.0f} s"
        yield f"{pluralized(facts.missing, 'record')} not on the target yet{waits}"
    again = {group: count for group, count in facts.reread.items() if count}
    if again:
        yield f"{pluralized(len(again), 'group')} would re-read {pluralized(sum(again.values()), 'record')}"


def _unknowns(facts: Facts) -> Iterable[str]:
    if not facts.source_up:
        yield "the source does not respond: how many records were written since the last poll is unknown"
        if facts.unknown:
            yield f"the lag of {facts.unknown:,} of {pluralized(facts.partitions, 'partition')} is unknown"
        if facts.absent:
            yield _not_there(facts)
    if facts.groups is None:
        yield "where consumer groups would resume is unknown: the process does not respond, or emits no checkpoints"


def _not_there(facts: Facts) -> str:
    named = first_few(sorted(facts.absent))
    return f"{len(facts.absent):,} of {pluralized(facts.partitions, 'partition')} are not on the target: {named}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFacts:
    """What only a flow's process knows: fields of Facts, by default unknown."""

    groups: Mapping[str, Mapping[str, int]] | None = None
    reread: Mapping[str, int] = field(default_factory=dict)
    differences: int | None = None
    unserved: int | None = None


def readiness(
    flow: str, snapshot: Snapshot, *, source: str, target: str, status: ProcessStatus | None
) -> FailoverReadiness:
    """Return the result for a flow; `status` is None if its process does not respond."""
    served = ServedFacts() if status is None else served_facts(status, flow)
    return judged(facts_of(flow, snapshot, source=source, target=target, served=served))


def facts_of(flow: str, snapshot: Snapshot, *, source: str, target: str, served: ServedFacts) -> Facts:
    """Return the facts of a flow from a poll and from its process."""
    up = dict(snapshot.clusters)
    lags = [
        _Lag(row.remote_topic, str(row.partition), row.status, row.lag, row.lag_seconds, row.level_in_s)
        for row in snapshot.rows
        if row.is_flow and row.group == flow
    ]
    return _facts(flow, lags, source_up=up.get(source, False), target_up=up.get(target, False), served=served)


class _Lag(NamedTuple):
    """What matters of one partition, from its row or from its series."""

    topic: str  # on the target
    partition: str
    status: float
    lag: float | None
    lag_seconds: float | None
    level_in_s: float | None = None


def _facts(
    flow: str,
    lags: Sequence[_Lag],
    *,
    source_up: bool,
    target_up: bool,
    served: ServedFacts,
    age_s: float = 0.0,
) -> Facts:
    known = [each for each in lags if each.lag is not None and each.status != Status.UNKNOWN]
    waits = [each.lag_seconds for each in known if each.lag]
    levels = [each.level_in_s for each in known if each.lag]
    return Facts(
        flow=flow,
        source_up=source_up,
        target_up=target_up,
        partitions=len(lags),
        unknown=len(lags) - len(known),
        absent=[f"{each.topic}-{each.partition}" for each in lags if each.status == Status.ABSENT],
        missing=int(sum(each.lag or 0 for each in known)),
        waits_s=None if None in waits else max((wait for wait in waits if wait is not None), default=0.0),
        age_s=age_s,
        level_in_s=None if None in levels else max((level for level in levels if level is not None), default=None),
        groups=served.groups,
        reread=served.reread,
        differences=served.differences,
        unserved=served.unserved,
    )


def served_facts(status: ProcessStatus, flow: str) -> ServedFacts:
    """Return what a process reports of one flow; the rest is unknown."""
    groups: dict[str, dict[str, int]] = {}
    reread: dict[str, int] = {}
    sums: dict[str, float] = {}
    for sample in status.samples(_SERVED):
        if sample.flow != flow:
            continue
        if sample.name == _STATES:
            groups.setdefault(sample.labels["group"], {})[sample.labels["state"]] = int(sample.value)
        elif sample.name == _REREAD:
            reread[sample.labels["group"]] = int(sample.value)
        else:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    is_alone = sums.get(_PROCESSES) == 1  # else another process may serve the other slots
    return ServedFacts(
        groups=groups if groups or _CHECKPOINTS in sums else None,  # the counter exists since the first round
        reread=reread,
        differences=int(sums[_DIFFERENCES]) if _DIFFERENCES in sums else None,
        unserved=int(sums[_SLOTS] - sums[_OWNED]) if is_alone and {_SLOTS, _OWNED} <= sums.keys() else None,
    )


def worst(answers: Sequence[FailoverReadiness]) -> Answer:
    """Return the worst result of all flows."""
    return min((each.answer for each in answers), default=Answer.NO)


ANSWER = "kafka_mirror_failover_answer"


def answer_failover(
    families: Mapping[str, dict[Labels, Any]], *, now_s: float, flows: Set[Labels], reporting_groups: Set[Labels]
) -> None:
    """Add the result of each flow that this process serves a part of.

    Args:
        families: Series of a current snapshot by family; changed in place.
        now_s: The present, epoch seconds.
        flows: The flows.
        reporting_groups: Flows whose consumer groups this process must know, because it makes their checkpoints.
    """
    lag, lag_seconds = families["kafka_mirror_lag_records"], families["kafka_mirror_lag_seconds"]
    lags: dict[Labels, list[_Lag]] = {flow: [] for flow in flows}
    for labels, code in families["kafka_mirror_partition_status"].items():
        if labels[:2] in lags:
            lags[labels[:2]].append(_Lag(labels[2], labels[3], code, lag.get(labels), lag_seconds.get(labels)))
    status, up = ProcessStatus.of({name: families[name] for name in _SERVED}), families["kafka_mirror_cluster_up"]
    for flow, own in lags.items():
        name = "->".join(flow)
        served = served_facts(status, name)
        if served.groups is None and flow not in reporting_groups:  # another process reports them
            served = replace(served, groups={})
        facts = _facts(
            name,
            own,
            source_up=up.get((*flow, flow[0])) == 1,
            target_up=up.get((*flow, flow[1])) == 1,
            served=served,
            age_s=now_s - families["kafka_mirror_last_poll_timestamp_seconds"].get(flow, 0.0),
        )
        families[ANSWER][flow] = float(judged(facts).answer)
