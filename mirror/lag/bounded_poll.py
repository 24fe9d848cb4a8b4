"""Ask clusters within seconds, for one poll of the inspector: one that has not answered is not asked again in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from mirror.errors import ClusterUnavailable
from mirror.kafka.admin import Admin
from mirror.lag import cluster_offsets
from mirror.lag.partition_offsets import LogBounds, Positions
from mirror.model.flow_plan import FlowPlan
from mirror.model.topic_partition import TopicPartition

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
    source: Admin
    target: Admin

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
