"""Compress and decompress the records of a batch, as Kafka's client does. Pure.

Source: org.apache.kafka.common.compress. The levels and their defaults are Kafka's (KIP-390). LZ4: level 9 (the default) selects
the fast compressor, every other level the high-compression one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import MappingProxyType

import cramjam

CODECS = MappingProxyType({"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4})
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LEVELS = MappingProxyType({"gzip": range(1, 10), "lz4": range(1, 18), "zstd": range(-131_072, 23)})  # valid levels
DEFAULT_LEVELS = MappingProxyType({GZIP: 6, LZ4: 9, ZSTD: 3})
_FAST_LZ4 = 0

# The framing of xerial's snappy, which Java's client reads and writes: a header, then blocks, each after its length.
_XERIAL_HEADER = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
_XERIAL_BLOCK_BYTES = 32 << 10
_LENGTH = struct.Struct(">i")

Bytes = bytes | memoryview


def decompress(codec: int, data: Bytes) -> bytes:
    """Return the decompressed bytes.

    Raises:
        ValueError: the codec is not one of Kafka's, or did not compress the data.
    """
    if codec == NONE:
        return bytes(data)
    decode = _DECODE.get(codec)
    if decode is None:
        raise ValueError(f"codec {codec} is not one of Kafka's")
    try:
        return decode(data)
    except (cramjam.DecompressionError, struct.error) as error:
        raise ValueError(str(error)) from error


def compress(codec: int, data: Bytes, level: int | None = None) -> bytes:
    """Return the compressed bytes; `level` is a level of this codec, None for its default."""
    if codec == NONE:
        return bytes(data)
    return _ENCODE[codec](data, level if level is not None else DEFAULT_LEVELS.get(codec, 0))


def _snappy_blocks(data: Bytes) -> bytes:
    if bytes(data[: len(_XERIAL_HEADER)]) != _XERIAL_HEADER:
        return bytes(cramjam.snappy.decompress_raw(data))
    blocks, at = [], len(_XERIAL_HEADER)
    while at < len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[at : at + size])))
        at += size
    return b"".join(blocks)


def _as_snappy_blocks(data: Bytes, _: int) -> bytes:
    parts = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _as_lz4_frame(data: Bytes, level: int) -> bytes:
    """Compress with independent blocks and no content checksum: brokers read no other frames (KIP-57)."""
    is_default = level == DEFAULT_LEVELS[LZ4]
    compressor = cramjam.lz4.Compressor(
        level=_FAST_LZ4 if is_default else level, content_checksum=False, block_linked=False
    )
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


_DECODE: dict[int, Callable[[Bytes], bytes]] = {
    GZIP: lambda data: bytes(cramjam.gzip.decompress(data)),
    SNAPPY: _snappy_blocks,
    LZ4: lambda data: bytes(cramjam.lz4.decompress(data)),
    ZSTD: lambda data: bytes(cramjam.zstd.decompress(data)),
}
_ENCODE: dict[int, Callable[[Bytes, int], bytes]] = {
    GZIP: lambda data, level: bytes(cramjam.gzip.compress(data, level=level)),
    SNAPPY: _as_snappy_blocks,
    LZ4: _as_lz4_frame,
    ZSTD: lambda data, level: bytes(cramjam.zstd.compress(data, level=level)),
}
