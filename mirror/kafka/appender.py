"""Append the mirror's own records to topics of one cluster, and wait for acknowledgements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mirror.errors import MirrorError
from mirror.kafka.client import Client
from mirror.kafka.errors import ErrorCode, NoAnswerError, is_code
from mirror.kafka.internal_topics import REQUEST_BYTES
from mirror.kafka.kept_client import KeptClient
from mirror.kafka.producer import TAKE_BACK_S, NotAppendedError, Producer, UncertainError
from mirror.kafka.transactional_producer import TransactionalProducer
from mirror.model.record_batches import Outgoing, of_values
from mirror.model.topic_partition import TopicPartition
from mirror.runtime import background

TRANSACTION_MS = 30_000  # a transaction is committed at once; this limit aborts the transaction of a process that died
# No spare id replaces an id whose transaction does not end. Shorter than a call's limit, so that the error names the reason.
LAST_ENDS_S = 15.0
NEW_TOPIC_S, LOOK_S = 5.0, 0.1  # how long the brokers may take to show a new topic, and the pause between two attempts

Records = Iterable[tuple[bytes, bytes | None]]


class FencedError(MirrorError):
    """Another process has fenced this process' transactional id."""


class NoTopicError(MirrorError):
    """The topic to append to does not exist."""


class Appender:
    """Appends records with one idempotent producer, which stays open. For the background loop.

    After `fence`, each call is a transaction. If a transaction fails, the appender accepts no more records: a new producer would
    fence a successor.
    """

    def __init__(self, java_options: Mapping[str, str]) -> None:
        """Connect to nothing yet."""
        self._kept = KeptClient(java_options)
        self._producer: Producer | None = None

    async def fence(self, transactional_id: str, *, within_s: float) -> None:
        """Become the only writer with a transactional id. Raises the same errors as `append`."""
        async with self._kept.turn, self._bounded(within_s) as until_s:
            client = await self._kept.following((), until_s)
            producer = TransactionalProducer(
                client,
                transactional_id=transactional_id,
                transaction_timeout_ms=TRANSACTION_MS,
                stuck_s=LAST_ENDS_S,
                **_common(client),
            )
            # A batch without a response is sent again until one arrives: an abort needs a new epoch, which fences a successor.
            producer.gives_up_uncertain = False
            self._producer = producer
            await producer.open()

    async def append(self, place: TopicPartition, records: Records, *, timestamp_ms: int, within_s: float) -> None:
        """Append (key, value) records to a partition.

        Raises:
            FencedError: another process has fenced the transactional id.
            NoTopicError: the topic does not exist.
            KafkaError, OSError, ClientError: the cluster refuses, or does not respond in time. It may have appended some records.
        """
        async with self._kept.turn, self._bounded(within_s) as until_s:
            client = await self._kept.following([place.topic], until_s)
            await _until_shown(client, place)
            if self._producer is None:
                self._producer = Producer(client, **_common(client))
                await self._producer.open()
            await _send(client, self._producer, place, of_values(records, timestamp_ms=timestamp_ms), until_s)

    def close(self) -> None:
        """Close the connections, and drop unsent records. For any thread; a later call opens new connections."""
        background.begin(self._drop())
        self._kept.close()

    async def _drop(self) -> None:
        """Close the producer. A transactional producer stays, and refuses all records: a new one would fence a successor."""
        if self._producer is not None:
            self._producer.close()
            if self._producer.transactional_id is None:
                self._producer = None

    @asynccontextmanager
    async def _bounded(self, within_s: float) -> AsyncIterator[float]:
        """Yield the deadline (monotonic). After a failure, close the producer, so that it sends nothing later."""
        try:
            async with asyncio.timeout(within_s):
                yield time.monotonic() + within_s
        except BaseException as error:
            await self._drop()
            if isinstance(error, TimeoutError):
                raise NoAnswerError(f"no answer within {within_s:.0f} s") from error
            why = error.why if isinstance(error, UncertainError) else error
            if is_code(why, ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch):
                raise FencedError(str(why)) from error
            raise


def _common(client: Client) -> dict[str, Any]:
    options = client.options
    return {
        "request_bytes": REQUEST_BYTES,
        "request_timeout_ms": int(options.request_timeout_s * 1000),
        "retry_s": options.retry_backoff_s,
    }


async def _until_shown(client: Client, place: TopicPartition) -> None:
    """Wait a moment for a topic that may be new. Raises KafkaError if this client may not see the topic."""
    until_s = time.monotonic() + NEW_TOPIC_S
    while not client.metadata.shows(*place):
        if time.monotonic() > until_s:
            raise NoTopicError(f"topic {place.topic} does not exist")
        await asyncio.sleep(LOOK_S)
        await client.refresh()


async def _send(
    client: Client, producer: Producer, place: TopicPartition, batches: Iterable[Outgoing], until_s: float
) -> None:
    if isinstance(producer, TransactionalProducer):
        producer.begin()
    for batch in batches:
        while True:
            try:
                await producer.send(batch, *place)
                break
            except NotAppendedError:  # no leader, or too few in-sync replicas: the partition does not have the batch
                if time.monotonic() + TAKE_BACK_S > until_s:
                    raise
                await _until_shown(client, place)
    if isinstance(producer, TransactionalProducer):
        await producer.commit("", {})
