"""The one door to aiokafka: fetch record batches, send prepared ones, keep group offsets.

Touches inner names of aiokafka (the accumulator's queue and sequence numbers), so the version is pinned and
tests/unit/test_wire_contract.py holds what is relied on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.producer.transaction_manager import TransactionState
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as KafkaTopicPartition

from mirror.replication.batches import Outgoing, stamped
from mirror.replication.group_offsets import GroupOffsets, requests
from mirror.replication.guarded import guarded

log = logging.getLogger("mirror")

KafkaError: TypeAlias = kafka_errors.KafkaError
NotInTransactionError = kafka_errors.InvalidTxnState
EARLIEST, LATEST = -2, -1
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


class PreparedBatch:
    """A finished batch in the clothes of aiokafka's BatchBuilder: only its producer state is still open."""

    __slots__ = ("_built", "_outgoing", "_state", "_transactional")

    def __init__(self, outgoing: Outgoing, *, transactional: bool = False) -> None:
        self._outgoing = outgoing
        self._transactional = transactional
        self._state = (-1, -1, -1)
        self._built: bytes | None = None

    def record_count(self) -> int:
        """Records inside: the step of the partition's sequence number."""
        return self._outgoing.count

    def size(self) -> int:
        """Bytes of the batch."""
        return len(self._outgoing.data)

    def closed(self) -> bool:
        """Nothing can be added any more."""
        return True

    def close(self) -> None:
        """Do nothing: it is closed from the start."""

    def _set_producer_state(self, producer_id: int, epoch: int, sequence: int) -> None:
        self._state = (producer_id, epoch, sequence)
        self._built = None

    def _build(self) -> bytes:
        if self._built is None:  # kept for retries: a retry must be the very same bytes
            self._built = stamped(self._outgoing.data, *self._state, transactional=self._transactional)
        return self._built


class _OnTheirWay(set[Any]):
    """A producer's batches without an answer. One that fails as it waits to be sent again, aiokafka takes out twice."""

    remove = set.discard


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
        """Close all connections."""
        await self._client.close()

    async def warm(self, nodes: Iterable[int]) -> None:
        """Open the connections the first fetches will use."""
        for node in nodes:
            for group in (ConnectionGroup.DEFAULT, COLD_CONNECTION):
                await self._client.ready(node, group=group)

    def leader(self, topic: str, partition: int) -> int | None:
        """Node id of the leader, None while unknown."""
        node = self._client.cluster.leader_for_partition(KafkaTopicPartition(topic, partition))
        return None if node in (None, -1) else int(node)

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

    async def offsets(self, wanted: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int | type[KafkaError]]:
        """Return the earliest (-2) or latest (-1) offset of each topic-partition, or the error that it has instead."""
        found: dict[tuple[str, int], int | type[KafkaError]] = {}
        by_leader: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        for (topic, partition), at in wanted.items():
            node = self.leader(topic, partition)
            if node is None:
                found[topic, partition] = kafka_errors.LeaderNotAvailableError
            else:
                by_leader[node][topic].append((partition, at))
        for node, topics in by_leader.items():
            response = await self._client.send(node, OffsetRequest(-1, 0, list(topics.items())))
            for topic, answers in response.topics:
                for partition, code, *_, offset in answers:
                    error = kafka_errors.for_code(code)
                    found[topic, partition] = int(offset) if error is kafka_errors.NoError else error
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
        self._producer = AIOKafkaProducer(
            **options,
            enable_idempotence=True,
            max_request_size=request_bytes,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        self._producer._message_accumulator._pending_batches = _OnTheirWay()
        super().__init__(guarded(self._producer.client))
        self._is_transactional = transactional_id is not None
        self._open = False

    async def open(self, topics: Iterable[str]) -> None:
        """Connect, obtain a producer id (not of a transactional producer), learn the leaders of `topics`."""
        if not self._open:
            await self._client.bootstrap()
            if not self._is_transactional:
                # Where its sender fails, aiokafka tells whoever waits for the transaction's end, and stumbles over nobody.
                self._producer._txn_manager._transaction_waiter = asyncio.get_running_loop().create_future()
                await self._producer._sender.start()
            self._open = True
        await self._client.set_topics(list(topics))
        for node in {broker.nodeId for broker in self._client.cluster.brokers()}:
            await self._client.ready(node)

    async def fence(self) -> None:
        """Obtain the transactional producer's id: any earlier one is refused from now on, its open transaction aborted."""
        await self._producer._sender.start()

    @property
    def is_closed(self) -> bool:
        """True when it is of no more use."""
        return bool(self._producer._closed)

    async def close(self) -> None:
        """Close at once: what is not acknowledged by now must never be sent again by this process."""
        self._producer._closed = True
        sender = self._producer._sender
        if sender.sender_task is not None:
            sender._message_accumulator.fail_all(kafka_errors.ProducerClosed())
            sender.sender_task.cancel()
        await self._client.close()
        if sender.sender_task is not None:
            await asyncio.wait({sender.sender_task}, timeout=5)  # its cancellation may be swallowed
            if sender.sender_task.done() and not sender.sender_task.cancelled():
                sender.sender_task.exception()  # looked at, as below
        ending = self._producer._txn_manager._transaction_waiter
        if ending is not None and ending.done() and not ending.cancelled():
            ending.exception()  # looked at, or asyncio complains of it in the log

    async def refresh(self) -> None:
        """Ask for new metadata and wait for it."""
        await self._client.force_metadata_update()

    def knows(self, topic: str, partition: int) -> bool:
        """Tell whether the topic-partition exists, as far as the metadata says."""
        return partition in (self._client.cluster.partitions_for_topic(topic) or ())

    def send(self, outgoing: Outgoing, topic: str, partition: int) -> asyncio.Future[Any]:
        """Queue a batch; its future brings the target's base offset or the error. One per partition at a time."""
        accumulator = self._producer._message_accumulator
        if accumulator._exception is not None:
            raise accumulator._exception
        where = KafkaTopicPartition(topic, partition)
        numbers = self._producer._txn_manager._sequence_numbers
        if numbers[where] < 0:  # aiokafka wraps to a negative number, brokers expect 0 behind 2^31 - 1
            numbers[where] += 1 << 31
        if self._is_transactional and not self._producer._txn_manager.is_in_transaction():
            raise self.transaction_failure or KafkaError("no transaction is open")
        batch = accumulator._append_batch(PreparedBatch(outgoing, transactional=self._is_transactional), where)
        future: asyncio.Future[Any] = batch.future
        return future

    def unsend(self, outgoing: Outgoing, topic: str, partition: int) -> None:
        """Take back the sequence numbers of a batch that the broker refused, so that the next one fits."""
        where, numbers = KafkaTopicPartition(topic, partition), self._producer._txn_manager._sequence_numbers
        numbers[where] = (numbers[where] - outgoing.count) % (1 << 31)

    # --- transactions -------------------------------------------------------------------------------------------

    def begin_transaction(self) -> None:
        """Open a transaction; `send` needs one."""
        self._producer._txn_manager.begin_transaction()

    @property
    def transaction_failure(self) -> KafkaError | None:
        """Why the open transaction can only be aborted (a topic that may not be written), None while it is well."""
        manager = self._producer._txn_manager
        return (
            manager.wait_for_transaction_end().exception()
            if manager.state == TransactionState.ABORTABLE_ERROR
            else None
        )

    async def commit_transaction(self, group: str, offsets: Mapping[tuple[str, int], tuple[int, str]]) -> None:
        """Commit what was sent and, with it, (offset, metadata) of a group's topic-partitions.

        Raises:
            KafkaError: nothing of it counts; or that is not known (the connection went), and the next `fence` decides.
        """
        for part in requests(offsets):
            places = {
                KafkaTopicPartition(*place): OffsetAndMetadata(offset, metadata)
                for place, (offset, metadata) in part.items()
            }
            await self._producer.send_offsets_to_transaction(places, group)
        await self._producer.commit_transaction()

    async def abort_transaction(self) -> None:
        """Take back what was sent since the transaction began."""
        await self._producer.abort_transaction()


def complained(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a loop says nobody waited for. Of a failed batch aiokafka also fails a future of its own; who sent it was told."""
    if isinstance(context.get("exception"), kafka_errors.KafkaError):
        log.debug("%s: %r", context.get("message"), context["exception"])
    else:
        loop.default_exception_handler(context)


def now_ms() -> float:
    """Wall clock, epoch ms."""
    return time.time() * 1000
