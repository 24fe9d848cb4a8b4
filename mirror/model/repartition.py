"""Assign records to partitions like Kafka's default partitioner, if the partition counts differ. Pure.

Records with the same key stay in order: they all go to one partition, and each round is acknowledged completely before the next
one is sent.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from mirror.model.record_batches import Batch, Packer, Round, records
from mirror.model.records import body_of


def rounds(
    sources: Sequence[Batch],
    position: int,
    *,
    partitions: int,
    unkeyed: int,
    codec: int | None,
    max_bytes: int,
    level: int | None = None,
) -> list[Round]:
    """Decode the records from `position` on, and pack them by target partition.

    Args:
        sources: Batches of one partition in offset order, without control batches and aborted batches.
        position: Next source offset to replicate.
        partitions: Number of partitions of the target topic.
        unkeyed: Partition for the records without a key; should differ for each call.
        codec: Codec of the new batches; None keeps that of the first source batch.
        max_bytes: Uncompressed bytes at which a new batch is started; one record may exceed it.
        level: Level of the codec; None for its default.

    Returns:
        Rounds to send one after the other; empty if all records lie before `position`. Only the last round advances the position.
    """
    codec = sources[0].codec if codec is None else codec
    packed: dict[int, list[Packer]] = {}
    for batch in sources:
        for record in records(batch.data):
            if record.offset < position:
                continue
            where = unkeyed % partitions if record.key is None else place(record.key, partitions)
            packers = packed.setdefault(where, [Packer(codec, max_bytes, level)])
            body = body_of(record.key, record.value, record.headers)
            if not packers[-1].append(record.timestamp, body, record.offset):
                packers.append(Packer(codec, max_bytes, level))
                packers[-1].append(record.timestamp, body, record.offset)
    count = max((len(packers) for packers in packed.values()), default=0)
    return [
        Round(
            {where: packers[number].build() for where, packers in sorted(packed.items()) if number < len(packers)},
            sources[-1].last_offset + 1 if number == count - 1 else position,
        )
        for number in range(count)
    ]


@lru_cache(maxsize=1 << 16)
def place(key: bytes, partitions: int) -> int:
    """Return the partition to which Kafka's default partitioner assigns a key (BuiltInPartitioner.partitionForKey)."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


_SEED, _M, _R, _ALL = 0x9747B28C, 0x5BD1E995, 24, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the unsigned hash by which Kafka's clients partition keys (org.apache.kafka.common.utils.Utils.murmur2)."""
    size = len(data)
    found = _SEED ^ size
    whole = size & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * _M & _ALL
        mixed = (mixed ^ mixed >> _R) * _M & _ALL
        found = (found * _M & _ALL) ^ mixed
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * _M & _ALL
    found = (found ^ found >> 13) * _M & _ALL
    return found ^ found >> 15
