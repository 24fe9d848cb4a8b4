"""Keep an offset map's newest runs with the position until the map's topic has them. Pure.

Position and tail are committed together, so both are known after any crash. The tail of a steady partition is one run that
grows. The topic is written after a partition's first batch, then once a minute, or when a tail becomes long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from mirror.model.offset_map import OffsetMap, OffsetRun

LONG = 1_000  # characters: above this, move all but the newest run to the topic
UNSAVED = "*"  # at the end of the text: the topic lacks some of the runs
MOST = 3_500  # brokers refuse metadata above 4,096 characters by default


class Tail:
    """The runs that the map's topic lacks, and the run before them, which may grow."""

    __slots__ = ("_begins_at", "is_new", "is_unsaved", "runs")

    def __init__(self, text: str = "", *, begins_at: int | None = None) -> None:
        """Parse a tail; an invalid text means that nothing is known.

        Args:
            text: What `text` returned.
            begins_at: Source offset where replication starts now: no record from there on is missing. None if it continues.
        """
        self._begins_at = begins_at
        self.is_new = not text  # the topic has no run of the partition yet, as far as the position shows
        self.is_unsaved = text.endswith(UNSAVED)
        try:
            self.runs = OffsetMap.parse(text.removesuffix(UNSAVED))
        except ValueError:
            self.runs = OffsetMap()

    def acknowledged(self, runs: Iterable[OffsetRun], base: int) -> None:
        """Record a batch whose first target offset is `base`."""
        if self._begins_at is not None:
            self.runs.add(self._begins_at, base, 0)
            self._begins_at = None
        self.is_unsaved = True
        for run in runs:
            self.runs.add(run.source, base + run.target, run.records)

    def add_equal(self, start: int, end: int) -> None:
        """Record that the offsets from `start` to before `end` are the same on both clusters."""
        self.acknowledged((OffsetRun(start, 0, end - start),), start)

    def nothing_before(self, source: int, target: int) -> None:
        """Record that no source record from offset `source` is before target offset `target`."""
        self.runs.add(source, target, 0)

    def text(self) -> str:
        """Return the tail for a position's metadata.

        If the tail is too long, only the newest runs are returned, which is safe but incomplete.
        """
        text = self.runs.text()
        while len(text) > MOST:
            self.runs.keep_newest(len(self.runs) // 2)
            text = self.runs.text()
        return text + UNSAVED if self.is_unsaved else text

    def last_hole(self) -> tuple[int | None, int] | None:
        """Return the first and last source offset between the two newest runs.

        The first is None if there is only one run.
        """
        *_, before, last = (None, None, *self.runs)
        if last is None:
            return None
        first = before.source + before.records if before is not None else None
        return (first, last.source - 1) if first is None or first < last.source else None

    @property
    def is_long(self) -> bool:
        """True when the tail should be moved to the topic."""
        return len(self.runs) > 1 and len(self.runs.text()) > LONG

    def moved(self, until: OffsetRun) -> None:
        """Drop the runs that are in the topic now: all runs before `until`, the newest run written."""
        self.is_new, self.is_unsaved = False, self.runs.last != until
        newer = sum(1 for run in self.runs if run.source >= until.source)
        self.runs.keep_newest(max(1, newer))


# Key of the record in the map's topic that keeps the paused topics (mirror.model.paused_topics): their offset may expire.
PAUSED = b"paused"


class MapRecord(NamedTuple):
    """One record of the map's topic: runs of a partition. A later record replaces overlapping runs.

    `ids`: topic ids on both clusters (mirror.policy.recreated), "" if unknown.
    """

    topic: str  # name on the source
    partition: int
    runs: OffsetMap
    ids: str = ""

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value. The key has the first source offset, so a growing run replaces its earlier record."""
        assert self.runs.first is not None
        value = f"{self.runs.text()} {self.ids}".rstrip()
        return self.key(self.topic, self.partition, self.runs.first.source), value.encode()

    @staticmethod
    def key(topic: str, partition: int, first: int) -> bytes:
        """Return the key of the record whose first run starts at a source offset."""
        return json.dumps([topic, partition, first]).encode()

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> MapRecord | None:
        """Decode a record; return None for another kind of record, or a tombstone."""
        if key is None or value is None:
            return None
        try:
            topic, partition, _ = json.loads(key)
            runs, _, ids = value.decode().partition(" ")
            return cls(str(topic), int(partition), OffsetMap.parse(runs), ids)
        except (ValueError, TypeError):
            return None
