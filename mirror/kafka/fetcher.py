"""Read record batches from a source cluster."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition as KafkaTopicPartition

from mirror.kafka.protocol import KafkaError
from mirror.kafka.reconnecting import abort_connections, guarded, leader_of

COLD_CONNECTION = 2  # a connection of its own: a broker answers one request per connection at a time
_CONSUMER, _DEBUGGER = -1, -2  # replica ids of clients: to the latter a broker shows all of its log


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one fetch brought for one topic-partition; `aborted` holds (producer id, first offset)."""

    topic: str
    partition: int
    error: int
    high_watermark: int
    log_start: int
    aborted: list[tuple[int, int]]
    records: bytes


class Source:
    """Reads record batches from the source cluster."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._client = guarded(AIOKafkaClient(**options))

    async def open(self, topics: Iterable[str]) -> None:
        """Connect and learn the leaders of `topics`."""
        if not self._client.cluster.brokers():
            await self._client.bootstrap()
        await self._client.set_topics(list(topics))

    async def close(self) -> None:
        """Close all connections at once: of one that is half-open the end would never come."""
        abort_connections(self._client)
        await self._client.close()

    async def warm(self, nodes: Iterable[int]) -> None:
        """Open the connections the first fetches will use."""
        for node in nodes:
            for group in (ConnectionGroup.DEFAULT, COLD_CONNECTION):
                await self._client.ready(node, group=group)

    def leader(self, topic: str, partition: int) -> int | None:
        """Node id of the leader, None while unknown."""
        return leader_of(self._client.cluster, KafkaTopicPartition(topic, partition))

    async def refresh(self) -> None:
        """Ask for new metadata and wait for it."""
        await self._client.force_metadata_update()

    async def fetch(
        self,
        node: int,
        wanted: Mapping[str, list[tuple[int, int, int]]],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        cold: bool,
    ) -> list[Fetched]:
        """Long-poll one broker for (partition, offset, max bytes) of each topic."""
        request = FetchRequest(max_wait_ms, min_bytes, max_bytes, isolation_level, list(wanted.items()))
        group = COLD_CONNECTION if cold else ConnectionGroup.DEFAULT
        response = await self._client.send(node, request, group=group)
        fetched = []
        for topic, partitions in response.topics:
            for part in partitions:
                # v4: id, error, high watermark, last stable, aborted, records; v5 adds the log start, v11 a replica
                has_start = len(part) > 6
                fetched.append(
                    Fetched(
                        topic,
                        part[0],
                        part[1],
                        part[2],
                        part[4] if has_start else -1,
                        part[5 if has_start else 4] or [],
                        part[-1] or b"",
                    )
                )
        return fetched

    async def offsets(
        self, wanted: Mapping[tuple[str, int], int], *, as_replica: bool = False, within_s: float | None = None
    ) -> dict[tuple[str, int], int | type[KafkaError]]:
        """Return the earliest (-2) or latest (-1) offset of each topic-partition, or the error that it has instead.

        A broker that does not answer costs its own topic-partitions their offsets, and no others.

        Args:
            wanted: Which of the two, by topic-partition.
            as_replica: The latest one is the end of the leader's log, which may have more than consumers are shown.
            within_s: How long a broker may take; by default as long as for any request.
        """
        found: dict[tuple[str, int], int | type[KafkaError]] = {}
        by_leader: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        for (topic, partition), at in wanted.items():
            node = self.leader(topic, partition)
            if node is None:
                is_there = partition in (self._client.cluster.partitions_for_topic(topic) or ())
                missing = (
                    kafka_errors.LeaderNotAvailableError if is_there else kafka_errors.UnknownTopicOrPartitionError
                )
                found[topic, partition] = missing
            else:
                by_leader[node][topic].append((partition, at))
        replica = _DEBUGGER if as_replica else _CONSUMER

        async def ask(node: int, topics: Mapping[str, list[tuple[int, int]]]) -> None:
            try:
                async with asyncio.timeout(within_s):
                    response = await self._client.send(node, OffsetRequest(replica, 0, list(topics.items())))
            except (KafkaError, OSError, TimeoutError) as failure:
                kind = (
                    type(failure) if isinstance(failure, kafka_errors.KafkaError) else kafka_errors.KafkaConnectionError
                )
                found.update({(topic, partition): kind for topic, parts in topics.items() for partition, _ in parts})
                return
            for topic, answers in response.topics:
                for partition, code, *_, offset in answers:
                    error = kafka_errors.for_code(code)
                    found[topic, partition] = int(offset) if error is kafka_errors.NoError else error

        await asyncio.gather(*(ask(node, topics) for node, topics in by_leader.items()))
        return found
