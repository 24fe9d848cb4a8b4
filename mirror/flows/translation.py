"""Translate offsets along a flow, or in reverse, with its current offset map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mirror.config.settings import Flow
from mirror.errors import ClusterUnavailable
from mirror.flows.offset_maps import FlowMaps
from mirror.flows.topics import TopicPair, brought, flow_plan, matched, source_topics
from mirror.kafka.cluster import Cluster, Topic
from mirror.kafka.internal_topics import answered
from mirror.model.flow_plan import FlowPlan
from mirror.model.topic_partition import TopicPartition


class Place(NamedTuple):
    """An offset of a partition; None is an unknown offset."""

    topic: str
    partition: int
    offset: int | None


def across(plan: FlowPlan, maps: FlowMaps, places: Sequence[Place], *, is_back: bool) -> list[Place | None]:
    """Translate places over one hop; None for a topic that the flow does not replicate."""
    names = {p.on_source: p.remote_topic for p in plan.partitions}
    if is_back:
        names = {TopicPartition(remote, partition): topic for (topic, partition), remote in names.items()}
    found: list[Place | None] = []
    for topic, partition, offset in places:
        name = names.get(TopicPartition(topic, partition))
        if name is None:
            found.append(None)
            continue
        offsets = maps.maps.get(TopicPartition(name if is_back else topic, partition))
        there = None
        if offsets is not None and offset is not None:
            there = offsets.reverse(offset) if is_back else offsets.translate(offset)
        found.append(Place(name, partition, there))
    return found


def plan_and_maps(flow: Flow) -> tuple[FlowPlan, FlowMaps]:
    """Return a flow's plan and offset maps, if necessary from the target alone.

    Raises:
        ClusterUnavailable: the target does not respond.
    """
    source, target = Cluster(flow.source.alias, flow.source_admin), Cluster(flow.target.alias, flow.target_admin)
    try:
        plan = plan_of(flow, source, target)
    except ClusterUnavailable:  # the most likely situation of a failover
        plan = plan_of(flow, source, target, is_source_lost=True)
    return plan, maps_of(flow, plan)


def plan_of(flow: Flow, source: Cluster, target: Cluster, *, is_source_lost: bool = False) -> FlowPlan:
    """Return a flow's plan, from its remote topics alone if the source is lost.

    Raises:
        ClusterUnavailable: a required cluster does not respond. Without the source, the number of missing records is unknown.
    """
    remote = target.topics()
    topics = _brought(flow, remote) if is_source_lost else matched(flow, source_topics(flow, source, remote))
    return flow_plan(flow, topics, {name: topic.partitions for name, topic in remote.items()})


def maps_of(flow: Flow, plan: FlowPlan) -> FlowMaps:
    """Read a flow's offset maps from its target; raises ClusterUnavailable."""
    maps = FlowMaps(plan)
    what = f"the mirror's internal topics there for {flow.name} cannot be read"
    answered(maps.refresh(flow.target_admin), cluster=flow.target.alias, what=what)
    return maps


def _brought(flow: Flow, remote: Mapping[str, Topic]) -> list[TopicPair]:
    """Return the topics that a flow has replicated to the target."""
    return [TopicPair(topic, flow.policy.remote_topic(topic.name)) for topic in brought(flow, remote)]
