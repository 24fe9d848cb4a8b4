"""Divide a comparison into pieces of the offset map, and compare both clusters. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mirror.model import record_batches
from mirror.model.flow_plan import PlannedPartition
from mirror.model.offset_map import OffsetMap, OffsetRun
from mirror.model.record_batches import Batch
from mirror.model.topic_partition import TopicPartition
from mirror.model.transforms import Content, TransformError, Transforms, applied

PIECE_RECORDS = 20_000
_LOG_APPEND_TIME = 1
SHOWN_BYTES = 40


class Piece(NamedTuple):
    """Records of one partition and run, starting at source offset `source` and target offset `target`."""

    topic: str
    partition: int
    source: int
    target: int
    records: int
    remote_topic: str
    is_compacted: bool = False  # the remote topic is compacted: it may lack records that the source still has
    transforms: Transforms = ()

    def after(self, records: int) -> Piece:
        """Return the rest of the piece after its first `records` records."""
        return self._replace(source=self.source + records, target=self.target + records, records=self.records - records)


@dataclass(slots=True)
class Finding:
    """The result for a piece or a partition. `digest` covers the equal records."""

    compared: int = 0
    different: int = 0
    missing: int = 0  # on the target, although the source has them
    gone: int = 0  # from one of the clusters, as retention and compaction cause
    first: str = ""  # the first difference, with its offsets
    digest: str = ""
    failure: str = ""

    def add(self, other: Finding) -> None:
        """Add the finding of a later piece."""
        self.compared += other.compared
        self.different += other.different
        self.missing += other.missing
        self.gone += other.gone
        self.first = self.first or other.first
        self.failure = self.failure or other.failure
        self.digest = hashlib.blake2b(f"{self.digest}{other.digest}".encode(), digest_size=8).hexdigest()

    @property
    def is_equal(self) -> bool:
        """True if no error was found."""
        return not (self.different or self.missing or self.failure)


@dataclass(frozen=True, slots=True)
class Scope:
    """The partitions to verify, and which of their offsets both clusters still have."""

    partitions: tuple[PlannedPartition, ...]
    maps: Mapping[TopicPartition, OffsetMap]
    source_starts: Mapping[TopicPartition, int]
    target_starts: Mapping[TopicPartition, int]
    last: int | None = None  # if set, only this many newest records of each partition
    compacted: frozenset[str] = frozenset()  # remote topics
    unmapped: list[PlannedPartition] = field(default_factory=list)

    def pieces(self) -> Iterator[Piece]:
        """Yield all pieces, oldest first per partition; add partitions without a map to `unmapped`."""
        for assigned in self.partitions:
            key, place = assigned.on_source, assigned.on_target
            runs = list(self.maps.get(key, OffsetMap()))
            if assigned.is_identical:
                runs = identical(runs)
            if not any(run.records for run in runs):
                self.unmapped.append(assigned)
                continue
            kept = (clipped(run, self.source_starts.get(key, 0), self.target_starts.get(place, 0)) for run in runs)
            for run in newest([run for run in kept if run.records > 0], self.last):
                for at in range(0, run.records, PIECE_RECORDS):
                    count = min(PIECE_RECORDS, run.records - at)
                    yield Piece(
                        *key,
                        run.source + at,
                        run.target + at,
                        count,
                        assigned.remote_topic,
                        assigned.remote_topic in self.compacted,
                        assigned.transforms,
                    )


def identical(runs: list[OffsetRun]) -> list[OffsetRun]:
    """Return one run of identical offsets, over all offsets that were copied."""
    if not any(run.records for run in runs):
        return []
    first, end = runs[0].source, runs[-1].source + runs[-1].records
    return [OffsetRun(first, first, end - first)]


def clipped(run: OffsetRun, source_start: int, target_start: int) -> OffsetRun:
    """Return the part of a run that neither log has deleted. The number of records may be 0 or less."""
    return run.after(max(0, source_start - run.source, target_start - run.target))


def newest(runs: list[OffsetRun], last: int | None) -> list[OffsetRun]:
    """Return the newest `last` records of the runs."""
    if last is None:
        return runs
    kept: list[OffsetRun] = []
    left = last
    for run in reversed(runs):
        if left <= 0:
            break
        kept.insert(0, run.after(max(0, run.records - left)))
        left -= run.records
    return kept


def compared(piece: Piece, source: Iterable[Batch], target: Iterable[Batch]) -> Finding:
    """Compare the records of a piece on both clusters one by one."""
    theirs = {record.offset - piece.source: record for record in _records(source, piece.source, piece.records)}
    ours = {record.offset - piece.target: record for record in _records(target, piece.target, piece.records)}
    found, digest = Finding(), hashlib.blake2b(digest_size=8)
    for at in range(piece.records):
        origin, copy = theirs.get(at), ours.get(at)
        if origin is None or (copy is None and piece.is_compacted):
            found.gone += (origin is None) != (copy is None)
            continue
        if copy is None:
            found.missing += 1
            found.first = found.first or _first(piece, at, "the target does not have it")
            continue
        found.compared += 1
        if (what := difference(_changed(origin, piece.transforms), copy)) is None:
            digest.update(repr((copy.key, copy.value, list(copy.headers))).encode())
            continue
        found.different += 1
        found.first = found.first or _first(piece, at, what)
    found.digest = digest.hexdigest()
    return found


def _changed(record: Any, transforms: Transforms) -> Any:
    """Return a source record as copied; unchanged if a transform drops or refuses it."""
    if not transforms:
        return record
    try:
        content = applied(transforms, Content(record.key, record.value, record.headers))
    except TransformError:
        content = None
    return record if content is None else record._replace(**content._asdict())


def difference(origin: Any, copy: Any) -> str | None:
    """Return the difference between a record and its copy, else None. Brokers' timestamps are ignored."""
    for name in ("key", "value"):
        theirs, ours = getattr(origin, name), getattr(copy, name)
        if theirs != ours:
            return f"{name} {_brief(theirs)} is {_brief(ours)} on the target"
    if list(origin.headers) != list(copy.headers):
        return "the headers differ"
    if origin.timestamp != copy.timestamp and _LOG_APPEND_TIME not in (origin.timestamp_type, copy.timestamp_type):
        return f"timestamp {origin.timestamp} is {copy.timestamp} on the target"
    return None


def _first(piece: Piece, at: int, what: str) -> str:
    return (
        f"{piece.topic}-{piece.partition} offset {piece.source + at} "
        f"({piece.remote_topic} offset {piece.target + at}): {what}"
    )


def _records(batches: Iterable[Batch], start: int, count: int) -> Iterator[Any]:
    for batch in batches:
        if not batch.is_control:
            yield from (r for r in record_batches.records(batch.data) if start <= r.offset < start + count)


def _brief(content: bytes | None) -> str:
    if content is None:
        return "null"
    shown = repr(content[:SHOWN_BYTES])
    return shown if len(content) <= SHOWN_BYTES else f"{shown}... ({len(content)} bytes)"
