"""Read topics as a member of a consumer group, with confluent-kafka."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Message

from mirror.errors import MirrorError
from mirror.kafka.clients import quiet_logger
from mirror.kafka.login_relay import librdkafka_options

SESSION_MS = 10_000  # after this time, a killed member leaves the group
LOOK_S = 0.1
MOST = 2_000  # records at a time


def read_in_group(
    java_options: Mapping[str, str], group: str, topics: Collection[str], stop: threading.Event
) -> Iterator[list[Message]]:
    """Join a group, and yield the records of its topics until `stop` is set. Then leave the group.

    The group starts at the log start. It commits records when the caller requests the next ones, or when it leaves.

    Raises:
        MirrorError: the cluster refuses the group, or a commit.
    """
    own = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "topic.metadata.refresh.interval.ms": 1000,
    }
    try:
        consumer = Consumer({**librdkafka_options(java_options), **own}, logger=quiet_logger())
        try:
            consumer.subscribe(list(topics))
            while not stop.is_set():
                found = [message for message in consumer.consume(MOST, LOOK_S) if message.error() is None]
                if found:
                    yield found
                    consumer.commit(asynchronous=False)
        finally:
            consumer.close()
    except KafkaException as error:
        raise MirrorError(f"group {group}: {error.args[0].str()}") from error
