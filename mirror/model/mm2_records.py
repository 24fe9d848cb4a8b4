"""Encode and decode MirrorMaker's own records, byte for byte: offset syncs, checkpoints, heartbeats. Pure.

Source: apache/kafka 4.1.1, connect/mirror-client, OffsetSync, Checkpoint and Heartbeat (Kafka protocol types, big-endian).
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Self

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_VERSION = _SHORT.pack(0)


class NotThatRecord(ValueError):
    """Key or value are not of the expected kind; the reader skips the record."""


class OffsetSync(NamedTuple):
    """The record at `upstream` of a source partition is at `downstream` of the remote partition."""

    topic: str  # name on the source
    partition: int
    upstream: int
    downstream: int

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value."""
        key = _string(self.topic) + _INT.pack(self.partition)
        return key, _LONG.pack(self.upstream) + _LONG.pack(self.downstream)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read key and value back; raises NotThatRecord."""
        fields, body = _Reader(key), _Reader(value)
        return cls(fields.string(), fields.int32(), body.int64(), body.int64())


class Checkpoint(NamedTuple):
    """A group at offset `upstream` of the source resumes at `downstream` of the remote partition."""

    group: str
    topic: str  # name on the target
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value."""
        key = _string(self.group) + _string(self.topic) + _INT.pack(self.partition)
        return key, _VERSION + _LONG.pack(self.upstream) + _LONG.pack(self.downstream) + _string(self.metadata)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read key and value back; raises NotThatRecord."""
        fields, body = _Reader(key), _Reader(value)
        body.version()
        return cls(fields.string(), fields.string(), fields.int32(), body.int64(), body.int64(), body.string())


class Heartbeat(NamedTuple):
    """The flow from `source` to `target` was alive at `timestamp_ms`."""

    source: str
    target: str
    timestamp_ms: int

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value."""
        return _string(self.source) + _string(self.target), _VERSION + _LONG.pack(self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read key and value back; raises NotThatRecord."""
        fields, body = _Reader(key), _Reader(value)
        body.version()
        return cls(fields.string(), fields.string(), body.int64())


def _string(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


class _Reader:
    """Takes fields off the front of a key or value."""

    def __init__(self, data: bytes | None) -> None:
        if data is None:
            raise NotThatRecord("is absent")
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if size < 0 or len(taken) < size:
            raise NotThatRecord(f"ends after {len(self._data)} bytes")
        self._at += size
        return taken

    def int32(self) -> int:
        return int(_INT.unpack(self._take(4))[0])

    def int64(self) -> int:
        return int(_LONG.unpack(self._take(8))[0])

    def string(self) -> str:
        size = int(_SHORT.unpack(self._take(2))[0])
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise NotThatRecord("holds no UTF-8") from error

    def version(self) -> None:
        found = self._take(2)
        if found != _VERSION:
            raise NotThatRecord(f"is of version {_SHORT.unpack(found)[0]}, expected 0")
