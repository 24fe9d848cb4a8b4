"""One partition's log in memory, with the rules of a leader: sequence numbers, epochs, transactions, replication.

Source: org.apache.kafka.storage.internals.log.ProducerAppendInfo and ProducerStateManager.
"""

from __future__ import annotations

import struct
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror.kafka.errors import ErrorCode
from mirror.model.record_batches import HEADER, Packer, records, with_producer_state
from mirror.model.records import body_of
from mirror.model.sequences import SEQUENCES

_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_KEPT_BATCHES = 5
_VERSION_TYPE = struct.Struct(">hh")
NO_OFFSET = -1


class Entry(NamedTuple):
    """A batch in the log."""

    base: int
    last: int
    data: bytes
    producer_id: int
    epoch: int  # the producer's
    sequence: int  # of the first record
    is_transactional: bool
    is_control: bool
    is_commit: bool = False  # of a marker


@dataclass(slots=True)
class Producer:
    """What a leader keeps of a producer: (first, last, base offset) of its last batches, and where its open transaction began."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_KEPT_BATCHES))
    began_at: int | None = None


class PartitionLog:
    """A partition of a topic.

    Attributes:
        leader: Node id, None while there is no leader.
        epoch: The leader's.
        high_watermark: What consumers see ends here; what is beyond may be lost with the leader.
        replication_s: How long the replicas take.
        repeats_marker_from: Offset at which, or after which, a marker stands that the coordinator has written twice.
    """

    def __init__(self, topic: str, number: int, topic_id: uuid.UUID, leader: int) -> None:
        self.topic = topic
        self.number = number
        self.topic_id = topic_id
        self.leader: int | None = leader
        self.epoch = 0
        self.entries: list[Entry] = []
        self.high_watermark = 0
        self.replication_s = 0.0
        self.repeats_marker_from: int | None = None
        self.producers: dict[int, Producer] = {}
        self.aborted: list[tuple[int, int, int]] = []  # (producer id, first offset, offset of the marker)
        self._restarted: dict[int, int] = {}  # by node: its log's end when it was restarted

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def end(self) -> int:
        return self.entries[-1].last + 1 if self.entries else 0

    @property
    def last_stable(self) -> int:
        """Return the offset before which every transaction is decided."""
        open_at = [one.began_at for one in self.producers.values() if one.began_at is not None]
        return min([self.high_watermark, *open_at])

    # --- writing ------------------------------------------------------------------------------------------------

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        """Append a batch, unless its number is used or too high; return the error, and the batch's base offset."""
        header = HEADER.unpack_from(data)
        attributes, (producer_id, epoch, first, count) = header[5], header[-4:]
        is_transactional = bool(attributes & _TRANSACTIONAL)
        if producer_id >= 0:
            known = self.producers.get(producer_id)
            code, base = self._checked(known, epoch, first, (first + count - 1) % SEQUENCES)
            if code is not ErrorCode.none or base != NO_OFFSET:
                return code, base
        base = self.end
        entry = Entry(
            base, base + count - 1, self._placed(data), producer_id, epoch, first, is_transactional, is_control=False
        )
        self._add(entry)
        return ErrorCode.none, base

    @staticmethod
    def _checked(known: Producer | None, epoch: int, first: int, last: int) -> tuple[ErrorCode, int]:
        """Return the error, or the offset at which the very same batch is already."""
        if known is None:
            return ErrorCode.none, NO_OFFSET
        if epoch < known.epoch:
            return ErrorCode.invalid_producer_epoch, NO_OFFSET
        if epoch > known.epoch:
            return (ErrorCode.none if first == 0 else ErrorCode.out_of_order_sequence_number), NO_OFFSET
        for known_first, known_last, base in known.batches:
            if (known_first, known_last) == (first, last):
                return ErrorCode.none, base
        expected = (known.batches[-1][1] + 1) % SEQUENCES if known.batches else 0
        return (ErrorCode.none if first == expected else ErrorCode.out_of_order_sequence_number), NO_OFFSET

    def end_transaction(self, producer_id: int, epoch: int, *, is_commit: bool) -> None:
        """Append the marker of a transaction."""
        known = self.producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            return  # of a coordinator that was fenced
        packer = Packer(0, 1 << 30)
        packer.append(0, body_of(_VERSION_TYPE.pack(0, int(is_commit)), struct.pack(">hi", 0, 0)), 0)
        data = bytearray(b"".join(with_producer_state(packer.build().data, producer_id, epoch, -1, transactional=True)))
        (attributes,) = struct.unpack_from(">h", data, 21)
        struct.pack_into(">h", data, 21, attributes | _CONTROL)
        base = self.end
        placed = self._placed(_with_crc(bytes(data)))
        self._add(Entry(base, base, placed, producer_id, epoch, -1, True, True, is_commit))

    def note_unheard(self, marker: Entry) -> None:
        """Note that the coordinator does not hear of a marker: it writes it again, also if the log has kept it."""
        if self.repeats_marker_from is None and marker in self.entries:
            self.repeats_marker_from = marker.last + 1

    def _placed(self, data: bytes) -> bytes:
        return struct.pack(">q", self.end) + data[8:12] + struct.pack(">i", self.epoch) + data[16:]

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        if entry.producer_id >= 0:
            self._account(entry)

    def _account(self, entry: Entry) -> None:
        known = self.producers.get(entry.producer_id)
        if known is None:
            known = self.producers[entry.producer_id] = Producer(entry.epoch)
        elif entry.epoch > known.epoch:
            began_at = known.began_at
            known = self.producers[entry.producer_id] = Producer(entry.epoch, began_at=began_at)
        if entry.is_control:
            if known.began_at is not None and not entry.is_commit:
                self.aborted.append((entry.producer_id, known.began_at, entry.base))
            known.began_at = None
            return
        last = (entry.sequence + entry.last - entry.base) % SEQUENCES
        known.batches.append((entry.sequence, last, entry.base))
        if entry.is_transactional and known.began_at is None:
            known.began_at = entry.base

    def replicated(self, up_to: int) -> bool:
        """Note that all replicas have the log up to an offset; return whether consumers see more now."""
        before, self.high_watermark = self.high_watermark, max(self.high_watermark, min(up_to, self.end))
        return self.high_watermark > before

    def restarted(self, node: int) -> None:
        """Forget, on this replica, the producers without an open transaction: their batches are of old records."""
        self._restarted[node] = self.end
        if self.leader == node:
            self._load(node)

    def _load(self, node: int) -> None:
        since = self._restarted[node]
        kept = {key: one for key, one in self.producers.items() if one.began_at is not None}
        self.producers = dict(kept)
        for entry in self.entries:
            if entry.base >= since and entry.producer_id >= 0 and entry.producer_id not in kept:
                self._account(entry)

    def moved(self, leader: int | None, *, truncates: bool) -> None:
        """Change the leader. The new one has all that was replicated, and perhaps what was not."""
        self.leader = leader
        self.epoch += 1
        if truncates and self.end > self.high_watermark:
            self.entries = [entry for entry in self.entries if entry.last < self.high_watermark]
            self.producers, self.aborted = {}, []
            for entry in self.entries:
                if entry.producer_id >= 0:
                    self._account(entry)
        self.high_watermark = self.end
        if leader in self._restarted:
            self._load(leader)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, offset: int, up_to: int, max_bytes: int) -> bytes:
        """Return the batches from an offset on that end before `up_to`: at least one, then as many as fit."""
        found, size = [], 0
        for entry in self.entries[self._at(offset) :]:
            if entry.last >= up_to or (found and size + len(entry.data) > max_bytes):
                break
            found.append(entry.data)
            size += len(entry.data)
        return b"".join(found)

    def _at(self, offset: int) -> int:
        low, high = 0, len(self.entries)
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle].last < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def aborted_from(self, offset: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions that end at an offset or beyond it."""
        return [(producer_id, first) for producer_id, first, marker in self.aborted if marker >= offset]

    def by_offset(self, *, is_committed: bool) -> dict[int, bytes | None]:
        """Return the values of all records, or of those of committed transactions and of none, by offset."""
        up_to = self.last_stable if is_committed else self.end
        return {
            entry.base + index: record.value
            for entry in self._visible(up_to, is_committed=is_committed)
            for index, record in enumerate(_records(entry))
        }

    def _visible(self, up_to: int, *, is_committed: bool) -> Iterator[Entry]:
        hidden = _spans(self.aborted) if is_committed else {}
        for entry in self.entries:
            if entry.is_control or entry.last >= up_to:
                continue
            if entry.is_transactional and any(
                first <= entry.base < last for first, last in hidden.get(entry.producer_id, ())
            ):
                continue
            yield entry


def _records(entry: Entry) -> Iterable[object]:
    return records(entry.data)  # type: ignore[no-any-return]


def _spans(aborted: Iterable[tuple[int, int, int]]) -> dict[int, list[tuple[int, int]]]:
    spans: dict[int, list[tuple[int, int]]] = {}
    for producer_id, first, marker in aborted:
        spans.setdefault(producer_id, []).append((first, marker))
    return spans


def _with_crc(data: bytes) -> bytes:
    from crc32c import crc32c

    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]
