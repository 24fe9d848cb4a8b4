"""Read positions of flows, offsets of consumer groups, log starts and log ends.

The poller, the inspector and the commands read what a flow has to copy, and what it has copied, through this module, so that
lag means the same everywhere. mirror.flows.stored_positions reads positions with their metadata.
"""

from __future__ import annotations

from mirror.config.clients import fetch_options
from mirror.kafka.cluster import Cluster
from mirror.kafka.groups import Group
from mirror.lag.flow_offsets import LogBounds
from mirror.model.flow_plan import FlowPlan, is_own_group
from mirror.model.topic_partition import TopicPartition


def positions(plan: FlowPlan, target: Cluster) -> dict[TopicPartition, int]:
    """Return the next source offset of each partition that has one."""
    found = target.committed(plan.group, [on_target for _, on_target in plan.sides])
    return {on_source: found[on_target] for on_source, on_target in plan.sides if on_target in found}


def shown_positions(plan: FlowPlan, source: Cluster) -> dict[TopicPartition, int]:
    """Return the positions that were last committed on the source for lag tools."""
    return source.committed(plan.source_group_id, [on_source for on_source, _ in plan.sides])


def log_bounds(plan: FlowPlan, source: Cluster) -> LogBounds:
    """Return the logs' bounds.

    If the flow reads committed records, also return stable offsets and open transactions.

    Log ends are high watermarks in any case: records that wait for an open transaction are not on the target.
    """
    places = list(plan.labels)
    if not fetch_options(plan.consumer).isolation_level:
        return LogBounds(source.start_offsets(places), source.end_offsets(places))
    # Before the ends, so that no stable offset is beyond its log end.
    stable = source.end_offsets(places, read_committed=True)
    ends = source.end_offsets(places)
    undecided = [place for place, end in ends.items() if stable.get(place, end) < end]
    bounds = LogBounds(source.start_offsets(places), ends, stable=stable)
    return bounds._replace(open=source.open_transactions(undecided)) if undecided else bounds


def consumer_groups(cluster: Cluster) -> list[Group]:
    """Return a cluster's consumer groups, without those that hold the positions of a mirror."""
    return [group for group in cluster.groups() if not is_own_group(group.name)]


def group_offsets(name: str, cluster: Cluster) -> dict[TopicPartition, int]:
    """Return all offsets of one group; none if there is no such group."""
    group = cluster.group(name)
    return dict(group.offsets) if group is not None else {}
