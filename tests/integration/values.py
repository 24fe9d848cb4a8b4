"""Read all values of a topic-partition, with their offsets."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.integration.records import end_offset


def values(cluster: Any, topic: str, partition: int, *, isolation: str = "read_uncommitted") -> list[bytes | None]:
    """Return every value from the log's start to its present end, as a reader of that isolation level sees them."""
    return list(values_by_offset(cluster, topic, partition, isolation=isolation).values())


def values_by_offset(
    cluster: Any, topic: str, partition: int, *, isolation: str = "read_uncommitted"
) -> dict[int, bytes | None]:
    """Return the same values by their offsets."""
    end = end_offset(cluster, topic, partition, read_committed=isolation == "read_committed")
    options = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "values",
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "auto.offset.reset": "earliest",
    }
    found: dict[int, bytes | None] = {}
    with closing(Consumer(options)) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while end:
            message = consumer.poll(30)
            assert message is not None, f"{topic}-{partition}: nothing for 30 s before offset {end}"
            if message.error():  # the end of the partition
                break
            found[message.offset()] = message.value()
            if message.offset() + 1 >= end:
                break
    return found
