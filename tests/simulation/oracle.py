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

    def misplaced(self, plan: FlowPlan, *, has_lost_positions: bool) -> list[str]:
        """Return the partitions in which a group would skip a record, or read one again, after its offset is translated.

        With identical offsets it must keep its offset. Without them it may read records again after the target has lost
        positions: their metadata had the newest runs of the map.
        """
        maps, found = maps_of(plan, self._target), []
        for (ours, theirs), (sent, got) in zip(self._logs(), self._records(), strict=True):
            if self._is_identical and theirs.repeats_marker_from is not None:
                continue
            offsets, position = maps[TopicPartition(ours.topic, ours.number)]
            offset_of = {value: offset for offset, value in got.items()}
            copied = [offset for offset in sent if offset < position]
            copies = [-1, *(offset_of[sent[offset]] for offset in copied), theirs.end]
            for offset in range(position + 1):
                if (at := offsets.translate(offset)) is None and offset <= min(copied, default=position):
                    continue  # the group has read nothing
                read = bisect_left(copied, offset)
                after, until = (offset - 1, offset) if self._is_identical else (copies[read], copies[read + 1])
                if has_lost_positions and not self._is_identical:
                    after = -1
                if at is None or not after < at <= until:
                    found.append(f"{ours.name}: {offset} becomes {at}, not in ({after}, {until}]: {offsets.text()}")
                    break
        return found

    def _logs(self) -> Iterator[tuple[PartitionLog, PartitionLog]]:
        for topic, remote in self._topics.items():
            yield from zip(self._source.partitions(topic), self._target.partitions(remote), strict=True)

    def _records(self) -> Iterator[tuple[dict[int, bytes | None], dict[int, bytes | None]]]:
        """Yield the records that have to be on the target, and those that are there, by offset."""
        for ours, theirs in self._logs():
            sent = ours.by_offset(is_committed=self._from_committed)
            if self._is_identical and (end := _spoiled_from(sent, theirs)) is not None:
                sent = {offset: value for offset, value in sent.items() if offset < end}
            yield sent, theirs.by_offset(is_committed=self._to_committed)


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
