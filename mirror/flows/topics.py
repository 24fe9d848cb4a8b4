"""Match the topics that a flow replicates, and create or grow their remote topics."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from mirror.config.settings import Flow
from mirror.config.transforms import of_topic
from mirror.errors import ClusterRefuses, ClusterUnavailable
from mirror.kafka.cluster import Cluster, Topic
from mirror.model.flow_plan import (
    GAPS_TOPIC,
    GROUP_OFFSETS_TOPIC,
    LEASE_TOPIC,
    OFFSET_MAP_TOPIC,
    PRODUCERS_TOPIC,
    SLOTS_TOPIC,
    Absent,
    FlowPlan,
    PlannedPartition,
    is_canary,
)
from mirror.model.slot_ownership import lease_topic_partitions
from mirror.model.topic_partition import TopicPartition
from mirror.model.transforms import Transforms
from mirror.policy.topic_configs import Change

log = logging.getLogger("mirror")

_POLICY, _COMPACT = "cleanup.policy", "compact"
# Kafka compacts only closed segments, and these topics are read from their start: small segments keep the reads short.
SOON_COMPACTED = {"segment.bytes": str(16 << 20), "min.cleanable.dirty.ratio": "0.1"}


@dataclass(frozen=True, slots=True)
class TopicPair:
    """One topic of a flow: the source topic, and its name on the target."""

    source: Topic
    remote: str


class Prepared(NamedTuple):
    """The partition count of each remote topic, and why some were not created or grown."""

    partitions: dict[str, int]
    objections: dict[str, str]


def source_topics(
    flow: Flow, source: Cluster, on_target: Mapping[str, Topic], *, known: Iterable[Topic] = ()
) -> dict[str, Topic]:
    """Return the source's topics by name, including those that this client may no longer DESCRIBE.

    A cluster leaves such hidden topics out of its list. They stay in the flow, with the partitions of `known` or of their remote
    topics, because they may still exist. Raises ClusterUnavailable.
    """
    shown = source.topics()
    before = {topic.name: topic for topic in (*brought(flow, on_target), *known) if topic.name not in shown}
    return shown | {name: replace(before[name], is_hidden=True) for name in source.hidden(before)}


def brought(flow: Flow, on_target: Mapping[str, Topic]) -> list[Topic]:
    """Return the source topics, by name, whose remote topics are on the target."""
    return [
        replace(topic, name=origin, topic_id="")
        for name, topic in on_target.items()
        if (origin := flow.policy.upstream_topic(name)) is not None
        and flow.policy.topic_source(name) == flow.source.alias
        and flow.topics.matches(origin)
    ]


def matched(flow: Flow, source_topics: Mapping[str, Topic]) -> list[TopicPair]:
    """Return the topics that the flow replicates: not internal, and not from its target."""
    found = []
    for name in sorted(source_topics):
        is_cycle = flow.policy.would_cycle(name, flow.target.alias)
        if _is_wanted(flow, name) and not flow.policy.is_internal(name) and not is_cycle:
            found.append(TopicPair(source_topics[name], flow.policy.remote_topic(name)))
    return found


def _is_wanted(flow: Flow, topic: str) -> bool:
    """Return whether a topic matches, or belongs to every flow."""
    if is_canary(topic):
        return topic in flow.canaries
    return flow.topics.matches(topic) or (flow.heartbeats.replicated and flow.policy.is_heartbeats(topic))


def ensure_remote(
    flow: Flow, topics: list[TopicPair], existing: Mapping[str, Topic], source: Cluster, target: Cluster
) -> Prepared:
    """Create missing remote topics and grow short ones.

    A refusal is logged and retried at the next refresh, as in MirrorMaker; other topics continue.
    """
    partitions = {name: topic.partitions for name, topic in existing.items()}
    objections = {}
    known = _known_settings(flow, target) if any(topic.remote not in existing for topic in topics) else ()
    for topic in topics:
        have = partitions.get(topic.remote, 0)
        want = topic.source.partitions
        if have >= want or (have and not flow.grows_topics):
            continue
        if have:
            objection = target.grow(topic.remote, partitions=want)
            done = f"grown from {have} to {want} partitions"
        else:
            objection = _create(flow, topic, source, target, known)
            done = f"created with {want} partitions"
        if objection:
            log.error("%s: %s cannot be prepared on %s: %s", flow.name, topic.remote, flow.target.alias, objection)
            objections[topic.remote] = objection
            continue
        log.info("%s: %s %s on %s", flow.name, topic.remote, done, flow.target.alias)
        partitions[topic.remote] = want
    return Prepared(partitions, objections)


def _create(flow: Flow, topic: TopicPair, source: Cluster, target: Cluster, known: Collection[str]) -> str:
    """Create a remote topic with the source's settings; return the objection, if any.

    Settings that the target does not know or does not allow are left out, and the topic is created without them: versions of
    Kafka have different ones. `known` are the target's settings; it is empty if they are unknown.
    """
    try:
        theirs = source.configs([topic.source.name])[topic.source.name]
    except ClusterUnavailable as error:
        return f"its settings cannot be read: {error}"
    wanted = flow.configs.at_creation(theirs)
    if unknown := sorted(wanted.keys() - set(known or wanted)):
        log.warning(
            "%s: %s is created on %s without %s, which its version of Kafka does not support",
            flow.name,
            topic.remote,
            flow.target.alias,
            ", ".join(unknown),
        )

    def create(settings: Mapping[str, str], *, validates_only: bool = False) -> str:
        return target.create(
            topic.remote,
            partitions=topic.source.partitions,
            replication_factor=flow.replication_factor,
            configs=settings,
            validates_only=validates_only,
        )

    settings = {name: value for name, value in wanted.items() if name not in unknown}
    objection = create(settings)
    if not objection or not settings or create({}, validates_only=True):
        return objection  # which is about the topic, not about a setting of it
    refused = {name: why for name, value in settings.items() if (why := create({name: value}, validates_only=True))}
    for name, why in refused.items():
        log.warning(
            "%s: %s is created on %s without %s=%s: %s",
            flow.name,
            topic.remote,
            flow.target.alias,
            name,
            settings[name],
            why,
        )
    return create({name: value for name, value in settings.items() if name not in refused})


def _known_settings(flow: Flow, target: Cluster) -> Collection[str]:
    """Return the names of topic settings on the target, read from an internal topic."""
    leases = LEASE_TOPIC.format(source=flow.source.alias)
    try:
        return target.configs([leases]).get(leases, {}).keys()
    except ClusterUnavailable as error:  # the topic does not exist yet, or this client may not DESCRIBE its settings
        log.debug("%s: which settings %s knows cannot be read: %s", flow.name, flow.target.alias, error)
        return ()


def ensure_internal(
    flow: Flow,
    source: Cluster,
    target: Cluster,
    *,
    on_source: Mapping[str, Topic],
    on_target: Mapping[str, Topic],
    slots: int,
) -> None:
    """Create or grow the flow's internal topics, both kafka-mirror's and MirrorMaker's.

    kafka-mirror's topics are for leases, slots, the offset map, the ledger and group offsets.

    Raises:
        ClusterRefuses: the target lacks the topic for the leases or the slots, and refuses to create or grow it.
    """
    alias, factor = flow.source.alias, flow.replication_factor
    for name, partitions in (
        (LEASE_TOPIC.format(source=alias), lease_topic_partitions(slots)),
        (SLOTS_TOPIC.format(source=alias, slots=slots), slots),
    ):
        objection = _ensure(flow, target, on_target, name, factor, partitions=partitions)
        if objection and _partitions(target, name) < partitions:
            raise ClusterRefuses(_without(flow, name, objection), cluster=target.alias)
    _ensure(flow, target, on_target, OFFSET_MAP_TOPIC.format(source=alias), factor, configs=SOON_COMPACTED)
    _ensure(flow, target, on_target, GAPS_TOPIC.format(source=alias), factor)
    _ensure(flow, target, on_target, GROUP_OFFSETS_TOPIC.format(source=alias), factor, configs=SOON_COMPACTED)
    if flow.is_bidirectional:
        _ensure(flow, target, on_target, PRODUCERS_TOPIC.format(source=alias), factor)
    if flow.checkpoints.enabled:
        factor = flow.checkpoints.replication_factor
        _ensure(flow, target, on_target, flow.policy.checkpoints_topic(alias), factor)
    if (syncs := offset_syncs_topic(flow)) is not None:
        cluster, existing = (source, on_source) if flow.offset_syncs.at_source else (target, on_target)
        _ensure(flow, cluster, existing, syncs, flow.offset_syncs.replication_factor)


def _partitions(cluster: Cluster, name: str) -> int:
    """Return how many partitions a topic has now: another process may have created it."""
    found = cluster.described([name]).get(name)
    return found.partitions if found is not None else 0


def _without(flow: Flow, name: str, objection: str) -> str:
    """Return an error text: why a flow cannot begin, and what an operator can do."""
    return (
        f"{flow.name}: nothing is replicated without the internal topic {name}, and {flow.target.alias} refuses it "
        f"({objection}). Depending on the reason, delete a topic whose name collides, give {flow.source.alias} another alias, "
        "grant CREATE and ALTER on the topic, or lower replication.factor."
    )


def offset_syncs_topic(flow: Flow) -> str | None:
    """Return the topic for MirrorMaker's offset syncs, None when none are written."""
    if not (flow.offset_syncs.enabled and flow.checkpoints.enabled):
        return None
    other = flow.target if flow.offset_syncs.at_source else flow.source
    return flow.policy.offset_syncs_topic(other.alias)


def _ensure(
    flow: Flow,
    cluster: Cluster,
    existing: Mapping[str, Topic],
    name: str,
    factor: int,
    *,
    partitions: int = 1,
    configs: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Create an internal compacted topic, or correct its policy or partitions.

    Returns:
        The cluster's objection, which is logged; "" if the topic is correct.
    """
    have = existing.get(name)
    objection = ""
    if have is None:
        configs = {_POLICY: _COMPACT, **configs}
        objection = cluster.create(name, partitions=partitions, replication_factor=factor, configs=configs)
    else:
        if have.partitions < partitions:
            objection = cluster.grow(name, partitions=partitions)
        objection = objection or _correct_policy(flow, cluster, name)
    if objection:
        log.error("%s: internal topic %s cannot be prepared on %s: %s", flow.name, name, cluster.alias, objection)
    return objection


def _correct_policy(flow: Flow, cluster: Cluster, name: str) -> str:
    """Make an internal topic compacted, in case a broker created it automatically with its defaults.

    Returns:
        The cluster's objection; "" if the policy is correct, or cannot be read.
    """
    try:
        policy = cluster.configs([name])[name][_POLICY].value
    except (ClusterUnavailable, KeyError) as error:
        log.debug("%s: the cleanup policy of %s is not known: %r", flow.name, name, error)
        return ""
    if policy == _COMPACT:
        return ""
    objection = cluster.alter(name, [Change(_POLICY, _COMPACT)])
    if not objection:
        log.warning(
            "%s: internal topic %s on %s had cleanup.policy=%s, which deletes its records; it is compact now",
            flow.name,
            name,
            cluster.alias,
            policy,
        )
    return objection


def transforms_of(flow: Flow, topic: TopicPair) -> Transforms:
    """Return the transforms of a topic's records; none for heartbeats and canaries."""
    name = topic.source.name
    return () if flow.policy.is_heartbeats(name) or is_canary(name) else of_topic(flow.transforms, topic.remote)


def is_identical(flow: Flow, topic: TopicPair) -> bool:
    """Return whether a topic's records have the same offsets on both clusters.

    Offsets of heartbeats and canaries are never identical.
    """
    name = topic.source.name
    return not (flow.policy.is_heartbeats(name) or is_canary(name)) and flow.identical_topics.matches(name)


def flow_plan(
    flow: Flow,
    topics: list[TopicPair],
    remote_partitions: Mapping[str, int],
    *,
    first: Collection[TopicPartition] | None = None,
    remote_ids: Mapping[str, str] = MappingProxyType({}),
    upstream: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    going_round: Collection[str] = (),
    objections: Mapping[str, str] = MappingProxyType({}),
) -> FlowPlan:
    """Return the flow's plan: partitions that have a remote partition, and absent ones.

    Args:
        flow: The flow.
        topics: The topics that the flow replicates.
        remote_partitions: Partition count of each topic on the target.
        first: Source partitions that existed when the flow began; None if it begins now.
        remote_ids: Ids of the topics on the target, as far as they are known.
        upstream: By source topic: ids of the topics that its records came from.
        going_round: Topics of the source whose records came from the target.
        objections: Why the target could not create or grow a remote topic.
    """

    def spread_over(topic: TopicPair) -> int:
        have = remote_partitions.get(topic.remote, 0)
        return 0 if flow.grows_topics or have == topic.source.partitions else have

    done = {topic.remote: transforms_of(flow, topic) for topic in topics}
    partitions = tuple(
        PlannedPartition(
            topic.source.name,
            topic.remote,
            partition,
            topic.source.topic_id,
            is_late=first is not None and TopicPartition(topic.source.name, partition) not in first,
            spread_over=spread_over(topic),
            remote_id=remote_ids.get(topic.remote, ""),
            upstream=upstream.get(topic.source.name, ()),
            is_loop=topic.source.name in going_round,
            transforms=done[topic.remote],
            is_hidden=topic.source.is_hidden,
            is_identical=is_identical(flow, topic),
        )
        for topic in topics
        for partition in range(_replicated(topic, remote_partitions, is_spread=spread_over(topic) > 0))
    )
    return FlowPlan(
        source=flow.source.alias,
        target=flow.target.alias,
        tasks_max=flow.tasks_max,
        consumer=flow.consumer,
        producer=flow.producer,
        partitions=partitions,
        absent=_absent(flow, topics, remote_partitions, objections),
        source_group=flow.source_group,
        on_recreated=flow.on_recreated,
        transaction_ms=flow.transaction_ms,
        is_bidirectional=flow.is_bidirectional,
    )


def _absent(
    flow: Flow, topics: list[TopicPair], remote_partitions: Mapping[str, int], objections: Mapping[str, str]
) -> tuple[Absent, ...]:
    """Return the partitions without a remote partition. A repartitioned topic has none."""
    return tuple(
        Absent(topic.source.name, topic.remote, partition, _why_absent(flow, topic, have, objections))
        for topic in topics
        if not (have := remote_partitions.get(topic.remote, 0)) or flow.grows_topics
        for partition in range(have, topic.source.partitions)
    )


def _why_absent(flow: Flow, topic: TopicPair, have: int, objections: Mapping[str, str]) -> str:
    """Return why some partitions of a topic do not exist on the target."""
    lacks = f"{flow.target.alias} has {f'only {have} partitions of' if have else 'no topic'} {topic.remote}"
    if (objection := objections.get(topic.remote)) is not None:
        return f"{lacks}: {objection}"
    return f"{lacks}; the mirror looks for new topics every {flow.refresh_topics.interval_s:.0f} s"


def present_plan(flow: Flow, source: Cluster, target: Cluster) -> FlowPlan:
    """Return the flow's partitions as both clusters have them now; create nothing."""
    on_target = target.topics()
    topics = matched(flow, source_topics(flow, source, on_target))
    return flow_plan(flow, topics, {name: topic.partitions for name, topic in on_target.items()})


def _replicated(topic: TopicPair, remote_partitions: Mapping[str, int], *, is_spread: bool) -> int:
    """Return how many partitions of a topic are replicated: all of them if it is repartitioned."""
    return (
        topic.source.partitions if is_spread else min(topic.source.partitions, remote_partitions.get(topic.remote, 0))
    )
