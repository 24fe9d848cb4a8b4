"""Build a produce request in each of its versions, and split its response."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import ModuleType
from typing import Any

from mirror.kafka import packing
from mirror.kafka.by_topic import by_topic
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import ApiKey
from mirror.model.codecs import Bytes
from mirror.model.topic_partition import TopicPartition

ALL_REPLICAS = -1

Pieces = tuple[Bytes, ...]  # of one batch


def produce_request(
    transactional_id: str | None,
    batches: Iterable[tuple[TopicPartition, Pieces]],
    answer_ms: int,
    versions: tuple[int, int],
    ids: Mapping[str, uuid.UUID],
) -> Request:
    """Return a produce request with acks=all for these batches.

    Args:
        transactional_id: None outside of transactions.
        batches: Each partition with its batch, in pieces.
        answer_ms: How long the broker waits for the replicas.
        versions: The first and the last usable version; from 13 on, requests have topic ids instead of names.
        ids: Ids of all topics, if the last version is 13 or later.
    """
    topics = by_topic(batches)

    def packs(version: int) -> list[Bytes] | None:
        named: dict[str | uuid.UUID, list[tuple[int, Pieces]]]
        if version in packing.PRODUCE_IDS:
            named = {ids[topic]: partitions for topic, partitions in topics.items()}
        elif version in packing.PRODUCE_NAMES:
            named = dict(topics.items())
        else:
            return None
        return packing.produce(transactional_id, ALL_REPLICAS, answer_ms, named)

    def build(module: ModuleType, _: int) -> Any:
        return module.ProduceRequest(
            transactional_id=transactional_id,
            acks=ALL_REPLICAS,
            timeout=timedelta(milliseconds=answer_ms),
            topic_data=tuple(
                make(
                    module.TopicProduceData,
                    name=topic,
                    topic_id=ids.get(topic),
                    partition_data=tuple(
                        module.PartitionProduceData(index=partition, records=b"".join(pieces))
                        for partition, pieces in partitions
                    ),
                )
                for topic, partitions in topics.items()
            ),
        )

    return Request(ApiKey.PRODUCE, *versions, build, packs=packs)


def parts_of(answer: Any, names: Mapping[uuid.UUID, str]) -> dict[TopicPartition, Any]:
    """Return each partition's result in a response; `names` are topic names by id."""
    return {
        TopicPartition(names[topic.topic_id] if hasattr(topic, "topic_id") else topic.name, part.index): part
        for topic in answer.responses
        for part in topic.partition_responses
    }
