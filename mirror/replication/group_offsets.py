"""Offsets of consumer groups, with their metadata, by a client that stays open and joins no group."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest

from mirror.replication.guarded import guarded

# Brokers keep what one request commits as one batch, and refuse it whole when it is larger than message.max.bytes, 1 MiB.
MOST_BYTES = 384 << 10
_BYTES_EACH = 150  # of an offset's record and the group's name in it, without the topic's name and the metadata

COORDINATOR_S = 10.0
_COORDINATOR_MOVES = (
    kafka_errors.GroupCoordinatorNotAvailableError,
    kafka_errors.GroupLoadInProgressError,
    kafka_errors.NotCoordinatorForGroupError,
)

Answer = TypeVar("Answer")


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


async def patiently(request: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask a group's coordinator again while it moves or loads, or while a cluster makes room for its first group."""
    deadline = time.monotonic() + COORDINATOR_S
    while True:
        try:
            return await request()
        except _COORDINATOR_MOVES:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


def offsets_in(response: Any, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    """Return (offset, metadata) of each topic-partition that has an offset in an OffsetFetch response.

    Raises:
        KafkaError: the coordinator refuses, or one of its partitions does. A refusal lists no partitions: who does not
            look at it takes a group whose coordinator loads for one without offsets.
    """
    check(getattr(response, "error_code", 0), group)
    found = {}
    for topic, partitions in response.topics:
        for partition, offset, metadata, code in partitions:
            check(code, f"{topic}-{partition}")
            if offset >= 0:
                found[topic, partition] = (offset, metadata or "")
    return found


def check(code: int, what: str) -> None:
    """Raise the error that a broker's answer about something has, if any."""
    error = kafka_errors.for_code(code)
    if error is not kafka_errors.NoError:
        raise error(what)


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
        with self._asked_anew(group):
            for topic, partitions in response.topics:
                for partition, code in partitions:
                    if code != kafka_errors.UnknownTopicOrPartitionError.errno:
                        check(code, f"{topic}-{partition}")

    async def committed(
        self, group: str, wanted: Iterable[tuple[str, int]] | None = None
    ) -> dict[tuple[str, int], tuple[int, str]]:
        """Return (offset, metadata) of each topic-partition, by default of all, that has a committed offset."""
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in wanted or ():
            topics[topic].append(partition)
        places = list(topics.items()) if wanted is not None else None
        response = await self._coordinated(group, OffsetFetchRequest(group, places))
        with self._asked_anew(group):
            return offsets_in(response, group)

    async def _coordinated(self, group: str, request: Any) -> Any:
        node = self._coordinators.get(group)
        if node is None:
            node = await self._client.coordinator_lookup(CoordinationType.GROUP, group)
            self._coordinators[group] = node
        with self._asked_anew(group):
            return await self._client.send(node, request, group=ConnectionGroup.COORDINATION)

    @contextmanager
    def _asked_anew(self, group: str) -> Iterator[None]:
        """Let the next request ask who coordinates the group where this one fails."""
        try:
            yield
        except kafka_errors.KafkaError:
            self._coordinators.pop(group, None)
            raise
