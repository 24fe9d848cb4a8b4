"""Answer two questions about a flow: is it ready for a planned switch, and what is lost if the source is lost now. Pure.

Pages, terminal and metrics all use these answers. A planned switch stops the producers first, so it loses nothing, but it needs
both clusters and every partition. If the source is lost, the records that the target lacks are compared with the flow's objective
(mirror.rpo.objective.seconds). `Answer` is the single answer of earlier versions, which follows from both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from metrics.partition_status import Status
from metrics.process_status import ProcessStatus
from metrics.series import Labels
from mirror.checkpoints.rules import State
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import duration, pluralized
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
RPO_S = 60.0  # default of mirror.rpo.objective.seconds
STEPS_S = 15.0  # duration of all steps of a switch but draining: looking for writers, comparing, moving groups
OLD_S = 60.0  # older numbers do not show what a failover costs now
STALLED = (Status.STALL, Status.STOP)
# A group in one of these states has no offset to continue from.
NO_WAY = (State.NO_MAP, State.REFUSED, State.PAST_END, State.SHARED, State.UNSUPPORTED)


class Planned(Enum):
    """Whether a planned switch can start now."""

    READY = "READY"
    NOT_READY = "NOT READY"


class Objective(Enum):
    """Whether the waiting records are younger than the flow's recovery point objective."""

    WITHIN = "WITHIN OBJECTIVE"
    BEYOND = "BEYOND OBJECTIVE"
    UNKNOWN = "UNKNOWN"


class Answer(IntEnum):
    """The single answer of the exit code and of kafka_mirror_failover_answer. Larger is better."""

    NO = 0
    GO_WITH_LOSS = 1
    GO = 2

    @property
    def words(self) -> str:
        """The answer as shown: GO WITH LOSS."""
        return str(self.name).replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The known facts of one flow. None is unknown, which never counts as healthy."""

    flow: str  # "A->B"
    source_up: bool  # whether the source responds
    target_up: bool
    partitions: int  # of the flow
    unknown: int = 0  # partitions whose lag is unknown
    absent: Sequence[str] = ()  # partitions that the target lacks, by the names that they would have there
    stalled: Sequence[str] = ()  # partitions with waiting records of which none is copied
    missing: int = 0  # records that are not on the target, of the known partitions
    waits_s: float | None = 0.0  # how long the first of them has waited; None if unknown for any partition
    objective_s: float = RPO_S  # how long a record may wait
    drain_s: float | None = 0.0  # until the target has the missing records if the producers stop; None if unknown
    age_s: float = 0.0  # of these numbers
    level_in_s: float | None = None  # until all are on the target at the present rates; None if the lag does not shrink
    groups: Mapping[str, Mapping[str, int]] | None = None  # partitions by group of the source and state of their offset
    reread: Mapping[str, int] = field(default_factory=dict)  # records that each group would read again
    differences: int | None = None  # records that `verify` found different; None if nothing was compared
    unserved: int | None = None  # slots that no process serves
    topics: int = 0
    identical_topics: int = 0  # of these: topics whose offsets are the same on both clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """How many consumer groups resume exactly, re-read records, or cannot resume on some partition."""

    exact: int = 0
    rereading: int = 0
    without_offset: int = 0
    reread_records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverReadiness:
    """Both answers for one flow, with their facts."""

    flow: str
    planned: Planned
    objective: Objective
    answer: Answer
    blockers: tuple[str, ...] = ()  # of a planned switch
    takes_s: float | None = None  # expected duration of a planned switch; None if unknown
    records: int | None = None  # lost if the source is lost now; None if unknown
    seconds: float | None = None  # how long the first of them has waited
    objective_s: float = RPO_S
    unknowns: tuple[str, ...] = ()  # why the loss, or the offsets of groups, are unknown
    groups: GroupOffsets | None = None  # None if unknown
    level_in_s: float | None = None  # until lag 0 at the present rates
    topics: int = 0
    identical_topics: int = 0  # of these: topics whose offsets need no translation

    @property
    def is_healthy(self) -> bool:
        """True if there is nothing to do."""
        return self.answer is Answer.GO and self.planned is Planned.READY

    @property
    def planned_text(self) -> str:
        """The first answer: READY, takes about 17 s, loses nothing."""
        if self.planned is Planned.NOT_READY:
            return str(self.planned.value)
        takes = "takes an unknown time" if self.takes_s is None else f"takes about {self.takes_s:.0f} s"
        return f"{self.planned.value}, {takes}, loses nothing"

    @property
    def loss_text(self) -> str:
        """The second answer: WITHIN OBJECTIVE (60 s), 3 records of the last 0.2 s would be lost."""
        goal = f"{self.objective.value} ({self.objective_s:.0f} s)"
        if self.records is None:
            return goal
        if not self.records:
            return f"{goal}, nothing would be lost"
        waited = "" if self.seconds is None else f", waiting for up to {duration(self.seconds)}"
        return f"{goal}, {pluralized(self.records, 'record')} would be lost{waited}"

    def plain(self) -> dict[str, object]:
        """Return the answers as JSON values."""
        words = {"planned": self.planned.value, "objective": self.objective.value, "answer": self.answer.words}
        return {**asdict(self), **words}

    @property
    def groups_text(self) -> str:
        """How consumer groups would resume: 12 exact, 1 would re-read 7 records."""
        if self.groups is None:
            return "unknown"
        parts = [f"{self.groups.exact} exact"] if self.groups.exact else []
        if self.groups.rereading:
            parts.append(f"{self.groups.rereading} would re-read {pluralized(self.groups.reread_records, 'record')}")
        if self.groups.without_offset:
            parts.append(f"{self.groups.without_offset} cannot resume")
        found = ", ".join(parts) or "no group reads a topic of the flow"
        if not self.identical_topics:
            return found
        of_all = "" if self.identical_topics == self.topics else f" in {self.identical_topics} of {self.topics} topics"
        return f"{found}; offsets are identical{of_all}"


def judged(facts: Facts) -> FailoverReadiness:
    """Return both answers for a flow."""
    forbidding, unmeasured = tuple(_forbidding(facts)), tuple(_unmeasured(facts))
    source_down = () if facts.source_up else ("the source does not respond",)
    blockers, unknowns = (*forbidding, *source_down, *unmeasured, *_stalled(facts)), tuple(_unknowns(facts))
    objective = _objective(facts)
    if forbidding or (facts.source_up and unmeasured):  # without the source, waiting does not help
        answer = Answer.NO
    else:
        is_healthy = objective is Objective.WITHIN and not blockers and not unknowns
        answer = Answer.GO if is_healthy else Answer.GO_WITH_LOSS
    is_known = objective is not Objective.UNKNOWN
    return FailoverReadiness(
        flow=facts.flow,
        planned=Planned.NOT_READY if blockers else Planned.READY,
        objective=objective,
        answer=answer,
        blockers=blockers,
        takes_s=None if facts.drain_s is None else STEPS_S + facts.drain_s,
        records=facts.missing if is_known else None,
        seconds=facts.waits_s if is_known else None,
        objective_s=facts.objective_s,
        unknowns=unknowns,
        groups=_group_offsets(facts),
        level_in_s=0.0 if is_known and not facts.missing else facts.level_in_s,
        topics=facts.topics,
        identical_topics=facts.identical_topics,
    )


def _objective(facts: Facts) -> Objective:
    is_measured = facts.source_up and facts.target_up and facts.partitions and facts.age_s <= OLD_S
    if not is_measured or facts.unknown or facts.waits_s is None:
        return Objective.UNKNOWN
    return Objective.BEYOND if facts.waits_s > facts.objective_s else Objective.WITHIN


def _group_offsets(facts: Facts) -> GroupOffsets | None:
    if facts.groups is None:
        return None
    without = {group for group, states in facts.groups.items() if any(states.get(each.value) for each in NO_WAY)}
    rereading = {group: count for group, count in facts.reread.items() if count and group not in without}
    exact = len(facts.groups.keys() - without - rereading.keys())
    return GroupOffsets(
        exact=exact, rereading=len(rereading), without_offset=len(without), reread_records=sum(rereading.values())
    )


def _forbidding(facts: Facts) -> Iterable[str]:
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


def _unmeasured(facts: Facts) -> Iterable[str]:
    if facts.age_s > OLD_S:
        yield f"the last measurement is {facts.age_s:.0f} s old"
    if facts.unknown:
        yield f"the lag of {facts.unknown:,} of {pluralized(facts.partitions, 'partition')} is unknown"
    if facts.absent:
        named = first_few(sorted(facts.absent))
        yield f"{len(facts.absent):,} of {pluralized(facts.partitions, 'partition')} are not on the target: {named}"
    if facts.unserved:
        yield f"no process serves {pluralized(facts.unserved, 'slot')}"


def _stalled(facts: Facts) -> Iterable[str]:
    if facts.stalled:
        named = first_few(sorted(facts.stalled))
        yield f"records wait in {pluralized(len(facts.stalled), 'partition')}, and none is copied: {named}"


def _unknowns(facts: Facts) -> Iterable[str]:
    if not facts.source_up:
        yield "the source does not respond: how many records were written since the last poll is unknown"
    if facts.groups is None:
        yield "where consumer groups would resume is unknown: the process does not respond, or emits no checkpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFacts:
    """Facts that only a flow's process knows: fields of Facts, by default unknown."""

    groups: Mapping[str, Mapping[str, int]] | None = None
    reread: Mapping[str, int] = field(default_factory=dict)
    differences: int | None = None
    unserved: int | None = None


def readiness(
    flow: str,
    snapshot: Snapshot,
    *,
    source: str,
    target: str,
    status: ProcessStatus | None,
    objective_s: float = RPO_S,
) -> FailoverReadiness:
    """Return both answers for a flow; `status` is None if its process does not respond."""
    served = ServedFacts() if status is None else served_facts(status, flow)
    facts = facts_of(flow, snapshot, source=source, target=target, served=served)
    return judged(replace(facts, objective_s=objective_s))


def facts_of(flow: str, snapshot: Snapshot, *, source: str, target: str, served: ServedFacts) -> Facts:
    """Return the facts of a flow from a poll and from its process."""
    up = dict(snapshot.clusters)
    rows = [row for row in snapshot.rows if row.is_flow and row.group == flow]
    lags = [
        _Lag(
            row.remote_topic,
            str(row.partition),
            row.status,
            row.lag,
            row.lag_seconds,
            row.level_in_s,
            row.records_per_s,
        )
        for row in rows
    ]
    facts = _facts(flow, lags, source_up=up.get(source, False), target_up=up.get(target, False), served=served)
    identical = {row.topic for row in rows if row.offsets == "identical"}
    return replace(facts, topics=len({row.topic for row in rows}), identical_topics=len(identical))


class _Lag(NamedTuple):
    """The relevant facts of one partition, from its row or from its series."""

    topic: str  # on the target
    partition: str
    status: float
    lag: float | None
    lag_seconds: float | None
    level_in_s: float | None = None
    records_per_s: float | None = None

    @property
    def drain_s(self) -> float | None:
        """How long the present rate takes for its lag."""
        return self.lag / self.records_per_s if self.lag and self.records_per_s else None


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
    drains = [each.drain_s for each in known if each.lag]
    return Facts(
        flow=flow,
        source_up=source_up,
        target_up=target_up,
        partitions=len(lags),
        unknown=len(lags) - len(known),
        absent=[f"{each.topic}-{each.partition}" for each in lags if each.status == Status.ABSENT],
        stalled=[f"{each.topic}-{each.partition}" for each in known if each.lag and each.status in STALLED],
        missing=int(sum(each.lag or 0 for each in known)),
        waits_s=None if None in waits else max((wait for wait in waits if wait is not None), default=0.0),
        age_s=age_s,
        drain_s=None if None in drains else max((drain for drain in drains if drain is not None), default=0.0),
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
READY = "kafka_mirror_switch_ready"
WITHIN = "kafka_mirror_rpo_within_objective"


def answer_failover(
    families: Mapping[str, dict[Labels, Any]],
    *,
    now_s: float,
    flows: Mapping[Labels, float],
    reporting_groups: Set[Labels],
) -> None:
    """Add the answers of each flow that this process serves a part of.

    Args:
        families: Series of a current snapshot by family; changed in place.
        now_s: The present, epoch seconds.
        flows: The flows, with their objectives in seconds.
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
        found = judged(replace(facts, objective_s=flows[flow]))
        families[ANSWER][flow] = float(found.answer)
        families[READY][flow] = float(found.planned is Planned.READY)
        if found.objective is not Objective.UNKNOWN:
            families[WITHIN][flow] = float(found.objective is Objective.WITHIN)
