"""Offsets of consumer groups, with their metadata, by a client that stays open and joins no group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest

from mirror.replication.guarded import guarded

# Brokers keep what one request commits as one batch, and refuse it whole when it is larger than message.max.bytes, 1 MiB.
MOST_BYTES = 384 << 10
_BYTES_EACH = 150  # of an offset's record and the group's name in it, without the topic's name and the metadata


def requests(
    offsets: Mapping[tuple[str, int], tuple[int, str]],
) -> Iterator[dict[tuple[str, int], tuple[int, str]]]:
    """Yield (offset, metadata) per topic-partition in their order, so many at a time as a broker takes; a few come at once."""
    part: dict[tuple[str, int], tuple[int, str]] = {}
    size = 0
    for place, at in offsets.items():
        more = _BYTES_EACH + len(place[0].encode()) + len(at[1].encode())
        if part and size + more > MOST_BYTES:
            yield part
            part, size = {}, 0
        part[place] = at
        size += more
    if part:
        yield part


class GroupOffsets:
    """Reads and commits on one cluster; every call raises KafkaError where the cluster does not answer or refuses."""

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client
        self._coordinators: dict[str, int] = {}

    @classmethod
    async def connected(cls, options: Mapping[str, Any]) -> Self:
        """Return one with a client of its own, for `close`."""
        client = guarded(AIOKafkaClient(**options))
        try:
            await client.bootstrap()
        except BaseException:
            await client.close()
            raise
        return cls(client)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def commit(self, group: str, offsets: Mapping[tuple[str, int], tuple[int, str]]) -> None:
        """Commit (offset, metadata) per topic-partition, in their order, the broker keeping each request as one write.

        Those of topics that are gone are left out by the broker.
        """
        for part in requests(offsets):
            await self._commit(group, part)

    async def _commit(self, group: str, offsets: Mapping[tuple[str, int], tuple[int, str]]) -> None:
        topics: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for (topic, partition), (offset, metadata) in offsets.items():
            topics[topic].append((partition, offset, metadata))
        request = OffsetCommitRequest(group, -1, "", -1, list(topics.items()))
        response = await self._coordinated(group, request)
        for topic, partitions in response.topics:
            for partition, code in partitions:
                if code != kafka_errors.UnknownTopicOrPartitionError.errno:
                    self._check(group, code, f"{topic}-{partition}")

    async def committed(self, group: str, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, str]]:
        """Return (offset, metadata) of each topic-partition that has a committed offset."""
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in wanted:
            topics[topic].append(partition)
        response = await self._coordinated(group, OffsetFetchRequest(group, list(topics.items())))
        self._check(group, getattr(response, "error_code", 0), group)
        found = {}
        for topic, partitions in response.topics:
            for partition, offset, metadata, code in partitions:
                self._check(group, code, f"{topic}-{partition}")
                if offset >= 0:
                    found[topic, partition] = (offset, metadata or "")
        return found

    async def _coordinated(self, group: str, request: Any) -> Any:
        node = self._coordinators.get(group)
        if node is None:
            node = await self._client.coordinator_lookup(CoordinationType.GROUP, group)
            self._coordinators[group] = node
        try:
            return await self._client.send(node, request, group=ConnectionGroup.COORDINATION)
        except kafka_errors.KafkaError:
            self._coordinators.pop(group, None)
            raise

    def _check(self, group: str, code: int, what: str) -> None:
        error = kafka_errors.for_code(code)
        if error is kafka_errors.NoError:
            return
        self._coordinators.pop(group, None)
        raise error(what)
