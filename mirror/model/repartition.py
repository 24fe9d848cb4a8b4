"""Place records for a topic of another number of partitions as Kafka's default partitioner would. Pure.

A key's records stay in order: all of one key go to one partition, and a round is acknowledged whole before the next is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from aiokafka.partitioner import murmur2

from mirror.model.record_batches import Batch, Outgoing, Packer, records

Round = dict[int, Outgoing]  # one batch per partition of the target


def rounds(
    sources: Sequence[Batch], position: int, *, partitions: int, unkeyed: int, codec: int | None, max_bytes: int
) -> list[Round]:
    """Decode the records at or behind `position` and pack them by target partition.

    Args:
        sources: Batches of one topic-partition in offset order, none of them control or aborted.
        position: Next source offset to replicate.
        partitions: Partitions of the target's topic.
        unkeyed: Partition for the records without a key; to be another one each time.
        codec: Codec of the new batches; None keeps that of the first source batch.
        max_bytes: Uncompressed bytes at which a new batch is begun; one record may exceed it.

    Returns:
        Rounds to send one after the other; none when all records lie before `position`.
    """
    codec = sources[0].codec if codec is None else codec
    packed: dict[int, list[Packer]] = {}
    for batch in sources:
        for record in records(batch.data):
            if record.offset < position:
                continue
            where = unkeyed % partitions if record.key is None else place(bytes(record.key), partitions)
            packers = packed.setdefault(where, [Packer(codec, max_bytes)])
            if not packers[-1].append(record, record.offset):
                packers.append(Packer(codec, max_bytes))
                packers[-1].append(record, record.offset)
    count = max((len(packers) for packers in packed.values()), default=0)
    return [
        {where: packers[number].build() for where, packers in sorted(packed.items()) if number < len(packers)}
        for number in range(count)
    ]


@lru_cache(maxsize=1 << 16)
def place(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner gives a key (BuiltInPartitioner.partitionForKey)."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)
