"""Write prepared record batches to a target cluster, and store group offsets on it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from types import ModuleType
from typing import Any

from mirror.config.clients import ClientOptions
from mirror.kafka.client import Client
from mirror.kafka.errors import BrokerError, ErrorCode, KafkaError, check
from mirror.kafka.group_offsets import GroupOffsets
from mirror.kafka.messages import Request
from mirror.kafka.metadata import id_text
from mirror.kafka.producer import Announced, Producer
from mirror.kafka.protocol import COORDINATOR_S, ApiKey
from mirror.kafka.transactional_producer import Confirm, Rotated, TransactionalProducer, TransactionStateError
from mirror.model.record_batches import Outgoing
from mirror.model.sequences import NextSequence
from mirror.model.topic_partition import TopicPartition

log = logging.getLogger("mirror")

DELETE_S = 5.0


class Target(GroupOffsets):
    """Writes prepared batches to the target cluster idempotently, and commits group offsets there.

    With a transactional id, `open` only connects, and `fence` makes this producer the only one that may write.
    """

    def __init__(
        self,
        options: ClientOptions,
        *,
        request_bytes: int,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        has_empty_partitions: bool = False,
        announced: Announced | None = None,
    ) -> None:
        """Create a client that is not connected yet.

        `announced`: as in Producer. `has_empty_partitions`: as in TransactionalProducer.
        """
        super().__init__(Client(options, is_abortive=True), answer_s=COORDINATOR_S)
        common: dict[str, Any] = {
            "request_bytes": request_bytes,
            "request_timeout_ms": int(options.request_timeout_s * 1000),
            "retry_s": options.retry_backoff_s,
            "announced": announced,
        }
        self._transactions = (
            TransactionalProducer(
                self._client,
                transactional_id=transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                has_empty_partitions=has_empty_partitions,
                **common,
            )
            if transactional_id is not None
            else None
        )
        self._producer = self._transactions or Producer(self._client, **common)
        self._is_open = False

    @property
    def throttled_s(self) -> float:
        """Time for which brokers have throttled the client by quotas."""
        return self._client.throttled_s

    @property
    def is_connecting(self) -> bool:
        """True while a connection is being opened."""
        return self._client.is_connecting

    async def open(self, topics: Iterable[str]) -> None:
        """Connect, learn the leaders of `topics`; without transactions, obtain a producer id."""
        if not self._is_open:
            await self._client.open(topics)
            if self._transactions is None:
                await self._producer.open()
            self._is_open = True
        await self._client.follow(topics)
        await self._client.warm(tuple(self._client.metadata.brokers))

    async def fence(self, spare: int = 0, rotated: Rotated | None = None) -> None:
        """Obtain the transactional producer's id: earlier producers are fenced, their transaction aborted.

        Args:
            spare: As in TransactionalProducer.open.
            rotated: As in TransactionalProducer.open.

        Raises:
            KafkaError: the cluster refuses.
        """
        await self._transactional().open(spare, rotated)

    @property
    def is_closed(self) -> bool:
        """True if the producer can no longer be used."""
        return self._producer.is_closed

    def abort(self) -> None:
        """Stop sending, and drop data that no broker has received, including the kernel's buffers."""
        self._producer.close()
        self._client.abort()

    async def close(self) -> None:
        """Close all connections at once, like `abort`."""
        self.abort()
        await self._client.close()

    async def refresh(self) -> None:
        """Request new metadata and wait for the response."""
        await self._client.refresh()

    def knows(self, topic: str, partition: int) -> bool:
        """Return whether the partition exists, as far as the metadata show."""
        return self._client.metadata.has(topic, partition)

    def shows(self, topic: str) -> bool:
        """Return whether the topic exists, as far as the metadata show."""
        return bool(self._client.metadata.partitions(topic))

    def topic_id(self, topic: str) -> str:
        """Return a topic's id as librdkafka prints it; "" if unknown."""
        return id_text(self._client.metadata.topic_id(topic))

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the node id of the leader, None while unknown."""
        return self._client.metadata.leader(topic, partition)

    def in_sync(self, topic: str, partition: int) -> int:
        """Return the number of in-sync replicas, as far as the metadata show."""
        return self._client.metadata.in_sync(topic, partition)

    def learn(self) -> None:
        """Request new metadata without waiting for the response."""
        self._client.refresh_soon()

    def send(
        self,
        outgoing: Outgoing,
        topic: str,
        partition: int,
        numbered: NextSequence | None = None,
        topic_id: uuid.UUID | None = None,
    ) -> asyncio.Future[int]:
        """Queue a batch; return a future for its target offset or error (mirror.kafka.producer)."""
        return self._producer.send(outgoing, topic, partition, numbered, topic_id)

    def withdraw(self) -> None:
        """Withdraw the batches that were never sent (mirror.kafka.producer)."""
        self._producer.withdraw()

    def numbers(self, topic: str, partition: int) -> NextSequence | None:
        """Return sequence numbers for a partition that has none; None if transactions fence instead."""
        return None if self._transactions is not None else self._producer.numbers(topic, partition)

    # --- transactions -------------------------------------------------------------------------------------------

    def begin_transaction(self) -> None:
        """Open a transaction; `send` requires an open one."""
        self._transactional().begin()

    async def enter_transaction(self, places: Collection[TopicPartition]) -> dict[TopicPartition, KafkaError]:
        """Add partitions without a batch to the transaction, like TransactionalProducer.enter."""
        return await self._transactional().enter(places)

    async def commit_transaction(
        self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]], confirm: Confirm | None = None
    ) -> None:
        """Commit the transaction, with (offset, metadata) of a group's partitions.

        `confirm`: as in TransactionalProducer.commit.

        Raises:
            KafkaError: nothing of the transaction counts; or its outcome is unknown (the connection failed), and the next `fence`
                decides.
        """
        await self._transactional().commit(group, offsets, confirm)

    async def abort_transaction(self) -> None:
        """Abort the open transaction."""
        await self._transactional().abort()

    async def await_markers(self) -> None:
        """Wait for markers, like TransactionalProducer.await_markers."""
        await self._transactional().await_markers()

    async def delete_before(self, place: TopicPartition, offset: int) -> None:
        """Delete the records of a partition before an offset; raises KafkaError."""
        topic, partition = place

        def build(module: ModuleType, _: int) -> Any:
            part = module.DeleteRecordsPartition(partition_index=partition, offset=offset)
            topics = (module.DeleteRecordsTopic(name=topic, partitions=(part,)),)
            return module.DeleteRecordsRequest(topics=topics, timeout=timedelta(seconds=DELETE_S))

        node = self.leader(topic, partition)
        if node is None:
            raise BrokerError(ErrorCode.leader_not_available, f"{topic}-{partition}")
        answer = await self._client.ask(node, Request(ApiKey.DELETE_RECORDS, 0, 2, build, waits_s=DELETE_S))
        for found in answer.topics:
            for part in found.partitions:
                check(part.error_code, f"{topic}-{partition}")

    def _transactional(self) -> TransactionalProducer:
        if self._transactions is None:
            raise TransactionStateError("this producer has no transactions")
        return self._transactions
