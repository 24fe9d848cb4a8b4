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

from mirror.kafka.offset_fetch import StableOffsetFetch, UnstableOffsetCommitError
from mirror.kafka.reconnecting import abort_connections, guarded

# Brokers keep what one request commits as one batch, and refuse it whole when it is larger than message.max.bytes, 1 MiB.
MOST_BYTES = 384 << 10
_BYTES_EACH = 150  # of an offset's record and the group's name in it, without the topic's name and the metadata

COORDINATOR_S = 10.0
STABLE_AGAIN_S = 0.02
ANSWER_S = 10.0  # how long a coordinator may take by default, and so much longer:
_PER_OFFSET_S = 1 / 5_000
_PER_BYTE_S = 1 / (64 << 10)
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
        more = size_of(place, at)
        if part and size + more > MOST_BYTES:
            yield part
            part, size = {}, 0
        part[place] = at
        size += more
    if part:
        yield part


def by_topic(offsets: Mapping[tuple[str, int], tuple[int, str]]) -> list[tuple[str, list[tuple[int, int, str]]]]:
    """Return offsets as requests have them: (partition, offset, metadata) of each topic."""
    topics: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for (topic, partition), (offset, metadata) in offsets.items():
        topics[topic].append((partition, offset, metadata))
    return list(topics.items())


def size_of(place: tuple[str, int], at: tuple[int, str]) -> int:
    """Return about how many bytes an offset with its metadata takes in the coordinator's log."""
    return _BYTES_EACH + len(place[0].encode()) + len(at[1].encode())


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
    for topic, partitions, *_ in response.topics:
        for partition, offset, *_, metadata, code in map(_untagged, partitions):
            check(code, f"{topic}-{partition}")
            if offset >= 0:
                found[topic, partition] = (offset, metadata or "")
    return found


def _untagged(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the fields of a topic-partition without the tagged fields of newer versions."""
    return answer[:-1] if isinstance(answer[-1], dict) else answer


def check(code: int, what: str) -> None:
    """Raise the error that a broker's answer about something has, if any."""
    error = kafka_errors.for_code(code)
    if error is not kafka_errors.NoError:
        raise error(what)


class GroupOffsets:
    """Reads and commits on one cluster; every call raises KafkaError where the cluster does not answer or refuses."""

    def __init__(self, client: AIOKafkaClient, *, answer_s: float = ANSWER_S) -> None:
        """Take a client.

        Args:
            client: Its connections to coordinators are used by nobody else.
            answer_s: How long the answer to a small request may take.
        """
        self._client = client
        self._answer_s = answer_s
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
        request = OffsetCommitRequest(group, -1, "", -1, by_topic(offsets))
        size = sum(size_of(place, at) for place, at in offsets.items())
        response = await self._coordinated(group, request, within_s=self._answer_s + size * _PER_BYTE_S)
        with self._asked_anew(group):
            for topic, partitions in response.topics:
                for partition, code in partitions:
                    if code != kafka_errors.UnknownTopicOrPartitionError.errno:
                        check(code, f"{topic}-{partition}")

    async def committed(
        self, group: str, wanted: Iterable[tuple[str, int]] | None = None, *, is_stable: bool = False
    ) -> dict[tuple[str, int], tuple[int, str]]:
        """Return (offset, metadata) of each topic-partition, by default of all, that has a committed offset.

        Args:
            group: The consumer group.
            wanted: Topic-partitions, None for all.
            is_stable: Those of a transaction that is being committed are waited for: before, the broker would tell those of the
                one before it. Only who has fenced the transaction's producer can know that this takes a moment.

        Raises:
            KafkaError: the cluster does not answer, or refuses.
        """
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in wanted or ():
            topics[topic].append(partition)
        places = list(topics.items()) if wanted is not None else None
        count = sum(map(len, topics.values()))
        within_s = self._answer_s + count * _PER_OFFSET_S if wanted is not None else 3 * ANSWER_S
        deadline = time.monotonic() + within_s
        while True:
            request = StableOffsetFetch(group, places) if is_stable else OffsetFetchRequest(group, places)
            response = await self._coordinated(group, request, within_s=within_s)
            with self._asked_anew(group):
                try:
                    return offsets_in(response, group)
                except UnstableOffsetCommitError:
                    if time.monotonic() > deadline:
                        raise
            await asyncio.sleep(STABLE_AGAIN_S)

    async def _coordinated(self, group: str, request: Any, *, within_s: float) -> Any:
        with self._asked_anew(group):
            try:
                async with asyncio.timeout(within_s):
                    node = self._coordinators.get(group)
                    if node is None:
                        node = await self._client.coordinator_lookup(CoordinationType.GROUP, group)
                        self._coordinators[group] = node
                    return await self._client.send(node, request, group=ConnectionGroup.COORDINATION)
            except TimeoutError as error:
                # The connection may be half-open, and what is on its way must not arrive later than we have given it up.
                abort_connections(self._client, ConnectionGroup.COORDINATION)
                raise kafka_errors.RequestTimedOutError(f"no answer within {within_s:.0f} s") from error

    @contextmanager
    def _asked_anew(self, group: str) -> Iterator[None]:
        """Let the next request ask who coordinates the group where this one fails."""
        try:
            yield
        except kafka_errors.KafkaError:
            self._coordinators.pop(group, None)
            raise
