"""Offsets of consumer groups, with their metadata, by a client that stays open and joins no group."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Self, TypeVar

from mirror.config.clients import ClientOptions
from mirror.kafka.by_topic import codes_by_place, offsets_to_commit, partitions_by_topic
from mirror.kafka.client import Client, CoordinatorType, Purpose
from mirror.kafka.errors import BrokerError, ErrorCode, KafkaError, NoAnswerError, check
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import ApiKey
from mirror.model.topic_partition import TopicPartition

# Brokers keep what one request commits as one batch, and refuse it whole when it is larger than message.max.bytes, 1 MiB.
MOST_BYTES = 384 << 10
_BYTES_EACH = 150  # of an offset's record and the group's name in it, without the topic's name and the metadata

COORDINATOR_S = 10.0
STABLE_AGAIN_S = 0.02
ANSWER_S = 10.0  # how long a coordinator may take by default, and so much longer:
_PER_OFFSET_S = 1 / 5_000
_PER_BYTE_S = 1 / (64 << 10)
_COORDINATOR_MOVES = (
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator,
)

Answer = TypeVar("Answer")
Offsets = Mapping[TopicPartition, tuple[int, str]]  # offset and metadata by topic and partition


def in_parts(
    offsets: Mapping[TopicPartition, tuple[int, str]],
) -> Iterator[dict[TopicPartition, tuple[int, str]]]:
    """Yield (offset, metadata) per topic-partition in their order, so many at a time as a broker takes; a few come at once."""
    part: dict[TopicPartition, tuple[int, str]] = {}
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


def size_of(place: TopicPartition, at: tuple[int, str]) -> int:
    """Return about how many bytes an offset with its metadata takes in the coordinator's log."""
    return _BYTES_EACH + len(place[0].encode()) + len(at[1].encode())


async def patiently(request: Callable[[], Awaitable[Answer]], *, within_s: float = COORDINATOR_S) -> Answer:
    """Ask a group's coordinator again while it moves or loads, or while a cluster makes room for its first group."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return await request()
        except BrokerError as error:
            if error.code not in _COORDINATOR_MOVES or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


def offsets_in(answer: Any, group: str) -> dict[TopicPartition, tuple[int, str]]:
    """Return (offset, metadata) of each topic-partition that has an offset in an OffsetFetch answer.

    Raises:
        BrokerError: the coordinator refuses, or one of its partitions does. A refusal lists no partitions: who does not
            look at it takes a group whose coordinator loads for one without offsets.
    """
    check(getattr(answer, "error_code", ErrorCode.none), group)
    found = {}
    for topic in answer.topics:
        for part in topic.partitions:
            check(part.error_code, f"{topic.name}-{part.partition_index}")
            if part.committed_offset >= 0:
                found[TopicPartition(topic.name, part.partition_index)] = (part.committed_offset, part.metadata or "")
    return found


class GroupOffsets:
    """Reads and commits on one cluster; every call raises KafkaError where the cluster does not answer or refuses."""

    def __init__(self, client: Client, *, answer_s: float = ANSWER_S) -> None:
        """Take a client.

        Args:
            client: Its connections to coordinators are used by nobody else.
            answer_s: How long the answer to a small request may take.
        """
        self._client = client
        self._answer_s = answer_s

    @classmethod
    async def connected(cls, options: ClientOptions) -> Self:
        """Return one with a client of its own, for `close`."""
        return cls(await Client.opened(options))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def commit(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit (offset, metadata) per topic-partition, in their order, the broker keeping each request as one write.

        Those of topics that are gone are left out by the broker.
        """
        for part in in_parts(offsets):
            await self._commit(group, part)

    async def _commit(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        size = sum(size_of(place, at) for place, at in offsets.items())
        answer = await self._coordinated(group, _commit(group, offsets), within_s=self._answer_s + size * _PER_BYTE_S)
        with self._asked_again(group):
            for (topic, partition), code in codes_by_place(answer):
                if code is not ErrorCode.unknown_topic_or_partition:
                    check(code, f"{topic}-{partition}")

    async def committed(
        self, group: str, wanted: Iterable[TopicPartition] | None = None, *, is_stable: bool = False
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Return (offset, metadata) of each topic-partition, by default of all, that has a committed offset.

        Args:
            group: The consumer group.
            wanted: Topic-partitions, None for all.
            is_stable: Those of a transaction that is being committed are waited for: before, the broker would tell those of the
                one before it. Only who has fenced the transaction's producer can know that this takes a moment.

        Raises:
            KafkaError: the cluster does not answer, or refuses.
        """
        if wanted is None:
            places, within_s = None, 3 * ANSWER_S
        else:
            places = partitions_by_topic(wanted)
            within_s = self._answer_s + sum(map(len, places.values())) * _PER_OFFSET_S
        deadline = time.monotonic() + within_s
        while True:
            answer = await self._coordinated(group, offset_fetch(group, places, is_stable=is_stable), within_s=within_s)
            with self._asked_again(group):
                try:
                    return offsets_in(answer, group)
                except BrokerError as error:
                    if error.code is not ErrorCode.unstable_offset_commit or time.monotonic() > deadline:
                        raise
            await asyncio.sleep(STABLE_AGAIN_S)

    async def _coordinated(self, group: str, request: Request, *, within_s: float) -> Any:
        with self._asked_again(group):
            try:
                async with asyncio.timeout(within_s):
                    node = await self._client.coordinator(CoordinatorType.GROUP, group)
                    return await self._client.ask(node, request, Purpose.COORDINATION)
            except TimeoutError as error:
                # The connection may be half-open, and what is on its way must not arrive later than we have given it up.
                self._client.abort(purpose=Purpose.COORDINATION)
                raise NoAnswerError(f"no answer within {within_s:.0f} s") from error

    @contextmanager
    def _asked_again(self, group: str) -> Iterator[None]:
        """Let the next request ask who coordinates the group where this one fails."""
        try:
            yield
        except KafkaError:
            self._client.forget_coordinator(CoordinatorType.GROUP, group)
            raise


async def commit_with_metadata(offsets: GroupOffsets, group: str, wanted: Offsets) -> None:
    """Commit offsets with their readers' metadata, and without it if the cluster takes no metadata that long."""
    try:
        await offsets.commit(group, wanted)
    except BrokerError as error:
        if error.code is not ErrorCode.offset_metadata_too_large:
            raise
        await offsets.commit(group, {place: (offset, "") for place, (offset, _) in wanted.items()})


def _commit(group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> Request:
    def build(module: ModuleType, _: int) -> Any:
        kinds = module.OffsetCommitRequestTopic, module.OffsetCommitRequestPartition
        topics = offsets_to_commit(*kinds, offsets)
        return make(module.OffsetCommitRequest, group_id=group, member_id="", topics=topics)

    return Request(ApiKey.OFFSET_COMMIT, 2, 8, build)


def offset_fetch(group: str, places: Mapping[str, list[int]] | None, *, is_stable: bool = False) -> Request:
    """Return the request for a group's offsets, all of them where `places` is None; before Kafka 2.5 none can be waited for."""

    def build(module: ModuleType, _: int) -> Any:
        topics = None
        if places is not None:
            topics = tuple(
                module.OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(partitions))
                for topic, partitions in places.items()
            )
        return make(module.OffsetFetchRequest, group_id=group, topics=topics, require_stable=is_stable)

    return Request(ApiKey.OFFSET_FETCH, 2, 7, build)
