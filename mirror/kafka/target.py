"""Write prepared record batches to a target cluster, and keep group offsets there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient
from aiokafka.structs import TopicPartition as KafkaTopicPartition

from mirror.kafka.group_offsets import GroupOffsets
from mirror.kafka.producer import Producer
from mirror.kafka.protocol import COORDINATOR_S
from mirror.kafka.reconnecting import abort_connections, guarded, leader_of
from mirror.kafka.transactional_producer import Rotated, TransactionalProducer
from mirror.model.record_batches import Outgoing

log = logging.getLogger("mirror")

REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MS = 30_000, 100  # Kafka's defaults


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
        """Send nothing more: what no broker has received yet never arrives, not even from the kernel's buffers."""
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
        """Queue a batch; its future brings the target's base offset or the error (mirror.kafka.producer)."""
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
