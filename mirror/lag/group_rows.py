"""Make the rows of one cluster's consumer groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from metrics.verdict import Status
from mirror.kafka.cluster import Cluster
from mirror.kafka.groups import Group, warn_of_left_out
from mirror.lag import cluster_offsets
from mirror.lag.cluster_offsets import BoundedPoll
from mirror.lag.partition_offsets import PartitionOffsets
from mirror.lag.rows import LagRow, RowJudge
from mirror.model.topic_partition import TopicPartition


class GroupRows:
    """Knows one cluster's rows from poll to poll: while it does not answer, the last ones are judged again."""

    def __init__(self, cluster: Cluster, judge: RowJudge, hidden: set[str]) -> None:
        """Make rows of one cluster's groups; `hidden` holds those that may not be read, as logged."""
        self._cluster = cluster
        self._judge = judge
        self._hidden = hidden
        self._rows: list[LagRow] = []

    def read(self, poll: BoundedPoll) -> list[LagRow]:
        """Return a row per group and topic-partition."""
        alias = self._cluster.alias
        groups = poll.ask(alias, lambda: cluster_offsets.consumer_groups(self._cluster))
        if groups is None:
            return [self._judged_again(row, poll) for row in self._rows]
        warn_of_left_out(groups, alias, self._hidden)
        places = sorted({place for group in groups for place in (*group.offsets, *group.owners)})
        ends = poll.ask(alias, lambda: cluster_offsets.log_ends(self._cluster, places)) or {}
        self._rows = [row for group in groups for row in self._of_group(group, ends, poll)]
        return self._rows

    def _of_group(self, group: Group, ends: Mapping[TopicPartition, int], poll: BoundedPoll) -> Iterator[LagRow]:
        for place in sorted({*group.offsets, *group.owners}):
            at = PartitionOffsets(group.offsets.get(place), log_end=ends.get(place))
            row = LagRow(
                group=group.name,
                cluster=self._cluster.alias,
                topic=place[0],
                partition=place[1],
                offset=at.position,
                log_end=at.log_end,
                owner=group.owners.get(place, ""),
            )
            judged = self._judge.judged(row, at, now_s=poll.now_s, position_s=poll.now_s)
            yield judged if group.owners else _memberless(judged)

    def _judged_again(self, row: LagRow, poll: BoundedPoll) -> LagRow:
        """Return a row of before without what is not known any more."""
        known = replace(row, log_end=None, owner="", lag_seconds=None)
        return self._judge.judged(known, PartitionOffsets(), now_s=poll.now_s, position_s=poll.now_s)


def _memberless(row: LagRow) -> LagRow:
    """Return a row of a group without members: where it stands still nothing stalls, for nobody reads."""
    if row.status is not Status.STALL:
        return row
    return replace(row, status=Status.IDLE, reason=f"{row.reason}; the group has no member")
