"""Write a flow's positions to Connect's offsets topic, so that MirrorMaker 2 resumes there."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing

from mirror.config.clients import client_options
from mirror.config.settings import Flow
from mirror.errors import ClusterUnavailable
from mirror.flows.stored_positions import Position, answer_of_target
from mirror.flows.takeover import stored_by_connect
from mirror.kafka.cluster import Cluster
from mirror.kafka.internal_topics import partitions_of
from mirror.model.flow_plan import PlannedPartition
from mirror.model.repartition import place
from mirror.model.topic_partition import TopicPartition

PARTITIONS = 25  # Connect's offset.storage.partitions

Stored = dict[
    TopicPartition, tuple[bytes, int]
]  # by source partition: the key that Connect has, and its partition in Connect's topic


def hand_back(
    flow: Flow, target: Cluster, places: Iterable[PlannedPartition], found: Mapping[TopicPartition, Position]
) -> int:
    """Write positions into Connect's offsets topic; return how many partitions have one.

    Connect finds an offset by the exact bytes of its key. An existing key is reused; a new key is written like Connect's own.
    For a partition without a position, or at its very start, the offset that Connect has is removed.

    Raises:
        MirrorError: the target does not respond, or refuses the write.
    """
    topic = flow.connect_offsets_topic
    partitions = answer_of_target(flow, partitions_of(client_options(flow.target_admin), topic))
    if not partitions:
        objection = target.create(
            topic,
            partitions=PARTITIONS,
            replication_factor=flow.replication_factor,
            configs={"cleanup.policy": "compact"},
        )
        if objection:
            raise ClusterUnavailable(
                f"cluster {target.alias}: {topic} cannot be created: {objection}", cluster=target.alias
            )
        partitions = list(range(PARTITIONS))
    stored = answer_of_target(flow, _stored(flow, partitions))
    records: dict[int, list[tuple[bytes, bytes | None]]] = defaultdict(list)
    count = 0
    for assigned in places:
        position = found.get(assigned.on_target)
        key, partition = stored.get(assigned.on_source, _new(flow, assigned, len(partitions)))
        if position is not None and position.offset > 0:
            last_copied = position.offset - 1
            records[partition].append((key, b'{"offset":%d}' % last_copied))
            count += 1
        elif assigned.on_source in stored:
            records[partition].append((key, None))
    with closing(Cluster(flow.target.alias, flow.producer)) as writer:
        for number, some in records.items():
            writer.append(topic, some, partition=number)
    return count


def _new(flow: Flow, assigned: PlannedPartition, partitions: int) -> tuple[bytes, int]:
    where = {"cluster": flow.source.alias, "partition": assigned.partition, "topic": assigned.topic}
    text = json.dumps([flow.takeover_connectors[0], where], separators=(",", ":"), ensure_ascii=False)
    return text.encode(), place(text.encode(), partitions)


async def _stored(flow: Flow, partitions: Iterable[int]) -> Stored:
    """Return Connect's keys for the flow's source; for each partition, the last key."""
    return {one.place: (one.key, one.partition) async for one in stored_by_connect(flow, partitions)}
