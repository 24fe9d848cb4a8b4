"""Give a flow its first positions: its own, or those that an earlier MirrorMaker 2 left.

A position is an offset of the flow's group on the target, by remote topic and partition. Its metadata are the topic ids and the
tail of the offset map, among others (mirror.model.position_metadata).
"""

from __future__ import annotations

import logging

from mirror.config.settings import Flow
from mirror.errors import ClusterUnavailable, SettingsError
from mirror.flows.stored_positions import Position, answer_of_target, read_positions, write_positions
from mirror.flows.takeover import refuse_running, take_over, take_over_group
from mirror.kafka.cluster import Cluster
from mirror.kafka.forgotten_positions import Recalled, recalled
from mirror.model.flow_plan import FlowPlan
from mirror.model.topic_partition import TopicPartition
from mirror.policy.recreated import OnRecreated
from mirror.runtime.logs import first_few

log = logging.getLogger("mirror")


def begin(flow: Flow, plan: FlowPlan, source: Cluster, target: Cluster) -> frozenset[TopicPartition]:
    """Before the first window, find the known progress of partitions, so that none starts over.

    A flow that never ran resumes where a MirrorMaker 2 stopped. If the flow ran before, lost positions are restored from the
    offset map: the offsets of a group without members expire.

    Returns:
        The source's partitions that exist when the flow begins. auto.offset.reset applies to them. Empty if the flow began
        earlier: then a partition without a position has appeared since.

    Raises:
        SettingsError: the MirrorMaker 2 is still running.
        ClusterUnavailable: the target does not respond.
    """
    if not flow.source_group:
        refuse_running(flow, target)
    present = {p.on_source: p for p in plan.partitions}
    placed = read_positions(flow)
    unplaced = {key: p for key, p in present.items() if p.on_target not in placed}
    has_paused = plan.paused_key in placed
    known, has_run = Recalled({})
    if unplaced or not has_paused:
        known, has_run = answer_of_target(flow, recalled(plan, unplaced.values(), knows_paused=has_paused))
    if known:
        write_positions(flow, {place: Position(*at) for place, at in known.items()})
    missing = {key for key, p in unplaced.items() if p.on_target not in known}
    if flow.source_group and missing and (count := take_over_group(flow, plan, missing, source)):
        log.info("%s: %d partitions resume at the offsets of group %s", flow.name, count, flow.source_group)
    if has_run or any(topic == plan.lease_topic for topic, _ in placed):
        return frozenset()
    if not flow.source_group and (count := take_over(flow, plan, missing)):
        log.info("%s: %d partitions resume where MirrorMaker 2 stopped", flow.name, count)
    elif not flow.source_group and _went_on_as_shown(flow, plan, source):
        return frozenset()
    return frozenset(present)


def _went_on_as_shown(flow: Flow, plan: FlowPlan, source: Cluster) -> bool:
    """Apply the flow's policy if the target lacks positions that the source shows.

    Possible causes are a rebuilt target, or an address that now leads to another cluster.

    Returns:
        True if the flow resumes at the positions that the source shows.

    Raises:
        SettingsError: the policy does not allow the flow to start.
    """
    try:
        shown = source.group(plan.source_group_id)
    except ClusterUnavailable as error:
        log.debug("%s: whether it ran before is not known: %s", flow.name, error)
        return False
    offsets = {key: offset for key, offset in shown.offsets.items() if offset > 0} if shown is not None else {}
    places = [p for p in plan.partitions if p.on_source in offsets]
    if not places:
        return False
    ranges = [f"{p.topic}-{p.partition} up to offset {offsets[p.on_source]}" for p in places]
    what = (
        f"{flow.name}: {flow.target.alias} has no positions of this flow, which had replicated {first_few(ranges)} (group "
        f"{plan.source_group_id} on {flow.source.alias}): it was rebuilt, or is another cluster"
    )
    if flow.on_recreated is OnRecreated.STOP:
        raise SettingsError(
            f"{what}. Set its positions (kafka-mirror positions set), or set mirror.recreated.topics to another value."
        )
    if flow.on_recreated is OnRecreated.RESTART:
        log.error("%s; everything is replicated from the start", what)
        return False
    log.error("%s; resuming there", what)
    positions = {p.on_target: Position(offsets[p.on_source], p.topic_id) for p in places}
    write_positions(flow, positions)
    return True
