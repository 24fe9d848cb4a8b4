"""Read a bounded number of record batches from the log of one partition."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mirror.kafka.errors import BrokerError, ErrorCode, check
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Fetched, Source
from mirror.model import record_batches
from mirror.model.record_batches import Batch
from mirror.model.topic_partition import TopicPartition

MOST_BYTES = 64 << 20  # about what one partition writes between two commits at full speed
FETCH_BYTES = 4 << 20
FETCH_WAIT_MS = 200


Counted = Callable[[list[Batch], int], int]
Sifted = Callable[[list[Batch]], Awaitable[list[Batch]]]


class TooMuchError(Exception):
    """The request is for more bytes than may be read at once."""


def records_from(batches: list[Batch], start: int) -> int:
    """Return how many records in the batches are at or after an offset."""
    return sum(max(0, min(batch.count, batch.last_offset - start + 1)) for batch in batches if not batch.is_control)


async def read_batches(
    log_of: Source,
    place: TopicPartition,
    start: int,
    records: int,
    isolation_level: int,
    *,
    sifted: Sifted | None = None,
    counted: Counted = records_from,
) -> list[Batch]:
    """Read batches from an offset until they have `records` records, or the log ends.

    Args:
        log_of: Client of the cluster; its metadata must include the topic.
        place: Topic and partition.
        start: Offset to start at; the first batch may start before it.
        records: Number of wanted records; with read_committed, records of aborted transactions do not count.
        isolation_level: As in a fetch request: with 1, only committed records; batches of aborted transactions are empty.
        sifted: Filters the batches: the returned ones count; None: all count.
        counted: Returns how many wanted records are in the batches from an offset.

    Raises:
        TooMuchError: the records exceed MOST_BYTES.
        KafkaError: errors of the client, or a refusal of the leader.
    """
    found: list[Batch] = []
    offset, held, size = start, 0, 0
    while held < records:
        part = await read_part(log_of, place, offset, isolation_level)
        if part.error is not ErrorCode.offset_out_of_range:
            check(part.error, f"{place[0]}-{place[1]}")
        fresh = list(record_batches.batches(part.records))
        if part.error is not ErrorCode.none or not fresh:
            break
        offset = fresh[-1].last_offset + 1
        if sifted is None:
            size += len(part.records)
        else:
            fresh = await sifted(fresh)
            size += sum(len(batch.data) for batch in fresh)
        if size > MOST_BYTES:
            raise TooMuchError(f"they are more than {MOST_BYTES >> 20} MiB")
        if isolation_level:
            fresh = list(record_batches.committed(fresh, part.aborted))
        held += counted(fresh, start)
        found += fresh
    return found


async def read_part(log_of: Source, place: TopicPartition, offset: int, isolation_level: int) -> Fetched:
    """Return the batches of one fetch of a partition from an offset; raises KafkaError."""
    node = log_of.leader(*place)
    if node is None:
        raise BrokerError(ErrorCode.leader_not_available, f"{place[0]}-{place[1]}")
    limits = FetchLimits(FETCH_WAIT_MS, 1, FETCH_BYTES, isolation_level)
    (part,) = await log_of.read(node, {place: FetchPosition(offset, FETCH_BYTES)}, limits)
    return part
