"""Read the records of batches, and write batches of records, for the slow path. Pure.

On the slow path each record is a Python object. Layout of a v2 record: Kafka's DefaultRecord. Sizes and deltas are zigzag
varints. Key, value and headers follow the deltas, and are the same bytes in any batch: `body` is passed on unchanged.
Layout of the formats before 0.11: LegacyRecord, AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from mirror.model import codecs

NO_TIMESTAMP = -1
CREATE_TIME, LOG_APPEND_TIME = 0, 1
HEADER = struct.Struct(">qiibIhiqqqhii")  # of a v2 batch
HEADER_SIZE = HEADER.size
LOG_OVERHEAD = 12  # baseOffset and batchLength; batchLength does not count these bytes
MAGIC_AT = 16  # in every format, after the offset, the length, and four more bytes
CODEC_BITS = 0x07
_LOG_APPEND_TIME_BIT = 0x08
_OVERHEAD = struct.Struct(">qi")
_LEGACY = struct.Struct(">Ibb")  # CRC, magic, attributes
_INT64, _INT32, _VERSION_TYPE = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">hh")
_ABORT = 0  # value of a control record's type field


class CorruptBatch(Exception):
    """A batch's bytes do not match its checksum or its lengths."""


class Raw(NamedTuple):
    """A record that is not decoded. Its body is key, value and headers as stored."""

    offset: int
    timestamp: int
    body: bytes


class Record(NamedTuple):
    """A record. `timestamp` is in epoch ms, NO_TIMESTAMP if it has none."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


# --- varints ------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Return a zigzag varint."""
    rest = (value << 1) ^ (value >> 63)
    return VARINTS[rest] if rest < len(VARINTS) else _uvarint(rest)


def uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    return VARINTS[value] if value < len(VARINTS) else _uvarint(value)


def _uvarint(rest: int) -> bytes:
    found = bytearray()
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


VARINTS = tuple(map(_uvarint, range(1 << 12)))  # unsigned varints of small values


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag varint and its end."""
    byte = data[at]
    at += 1
    rest = byte & 0x7F
    shift = 7
    while byte & 0x80:
        byte = data[at]
        at += 1
        rest |= (byte & 0x7F) << shift
        shift += 7
    return (rest >> 1) ^ -(rest & 1), at


# --- reading ------------------------------------------------------------------------------------------------------


def raw_records(data: bytes | memoryview) -> Iterator[Raw]:
    """Yield the records of one v2 batch, with their bodies as stored.

    Raises:
        CorruptBatch: the bytes end before the last record, or cannot be decompressed.
    """
    base, *_, attributes, _, first, largest, _, _, _, count = HEADER.unpack_from(data)
    section = _section(data, attributes & CODEC_BITS)
    appended = largest if attributes & _LOG_APPEND_TIME_BIT else None
    at = 0
    try:
        for _ in range(count):
            size, at = _read_varint(section, at)
            end = at + size
            delta, at = _read_varint(section, at + 1)  # after the attributes
            index, at = _read_varint(section, at)
            if end > len(section):
                raise CorruptBatch(f"the batch at offset {base} ends within a record")
            yield Raw(base + index, first + delta if appended is None else appended, section[at:end])
            at = end
    except IndexError:
        raise CorruptBatch(f"the batch at offset {base} has fewer records than its header states") from None


def _section(data: bytes | memoryview, codec: int) -> bytes:
    try:
        return codecs.decompress(codec, memoryview(data)[HEADER_SIZE:])
    except ValueError as error:
        raise CorruptBatch(f"a batch cannot be decompressed: {error}") from error


def only_record(data: bytes | memoryview) -> Raw:
    """Return the only record of an uncompressed v2 batch. Raises CorruptBatch like `raw_records`."""
    (base,) = _INT64.unpack_from(data)
    (first,) = _INT64.unpack_from(data, 27)
    section = bytes(data[HEADER_SIZE:])
    try:
        size, at = _read_varint(section, 0)
        end = at + size
        delta, at = _read_varint(section, at + 1)
        _, at = _read_varint(section, at)
    except IndexError:
        end = len(section) + 1
    if end > len(section):
        raise CorruptBatch(f"the batch at offset {base} ends within a record")
    return Raw(base, first + delta, section[at:end])


def records(data: bytes | memoryview) -> Iterator[Record]:
    """Yield the records of consecutive batches of any format.

    Raises:
        CorruptBatch: the batches cannot be read.
    """
    view = memoryview(data)
    at = 0
    while at + MAGIC_AT < len(view):
        base, length = _OVERHEAD.unpack_from(view, at)
        end = at + LOG_OVERHEAD + length
        if end > len(view):
            return
        if view[at + MAGIC_AT] < 2:
            yield from _legacy(bytes(view[at:end]), base)
        else:
            batch = view[at:end]
            (attributes,) = struct.unpack_from(">h", batch, 21)
            kind = LOG_APPEND_TIME if attributes & _LOG_APPEND_TIME_BIT else CREATE_TIME
            for raw in raw_records(batch):
                yield Record(raw.offset, raw.timestamp, kind, *fields_of(raw.body))
        at = end


def fields_of(body: bytes) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
    """Return key, value and headers of a record's body."""
    key, at = _field(body, 0)
    value, at = _field(body, at)
    count, at = _read_varint(body, at)
    headers = []
    for _ in range(count):
        name, at = _field(body, at)
        content, at = _field(body, at)
        headers.append(((name or b"").decode("utf-8", "surrogateescape"), content))
    return key, value, tuple(headers)


def _field(body: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _read_varint(body, at)
    return (None, at) if size < 0 else (body[at : at + size], at + size)


def _legacy(data: bytes, base: int) -> Iterator[Record]:
    """Yield the messages of one entry, possibly compressed, in a format before 0.11."""
    crc, magic, attributes = _LEGACY.unpack_from(data, LOG_OVERHEAD)
    if zlib.crc32(memoryview(data)[LOG_OVERHEAD + 4 :]) != crc:
        raise CorruptBatch(f"the message at offset {base} does not match its CRC")
    at = LOG_OVERHEAD + _LEGACY.size
    timestamp = NO_TIMESTAMP
    if magic:
        (timestamp,) = _INT64.unpack_from(data, at)
        at += _INT64.size
    kind = LOG_APPEND_TIME if magic and attributes & _LOG_APPEND_TIME_BIT else CREATE_TIME
    key, at = _sized(data, at)
    value, at = _sized(data, at)
    codec = attributes & CODEC_BITS
    if not codec:
        yield Record(base, timestamp, kind, key, value)
        return
    if codec == codecs.LZ4 and not magic:
        raise CorruptBatch(f"the message at offset {base} is LZ4 of Kafka 0.8, which no other reader understands")
    try:
        inner = list(records(codecs.decompress(codec, value or b"")))
    except ValueError as error:
        raise CorruptBatch(f"the message at offset {base} cannot be decompressed: {error}") from error
    # In format 1 the inner offsets are relative, and the outer offset is that of the last inner message.
    shift = base - inner[-1].offset if magic and inner else 0
    for one in inner:
        moved = one._replace(offset=one.offset + shift)
        yield moved._replace(timestamp=timestamp, timestamp_type=kind) if kind == LOG_APPEND_TIME else moved


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = _INT32.unpack_from(data, at)
    at += _INT32.size
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def is_abort(control: bytes | memoryview) -> bool:
    """Return whether a control batch aborts its transaction."""
    for record in records(control):
        return record.key is not None and _VERSION_TYPE.unpack_from(record.key)[1] == _ABORT
    return False


# --- writing ------------------------------------------------------------------------------------------------------


def body_of(key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> bytes:
    """Return a record's body."""
    parts = [_as_field(key), _as_field(value), varint(len(headers))]
    for name, content in headers:
        parts += (_as_field(name.encode("utf-8", "surrogateescape")), _as_field(content))
    return b"".join(parts)


def _as_field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def batch_of(
    parts: list[bytes], *, codec: int, level: int | None, count: int, first_timestamp: int, max_timestamp: int
) -> bytes:
    """Return a v2 batch with base offset 0; `stamped` adds the producer and the CRC.

    Args:
        parts: The bytes of the records.
        codec: The codec that compresses them.
        level: Level of the codec; None for its default.
        count: Number of records.
        first_timestamp: The timestamp to which the records' deltas are relative, epoch ms.
        max_timestamp: The largest timestamp, epoch ms.
    """
    section = codecs.compress(codec, b"".join(parts), level)
    length = HEADER_SIZE - LOG_OVERHEAD + len(section)
    header = HEADER.pack(0, length, -1, 2, 0, codec, count - 1, first_timestamp, max_timestamp, -1, -1, -1, count)
    return header + section
