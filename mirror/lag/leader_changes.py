"""Remember the changes of partition leaders that polls have seen."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from mirror.kafka.cluster import Topic

MOST = 20  # changes that are kept of each partition
NO_LEADER = -1


class LeaderChange(NamedTuple):
    """A change between two polls: brokers by id, NO_LEADER for none."""

    time_s: float  # of the poll that saw it, epoch seconds
    cluster: str
    before: int
    after: int


class LeaderChanges:
    """The last leader changes of each partition. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leaders: dict[tuple[str, str], tuple[int, ...]] = {}  # by cluster and topic
        self._changes: dict[tuple[str, str, int], deque[LeaderChange]] = {}

    def record(self, cluster: str, topics: Iterable[Topic], time_s: float) -> None:
        """Record the leaders of a poll."""
        with self._lock:
            for topic in topics:
                if topic.is_hidden:
                    continue
                before = self._leaders.get((cluster, topic.name), topic.leaders)
                self._leaders[cluster, topic.name] = topic.leaders
                if before == topic.leaders:
                    continue
                for number, (old, new) in enumerate(zip(before, topic.leaders, strict=False)):
                    if old != new:
                        changes = self._changes.setdefault((cluster, topic.name, number), deque(maxlen=MOST))
                        changes.append(LeaderChange(time_s, cluster, old, new))

    def of(self, cluster: str, topic: str, partition: int) -> list[LeaderChange]:
        """Return the changes of a partition, oldest first."""
        with self._lock:
            return list(self._changes.get((cluster, topic, partition), ()))
