"""What is written into internal topics outside of the windows: records of our own, to partition 0, each acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from mirror.config.clients import aiokafka_options
from mirror.replication.batches import of_values
from mirror.replication.wire import KafkaError, Target, now_ms

WRITE_S = 20.0
REQUEST_BYTES = 1 << 20


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
