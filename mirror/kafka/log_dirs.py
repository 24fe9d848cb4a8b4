"""Read how much disk a cluster's topics take, and how much is free: brokers say it to those who may DESCRIBE the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from mirror.kafka.by_topic import partitions_by_topic
from mirror.kafka.client import Client
from mirror.kafka.errors import ErrorCode, check
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import ApiKey
from mirror.model.topic_partition import TopicPartition

WITHIN_S = 10.0


class LogDirsUnknown(Exception):
    """The cluster does not tell; the message says why."""


class LogDirs(NamedTuple):
    """What brokers say of their disks.

    Attributes:
        sizes: Bytes of each topic-partition's log, its largest replica.
        free: Bytes that are free on all brokers together; None where one of them does not tell (before Kafka 3.3).
    """

    sizes: Mapping[TopicPartition, int]
    free: int | None


async def log_dirs(client: Client, places: Iterable[TopicPartition]) -> LogDirs:
    """Ask all brokers of a cluster.

    Args:
        client: May DESCRIBE the cluster.
        places: Topic-partitions whose sizes are wanted; those that are not there have none.

    Raises:
        KafkaError: A broker refuses, or does not respond.
    """
    request = _describe_log_dirs(list(places))
    return joined(await asyncio.gather(*(client.ask(node, request) for node in client.metadata.brokers)))


def joined(answers: Iterable[Any]) -> LogDirs:
    """Join the brokers' answers; raises KafkaError where one refuses."""
    sizes: dict[TopicPartition, int] = {}
    free: list[int] = []
    for answer in answers:
        check(getattr(answer, "error_code", ErrorCode.none), "its log dirs")
        volumes = set()
        for found in answer.results:
            check(found.error_code, "its log dirs")
            volumes.add((getattr(found, "total_bytes", -1), getattr(found, "usable_bytes", -1)))
            for topic in found.topics:
                for part in topic.partitions:
                    key = TopicPartition(topic.name, part.partition_index)
                    sizes[key] = max(sizes.get(key, 0), part.partition_size)
        free += [usable for _, usable in volumes]  # two folders that say the same are of one volume
    return LogDirs(sizes, None if min(free, default=-1) < 0 else sum(free))


def _describe_log_dirs(places: Iterable[TopicPartition]) -> Request:
    def build(module: ModuleType, _: int) -> Any:
        topics = tuple(
            make(module.DescribableLogDirTopic, topic=topic, partitions=tuple(partitions))
            for topic, partitions in partitions_by_topic(places).items()
        )
        return make(module.DescribeLogDirsRequest, topics=topics)

    return Request(ApiKey.DESCRIBE_LOG_DIRS, 1, 4, build)
