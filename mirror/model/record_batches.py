"""Record batches as bytes: read a header, prepare a batch for another cluster, repack records. Pure.

Layout of a v2 batch: Kafka's DefaultRecordBatch (big-endian, CRC-32C over everything after the CRC field).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from crc32c import crc32c

from mirror.model import codecs
from mirror.model.codecs import CODECS
from mirror.model.leader_epochs import UNKNOWN as NO_EPOCH
from mirror.model.offset_map import OffsetRun
from mirror.model.records import (
    CODEC_BITS,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_AT,
    NO_TIMESTAMP,
    CorruptBatch,
    Raw,
    batch_of,
    body_of,
    is_abort,
    only_record,
    raw_records,
    records,
    varint,
)
from mirror.model.transforms import Transforms, transformed

__all__ = ["CODECS", "HEADER", "CorruptBatch", "records"]

_OVERHEAD = struct.Struct(">qi")
NO_PRODUCER = -1  # producer id of a batch without idempotence
_PRODUCER_AT = 43
_CRC_FROM = 21  # the CRC covers everything from the attributes on
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40
_ATTRIBUTES, _CRC, _PRODUCER = struct.Struct(">h"), struct.Struct(">I"), struct.Struct(">qhi")
_NO_ATTRIBUTES = b"\0"  # of a record: it uses no attributes
OWN_BYTES = 256 << 10  # brokers accept 1 MiB by default


class Batch(NamedTuple):
    """One record batch as the source broker sent it. Offsets are source offsets, timestamps epoch ms."""

    data: memoryview
    magic: int
    base_offset: int
    last_offset: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    leader_epoch: int  # epoch of the leader that appended it, -1 in formats without epochs
    count: int  # type: ignore[assignment]  # number of records; hides a method of tuples that is not used

    @property
    def codec(self) -> int:
        """Number of the compression codec (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd)."""
        return self.attributes & CODEC_BITS

    @property
    def is_control(self) -> bool:
        """True for a transaction marker, which is not a record of a user."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        """True when the batch was written inside a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_timed_by_broker(self) -> bool:
        """True if the broker set the records' timestamps (LogAppendTime)."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    def is_copyable(self, position: int) -> bool:
        """Return whether the batch can be copied without decoding its records.

        The broker requires lastOffsetDelta = count - 1, so a compacted batch cannot be copied. Nor can a batch whose timestamps
        are stored elsewhere (LogAppendTime, delete horizon), nor a batch that starts before `position`.
        """
        return (
            self.magic == 2
            and not self.attributes & (_LOG_APPEND_TIME | _DELETE_HORIZON | _CONTROL)
            and self.base_offset >= position
            and self.last_offset - self.base_offset == self.count - 1
        )


class Outgoing(NamedTuple):
    """One batch ready for the target, and the source offsets that it covers.

    Timestamps are epoch ms of the records inside. On the slow path: exact minimum, maximum and sum. On the fast path: first and
    maximum timestamp of the header, and their mean times the count.
    """

    data: bytes | memoryview
    count: int  # type: ignore[assignment]  # number of records
    next_offset: int  # source offset after the last record that this batch covers, including dropped records
    min_timestamp: int
    max_timestamp: int
    sum_timestamp: float
    # Where the records were on the source; `target` counts from the first offset of the batch
    runs: tuple[OffsetRun, ...] = ()


class Round(NamedTuple):
    """The batches of a source partition that are sent together, one per target partition."""

    batches: Mapping[int, Outgoing]  # by target partition; exactly one, unless the topic is repartitioned
    next_offset: int  # the source partition's position when all of them are acknowledged

    @property
    def first(self) -> Outgoing:
        """One of the batches: the only one, unless the topic is repartitioned."""
        return next(iter(self.batches.values()))


def batches(data: bytes) -> Iterator[Batch]:
    """Yield the complete batches of a fetch response. A truncated last batch is left for the next fetch."""
    view = memoryview(data)
    at, end = 0, len(data)
    while at + MAGIC_AT < end:
        base, length = _OVERHEAD.unpack_from(view, at)
        stop = at + LOG_OVERHEAD + length
        if stop > end:
            return
        magic = view[at + MAGIC_AT]
        if magic < 2:  # a message in a format before 0.11 may be smaller than a header of the current format
            yield _legacy(view[at:stop], base, magic)
        else:
            _, _, epoch, _, crc, attributes, delta, first, last, producer, _, _, count = HEADER.unpack_from(view, at)
            if crc32c(view[at + _CRC_FROM : stop]) != crc:
                raise CorruptBatch(f"the batch at source offset {base} does not match its CRC")
            yield Batch(view[at:stop], magic, base, base + delta, attributes, first, last, producer, epoch, count)
        at = stop


def producer_ids(data: bytes) -> set[int]:
    """Return the producer ids of the complete batches in a fetch response. NO_PRODUCER may be one of them."""
    found, at, end = set(), 0, len(data)
    while at + MAGIC_AT < end:
        _, length = _OVERHEAD.unpack_from(data, at)
        stop = at + LOG_OVERHEAD + length
        if stop > end:
            break
        found.add(_PRODUCER.unpack_from(data, at + _PRODUCER_AT)[0] if data[at + MAGIC_AT] == 2 else NO_PRODUCER)
        at = stop
    return found


def _legacy(view: memoryview, base: int, magic: int) -> Batch:
    """Describe a magic 0 or 1 message set.

    Its offset field holds the *last* offset of a compressed wrapper.
    """
    found = list(records(view))
    first = found[0].offset if found else base
    return Batch(view, magic, first, base, 0, NO_TIMESTAMP, NO_TIMESTAMP, NO_PRODUCER, NO_EPOCH, len(found))


def copy_batch(batch: Batch, codec: int | None, level: int | None = None) -> Outgoing:
    """Return the batch unchanged, or with its records section in another codec; decode no record.

    An uncompressed batch that compression would enlarge stays uncompressed.
    """
    data: bytes | memoryview = batch.data
    if codec is not None and codec != batch.codec:
        data = _transcoded(batch, codec, level)
    middle = (batch.base_timestamp + batch.max_timestamp) / 2
    return Outgoing(
        data,
        batch.count,
        batch.last_offset + 1,
        batch.base_timestamp,
        batch.max_timestamp,
        middle * batch.count,
        (OffsetRun(batch.base_offset, 0, batch.count),),
    )


def _transcoded(batch: Batch, codec: int, level: int | None) -> bytes | memoryview:
    section = batch.data[HEADER_SIZE:]
    try:
        plain = codecs.decompress(batch.codec, section) if batch.codec else section
    except ValueError as error:
        raise CorruptBatch(f"the batch at source offset {batch.base_offset} cannot be decompressed: {error}") from error
    packed = codecs.compress(codec, plain, level)
    if len(packed) > len(section) and not batch.codec:
        return batch.data
    header = bytearray(batch.data[:HEADER_SIZE])
    struct.pack_into(">i", header, 8, HEADER_SIZE - LOG_OVERHEAD + len(packed))
    _ATTRIBUTES.pack_into(header, _CRC_FROM, batch.attributes & ~CODEC_BITS | codec)
    return bytes(header) + packed


def with_producer_state(
    data: bytes | memoryview, producer_id: int, epoch: int, sequence: int, *, transactional: bool
) -> tuple[bytes, memoryview]:
    """Return the batch as our producer sends it: a header with ids, sequence and CRC, then the records."""
    header, records_section = bytearray(data[:HEADER_SIZE]), memoryview(data)[HEADER_SIZE:]
    (attributes,) = _ATTRIBUTES.unpack_from(header, _CRC_FROM)
    attributes = attributes | _TRANSACTIONAL if transactional else attributes & ~_TRANSACTIONAL
    struct.pack_into(">q", header, 0, 0)  # the broker assigns offsets, and accepts no other base offset
    struct.pack_into(">i", header, 12, -1)
    _ATTRIBUTES.pack_into(header, _CRC_FROM, attributes)
    _PRODUCER.pack_into(header, _PRODUCER_AT, producer_id, epoch, sequence)
    _CRC.pack_into(header, 17, crc32c(records_section, crc32c(header[_CRC_FROM:])))
    return bytes(header), records_section


def rebatch(
    sources: Iterable[Batch],
    position: int,
    *,
    codec: int | None,
    max_bytes: int,
    level: int | None = None,
    transforms: Transforms = (),
    until: int | None = None,
    is_contiguous: bool = False,
) -> list[Outgoing]:
    """Decode the records from `position` on, and pack them into new batches in order.

    Without transforms, the records' content stays the same.

    Args:
        sources: Batches of one partition in offset order, without control batches and aborted batches.
        position: Next source offset to replicate.
        codec: Codec of the new batches; None keeps that of the first source batch.
        max_bytes: Uncompressed bytes at which a new batch is started; one record may exceed it.
        level: Level of the codec; None for its default.
        transforms: Transforms of the records. They may drop records.
        until: Source offset of the first record that must not be packed; None: pack all.
        is_contiguous: Start a new batch after each gap between source offsets.

    Returns:
        Batches that together cover every record that is not dropped; empty if no such record exists.

    Raises:
        TransformError: a transform cannot process a record.
    """
    sources = list(sources)
    codec = sources[0].codec if codec is None else codec
    done: list[Outgoing] = []
    packer = Packer(codec, max_bytes, level)
    for batch in sources:
        for record in raws(batch):
            if record.offset < position or (until is not None and record.offset >= until):
                continue
            if transforms:
                changed = transformed(transforms, record)
                if changed is None:
                    continue
                record = changed
            is_gap = is_contiguous and packer.count and record.offset != packer.behind
            if is_gap or not packer.append(record.timestamp, record.body, record.offset):
                done.append(packer.build())
                packer = Packer(codec, max_bytes, level)
                packer.append(record.timestamp, record.body, record.offset)
        behind = batch.last_offset + 1 if until is None else min(batch.last_offset + 1, until)
        packer.next_offset = max(packer.next_offset, behind)
    if packer.count:
        done.append(packer.build())
    return done


def raws(batch: Batch) -> Iterator[Raw]:
    """Yield a batch's records with unchanged bodies; convert old formats to the current one."""
    if batch.magic == 2:
        if batch.count == 1 and not batch.attributes & (CODEC_BITS | _LOG_APPEND_TIME):
            yield only_record(batch.data)
        else:
            yield from raw_records(batch.data)
        return
    for record in records(batch.data):
        yield Raw(record.offset, record.timestamp, body_of(record.key, record.value))


class Packer:
    """One batch under construction, with the sums that its report needs."""

    def __init__(self, codec: int, max_bytes: int, level: int | None = None) -> None:
        """Take the codec, and the maximum uncompressed bytes; one record may exceed them."""
        self._codec = codec
        self._level = level
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = HEADER_SIZE
        self.count = 0
        self.next_offset = 0
        self._first = self._min = self._max = self._sum = 0  # timestamps, epoch ms
        self._runs: list[list[int]] = []  # [first source offset, first index, records]
        self.behind = -1  # source offset after the last run

    def append(self, timestamp: int, body: bytes, source: int) -> bool:
        """Add the record at that source offset; return False if the batch is full."""
        count = self.count
        delta = timestamp - self._first if count else 0
        deltas = varint(delta) + varint(count)
        size = 1 + len(deltas) + len(body)
        head = varint(size) + _NO_ATTRIBUTES + deltas
        grown = self._size + len(head) + len(body)
        if count and grown > self._max_bytes:
            return False
        self._size = grown
        self._parts.append(head)
        self._parts.append(body)
        if not count:
            self._first = self._min = self._max = timestamp
        elif timestamp > self._max:
            self._max = timestamp
        elif timestamp < self._min:
            self._min = timestamp
        self._sum += timestamp
        if source == self.behind:
            self._runs[-1][2] += 1
        else:
            self._runs.append([source, count, 1])
        self.behind = self.next_offset = source + 1
        self.count = count + 1
        return True

    def build(self) -> Outgoing:
        """Return the batch."""
        data = batch_of(
            self._parts,
            codec=self._codec,
            level=self._level,
            count=self.count,
            first_timestamp=self._first,
            max_timestamp=self._max,
        )
        runs = tuple(OffsetRun(*run) for run in self._runs)
        return Outgoing(data, self.count, self.next_offset, self._min, self._max, float(self._sum), runs)


def of_values(pairs: Iterable[tuple[bytes, bytes | None]], *, timestamp_ms: int) -> Iterator[Outgoing]:
    """Yield uncompressed batches of the mirror's own records, given as (key, value).

    Each batch is small enough for any broker.
    """
    builder, size = Packer(CODECS["none"], 1 << 30), 0
    for key, value in pairs:
        if size > OWN_BYTES:
            yield builder.build()
            builder, size = Packer(CODECS["none"], 1 << 30), 0
        builder.append(timestamp_ms, body_of(key, value), builder.count)
        size += len(key) + len(value or b"")
    if builder.count:
        yield builder.build()


def split_batch(outgoing: Outgoing) -> list[Outgoing]:
    """Split a batch that the target refuses; return a batch of one record alone.

    The batch may be too large, or one of its records may be refused.
    """
    if outgoing.count < 2:
        return [outgoing]
    codec = HEADER.unpack_from(outgoing.data)[5] & CODEC_BITS
    middle = outgoing.count // 2
    parts = [Packer(codec, 1 << 30), Packer(codec, 1 << 30)]
    offsets = (run.source + index for run in outgoing.runs for index in range(run.records))
    for index, (record, offset) in enumerate(zip(raw_records(outgoing.data), offsets, strict=True)):
        parts[index >= middle].append(record.timestamp, record.body, offset)
    first, second = (part.build() for part in parts)
    return [first, second._replace(next_offset=outgoing.next_offset)]


def committed(fetched: Iterable[Batch], aborted: Iterable[tuple[int, int]]) -> Iterator[Batch]:
    """Yield the batches that a `read_committed` consumer gets, with markers, because they move the position.

    Args:
        fetched: Batches of one fetch response of one partition.
        aborted: (producer id, first offset) of each aborted transaction in the response.

    Source: org.apache.kafka.clients.consumer.internals.CompletedFetch.
    """
    waiting = sorted(aborted, key=lambda item: item[1])
    active: set[int] = set()
    for batch in fetched:
        while waiting and waiting[0][1] <= batch.last_offset:
            active.add(waiting.pop(0)[0])
        if batch.is_control:
            if is_abort(batch.data):
                active.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in active:
            yield without_records(batch)
            continue
        yield batch


def without_records(batch: Batch) -> Batch:
    """Return an empty batch: nothing is copied, and the position moves past it."""
    return batch._replace(data=batch.data[:0], attributes=batch.attributes | _CONTROL, count=0)
