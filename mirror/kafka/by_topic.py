"""Group partitions by topic, as Kafka's requests and responses list them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from mirror.kafka.errors import ErrorCode
from mirror.kafka.messages import make
from mirror.model.topic_partition import TopicPartition

Value = TypeVar("Value")


def by_topic(values: Iterable[tuple[TopicPartition, Value]]) -> dict[str, list[tuple[int, Value]]]:
    """Return (partition, value) by topic; both keep their order."""
    found: dict[str, list[tuple[int, Value]]] = defaultdict(list)
    for (topic, partition), value in values:
        found[topic].append((partition, value))
    return found


def partitions_by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partitions by topic; both keep their order."""
    found: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        found[topic].append(partition)
    return found


def offsets_to_commit(
    topic_kind: Any, partition_kind: Any, offsets: Mapping[TopicPartition, tuple[int, str]]
) -> tuple[Any, ...]:
    """Return (offset, metadata) per partition in the classes of an OffsetCommit or TxnOffsetCommit request."""
    return tuple(
        topic_kind(
            name=topic,
            partitions=tuple(
                make(partition_kind, partition_index=partition, committed_offset=offset, committed_metadata=metadata)
                for partition, (offset, metadata) in values
            ),
        )
        for topic, values in by_topic(offsets.items()).items()
    )


def codes_by_place(answer: Any) -> list[tuple[TopicPartition, ErrorCode]]:
    """Return the error code of each partition in an OffsetCommit or TxnOffsetCommit response."""
    return [
        (TopicPartition(topic.name, part.partition_index), part.error_code)
        for topic in answer.topics
        for part in topic.partitions
    ]
