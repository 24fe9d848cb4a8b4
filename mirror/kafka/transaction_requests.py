"""Build the requests of a transactional producer, in both versions of Kafka's transaction protocol.

In the first version (brokers from 0.11), separate requests add partitions and the group to a transaction. In the second version
(KIP-890, `transaction.version` 2, Kafka 4.0), the data written to them add them, and each transaction has its own epoch: brokers
refuse late data of an earlier transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import ModuleType
from typing import Any, NamedTuple

from mirror.kafka.by_topic import offsets_to_commit, partitions_by_topic
from mirror.kafka.errors import ErrorCode
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import ApiKey
from mirror.model.topic_partition import TopicPartition


class ProducerState(NamedTuple):
    """The identity of a producer: brokers refuse a producer id with an older epoch."""

    transactional_id: str
    producer_id: int
    epoch: int

    def fields(self) -> dict[str, Any]:
        """Return the state as fields of a request."""
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }


def init_producer_id(transactional_id: str | None, timeout_ms: int) -> Request:
    """Return the request for a producer id. With a transactional id, it fences the earlier producer."""

    def build(module: ModuleType, _: int) -> Any:
        return make(
            module.InitProducerIdRequest,
            transactional_id=transactional_id,
            transaction_timeout=timedelta(milliseconds=timeout_ms),
        )

    return Request(ApiKey.INIT_PRODUCER_ID, 0, 4, build)


def add_partitions(who: ProducerState, places: Iterable[TopicPartition]) -> Request:
    """Return the request that adds partitions to a transaction."""
    topics = partitions_by_topic(places)

    def build(module: ModuleType, version: int) -> Any:
        named = tuple(
            module.AddPartitionsToTxnTopic(name=topic, partitions=tuple(partitions))
            for topic, partitions in topics.items()
        )
        return module.AddPartitionsToTxnRequest(
            **{f"v3_and_below_{key}": value for key, value in {**who.fields(), "topics": named}.items()}
        )

    return Request(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 3, build)


def add_offsets(who: ProducerState, group: str) -> Request:
    """Return the request that adds a group's offsets to a transaction."""
    return Request(
        ApiKey.ADD_OFFSETS_TO_TXN, 0, 3, lambda module, _: module.AddOffsetsToTxnRequest(**who.fields(), group_id=group)
    )


def commit_offsets(
    who: ProducerState, group: str, offsets: Mapping[TopicPartition, tuple[int, str]], *, is_second: bool = False
) -> Request:
    """Return the request that commits (offset, metadata) of a group's partitions in a transaction."""

    def build(module: ModuleType, _: int) -> Any:
        kinds = module.TxnOffsetCommitRequestTopic, module.TxnOffsetCommitRequestPartition
        topics = offsets_to_commit(*kinds, offsets)
        return make(module.TxnOffsetCommitRequest, **who.fields(), group_id=group, topics=topics)

    return (
        Request(ApiKey.TXN_OFFSET_COMMIT, 5, 5, build) if is_second else Request(ApiKey.TXN_OFFSET_COMMIT, 0, 3, build)
    )


def end_transaction(who: ProducerState, *, is_committed: bool, is_second: bool = False) -> Request:
    """Return the request to commit or abort a transaction. The second version's response has the next epoch."""

    def build(module: ModuleType, _: int) -> Any:
        return module.EndTxnRequest(**who.fields(), committed=is_committed)

    return Request(ApiKey.END_TXN, 5, 5, build) if is_second else Request(ApiKey.END_TXN, 0, 3, build)


def added(answer: Any) -> list[tuple[TopicPartition, ErrorCode]]:
    """Return the error code of each partition in an `add_partitions` response."""
    return [
        (TopicPartition(topic.name, part.partition_index), part.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    ]
