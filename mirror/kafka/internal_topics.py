"""Read and write internal topics outside of the windows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mirror.config.clients import ClientOptions, client_options
from mirror.errors import ClusterUnavailable
from mirror.kafka.client import Client
from mirror.kafka.errors import ErrorCode, KafkaError, check
from mirror.kafka.fetcher import Source
from mirror.kafka.group_offsets import GroupOffsets, patiently
from mirror.kafka.log_reader import read_part
from mirror.kafka.protocol import EARLIEST, LATEST
from mirror.kafka.rights import refusal_of
from mirror.kafka.target import Target
from mirror.model import record_batches
from mirror.model.mm2_records import Checkpoint, NotThatRecord
from mirror.model.record_batches import of_values
from mirror.model.records import Record
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import describe

log = logging.getLogger("mirror")

COMMITTED = 1  # isolation level: records of decided transactions
WRITE_S = 20.0
REQUEST_BYTES = 1 << 20
FIRST_GROUP_S = 30.0  # a cluster's first group waits for its offsets topic, which may be queued after many new topics
WITHIN_S = 60.0
NEW_TOPIC_S, LOOKS_S = 2.0, 0.1  # how long a new topic may have no leader, and the pause between checks
BOUNDS_S = 5.0  # limit for a broker that does not respond

Answer = TypeVar("Answer")


def answered(question: Coroutine[Any, Any, Answer], *, cluster: str, what: str) -> Answer:
    """Wait for a request to one cluster, given by its alias.

    Raises:
        ClusterUnavailable: "cluster A: `what` (reason)."
        ClusterRefuses: the cluster responds that this client lacks a right.
    """
    try:
        return asyncio.run(asyncio.wait_for(question, WITHIN_S))
    except (KafkaError, OSError, TimeoutError) as error:
        if (refusal := refusal_of(error, f"cluster {cluster}: {what}", cluster=cluster)) is not None:
            raise refusal from error
        raise ClusterUnavailable(f"cluster {cluster}: {what} ({describe(error)}).", cluster=cluster) from error


async def read_topic(
    options: ClientOptions, topic: str, start: int, partition: int = 0
) -> AsyncIterator[tuple[int, Record]]:
    """Yield (offset, record) of an existing partition, from `start` to its current end.

    If `start` is not in the log, start at the log start.

    Raises:
        KafkaError: the cluster does not respond, or this client may not DESCRIBE the topic.
    """
    cluster, place = Source(options), TopicPartition(topic, partition)
    try:
        await cluster.open([topic])
        if cluster.shows(*place):
            async for found in read_followed(cluster, place, start, patience_s=NEW_TOPIC_S):
                yield found
    finally:
        await cluster.close()


async def read_followed(
    cluster: Source, place: TopicPartition, start: int, *, patience_s: float = 0.0
) -> AsyncIterator[tuple[int, Record]]:
    """Read like `read_topic`, with an open client that already follows the topic."""
    first, end = (
        await _bound(cluster, place, EARLIEST, patience_s=patience_s),
        await _bound(cluster, place, LATEST, patience_s=patience_s),
    )
    offset = start if first <= start <= end else first
    while offset < end:
        part = await read_part(cluster, place, offset, COMMITTED)
        if part.error is ErrorCode.offset_out_of_range:  # the records were deleted meanwhile
            offset = max(offset + 1, await _bound(cluster, place, EARLIEST, patience_s=patience_s))
            continue
        check(part.error, f"{place[0]}-{place[1]}")
        found = record_batches.batches(part.records)
        for batch in record_batches.committed(found, part.aborted):
            if not batch.is_control:
                for record in record_batches.records(batch.data):
                    if offset <= record.offset < end:
                        yield record.offset, record
            offset = max(offset, batch.last_offset + 1)


async def _bound(cluster: Source, place: TopicPartition, at: int, *, patience_s: float) -> int:
    """Return the start or end of a log; retry while the topic has no leader."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + patience_s
    while True:
        found = (await cluster.offsets({place: at}, isolation_level=COMMITTED))[place]
        if not isinstance(found, KafkaError):
            return found
        if not found.is_retriable or loop.time() >= deadline_s:
            raise found
        cluster.learn()
        await asyncio.sleep(LOOKS_S)


async def read_checkpoints(options: ClientOptions, topic: str) -> tuple[list[Checkpoint], list[NotThatRecord]]:
    """Return the checkpoints of a topic, oldest first, and the reason for each skipped record."""
    found: list[Checkpoint] = []
    foreign: list[NotThatRecord] = []
    async for _, record in read_topic(options, topic, 0):
        try:
            found.append(Checkpoint.decode(record.key, record.value))
        except NotThatRecord as error:
            foreign.append(error)
    return found, foreign


async def partitions_of(options: ClientOptions, topic: str) -> list[int]:
    """Return a topic's partitions; empty if the topic does not exist."""
    client = await Client.opened(options, [topic])
    try:
        client.metadata.shows(topic, 0)
        return sorted(client.metadata.partitions(topic))
    finally:
        await client.close()


async def committed(options: ClientOptions, group: str) -> dict[TopicPartition, tuple[int, str]]:
    """Return a group's (offset, metadata) by partition."""
    offsets = await GroupOffsets.connected(options)
    try:
        return await patiently(lambda: offsets.committed(group), within_s=FIRST_GROUP_S)
    finally:
        await offsets.close()


async def ends(options: ClientOptions, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the log-end offset of each partition whose leader responds in time."""
    return await _bounds(options, places, LATEST)


async def starts(options: ClientOptions, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the log-start offset of each partition whose leader responds in time."""
    return await _bounds(options, places, EARLIEST)


async def _bounds(options: ClientOptions, places: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
    wanted = dict.fromkeys(places, at)
    if not wanted:
        return {}
    cluster = Source(options)
    try:
        await cluster.open({topic for topic, _ in wanted})
        found = await cluster.offsets(wanted, within_s=BOUNDS_S)
    finally:
        await cluster.close()
    return {place: offset for place, offset in found.items() if isinstance(offset, int)}


class TopicsById:
    """Recognizes topics that were deleted and created again, by their ids."""

    def __init__(self, flow: str) -> None:
        """`flow`: name of the topics' flow, for the log."""
        self._flow = flow
        self._ids: dict[str, str] = {}

    def is_another(self, cluster: Target, topic: str) -> bool:
        """Return whether the topic has another id than before; False if either id is unknown.

        `register` stores the new id as soon as the topic has all records again.
        """
        now = cluster.topic_id(topic)
        if not now or self._ids.get(topic, now) == now:
            return False
        log.warning("%s: internal topic %s was deleted and created again; it is filled again", self._flow, topic)
        return True

    def register(self, cluster: Target, topic: str) -> None:
        """Store the current id of the topic."""
        if now := cluster.topic_id(topic):
            self._ids[topic] = now


@asynccontextmanager
async def writer(client: Mapping[str, str], topics: Iterable[str]) -> AsyncIterator[Target]:
    """Open a producer for `topics` from Java properties; close it at the end."""
    target = Target(client_options(client), request_bytes=REQUEST_BYTES)
    try:
        await target.open(topics)
        yield target
    finally:
        await target.close()


async def write(target: Target, topic: str, records: Iterable[tuple[bytes, bytes | None]], partition: int = 0) -> None:
    """Write records to a partition of a topic, and wait until all are acknowledged."""
    for batch in of_values(records, timestamp_ms=int(now_ms())):
        if not target.knows(topic, partition):
            raise KafkaError(f"topic {topic} does not exist")
        await asyncio.wait_for(target.send(batch, topic, partition), WRITE_S)
