"""Read offsets from clusters: positions of flows, offsets of consumer groups, and where logs begin and end.

The poller, the inspector and the commands read them here and nowhere else, so that they mean the same everywhere. Positions
with their metadata are read by mirror.flows.stored_positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from mirror.config.clients import fetch_options
from mirror.errors import ClusterRefuses, ClusterUnavailable
from mirror.kafka.cluster import Cluster
from mirror.kafka.groups import Group
from mirror.lag import cluster_offsets
from mirror.lag.partition_offsets import LogBounds, Positions
from mirror.model.flow_plan import FlowPlan, is_own_group
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.background import BackgroundCall


def positions(plan: FlowPlan, target: Cluster) -> dict[TopicPartition, int]:
    """Return the next source offset of each topic-partition that has one. Read before `log_bounds`: no lag is negative then."""
    found = positions_by_remote(plan.group, target, [p.on_target for p in plan.partitions])
    return {p.on_source: found[at] for p in plan.partitions if (at := p.on_target) in found}


def positions_by_remote(group: str, target: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the positions of a flow's group, by remote topic and partition."""
    return target.committed(group, places)


def shown_positions(plan: FlowPlan, source: Cluster) -> dict[TopicPartition, int]:
    """Return the positions that the source shows to lag tools, as they were committed there last."""
    return source.committed(plan.source_group_id, [p.on_source for p in plan.partitions])


def log_bounds(plan: FlowPlan, source: Cluster) -> LogBounds:
    """Return the logs' bounds, and what is open in them where the flow reads committed records only.

    Ends are those of the logs (high watermarks) all the same: what waits behind an open transaction is not on the target.
    """
    places = list(plan.labels)
    if not fetch_options(plan.consumer).isolation_level:
        return LogBounds(log_starts(source, places), log_ends(source, places))
    # Before the ends, so that none is larger than they are.
    stable = log_ends(source, places, read_committed=True)
    ends = log_ends(source, places)
    undecided = [place for place, end in ends.items() if stable.get(place, end) < end]
    bounds = LogBounds(log_starts(source, places), ends, stable=stable)
    return bounds._replace(open=source.open_transactions(undecided)) if undecided else bounds


def log_starts(cluster: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the log-start offset of each topic-partition that answers."""
    return cluster.start_offsets(places)


def log_ends(
    cluster: Cluster, places: Iterable[TopicPartition], *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """Return the log-end offset of each topic-partition that answers."""
    return cluster.end_offsets(places, read_committed=read_committed)


def consumer_groups(cluster: Cluster) -> list[Group]:
    """Return a cluster's consumer groups, without those that are positions of a mirror."""
    return [group for group in cluster.groups() if not is_own_group(group.name)]


def group_offsets(name: str, cluster: Cluster) -> dict[TopicPartition, int]:
    """Return all offsets of one group; none where there is no such group."""
    group = cluster.group(name)
    return dict(group.offsets) if group is not None else {}


Answer = TypeVar("Answer")


@dataclass(slots=True)
class BoundedPoll:
    """One poll: when it began, where the appliance answers, and which clusters do not."""

    now_s: float
    owner: str  # address of the appliance of this file, "" where it does not answer
    problems: dict[str, str] = field(default_factory=dict)  # by cluster: why it does not answer

    def ask(self, alias: str, question: Callable[[], Answer]) -> Answer | None:
        """Return a cluster's answer; None where it does not answer, or has not answered before in this poll."""
        if alias in self.problems:
            return None
        try:
            return question()
        except ClusterUnavailable as error:
            self.problems[error.cluster or alias] = str(error)
            return None


@dataclass(frozen=True, slots=True)
class BoundedFlow:
    """A flow's clusters in one poll (mirror.lag.flow_lag.FlowClusters)."""

    poll: BoundedPoll
    source: Cluster
    target: Cluster

    def positions(self, plan: FlowPlan) -> Positions | None:
        """Return the positions on the target; None while it does not answer."""
        found = self.poll.ask(self.target.alias, lambda: cluster_offsets.positions(plan, self.target))
        return Positions(found, self.poll.now_s) if found is not None else None

    def shown_positions(self, plan: FlowPlan) -> Mapping[TopicPartition, int]:
        """Return the positions that the source shows to lag tools; none while it does not answer."""
        return self.poll.ask(self.source.alias, lambda: cluster_offsets.shown_positions(plan, self.source)) or {}

    def log_bounds(self, plan: FlowPlan) -> LogBounds | None:
        """Return the bounds of the source's logs; None while it does not answer."""
        found = self.poll.ask(self.source.alias, lambda: cluster_offsets.log_bounds(plan, self.source))
        return found._replace(read_s=self.poll.now_s) if found is not None else None


PATIENCE_S = 1.0  # for an answer of one cluster, before the other one is asked


@dataclass(slots=True)
class Questions:
    """What a flow's clusters are asked; an answer that takes longer than a poll is for a later one."""

    positions: BackgroundCall[dict[TopicPartition, int]] = field(default_factory=BackgroundCall)
    log_bounds: BackgroundCall[LogBounds] = field(default_factory=BackgroundCall)

    def close(self) -> None:
        """Ask no more."""
        self.positions.close()
        self.log_bounds.close()


@dataclass(kw_only=True, eq=False, repr=False)
class PatientPoll:
    """One poll's questions to a flow's clusters (mirror.lag.flow_lag.FlowClusters); keeps why they were not answered."""

    questions: Questions
    source: Cluster
    target: Cluster
    on_answer: Callable[[str, bool], None]

    def __post_init__(self) -> None:
        self.failures: list[ClusterUnavailable] = []

    def positions(self, plan: FlowPlan) -> Positions | None:
        """Return the positions on the target; None while it does not answer."""
        question = self.questions.positions
        answer = self._ask(self.target, question, lambda: cluster_offsets.positions(plan, self.target))
        return Positions(*answer) if answer is not None else None

    def shown_positions(self, plan: FlowPlan) -> Mapping[TopicPartition, int]:
        """Return the positions that the source shows to lag tools; none while it does not answer."""
        try:
            return cluster_offsets.shown_positions(plan, self.source)
        except ClusterUnavailable:
            return {}  # the log bounds are asked for next, which counts the failure

    def log_bounds(self, plan: FlowPlan) -> LogBounds | None:
        """Return the bounds of the source's logs; None while it does not answer."""
        question = self.questions.log_bounds
        answer = self._ask(self.source, question, lambda: cluster_offsets.log_bounds(plan, self.source))
        if answer is None:
            return None
        bounds, asked_s = answer
        return bounds._replace(read_s=asked_s)

    def _ask(
        self, cluster: Cluster, question: BackgroundCall[Answer], ask: Callable[[], Answer]
    ) -> tuple[Answer, float] | None:
        """Return a cluster's answer and when it was asked for; None while there is none."""
        try:
            answer = question.ask(ask, within_s=PATIENCE_S)
        except ClusterUnavailable as error:
            self.failures.append(error)
            self.on_answer(cluster.alias, isinstance(error, ClusterRefuses))
            return None
        if answer is not None:
            self.on_answer(cluster.alias, True)
        return answer
