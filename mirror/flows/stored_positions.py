"""Read and write a flow's positions outside of its windows."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from mirror.config.clients import client_options
from mirror.config.settings import Flow
from mirror.kafka.group_offsets import patiently
from mirror.kafka.internal_topics import answered, committed, write, writer
from mirror.model.flow_plan import FlowPlan, own_group
from mirror.model.offset_map import OffsetMap
from mirror.model.offset_map_tail import PAUSED, MapRecord
from mirror.model.paused_topics import Paused
from mirror.model.slot_lease import LeaseState
from mirror.model.slot_ownership import is_lease_key, is_stopped, stop_key
from mirror.model.topic_partition import TopicPartition

Found = TypeVar("Found")


class Position(NamedTuple):
    """Next source offset of a partition, and the metadata kept with it."""

    offset: int
    metadata: str


def read_positions(flow: Flow) -> dict[TopicPartition, Position]:
    """Return all offsets of the flow's group on the target, including its leases; raises ClusterUnavailable."""
    found = answer_of_target(flow, committed(client_options(flow.target_admin), own_group(flow.name)))
    return {place: Position(*at) for place, at in found.items() if at[0] >= 0}


def write_positions(flow: Flow, positions: Mapping[TopicPartition, Position]) -> None:
    """Set positions by remote topic and partition; raises ClusterUnavailable."""
    answer_of_target(flow, write_with_maps(flow, positions, "", {}))


def paused_topics(found: Mapping[TopicPartition, Position], key: TopicPartition) -> Paused:
    """Return the paused topics from a flow's positions; `key` is where they are stored."""
    at = found.get(key)
    return Paused.parse(at.metadata) if at is not None else Paused()


def write_paused(flow: Flow, plan: FlowPlan, paused: Paused) -> None:
    """Set which topics are paused; raises ClusterUnavailable, or ValueError for too many topics.

    Windows read the paused topics from the group each second. The map's topic keeps them in case the group expires.
    """
    text = paused.text()

    async def keep() -> None:
        async with writer(flow.producer, [plan.offset_map_topic]) as target:
            if target.knows(plan.offset_map_topic, 0):  # else the flow has never run
                await write(target, plan.offset_map_topic, [(PAUSED, text.encode())])
            await patiently(lambda: target.commit(plan.group, {plan.paused_key: (len(paused.patterns), text)}))

    answer_of_target(flow, keep())


async def write_with_maps(
    flow: Flow,
    positions: Mapping[TopicPartition, Position],
    map_topic: str,
    maps: Mapping[TopicPartition, OffsetMap],
) -> None:
    """Write offset maps to their topic, then positions, so that no position lacks its map."""
    async with writer(flow.producer, {map_topic} if maps else ()) as target:
        await write(target, map_topic, (MapRecord(*key, runs).encode() for key, runs in maps.items()))
        await patiently(lambda: target.commit(own_group(flow.name), positions))


def is_served(found: Mapping[TopicPartition, Position], lease_topic: str, *, window_ms: int, now_ms: float) -> bool:
    """Return whether a process still replicates the flow, maybe until its last window ends."""
    stops = found.get(TopicPartition(lease_topic, stop_key()))
    at_keys = [at for (topic, key), at in found.items() if topic == lease_topic and is_lease_key(key)]
    leases = [LeaseState.parse(at) for at in at_keys]
    return any(now_ms < lease.dead_ms(window_ms) for lease in leases if not is_stopped(lease.run_id, stops))


def answer_of_target(flow: Flow, question: Coroutine[Any, Any, Found]) -> Found:
    """Wait for a request about positions; raises ClusterUnavailable."""
    return answered(question, cluster=flow.target.alias, what=f"positions of {flow.name} cannot be read or set")
