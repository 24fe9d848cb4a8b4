"""Report, before a switch, its effects, losses and duration, and what blocks it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from metrics.lag_row import LagRow
from metrics.partition_status import Sample
from mirror.config.clients import client_options
from mirror.errors import ClusterUnavailable
from mirror.flows.fan_in import read_shared
from mirror.flows.stored_positions import is_served, read_positions
from mirror.flows.sync import acl_changes, config_changes
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_facts import AuthorizerUnknown
from mirror.kafka.groups import HIDDEN, Group, is_idle
from mirror.kafka.internal_topics import answered
from mirror.lag.failover import STEPS_S
from mirror.lag.text import duration, pluralized
from mirror.model.flow_plan import Absent, FlowPlan, PlannedPartition
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import first_few
from mirror.switching.lost import last_checkpoints, missing
from mirror.switching.readers import look, moved_between
from mirror.switching.scope import Fencing, Scope

ANSWERS_S = 3.0  # an available cluster responds within this time
ALTER = "ALTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAhead:
    """A topic, the number of its records that are not on the target yet (None: unknown), and their rate."""

    topic: str
    remote: str
    partitions: int
    missing: int | None
    waits_s: float | None
    records_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The forecast of a switch. `blocks` forbid the switch; the operator decides about `warnings`."""

    topics: tuple[TopicAhead, ...]
    groups: tuple[str, ...]
    active: tuple[str, ...]  # groups that have members on the source
    blocks: tuple[str, ...]
    warnings: tuple[str, ...]
    is_source_lost: bool = False

    @property
    def missing(self) -> int | None:
        """Records that would be lost if the source failed now; None if unknown."""
        known = [topic.missing for topic in self.topics if topic.missing is not None]
        return sum(known) if len(known) == len(self.topics) else None

    @property
    def takes_s(self) -> float | None:
        """The expected duration of the switch at the current rates; None if unknown."""
        rate = sum(topic.records_per_s for topic in self.topics)
        if self.missing is None or (self.missing and not rate):
            return None
        return STEPS_S + (self.missing / rate if rate else 0.0)


def looked_ahead(scope: Scope, rows: Sequence[LagRow], *, window_ms: int, is_resumed: bool) -> Preflight:
    """Check both clusters before a switch; raises ClusterUnavailable if one does not respond."""
    plan = scope.plan()
    absent = scope.absent(plan)
    wanted: list[PlannedPartition | Absent] = [*scope.partitions(plan), *absent]
    groups = scope.groups_on_source()
    there = scope.groups_on_target([group.name for group in groups])
    found = read_positions(scope.flow)
    is_running = is_served(found, plan.lease_topic, window_ms=window_ms, now_ms=time.time() * 1000)
    own = {
        TopicPartition(row.topic, row.partition): row for row in rows if row.is_flow and row.group == scope.flow.name
    }
    rows_of: dict[str, list[LagRow | None]] = {}
    for assigned in wanted:
        rows_of.setdefault(assigned.topic, []).append(own.get(assigned.on_source))
    operations = scope.source.cluster_operations()
    topics = {assigned.topic: assigned.remote_topic for assigned in wanted}
    blocks = [
        *_of_topics(scope, topics, is_running=is_running),
        *_of_absent(scope, absent),
        *_of_hidden(scope, wanted),
        *(() if is_resumed else _of_groups(scope, groups, there)),
        *_of_fence(scope, topics, operations),
    ]
    return Preflight(
        topics=tuple(_ahead(topic, remote, rows_of[topic]) for topic, remote in sorted(topics.items())),
        groups=tuple(group.name for group in groups if group.state != HIDDEN),
        active=tuple(group.name for group in groups if not is_idle(group.state)),
        blocks=tuple(blocks),
        warnings=(*_of_readers(scope, groups), *_warnings(scope), *_of_shared(scope, plan), *_of_other_types(scope)),
    )


def looked_ahead_without_source(scope: Scope, seen: Mapping[TopicPartition, Sample]) -> Preflight:
    """Check the target alone before a failover; raises ClusterUnavailable if it does not respond."""
    plan = scope.plan()
    wanted = scope.partitions(plan)
    positions = read_positions(scope.flow)
    counts_of: dict[str, list[int | None]] = {}
    remote = {assigned.topic: assigned.remote_topic for assigned in wanted}
    for assigned in wanted:
        place = assigned.on_target
        at = positions.get(place)
        known = missing(at.offset if at is not None else None, seen.get(place))
        counts_of.setdefault(assigned.topic, []).append(known)
    warnings = [*_of_shared(scope, plan)]
    for (name, _), sample in scope.seen_only(plan, seen).items():
        topic = scope.origin(name)
        remote[topic] = name
        counts_of.setdefault(topic, []).append(missing(sample.position, sample))
    if not seen:
        warnings.append(
            "this machine has no polls of the process (mirror.state.dir): the number of missing records is unknown"
        )
    try:
        Cluster(scope.source.alias, scope.flow.source_admin, within_s=ANSWERS_S).cluster_id()
    except ClusterUnavailable:
        pass
    else:
        warnings.append(
            f"{scope.source.alias} responds: 'kafka-mirror switch' without --source-lost would lose nothing"
        )
    return Preflight(
        topics=tuple(
            TopicAhead(
                topic=topic,
                remote=remote[topic],
                partitions=len(counts),
                missing=None if None in counts else sum(count or 0 for count in counts),
                waits_s=None,
                records_per_s=0.0,
            )
            for topic, counts in sorted(counts_of.items())
        ),
        groups=tuple(sorted({group for group, _, _ in last_checkpoints(scope)})),
        active=(),
        is_source_lost=True,
        blocks=() if wanted else (f"{scope.flow.name} has replicated none of the given topics",),
        warnings=tuple(warnings),
    )


def _ahead(topic: str, remote: str, rows: Sequence[LagRow | None]) -> TopicAhead:
    known = [row for row in rows if row is not None]
    lags = [row.lag for row in known if row.lag is not None]
    waits = [row.lag_seconds for row in known if row.lag_seconds is not None]
    return TopicAhead(
        topic=topic,
        remote=remote,
        partitions=len(rows),
        missing=sum(lags) if len(lags) == len(rows) else None,
        waits_s=max(waits) if len(waits) == len(rows) else None,
        records_per_s=sum(row.records_per_s or 0.0 for row in known),
    )


def _of_topics(scope: Scope, topics: Mapping[str, str], *, is_running: bool) -> Iterable[str]:
    if not topics:
        yield f"{scope.flow.name} replicates none of the given topics; 'kafka-mirror plan' lists its topics"
    elif not is_running:
        yield f"no process replicates {scope.flow.name}, so waiting records would never be replicated; start 'kafka-mirror run'"


def _of_absent(scope: Scope, absent: Sequence[Absent]) -> Iterable[str]:
    reasons = {place.topic: place.reason for place in absent}
    if reasons:
        first = next(iter(reasons))
        yield (
            f"{pluralized(len(reasons), 'topic')} of {scope.flow.name} would be left behind: {first_few(sorted(reasons))}. "
            f"Of {first}: {reasons[first]}. Fix that, or accept it with --without-topic NAME"
        )


def _of_hidden(scope: Scope, wanted: Iterable[PlannedPartition | Absent]) -> Iterable[str]:
    hidden = {place.topic for place in wanted if isinstance(place, PlannedPartition) and place.is_hidden}
    if hidden:
        yield (
            f"{scope.source.alias} hides {pluralized(len(hidden), 'topic')} of the flow from this client: "
            f"{first_few(sorted(hidden))}. Grant DESCRIBE, or accept it by --without-topic NAME"
        )


def _of_groups(scope: Scope, groups: Sequence[Group], there: Mapping[str, Group]) -> Iterable[str]:
    hidden = [group.name for group in groups if group.state == HIDDEN]
    hidden += [name for name, group in there.items() if group.state == HIDDEN]
    if hidden:
        yield f"this client may not DESCRIBE {pluralized(len(hidden), 'group')}: {first_few(sorted(set(hidden)))}"
    active = [name for name, group in sorted(there.items()) if not is_idle(group.state)]
    if active:
        yield f"{pluralized(len(active), 'group')} read on {scope.target.alias} already; stop their members: {first_few(active)}"


def _of_fence(scope: Scope, topics: Iterable[str], operations: frozenset[str] | None) -> Iterable[str]:
    source = scope.source.alias
    if scope.fence is Fencing.NONE:
        return
    try:
        if not scope.source.has_authorizer():
            return
    except AuthorizerUnknown as error:
        yield (
            f"a fence must read the ACLs of {source}, but they cannot be read ({error}); grant DESCRIBE and ALTER, "
            "or pass --fence none"
        )
        return
    if operations is not None and ALTER not in operations:
        yield f"this client may not ALTER cluster {source}, which a fence needs; grant it, or pass --fence none"
    bare = scope.source.without_acls(topics)
    if scope.fence is Fencing.ACLS and bare:
        yield (
            f"no ACL is about {pluralized(len(bare), 'topic')} ({first_few(sorted(bare))}); "
            f"if {source} allows everything that no ACL denies, a fence would stop consumers too. "
            "Pass --fence acls-and-read to keep these topics readable, or --fence none"
        )


def _warnings(scope: Scope) -> Iterable[str]:
    topics = scope.matched()
    present = {topic.remote for topic in topics}
    drift = config_changes(scope.flow, topics, scope.source, scope.target, present=present)
    if drift:
        yield f"settings of {pluralized(len(drift), 'remote topic')} differ: {first_few(sorted(drift))}"
    try:
        _, lacking = acl_changes(topics, scope.source, scope.target)
    except ClusterUnavailable as error:
        lacking = []
        yield f"whether ACLs of the source are missing on {scope.target.alias} is unknown: {error}"
    if lacking:
        yield f"{pluralized(len(lacking), 'ACL')} of the source are not on {scope.target.alias} yet"


def _of_readers(scope: Scope, before: Sequence[Group]) -> Iterable[str]:
    """Warn of groups whose offsets move although they have no members."""
    moved = moved_between(look(before, scope.concerns), look(scope.groups_on_source(), scope.concerns))
    if moved:
        yield (
            f"{first_few(sorted(moved))} read on {scope.source.alias} without members: their consumers assign partitions "
            "themselves. Stop them at the step groups; a consumer that commits rarely is not detected"
        )


def _of_other_types(scope: Scope) -> Iterable[str]:
    """Warn of chosen groups that are not consumer groups."""
    others = scope.groups_of_other_types()
    if others:
        yield (
            f"{pluralized(len(others), 'group')} of {scope.source.alias} stay on it, because only consumer groups are moved: "
            f"{first_few([f'{group.name} ({group.kind})' for group in others])}"
        )


def _of_shared(scope: Scope, plan: FlowPlan) -> Iterable[str]:
    """Warn of topics on the target that also have records of other sources."""
    reading = read_shared(client_options(scope.flow.target_admin), plan.group, scope.partitions(plan))
    found = answered(reading, cluster=scope.target.alias, what="other flows that write to it cannot be read")
    if found:
        yield (
            f"{first_few(sorted(set(found.values())))} write to {first_few(sorted({topic for topic, _ in found}))} on "
            f"{scope.target.alias} too: a moved group skips their unread records before its place"
        )


def sentences(ahead: Preflight) -> list[str]:
    """Return the plan's sentences about losses and time."""
    missing = "unknown" if ahead.missing is None else f"{ahead.missing:,} records"
    if ahead.is_source_lost:
        return [f"seen on the source and not on the target: {missing}"]
    takes = "unknown" if ahead.takes_s is None else f"about {duration(ahead.takes_s)}"
    return [f"would be lost if the source failed now: {missing}", f"should take: {takes}"]
