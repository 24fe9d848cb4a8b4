"""The invariant of a run: each record of the source is on the target once and in order, as readers of the mode see it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.cluster import Cluster
from tests.simulation.log import PartitionLog
from tests.soak.oracle import Fate, fate


class ClusterPair:
    """Both clusters, and which records count on each: all, or those of committed transactions and of none."""

    def __init__(
        self, source: Cluster, target: Cluster, topics: dict[str, str], *, from_committed: bool, to_committed: bool
    ) -> None:
        self._source = source
        self._target = target
        self._topics = topics
        self._from_committed = from_committed
        self._to_committed = to_committed

    def fate(self) -> Fate:
        """Compare all partitions of topics on the source with their remote topics on the target."""
        found = Fate()
        for sent, got in self._values():
            found.add(fate(sent, got))
        return found

    def shifted(self) -> int:
        """Return how many records have another offset on the target than on the source."""
        found = 0
        for ours, theirs in self._logs():
            sent = ours.by_offset(is_committed=self._from_committed)
            got = theirs.by_offset(is_committed=self._to_committed)
            found += sum(sent.get(offset) != value for offset, value in got.items())
        return found

    def has_arrived(self) -> bool:
        """Tell whether the last record of each partition is on the target."""
        return all(not sent or sent[-1] in got for sent, got in self._values())

    def lag(self) -> int:
        """Return how many records are not on the target yet."""
        return sum(len(sent) - len(got) for sent, got in self._values())

    def _logs(self) -> Iterator[tuple[PartitionLog, PartitionLog]]:
        for topic, remote in self._topics.items():
            yield from zip(self._source.partitions(topic), self._target.partitions(remote), strict=True)

    def _values(self) -> Iterator[tuple[list[bytes | None], list[bytes | None]]]:
        for ours, theirs in self._logs():
            yield ours.values(is_committed=self._from_committed), theirs.values(is_committed=self._to_committed)
