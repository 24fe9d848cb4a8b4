"""The invariant of a run: each record of the source is on the target once and in order, as readers of the mode see it."""

from __future__ import annotations

from tests.simulation.cluster import Cluster
from tests.soak.oracle import Fate, fate


def total(source: Cluster, target: Cluster, topics: dict[str, str], *, is_committed: bool) -> Fate:
    """Compare all partitions of topics on the source with their remote topics on the target."""
    found = Fate()
    for topic, remote in topics.items():
        for ours, theirs in zip(source.partitions(topic), target.partitions(remote), strict=True):
            found.add(fate(ours.values(is_committed=False), theirs.values(is_committed=is_committed)))
    return found


def has_arrived(source: Cluster, target: Cluster, topics: dict[str, str], *, is_committed: bool) -> bool:
    """Tell whether the last record of each partition is on the target."""
    for topic, remote in topics.items():
        for ours, theirs in zip(source.partitions(topic), target.partitions(remote), strict=True):
            sent, got = ours.values(is_committed=False), theirs.values(is_committed=is_committed)
            if sent and sent[-1] not in got:
                return False
    return True
