"""What became of numbered records: which are lost, there more than once, or out of order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Fate:
    """Counts over topic-partitions."""

    sent: int = 0
    lost: int = 0
    duplicate: int = 0
    reordered: int = 0  # first copies that come behind one that was sent later
    foreign: int = 0
    shifted: int = 0  # with another offset than on the source, if offsets are identical

    def add(self, other: Fate) -> None:
        """Add another one's counts."""
        for name in ("sent", "lost", "duplicate", "reordered", "foreign", "shifted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def is_clean(self) -> bool:
        """True when every record arrived once and in order."""
        return not (self.lost or self.duplicate or self.reordered or self.foreign or self.shifted)


def shifted(sent: Mapping[int, bytes | None], got: Mapping[int, bytes | None]) -> int:
    """Return how many values have another offset than on the source."""
    return sum(sent.get(offset) != value for offset, value in got.items())


def fate(sent: Sequence[bytes | None], got: Sequence[bytes | None]) -> Fate:
    """Compare the values of one topic-partition on both clusters; those that were sent are all different."""
    places = {value: at for at, value in enumerate(sent)}
    copies = Counter(value for value in got if value in places)
    found = Fate(sent=len(sent), foreign=sum(value not in places for value in got))
    found.lost = len(sent) - len(copies)
    found.duplicate = sum(copies.values()) - len(copies)
    furthest = -1
    for value in dict.fromkeys(value for value in got if value in places):
        found.reordered += places[value] < furthest
        furthest = max(furthest, places[value])
    return found
