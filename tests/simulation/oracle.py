"""The invariant of a run: each record of the source is on the target once and in order, as readers of the mode see it.

With identical offsets there is one exception. A coordinator that does not hear that a marker is written writes it again, and the
second one takes the offset of a record. The partition is paused then: all records before the marker are on the target, and none
after it.

And the offset map places a group exactly: it skips no record, and reads none again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping

from mirror.model.flow_plan import FlowPlan
from mirror.model.offset_map import OffsetMap
from mirror.model.offset_map_tail import MapRecord, Tail
from mirror.model.position_metadata import PositionMetadata
from mirror.model.records import records
from mirror.model.topic_partition import TopicPartition
from tests.simulation.cluster import Cluster
from tests.simulation.log import PartitionLog
from tests.soak.oracle import Fate, fate, shifted

Values = dict[int, bytes | None]  # of records, by offset


class ClusterPair:
    """Both clusters, and which records count on each: all, or those of committed transactions and of none."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        topics: dict[str, str],
        *,
        from_committed: bool,
        to_committed: bool,
        is_identical: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._topics = topics
        self._from_committed = from_committed
        self._to_committed = to_committed
        self._is_identical = is_identical

    def fate(self) -> Fate:
        """Compare all partitions of topics on the source with their remote topics on the target."""
        found = Fate()
        for sent, got in self._records():
            found.add(fate([*sent.values()], [*got.values()]))
            found.shifted += shifted(sent, got) if self._is_identical else 0
        return found

    def has_arrived(self) -> bool:
        """Tell whether the last record of each partition is on the target."""
        return all(not sent or [*sent.values()][-1] in got.values() for sent, got in self._records())

    def lag(self) -> int:
        """Return how many records are not on the target yet."""
        return sum(len(sent) - len(got) for sent, got in self._records())

    def misplaced(self, plan: FlowPlan, *, is_exact: bool) -> list[str]:
        """Return the partitions in which a group would skip a record, or read one again, after its offset is translated.

        With identical offsets it must keep its offset. Without them it may read records again after the target has lost
        positions (`is_exact` is false): their metadata had the newest runs of the map.
        """
        found = []
        for place, (offsets, position) in maps_of(plan, self._target).items():
            copies = self._copies(place)
            for offset in range(position + 1) if copies is not None else ():
                if wrong := copies.wrong_place(offset, offsets.translate(offset), is_exact=is_exact):
                    found.append(f"{wrong}: {offsets.text()}")
                    break
        return found

    def wrong_place(self, place: TopicPartition, offset: int, at: int | None, *, is_exact: bool) -> str:
        """Return why a group that has read a partition up to `offset` may not stand at `at` on the target, "" if it may."""
        copies = self._copies(place)
        return copies.wrong_place(offset, at, is_exact=is_exact) if copies is not None else ""

    def first_unread(self, place: TopicPartition, offset: int) -> int | None:
        """Return the target offset of the first copied record of a source partition from `offset`, None if there is none."""
        copies = self._copies(place)
        return copies.first_unread(offset) if copies is not None else None

    def _copies(self, place: TopicPartition) -> _Copies | None:
        """Return where the records of a source partition are; None if a repeated marker has taken an offset."""
        (ours, theirs) = next(logs for logs in self._logs() if (logs[0].topic, logs[0].number) == place)
        if self._is_identical and theirs.repeats_marker_from is not None:
            return None
        return _Copies(ours.name, *self._both(ours, theirs), theirs.end, is_identical=self._is_identical)

    def _logs(self) -> Iterator[tuple[PartitionLog, PartitionLog]]:
        for topic, remote in self._topics.items():
            yield from zip(self._source.partitions(topic), self._target.partitions(remote), strict=True)

    def _records(self) -> Iterator[tuple[Values, Values]]:
        """Yield the records that have to be on the target, and those that are there, by offset."""
        for ours, theirs in self._logs():
            yield self._both(ours, theirs)

    def _both(self, ours: PartitionLog, theirs: PartitionLog) -> tuple[Values, Values]:
        sent = ours.by_offset(is_committed=self._from_committed)
        if self._is_identical and (end := _spoiled_from(sent, theirs)) is not None:
            sent = {offset: value for offset, value in sent.items() if offset < end}
        return sent, theirs.by_offset(is_committed=self._to_committed)


class _Copies:
    """The records of one source partition that are on the target: their offsets there and here."""

    def __init__(self, name: str, sent: Values, got: Values, end: int, *, is_identical: bool) -> None:
        on_target = {value: offset for offset, value in got.items()}
        self._name = name
        self._is_identical = is_identical
        self._offsets = [offset for offset, value in sent.items() if value in on_target]
        self._copies = [-1, *(on_target[sent[offset]] for offset in self._offsets), end]

    def wrong_place(self, offset: int, at: int | None, *, is_exact: bool) -> str:
        """Return why the group would skip a record or re-read one, "" if it would do neither."""
        if at is None and offset <= min(self._offsets, default=offset):
            return ""  # the group has read nothing
        read = bisect_left(self._offsets, offset)
        after, until = (offset - 1, offset) if self._is_identical else (self._copies[read], self._copies[read + 1])
        if not (is_exact or self._is_identical):
            after = -1
        is_right = at is not None and after < at <= until
        return "" if is_right else f"{self._name}: {offset} becomes {at}, not in ({after}, {until}]"

    def first_unread(self, offset: int) -> int | None:
        """Return the target offset of the first record from `offset`."""
        read = bisect_left(self._offsets, offset)
        return self._copies[read + 1] if read < len(self._offsets) else None


def maps_of(plan: FlowPlan, target: Cluster) -> dict[TopicPartition, tuple[OffsetMap, int]]:
    """Return a flow's offset map, and the position, of each source partition."""
    (log,) = target.partitions(plan.offset_map_topic)
    maps: dict[tuple[str, int], OffsetMap] = defaultdict(OffsetMap)
    for record in (record for entry in log.entries if not entry.is_control for record in records(entry.data)):
        if (decoded := MapRecord.decode(record.key, record.value)) is not None:
            maps[decoded.topic, decoded.partition].extend(decoded.runs)
    positions, found = target.group(plan.group).offsets, {}
    for assigned in plan.partitions:
        position, metadata = positions.get(assigned.on_target, (0, ""))
        offsets = maps[assigned.on_source]
        offsets.extend(Tail(PositionMetadata.parse(metadata).tail).runs)
        found[assigned.on_source] = offsets, position
    return found


def _spoiled_from(sent: Mapping[int, object], theirs: PartitionLog) -> int | None:
    """Return the first record's offset that a repeated marker has taken; None if there is none."""
    if (start := theirs.repeats_marker_from) is None:
        return None
    return min(
        (entry.base for entry in theirs.entries if entry.is_control and start <= entry.base in sent), default=None
    )
