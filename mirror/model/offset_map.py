"""Map source offsets of a partition to target offsets, as runs. Pure.

Each acknowledged batch yields runs, and adjacent runs merge. A partition without gaps is therefore one run, however long.
MirrorMaker instead keeps at most 64 offset pairs, and cannot translate between them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_OFFSETS = "q"  # eight bytes each: a map may have millions of runs


class OffsetRun(NamedTuple):
    """`records` records from source offset `source` are at target offsets from `target`.

    0 records: the source had no record between `source` and the next run, so none was replicated.
    """

    source: int
    target: int
    records: int

    def after(self, records: int) -> OffsetRun:
        """Return the rest of the run after its first `records` records.

        If the run has fewer records, the count is 0 or less.
        """
        return OffsetRun(self.source + records, self.target + records, self.records - records)


class OffsetMap:
    """Runs of records. A newer run replaces the runs that it overlaps on the source or the target.

    A: Runs are ordered by source offset, and also by target offset.
    B: No two runs overlap, neither on the source nor on the target.
    C: `translate` and `reverse` never lead past a record that the consumer has not read.
    D: Translated offsets lie after every record that was read, unless the map was thinned.

    On the source, a newer run wins: a batch that was repeated after a crash is best read where it was written last.
    On the target, a newer run also wins: a repeated target offset means that the target topic was truncated or recreated.
    """

    __slots__ = ("_counts", "_sources", "_targets")

    def __init__(self, runs: Iterable[OffsetRun] = ()) -> None:
        self._sources = array(_OFFSETS)
        self._targets = array(_OFFSETS)
        self._counts = array(_OFFSETS)
        self.extend(runs)

    def __iter__(self) -> Iterator[OffsetRun]:
        return map(OffsetRun, self._sources, self._targets, self._counts)

    def __len__(self) -> int:
        return len(self._sources)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetMap) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def add(self, source: int, target: int, count: int) -> None:
        """Record that `count` records from a source offset are at a target offset."""
        sources, targets, counts = self._sources, self._targets, self._counts
        while sources and (sources[-1] >= source or targets[-1] >= target + (not counts[-1])):
            sources.pop(), targets.pop(), counts.pop()
        if sources:
            counts[-1] = min(counts[-1], source - sources[-1], target - targets[-1])
            if sources[-1] + counts[-1] == source and targets[-1] + counts[-1] == target:
                counts[-1] += count
                return
        sources.append(source)
        targets.append(target)
        counts.append(count)

    def extend(self, runs: Iterable[OffsetRun]) -> None:
        """Record runs, oldest first."""
        for run in runs:
            self.add(*run)

    @property
    def first(self) -> OffsetRun | None:
        """The oldest run, None while nothing is known."""
        return OffsetRun(self._sources[0], self._targets[0], self._counts[0]) if self._sources else None

    @property
    def last(self) -> OffsetRun | None:
        """The newest run, None while nothing is known."""
        return OffsetRun(self._sources[-1], self._targets[-1], self._counts[-1]) if self._sources else None

    def translate(self, source: int) -> int | None:
        """Return the target offset at which a consumer at source offset `source` resumes.

        The result never skips a record that the consumer has not read: an offset in a gap, or beyond the replicated records,
        becomes the target offset after the previous run. None before the first run: that part is unknown.
        """
        return _across(self._sources, self._targets, self._counts, source)

    def reverse(self, target: int) -> int | None:
        """Return the source offset at which a consumer on the target resumes. Rules as in `translate`."""
        return _across(self._targets, self._sources, self._counts, target)

    def gapless_on_target(self, target: int, until: int) -> int:
        """Return the target offset, at most `until`, before which all records are the source's."""
        at = bisect_right(self._targets, target) - 1
        while 0 <= at < len(self) and self._targets[at] <= target < until:
            target = max(target, self._targets[at] + self._counts[at])
            at += 1
        return min(target, until)

    def cut(self, end: int) -> None:
        """Forget all records from a target offset: the target's log ends there now."""
        while self._targets and self._targets[-1] >= end:
            self._sources.pop(), self._targets.pop(), self._counts.pop()
        if self._counts:
            self._counts[-1] = min(self._counts[-1], end - self._targets[-1])

    def forget_before(self, source: int) -> None:
        """Drop runs before an offset, except the newest one: offsets in the gap after it translate to its end."""
        self._drop(bisect_right(self._sources, source) - 1)

    def thin(self) -> None:
        """Drop every second run of the older half, but keep the first.

        An offset in a dropped run translates to the end of the previous run: records are read again, and none is skipped.
        """
        for column in (self._sources, self._targets, self._counts):
            del column[1 : len(column) // 2 : 2]

    def keep_newest(self, runs: int) -> None:
        """Keep only the newest `runs` runs."""
        self._drop(len(self) - runs)

    def _drop(self, oldest: int) -> None:
        oldest = max(0, oldest)
        del self._sources[:oldest], self._targets[:oldest], self._counts[:oldest]

    def since(self, source: int) -> Iterator[OffsetRun]:
        """Return the runs, or their parts, at or after a source offset."""
        at = bisect_left(self._sources, source)
        if at and self._sources[at - 1] + self._counts[at - 1] > source:
            before = OffsetRun(self._sources[at - 1], self._targets[at - 1], self._counts[at - 1])
            yield before.after(source - before.source)
        for index in range(at, len(self)):
            yield OffsetRun(self._sources[index], self._targets[index], self._counts[index])

    # --- as text, in a few bytes per run -------------------------------------------------------------------------

    def text(self) -> str:
        """Return the map as text: "source,target,count" for each run.

        Offsets are relative to the end of the previous run.
        """
        parts = []
        source = target = 0
        for run in self:
            parts.append(f"{run.source - source},{run.target - target},{run.records}")
            source, target = run.source + run.records, run.target + run.records
        return ";".join(parts)

    @classmethod
    def parse(cls, text: str) -> OffsetMap:
        """Read `text` back.

        Raises:
            ValueError: the text is invalid.
        """
        found = cls()
        source = target = 0
        for part in text.split(";") if text else ():
            source_step, target_step, count = (int(number) for number in part.split(","))
            source, target = source + source_step, target + target_step
            if source < 0 or target < 0 or count < 0:
                raise ValueError(f"no run of offsets: {part}")
            found.add(source, target, count)
            source, target = source + count, target + count
        return found


def _across(origins: array[int], destinations: array[int], counts: array[int], offset: int) -> int | None:
    at = bisect_right(origins, offset) - 1
    return None if at < 0 else destinations[at] + min(offset - origins[at], counts[at])
