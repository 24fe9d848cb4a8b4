"""How much the brokers take by themselves: a bare client appends prepared batches while another one fetches as many.

Any mirror on the same cores has less, for its own work comes on top. Batches are appended as they are in the
source's log, and nobody looks into what was fetched.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from typing import Any

import uvloop

from mirror.config.clients import client_options
from mirror.kafka.client import Client
from mirror.kafka.errors import check
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Source
from mirror.kafka.produce_request import parts_of, produce_request

UNDER_WAY = 5  # requests, as many as Kafka's producer has
ANSWER_MS = 30_000
LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=16 << 20, isolation_level=0)
PART_BYTES = 4 << 20
READY_WITHIN_S = 120.0
_HEAD = struct.Struct(">qi")  # a batch's first offset, and its length without these two
_FROM_0 = bytes(8)  # the first offset of a batch that is to be appended; no checksum covers it
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23


def limit(source: str, target: str, topic: str, remote: str, *, partitions: int, records: int) -> float:
    """Return how many records a second both clients had done by the time the slower one was through.

    Args:
        source: Address of the cluster that is fetched from.
        target: Address of the cluster that is appended to.
        topic: Holds the records, on the source.
        remote: Takes them, on the target.
        partitions: Of each.
        records: How many the topic holds.
    """
    context = get_context("spawn")
    ready = context.Barrier(3)
    clients = [
        context.Process(target=_run, args=(_reader, ready, source, topic, partitions)),
        context.Process(target=_run, args=(_writer, ready, source, topic, partitions, target, remote)),
    ]
    for client in clients:
        client.start()
    ready.wait(READY_WITHIN_S)
    began = time.monotonic()
    for client in clients:
        client.join()
    took_s = time.monotonic() - began
    if any(client.exitcode for client in clients):
        raise RuntimeError("a bare client failed; see above")
    return records / took_s


def _run(client: Any, ready: Barrier, *arguments: Any) -> None:
    uvloop.run(client(ready, *arguments))


async def _reader(ready: Barrier, address: str, topic: str, partitions: int) -> None:
    source = Source(client_options({"bootstrap.servers": address}))
    try:
        await source.open([topic])
        await asyncio.to_thread(ready.wait, READY_WITHIN_S)
        async for _ in _fetched(source, topic, partitions):
            pass
    finally:
        await source.close()


async def _writer(ready: Barrier, address: str, topic: str, partitions: int, target: str, remote: str) -> None:
    source = Source(client_options({"bootstrap.servers": address}))
    client = Client(client_options({"bootstrap.servers": target}))
    try:
        await source.open([topic])
        prepared: list[list[memoryview]] = [[] for _ in range(partitions)]
        async for partition, data in _fetched(source, topic, partitions):
            prepared[partition] += (data[begin:end] for begin, end, _ in _batches(data))
        await client.open([remote])
        await client.warm(client.metadata.brokers)
        await asyncio.to_thread(ready.wait, READY_WITHIN_S)
        turns = iter(range(max(map(len, prepared))))
        await asyncio.gather(*(_appending(client, remote, prepared, turns) for _ in range(UNDER_WAY)))
    finally:
        await source.close()
        await client.close()


async def _appending(client: Client, remote: str, prepared: list[list[memoryview]], turns: Iterator[int]) -> None:
    """Append one batch of each topic-partition a request, all of whose leader is one broker."""
    leader = client.metadata.leader(remote, 0)
    assert leader is not None
    for turn in turns:
        batches = [
            ((remote, p), (_FROM_0, have[turn][len(_FROM_0) :])) for p, have in enumerate(prepared) if turn < len(have)
        ]
        answer = await client.ask(leader, produce_request(None, batches, ANSWER_MS, (3, 9), {}))
        for part in parts_of(answer, {}).values():
            check(part.error_code, remote)


async def _fetched(source: Source, topic: str, partitions: int) -> Any:
    """Yield (partition, bytes of whole batches) until each partition's end."""
    leader = source.leader(topic, 0)
    assert leader is not None
    at = dict.fromkeys(range(partitions), 0)
    while at:
        wanted = {(topic, p): FetchPosition(offset, PART_BYTES) for p, offset in at.items()}
        for part in await source.fetch(leader, wanted, LIMITS):
            check(part.error, topic)
            data = memoryview(part.records)
            whole = 0
            for _, end, last_offset in _batches(data):
                whole, at[part.partition] = end, last_offset + 1
            if whole:
                yield part.partition, data[:whole]
            if at[part.partition] >= part.high_watermark:
                del at[part.partition]


def _batches(data: memoryview) -> Iterator[tuple[int, int, int]]:
    """Yield begin, end and last offset of each whole batch."""
    begin = 0
    while begin + _HEAD.size <= len(data):
        first, length = _HEAD.unpack_from(data, begin)
        end = begin + _HEAD.size + length
        if end > len(data):
            return
        yield begin, end, first + _LAST_OFFSET_DELTA.unpack_from(data, begin + _LAST_OFFSET_DELTA_AT)[0]
        begin = end
