"""What is kept with a position, as its metadata. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """`ids` of the topic on both sides (mirror.replication.recreated) and `tail` of the offset map, both as text."""

    ids: str
    tail: str = ""

    def __str__(self) -> str:
        return f"{self.ids} {self.tail}".rstrip()

    @classmethod
    def parse(cls, metadata: str) -> Note:
        """Read back what str() returned."""
        ids, _, tail = metadata.partition(" ")
        return cls(ids, tail)
