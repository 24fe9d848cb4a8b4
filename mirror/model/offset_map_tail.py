"""Keep an offset map's newest runs with the position until the map's topic has them. Pure.

Position and tail are one commit, so both are known after any crash. A steady partition's tail is one run that grows; the topic
is written once a minute, or when a tail becomes long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from mirror.model.offset_map import OffsetMap, OffsetRun

LONG = 1_000  # characters: time to move all but the newest run to the topic
UNSAVED = "*"  # at a text's end: the topic does not have all of it
MOST = 3_500  # brokers refuse metadata above 4,096 characters by default


class Tail:
    """Runs that the map's topic lacks, after the run that grew when it was moved."""

    __slots__ = ("_begins_at", "is_unsaved", "runs")

    def __init__(self, text: str = "", *, begins_at: int | None = None) -> None:
        """Parse a tail; an invalid text means that nothing is known.

        Args:
            text: What `text` returned.
            begins_at: Source offset from which on nothing is missing, where replication begins now; else None.
        """
        self._begins_at = begins_at
        self.is_unsaved = text.endswith(UNSAVED)
        try:
            self.runs = OffsetMap.parse(text.removesuffix(UNSAVED))
        except ValueError:
            self.runs = OffsetMap()

    def acknowledged(self, runs: Iterable[OffsetRun], base: int) -> None:
        """Record a batch that the target has from offset `base` on."""
        if self._begins_at is not None:
            self.runs.add(self._begins_at, base, 0)
            self._begins_at = None
        self.is_unsaved = True
        for run in runs:
            self.runs.add(run.source, base + run.target, run.records)

    def nothing_before(self, source: int, target: int) -> None:
        """Record that source records from an offset on are not before a target offset."""
        self.runs.add(source, target, 0)

    def text(self) -> str:
        """Return the tail for a position's metadata.

        Of a long tail only the newest runs, which is safe but incomplete.
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
        """True when it should be moved to the topic."""
        return len(self.runs) > 1 and len(self.runs.text()) > LONG

    def moved(self, until: OffsetRun) -> None:
        """Drop the runs that are in the topic now: all runs before `until`, the newest written one."""
        self.is_unsaved = self.runs.last != until
        newer = sum(1 for run in self.runs if run.source >= until.source)
        self.runs.keep_newest(max(1, newer))


# Key of a record of the map's topic with the paused topics (mirror.model.paused_topics): the offset that keeps them may expire.
PAUSED = b"paused"


class MapRecord(NamedTuple):
    """One record of the map's topic: runs of a partition. A later record replaces overlapping runs.

    `ids` of the topic on both sides (mirror.policy.recreated), "" if unknown.
    """

    topic: str  # of the source
    partition: int
    runs: OffsetMap
    ids: str = ""

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value. The key has the first source offset, so a growing run replaces itself."""
        assert self.runs.first is not None
        value = f"{self.runs.text()} {self.ids}".rstrip()
        return self.key(self.topic, self.partition, self.runs.first.source), value.encode()

    @staticmethod
    def key(topic: str, partition: int, first: int) -> bytes:
        """Return the key of the record whose runs begin at a source offset."""
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
