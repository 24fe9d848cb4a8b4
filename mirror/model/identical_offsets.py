"""Decide the next action that keeps a remote partition's offsets equal to the source's. Pure.

A broker gives appended records consecutive offsets. The source's log has offsets without a record: markers of transactions,
aborted records, records that compaction or retention removed. On the target, an aborted transaction occupies these offsets:
filler records take all but the last one, and the transaction's marker takes the last. No consumer sees a marker, and no
consumer with `isolation.level=read_committed` sees filler.

A: A record is appended only if the target's log ends at the record's offset on the source.
B: The target's log never grows beyond the source's.
C: Nothing is written to a log that differs from the source's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from mirror.model.codecs import CODECS
from mirror.model.offset_map import OffsetRun
from mirror.model.record_batches import HEADER, Outgoing
from mirror.model.records import HEADER_SIZE, batch_of, body_of, varint

EMPTY_AT_MOST = 8  # a gap of at most this many offsets is filled with markers alone, which no consumer sees
FILLER_RECORDS = 200_000  # per batch, about 150 KiB as brokers count: less than any usual max.message.bytes
BATCHES = 50  # per transaction, so that it ends before its timeout
COMPARED = 1_000  # how many offsets before the end of a log are compared
FILLER_KEY = b"kafka-mirror-filler"  # compacted topics refuse records without a key


class Fill(NamedTuple):
    """Offsets to occupy on the target: from the end of its log up to `end`."""

    start: int
    end: int

    @property
    def offsets(self) -> int:
        """Number of offsets to occupy."""
        return self.end - self.start


class Step(Enum):
    """The next action for a partition whose log has no gap to fill."""

    APPEND = auto()  # send the next batch
    WAIT = auto()  # the target has all records of the source
    DIVERGE = auto()  # stop: the next record would get another offset


def next_step(log_end: int, first: int | None, passed: int, *, disposable_before: int = 0) -> Step | Fill:
    """Return the next action.

    Args:
        log_end: End of the target's log.
        first: Source offset of the first record of the next batch; None if no batch waits.
        passed: Source offset before which no record is left to copy.
        disposable_before: Records before this offset need not stay on the target: they are filled separately, then deleted.
    """
    until = passed if first is None else first
    if log_end < until:
        return Fill(log_end, disposable_before if log_end < disposable_before < until else until)
    if first is None:
        return Step.WAIT
    return Step.APPEND if log_end == first else Step.DIVERGE


def filler_of_next_transaction(offsets: int, most: int = FILLER_RECORDS) -> list[int]:
    """Return the sizes of the filler batches in the next transaction of a gap.

    The transaction's marker occupies one more offset. A small gap gets one transaction without filler per offset.
    """
    if offsets <= EMPTY_AT_MOST:
        return []
    records = min(offsets - 1, BATCHES * most)
    whole, rest = divmod(records, most)
    return [most] * whole + [rest] * (rest > 0)


def filler(records: int, timestamp_ms: int) -> Outgoing:
    """Return a batch of filler: records with a key and without a value."""
    data = bytearray(_filler(records))
    fields = list(HEADER.unpack_from(data))
    fields[7] = fields[8] = timestamp_ms
    HEADER.pack_into(data, 0, *fields)
    return Outgoing(bytes(data), records, 0, timestamp_ms, timestamp_ms, float(timestamp_ms) * records)


@lru_cache(maxsize=4)  # all batches of a large gap have the same size
def _filler(records: int) -> bytes:
    body = body_of(FILLER_KEY, None)
    parts: list[bytes] = []
    for index in range(records):
        head = b"\0\0" + varint(index)
        parts += (varint(len(head) + len(body)), head, body)
    codec = CODECS["zstd"] if len(parts) * len(body) > HEADER_SIZE * 100 else CODECS["none"]
    return batch_of(parts, codec=codec, level=None, count=records, first_timestamp=0, max_timestamp=0)


# --- before the first write of a window ---------------------------------------------------------------------------


class Log(NamedTuple):
    """Start and end of a log."""

    start: int
    end: int


class Aligned(NamedTuple):
    """The logs agree: continue at a source position. The target's log ends at `log_end`, maybe earlier.

    `lost`: offsets that the target's log has lost and that the source no longer has.
    """

    position: int
    log_end: int
    lost: Fill | None = None


class Compare(NamedTuple):
    """The records from `first` to before `end` must be compared.

    If they are equal on both clusters, the logs agree as in `then`.
    """

    first: int
    end: int
    then: Aligned


class Diverged(NamedTuple):
    """The target's log has other offsets than the source's."""

    reason: str


def alignment(position: int, target: Log, source: Log, mapped: OffsetRun | None) -> Aligned | Compare | Diverged:
    """Return whether the target's log fits a position on the source.

    Args:
        position: The next source offset to copy.
        target: The log of the remote partition.
        source: The log of the source partition.
        mapped: Newest run of the partition's offset map; None if nothing was copied, or if the run is unknown.
    """
    if mapped is not None and mapped.source != mapped.target:
        return Diverged(f"source offset {mapped.source} is offset {mapped.target} on the target")
    if target.end > source.end:
        return Diverged(f"the target's log ends at {target.end}, after the source's end, {source.end}")
    if mapped is None:
        if target.start == target.end > position:
            return Diverged(
                f"the remote topic is empty, and its log ends at {target.end}, after the position, {position}"
            )
        then = Aligned(max(position, target.end), target.end)
        return then if target.start == target.end else _compare(0, target, then)
    if target.end < (written := mapped.target + mapped.records):
        lost = Fill(target.end, min(source.start, written)) if target.end < source.start else None
        return Aligned(max(target.end, source.start), target.end, lost)
    if target.end > position:
        return _compare(position, target, Aligned(target.end, target.end))
    return Aligned(position, target.end)


def _compare(first: int, target: Log, then: Aligned) -> Compare:
    return Compare(max(first, target.start, target.end - COMPARED), target.end, then)


NO_RECORD = object()  # stands for an offset of a marker or an aborted record


def are_equal(ours: Mapping[int, object], theirs: Mapping[int, object]) -> bool:
    """Return whether two clusters have the same records, by offset. NO_RECORD: the offset never had a record.

    Compaction may have removed a record from one cluster only, which leaves its offset absent. But if both clusters have records,
    they must have some in common.
    """
    common = ours.keys() & theirs.keys()
    if any(ours[offset] != theirs[offset] for offset in common):
        return False
    if any(ours[offset] is not NO_RECORD for offset in common):
        return True
    return all(value is NO_RECORD for value in (*ours.values(), *theirs.values()))
