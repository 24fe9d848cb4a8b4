"""Read record batches, and the bounds of logs, from a cluster."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mirror.config.clients import ClientOptions
from mirror.kafka.client import Client, Purpose
from mirror.kafka.errors import BrokerError, ErrorCode, check
from mirror.kafka.fetch_request import FetchLimits, fetch_request
from mirror.kafka.fetch_session import NO_SESSION, Delta, FetchPosition, FetchSession
from mirror.kafka.log_offsets import Answers, offsets_of
from mirror.kafka.metadata import id_text
from mirror.kafka.protocol import CONSUMER, DEBUGGER, NO_NODE, NO_OFFSET
from mirror.model.topic_partition import TopicPartition

LEARN_EVERY_S = 2.0  # how often to refresh metadata for partitions whose leader is unknown
_SESSION_LOST = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
)


class Fetched(NamedTuple):
    """The result of one fetch for one partition.

    Attributes:
        aborted: (producer id, first offset) of aborted transactions.
        refusal: The broker's response for the partition, if it has an error.
        read_replica: The broker in the consumer's rack to read from instead (KIP-392); None if there is none.
        diverged_at: End of the common log, if the log differs from the records read earlier (KIP-320); else None.
    """

    topic: str
    partition: int
    error: ErrorCode
    high_watermark: int
    log_start: int
    aborted: list[tuple[int, int]]
    records: bytes
    refusal: Any = None
    read_replica: int | None = None
    diverged_at: int | None = None


class Source:
    """Reads record batches from a cluster."""

    def __init__(self, options: ClientOptions) -> None:
        self._client = Client(options)
        self._sessions: dict[tuple[int, Purpose], FetchSession] = defaultdict(FetchSession)
        self._learns_s = 0.0

    @property
    def throttled_s(self) -> float:
        """Time for which brokers have throttled the client by quotas."""
        return self._client.throttled_s

    @property
    def is_connecting(self) -> bool:
        """True while a connection is being opened."""
        return self._client.is_connecting

    async def open(self, topics: Iterable[str]) -> None:
        """Connect, and request the leaders of `topics`."""
        if self._client.metadata.brokers:
            await self._client.follow(topics)
        else:
            await self._client.open(topics)

    async def close(self) -> None:
        """Close all connections at once. A half-open connection would never confirm an orderly close."""
        await self._client.close()

    async def warm(self, nodes: Iterable[int]) -> None:
        """Open the connections that the first fetches will use."""
        await self._client.warm(nodes, (Purpose.DATA, Purpose.IDLE_FETCH))

    def knows(self, topic: str, partition: int) -> bool:
        """Return whether a partition exists, as far as the metadata show."""
        return self._client.metadata.has(topic, partition)

    def shows(self, topic: str, partition: int) -> bool:
        """Return whether a partition exists; raises BrokerError if this client may not DESCRIBE it."""
        return self._client.metadata.shows(topic, partition)

    def topic_id(self, topic: str) -> str:
        """Return a topic's id as librdkafka prints it; "" if unknown."""
        return id_text(self._client.metadata.topic_id(topic))

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the node id of the leader, None while unknown."""
        return self._client.metadata.leader(topic, partition)

    def learn(self) -> None:
        """Request new metadata, at most every LEARN_EVERY_S, without waiting for the response."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._learns_s:
            self._learns_s = now_s + LEARN_EVERY_S
            self._client.refresh_soon()

    async def refresh(self) -> None:
        """Request new metadata and wait for the response."""
        await self._client.refresh()

    async def fetch(
        self,
        node: int,
        wanted: Mapping[TopicPartition, FetchPosition],
        limits: FetchLimits,
        purpose: Purpose = Purpose.DATA,
    ) -> list[Fetched]:
        """Long-poll one broker; the request names only partitions that changed since the last fetch.

        Args:
            node: The leader of all wanted partitions, or the replica that their leaders name instead.
            wanted: The fetch position of each partition.
            limits: Limits of time and size.
            purpose: Each purpose has its own connection and session; a session serves one fetch at a time.

        Returns:
            Partitions with records or errors, and possibly others.
        """
        session = self._sessions[node, purpose]
        delta = session.next(wanted)
        is_answered = False
        try:
            answer = await self._client.ask(node, fetch_request(delta, limits), purpose)
            is_answered = True
        finally:
            if not is_answered:
                session.reset()
        code = getattr(answer, "error_code", ErrorCode.none)
        if code in _SESSION_LOST:
            session.lost()
            return []
        if code is not ErrorCode.none:
            session.reset()
            raise BrokerError(code, f"fetch from broker {node}")
        session.answered(getattr(answer, "session_id", 0))
        parts = parts_of(answer, session.names)
        for part in parts:
            if part.error is not ErrorCode.none:
                endpoints = getattr(answer, "node_endpoints", ())
                self._client.metadata.update_leader(part.topic, part.partition, part.refusal, endpoints)
        return parts

    async def read(
        self, node: int, wanted: Mapping[TopicPartition, FetchPosition], limits: FetchLimits
    ) -> list[Fetched]:
        """Fetch once, without a session; return a result for each wanted partition."""
        has_ids = all(one.topic_id is not None for one in wanted.values())
        answer = await self._client.ask(node, fetch_request(Delta(0, NO_SESSION, wanted, {}, {}, has_ids), limits))
        check(getattr(answer, "error_code", ErrorCode.none), f"fetch from broker {node}")
        return parts_of(answer, {at.topic_id: topic for (topic, _), at in wanted.items()})

    async def offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        as_replica: bool = False,
        isolation_level: int = 0,
        within_s: float | None = None,
    ) -> Answers:
        """Return the earliest (-2) or latest (-1) offset of each partition, or its error.

        Args:
            wanted: EARLIEST or LATEST, by partition.
            as_replica: As the latest offset, return the leader's log end, which may be beyond the high watermark.
            isolation_level: 1: return the last stable offset as the latest one.
            within_s: Limit of a broker's response time; by default that of any request.
        """
        replica = DEBUGGER if as_replica else CONSUMER
        return await offsets_of(
            self._client, wanted, replica=replica, isolation_level=isolation_level, within_s=within_s
        )


def parts_of(answer: Any, names: Mapping[uuid.UUID | None, str]) -> list[Fetched]:
    """Return the results by partition in a response; `names` are topic names by id."""
    return [
        _fetched(topic, part)
        for found in answer.responses
        if (topic := names.get(found.topic_id) if hasattr(found, "topic_id") else found.topic) is not None
        for part in found.partitions
    ]


def _fetched(topic: str, part: Any) -> Fetched:
    aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
    read_replica = getattr(part, "preferred_read_replica", NO_NODE)
    diverging = getattr(part, "diverging_epoch", None)
    return Fetched(
        topic,
        part.partition_index,
        part.error_code,
        part.high_watermark,
        getattr(part, "log_start_offset", -1),
        aborted,
        part.records or b"",
        None if part.error_code is ErrorCode.none else part,
        int(read_replica) if read_replica != NO_NODE else None,
        diverging.end_offset if diverging is not None and diverging.end_offset != NO_OFFSET else None,
    )
