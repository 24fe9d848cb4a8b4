"""Ask a flow's clusters without waiting long for either: a cluster that hangs holds up nothing of the other's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from mirror.errors import ClusterRefuses, ClusterUnavailable
from mirror.kafka.admin import Admin
from mirror.lag import cluster_offsets
from mirror.lag.partition_offsets import LogBounds, Positions
from mirror.model.flow_plan import FlowPlan
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.question import Question

PATIENCE_S = 1.0  # for an answer of one cluster, before the other one is asked

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Questions:
    """What a flow's clusters are asked; an answer that takes longer than a poll is for a later one."""

    positions: Question[dict[TopicPartition, int]] = field(default_factory=Question)
    log_bounds: Question[LogBounds] = field(default_factory=Question)

    def close(self) -> None:
        """Ask no more."""
        self.positions.close()
        self.log_bounds.close()


@dataclass(kw_only=True, eq=False, repr=False)
class PatientPoll:
    """One poll's questions to a flow's clusters (mirror.lag.flow_lag.FlowClusters); keeps why they were not answered."""

    questions: Questions
    source: Admin
    target: Admin
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
        self, cluster: Admin, question: Question[Answer], ask: Callable[[], Answer]
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
