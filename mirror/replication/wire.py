"""Read record batches from a source cluster; write prepared ones to a target, and keep group offsets there."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition as KafkaTopicPartition

from mirror.replication.batches import Outgoing
from mirror.replication.group_offsets import GroupOffsets
from mirror.replication.guarded import abort_connections, guarded, leader_of
from mirror.replication.producer import Producer
from mirror.replication.transactional_producer import Rotated, TransactionalProducer

log = logging.getLogger("mirror")

KafkaError: TypeAlias = kafka_errors.KafkaError
EARLIEST, LATEST = -2, -1
_CONSUMER, _DEBUGGER = -1, -2  # replica ids of clients: to the latter a broker shows all of its log
REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MS = 30_000, 100  # Kafka's defaults
COORDINATOR_S = 2.0  # others take a process for dead that cannot confirm for 4 s that a slot is its own
COLD_CONNECTION = 2  # a connection of its own: a broker answers one request per connection at a time


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


class Target(GroupOffsets):
    """Writes prepared batches to the target cluster, idempotently, and keeps offsets of groups there.

    With a transactional id it can be fenced: `open` only connects then, `fence` makes it the one that may write.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        request_bytes: int,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
    ) -> None:
        super().__init__(guarded(AIOKafkaClient(**options), is_abortive=True), answer_s=COORDINATOR_S)
        common: dict[str, Any] = {
            "request_bytes": request_bytes,
            "request_timeout_ms": options.get("request_timeout_ms", REQUEST_TIMEOUT_MS),
            "retry_s": options.get("retry_backoff_ms", RETRY_BACKOFF_MS) / 1000,
        }
        self._transactions = (
            TransactionalProducer(
                self._client, transactional_id=transactional_id, transaction_timeout_ms=transaction_timeout_ms, **common
            )
            if transactional_id is not None
            else None
        )
        self._producer = self._transactions or Producer(self._client, **common)
        self._is_open = False

    async def open(self, topics: Iterable[str]) -> None:
        """Connect, obtain a producer id (not of a transactional producer), learn the leaders of `topics`."""
        if not self._is_open:
            await self._client.bootstrap()
            if self._transactions is None:
                await self._producer.open()
            self._is_open = True
        await self._client.set_topics(list(topics))
        for node in {broker.nodeId for broker in self._client.cluster.brokers()}:
            await self._client.ready(node)

    async def fence(self, spare: int = 0, rotated: Rotated | None = None) -> None:
        """Obtain the transactional producer's id: any earlier one is refused from now on, its open transaction aborted.

        Args:
            spare: As of TransactionalProducer.open.
            rotated: As of TransactionalProducer.open.

        Raises:
            KafkaError: the cluster refuses.
        """
        await self._transactional().open(spare, rotated)

    @property
    def is_closed(self) -> bool:
        """True when it is of no more use."""
        return self._producer.is_closed

    def abort(self) -> None:
        """Send nothing more, now: what no broker has received by now never arrives, not even from the kernel's buffers."""
        self._producer.close()
        abort_connections(self._client)

    async def close(self) -> None:
        """Close all connections at once, as `abort` does."""
        self.abort()
        await self._client.close()

    async def refresh(self) -> None:
        """Ask for new metadata and wait for it."""
        await self._client.force_metadata_update()

    def knows(self, topic: str, partition: int) -> bool:
        """Tell whether the topic-partition exists, as far as the metadata says."""
        return partition in (self._client.cluster.partitions_for_topic(topic) or ())

    def leader(self, topic: str, partition: int) -> int | None:
        """Node id of the leader, None while unknown."""
        return leader_of(self._client.cluster, KafkaTopicPartition(topic, partition))

    def in_sync(self, topic: str, partition: int) -> int:
        """Return how many replicas are in sync with the leader, as far as the metadata says."""
        found = self._client.cluster._partitions.get(topic, {}).get(partition)
        return len(found.isr) if found is not None else 0

    def learn(self) -> None:
        """Ask for new metadata, and do not wait for it."""
        self._client.force_metadata_update()

    def send(self, outgoing: Outgoing, topic: str, partition: int) -> asyncio.Future[int]:
        """Queue a batch; its future brings the target's base offset or the error (mirror.replication.producer)."""
        return self._producer.send(outgoing, topic, partition)

    # --- transactions -------------------------------------------------------------------------------------------

    def begin_transaction(self) -> None:
        """Open a transaction; `send` needs one."""
        self._transactional().begin()

    async def commit_transaction(self, group: str, offsets: Mapping[tuple[str, int], tuple[int, str]]) -> None:
        """Commit what was sent and, with it, (offset, metadata) of a group's topic-partitions.

        Raises:
            KafkaError: nothing of it counts; or that is not known (the connection went), and the next `fence` decides.
        """
        await self._transactional().commit(group, offsets)

    async def abort_transaction(self) -> None:
        """Take back what was sent since the transaction began."""
        await self._transactional().abort()

    def _transactional(self) -> TransactionalProducer:
        if self._transactions is None:
            raise kafka_errors.IllegalOperation("this producer has no transactions")
        return self._transactions


def complained(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a loop says nobody waited for. Of a failed batch aiokafka also fails a future of its own; who sent it was told."""
    if isinstance(context.get("exception"), kafka_errors.KafkaError):
        log.debug("%s: %r", context.get("message"), context["exception"])
    else:
        loop.default_exception_handler(context)


def now_ms() -> float:
    """Wall clock, epoch ms."""
    return time.time() * 1000
