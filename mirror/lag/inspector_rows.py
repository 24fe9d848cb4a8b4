"""Make the inspector's rows: of a flow, measured as the poller does, and of a cluster's consumer groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from metrics.history import History
from metrics.verdict import Status, Verdict
from mirror.config.settings import Flow
from mirror.flows.topics import flow_plan, matched, source_topics
from mirror.kafka.cluster import Cluster, Topic
from mirror.kafka.groups import Group, warn_of_left_out
from mirror.lag import cluster_offsets
from mirror.lag.cluster_offsets import BoundedFlow, BoundedPoll
from mirror.lag.flow_lag import FlowLag
from mirror.lag.judgement import status_in_plan
from mirror.lag.partition_offsets import FlowOffsets, PartitionOffsets, time_lag_s
from mirror.lag.rows import LagRow, RowJudge
from mirror.model.flow_plan import Absent, FlowPlan, PlannedPartition
from mirror.model.topic_partition import TopicPartition


@dataclass(kw_only=True, eq=False, repr=False)
class FlowRows:
    """Knows one flow from poll to poll: its topic-partitions and positions, as its clusters described them last."""

    flow: Flow
    source: Cluster
    target: Cluster
    history: History
    judge: RowJudge

    def __post_init__(self) -> None:
        self._lag = FlowLag(self.history)
        self._plan: FlowPlan | None = None
        self._known: list[Topic] = []

    def read(self, poll: BoundedPoll) -> list[LagRow]:
        """Return a row per topic-partition."""
        plan = self._described(poll)
        if plan is None:
            return self._without_source(poll)
        found = self._lag.read(plan, BoundedFlow(poll, self.source, self.target))
        # Rows first: their maker keeps the polls that time lag is computed from.
        rows = [self._row(place, found, poll) for place in plan.places]
        has_ends = found.logs is not None and bool(found.logs.ends)
        until_s = self._lag.replicated_until_s(plan, found) if has_ends else {}
        return [
            replace(
                row, lag_seconds=time_lag_s(row.lag, until_s.get(TopicPartition(row.topic, row.partition)), poll.now_s)
            )
            for row in rows
        ]

    def close(self) -> None:
        """Close the connections."""
        self._lag.close()

    def _row(self, place: PlannedPartition | Absent, found: FlowOffsets, poll: BoundedPoll) -> LagRow:
        """Return a row with its verdict, whose time lag is not known yet."""
        at = found.of[place.on_source]
        row = LagRow(
            group=self.flow.name,
            cluster=self.source.alias,
            topic=place.topic,
            partition=place.partition,
            offset=at.position,
            log_end=at.log_end,
            owner=poll.owner,
            is_flow=True,
            remote_topic=place.remote_topic,
        )
        judged = self.judge.judged(row, at, now_s=poll.now_s, position_s=found.positions.read_s)
        polled = Verdict(judged.status, judged.reason, is_complete=True)
        verdict = status_in_plan(polled, place, found.held)
        return replace(judged, status=verdict.status, reason=verdict.reason)

    def _described(self, poll: BoundedPoll) -> FlowPlan | None:
        """Return what the flow replicates, as its clusters describe it, or described it last.

        While nobody knows what the target has, every matching topic of the source counts. None where nothing is known at all.
        """
        flow = self.flow
        on_target = poll.ask(self.target.alias, self.target.topics)
        on_source = poll.ask(
            self.source.alias, lambda: source_topics(flow, self.source, on_target or {}, known=self._known)
        )
        if on_source is None or (on_target is None and self._plan is not None):
            return self._plan
        topics = matched(flow, on_source)
        self._known = [topic.source for topic in topics]
        if on_target is None:
            return flow_plan(flow, topics, {topic.remote: topic.source.partitions for topic in topics})
        self._plan = flow_plan(flow, topics, {name: topic.partitions for name, topic in on_target.items()})
        return self._plan

    def _without_source(self, poll: BoundedPoll) -> list[LagRow]:
        """Return rows while the source's topics are not known: of earlier polls, else of positions on the target."""
        ends = (self.flow.source.alias, self.flow.target.alias)
        known = {
            (key[2], int(key[3])): self.history.of(key)[-1].position for key in self.history.known() if key[:2] == ends
        }
        positions = known or self._committed(poll)
        return [self._row_of_remote(*place, position, poll) for place, position in sorted(positions.items())]

    def _committed(self, poll: BoundedPoll) -> dict[TopicPartition, int]:
        """Return the positions that the target has of the flow, by remote topic and partition."""
        policy, source = self.flow.policy, self.flow.source.alias
        group = flow_plan(self.flow, [], {}).group
        offsets = poll.ask(self.target.alias, lambda: cluster_offsets.group_offsets(group, self.target)) or {}
        return {
            place: offset
            for place, offset in offsets.items()
            if policy.topic_source(place[0]) in (source, None) and not policy.is_internal(place[0])
        }

    def _row_of_remote(self, topic: str, partition: int, position: int, poll: BoundedPoll) -> LagRow:
        row = LagRow(
            group=self.flow.name,
            cluster=self.source.alias,
            topic=self.flow.policy.upstream_topic(topic) or topic,
            partition=partition,
            offset=position,
            log_end=None,
            owner=poll.owner,
            is_flow=True,
            remote_topic=topic,
        )
        return self.judge.judged(row, PartitionOffsets(), now_s=poll.now_s, position_s=poll.now_s)


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
