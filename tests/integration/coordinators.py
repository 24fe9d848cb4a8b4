"""Restart a broker that was killed, until it coordinates all groups again."""

from __future__ import annotations

import asyncio

from mirror.config.clients import client_options
from mirror.embedded.broker import Broker
from mirror.kafka.internal_topics import committed

PARTITIONS = 5  # of __consumer_offsets, as embedded brokers have them
SERVED_WITHIN_S = 20.0
RESTARTS = 3


def restart_killed(broker: Broker) -> None:
    """Restart a killed broker; restart it again while it refuses to coordinate a group.

    About once in forty kills a broker responds with NOT_COORDINATOR until its next restart (docs/guarantees.md, "What is
    not promised"). That defect of Kafka is not what our tests are about.
    """
    for _ in range(RESTARTS):
        broker.restart()
        if coordinates_all_groups(broker):
            return
    raise AssertionError(f"{broker.name} coordinates no groups after {RESTARTS} restarts: {broker.log}")


def coordinates_all_groups(broker: Broker) -> bool:
    """Return whether the broker returns offsets for a group of each partition of __consumer_offsets."""
    return asyncio.run(_all_served(broker))


async def _all_served(broker: Broker) -> bool:
    # librdkafka's futures are no alternative: it crashes if its client is gone before an outstanding response arrives.
    options = client_options({"bootstrap.servers": broker.bootstrap})
    asked = [asyncio.wait_for(committed(options, group), SERVED_WITHIN_S) for group in one_of_each_partition()]
    found = await asyncio.gather(*asked, return_exceptions=True)
    return not any(isinstance(one, BaseException) for one in found)


def one_of_each_partition() -> list[str]:
    """Return a group for each partition of __consumer_offsets."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < PARTITIONS:
        found.setdefault(_java_hash(f"probe-{number}") % PARTITIONS, f"probe-{number}")
        number += 1
    return list(found.values())


def _java_hash(text: str) -> int:
    """Return String.hashCode() as Kafka makes it positive."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF
