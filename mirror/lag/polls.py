"""Ask clusters for one poll, in two ways: the driver never waits for one that hangs, the inspector waits a bounded time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from mirror.errors import ClusterRefuses, ClusterUnavailable
from mirror.kafka.cluster import Cluster
from mirror.model.flow_plan import FlowPlan
from mirror.runtime.background import BackgroundCall

PATIENCE_S = 1.0  # for a response of one cluster, before the other one is asked

T = TypeVar("T")
Question = Callable[[FlowPlan, Cluster], T]  # a function of mirror.lag.cluster_offsets


class Poll(Protocol):
    """Asks the clusters of a flow, each separately: if one is dead, the other still responds."""

    def ask(
        self, question: Question[T], plan: FlowPlan, cluster: Cluster, *, is_optional: bool = False
    ) -> tuple[T, float] | None:
        """Return a response and when it was requested, epoch seconds; None if there is none.

        Args:
            question: What to ask.
            plan: The flow.
            cluster: The cluster to ask.
            is_optional: Whether no response is no failure of the poll.
        """


class PendingQuestions:
    """The questions that a flow's clusters have not responded to yet. Not for several threads."""

    def __init__(self) -> None:
        self._calls: defaultdict[Question[Any], BackgroundCall[Any]] = defaultdict(BackgroundCall)

    def call(self, question: Question[T]) -> BackgroundCall[T]:
        """Return the call that a question is asked by, one at a time."""
        return self._calls[question]

    def close(self) -> None:
        """Ask no more."""
        for call in self._calls.values():
            call.close()


@dataclass(kw_only=True, eq=False, repr=False)
class PatientPoll:
    """A poll of the driver: a response after more than PATIENCE_S counts later."""

    pending: PendingQuestions
    on_response: Callable[[str, bool], None]  # alias, and whether the cluster is up
    failures: list[ClusterUnavailable] = field(default_factory=list)

    def ask(
        self, question: Question[T], plan: FlowPlan, cluster: Cluster, *, is_optional: bool = False
    ) -> tuple[T, float] | None:
        """Return a response and when it was requested; None while there is none."""
        try:
            found = self.pending.call(question).ask(lambda: question(plan, cluster), within_s=PATIENCE_S)
        except ClusterUnavailable as error:
            if not is_optional:
                self.failures.append(error)
                self.on_response(cluster.alias, isinstance(error, ClusterRefuses))
            return None
        if found is not None and not is_optional:
            self.on_response(cluster.alias, True)
        return found


@dataclass(slots=True)
class BoundedPoll:
    """A poll of the inspector: a cluster that failed once is not asked again."""

    now_s: float  # when it began, epoch seconds
    owner: str  # address of the process of this settings file, "" if it does not respond
    problems: dict[str, str] = field(default_factory=dict)  # by alias: why a cluster did not respond

    def ask(
        self, question: Question[T], plan: FlowPlan, cluster: Cluster, *, is_optional: bool = False
    ) -> tuple[T, float] | None:
        """Return a response, as of the poll's begin; None if there is none."""
        found = self.read(cluster, lambda: question(plan, cluster), is_optional=is_optional)
        return None if found is None else (found, self.now_s)

    def read(self, cluster: Cluster, question: Callable[[], T], *, is_optional: bool = False) -> T | None:
        """Return what a cluster responds to any question; None if it does not respond."""
        if cluster.alias in self.problems:
            return None
        try:
            return question()
        except ClusterUnavailable as error:
            if not is_optional or not isinstance(error, ClusterRefuses):
                self.problems[error.cluster or cluster.alias] = str(error)
            return None
