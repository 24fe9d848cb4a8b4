"""Read and commit consumer group offsets with their metadata, without joining a group."""

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

# Brokers append the offsets of one request as one batch. They refuse it if it exceeds message.max.bytes, 1 MiB.
MOST_BYTES = 384 << 10
_BYTES_EACH = 150  # of an offset's record with the group name, without the topic name and the metadata

COORDINATOR_S = 10.0
STABLE_AGAIN_S = 0.02
ANSWER_S = 10.0  # basic limit of a coordinator's response time; larger requests get more:
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
    """Yield (offset, metadata) per partition in order, in parts that fit one request."""
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
    """Return the approximate bytes of an offset with its metadata in the coordinator's log."""
    return _BYTES_EACH + len(place[0].encode()) + len(at[1].encode())


async def patiently(request: Callable[[], Awaitable[Answer]], *, within_s: float = COORDINATOR_S) -> Answer:
    """Retry a request to a group's coordinator until it can respond.

    The coordinator may move or load, or the cluster may still create its offsets topic.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            return await request()
        except BrokerError as error:
            if error.code not in _COORDINATOR_MOVES or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


def offsets_in(answer: Any, group: str) -> dict[TopicPartition, tuple[int, str]]:
    """Return (offset, metadata) of each partition in an OffsetFetch response that has an offset.

    Raises:
        BrokerError: the coordinator refuses the group or one of its partitions. A refusal lists no partitions: without this
            check, a group whose coordinator is loading would look like a group without offsets.
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
    """Reads and commits group offsets on one cluster.

    Every call raises KafkaError if the cluster refuses or does not respond.
    """

    def __init__(self, client: Client, *, answer_s: float = ANSWER_S) -> None:
        """Take a client.

        Args:
            client: A client whose coordinator connections no other object uses.
            answer_s: Limit of the response time for a small request.
        """
        self._client = client
        self._answer_s = answer_s

    @classmethod
    async def connected(cls, options: ClientOptions) -> Self:
        """Return an instance with its own client, which `close` closes."""
        return cls(await Client.opened(options))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def commit(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit (offset, metadata) per partition in order; the broker appends each request as one write.

        The broker skips partitions of deleted topics.
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
        """Return (offset, metadata) of each partition that has a committed offset.

        Args:
            group: The consumer group.
            wanted: Partitions, None for all.
            is_stable: If a transaction is being committed, wait for it instead of returning the earlier offsets. The wait
                is short only if the caller has fenced the transaction's producer.

        Raises:
            KafkaError: the cluster refuses, or does not respond.
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
                # The connection may be half-open. A request in flight must not arrive after we have given it up.
                self._client.abort(purpose=Purpose.COORDINATION)
                raise NoAnswerError(f"no answer within {within_s:.0f} s") from error

    @contextmanager
    def _asked_again(self, group: str) -> Iterator[None]:
        """If this request fails, make the next one look up the coordinator."""
        try:
            yield
        except KafkaError:
            self._client.forget_coordinator(CoordinatorType.GROUP, group)
            raise


async def commit_with_metadata(offsets: GroupOffsets, group: str, wanted: Offsets) -> None:
    """Commit offsets with their consumers' metadata, or without metadata that are too long."""
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
    """Return the request for a group's offsets; `places` None means all.

    Before Kafka 2.5, `is_stable` has no effect.
    """

    def build(module: ModuleType, _: int) -> Any:
        topics = None
        if places is not None:
            topics = tuple(
                module.OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(partitions))
                for topic, partitions in places.items()
            )
        return make(module.OffsetFetchRequest, group_id=group, topics=topics, require_stable=is_stable)

    return Request(ApiKey.OFFSET_FETCH, 2, 7, build)
