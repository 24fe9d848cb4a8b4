"""Read and write internal topics outside of the windows; read ends of logs, and a group's offsets with their metadata."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer
from aiokafka import errors as kafka_errors
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import TopicPartition

from mirror.config.clients import aiokafka_options
from mirror.errors import ClusterUnavailable
from mirror.kafka.fetcher import Source
from mirror.kafka.group_offsets import GroupOffsets, patiently
from mirror.kafka.protocol import EARLIEST, LATEST, KafkaError
from mirror.kafka.target import Target
from mirror.model.flow_plan import Key
from mirror.model.mm2_records import Checkpoint, NotThatRecord
from mirror.model.record_batches import of_values
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import in_words

READ_RECORDS = 5_000
WRITE_S = 20.0
REQUEST_BYTES = 1 << 20
WITHIN_S = 60.0
BOUNDS_S = 5.0  # for a broker that does not answer, beside those that do

Answer = TypeVar("Answer")


def answered(question: Coroutine[Any, Any, Answer], *, cluster: str, what: str) -> Answer:
    """Wait for what one cluster (by its alias) is asked.

    Raises:
        ClusterUnavailable: "cluster A: `what` (reason)."
    """
    try:
        return asyncio.run(asyncio.wait_for(question, WITHIN_S))
    except (kafka_errors.KafkaError, OSError, TimeoutError) as error:
        raise ClusterUnavailable(f"cluster {cluster}: {what} ({in_words(error)}).", cluster=cluster) from error


async def read_topic(options: Mapping[str, Any], topic: str, start: int, partition: int = 0):  # type: ignore[no-untyped-def]
    """Yield (offset, record) of a partition of a topic from `start` to its present end; nothing where there is no topic."""
    reading = _consumer({**options, "auto_offset_reset": "earliest", "isolation_level": "read_committed"})
    async with reading as consumer:
        if topic not in await consumer.topics():
            return
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        (end,) = (await consumer.end_offsets([place])).values()
        consumer.seek(place, start if start <= end else 0)
        while await consumer.position(place) < end:
            for records in (await consumer.getmany(place, timeout_ms=1_000, max_records=READ_RECORDS)).values():
                for record in records:
                    yield record.offset, record


async def read_checkpoints(options: Mapping[str, Any], topic: str) -> tuple[list[Checkpoint], list[NotThatRecord]]:
    """Return the checkpoints of a topic, later ones behind those that they replace, and why other records are none."""
    found: list[Checkpoint] = []
    foreign: list[NotThatRecord] = []
    async for _, record in read_topic(options, topic, 0):
        try:
            found.append(Checkpoint.decode(record.key, record.value))
        except NotThatRecord as error:
            foreign.append(error)
    return found, foreign


async def partitions_of(options: Mapping[str, Any], topic: str) -> list[int]:
    """Return a topic's partitions; none where there is no topic."""
    client = AIOKafkaAdminClient(**options)
    try:
        await client.start()
        if topic not in await client.list_topics():
            return []
        (found,) = await client.describe_topics([topic])
    finally:
        await client.close()
    return sorted(part["partition"] for part in found["partitions"])


async def committed(options: Mapping[str, Any], group: str) -> dict[Key, tuple[int, str]]:
    """Return a group's (offset, metadata) by topic-partition."""
    offsets = await GroupOffsets.connected(options)
    try:
        return await patiently(lambda: offsets.committed(group))
    finally:
        await offsets.close()


async def ends(options: Mapping[str, Any], places: Iterable[Key]) -> dict[Key, int]:
    """Return the log-end offset of each topic-partition whose leader tells; one that does not costs no other its answer."""
    return await _bounds(options, places, LATEST)


async def starts(options: Mapping[str, Any], places: Iterable[Key]) -> dict[Key, int]:
    """Return the log-start offset of each topic-partition whose leader tells."""
    return await _bounds(options, places, EARLIEST)


async def _bounds(options: Mapping[str, Any], places: Iterable[Key], at: int) -> dict[Key, int]:
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


@asynccontextmanager
async def _consumer(options: Mapping[str, Any]):  # type: ignore[no-untyped-def]
    """A connected consumer, closed at the end, and also where it could not connect."""
    consumer = AIOKafkaConsumer(**options, enable_auto_commit=False)
    try:
        await consumer.start()
        yield consumer
    finally:
        await consumer.stop()


@asynccontextmanager
async def writer(client: Mapping[str, str], topics: Iterable[str]) -> AsyncIterator[Target]:
    """Open a producer from Java properties for `topics`; closed at the end."""
    target = Target(aiokafka_options(client), request_bytes=REQUEST_BYTES)
    try:
        await target.open(topics)
        yield target
    finally:
        await target.close()


async def write(target: Target, topic: str, records: Iterable[tuple[bytes, bytes | None]]) -> None:
    """Write records to partition 0 of a topic and wait until it has them all."""
    for batch in of_values(records, timestamp_ms=int(now_ms())):
        if not target.knows(topic, 0):
            raise KafkaError(f"topic {topic} does not exist")
        await asyncio.wait_for(target.send(batch, topic, 0), WRITE_S)
