"""Send the requests of one poll. The driver never waits for a dead cluster, the inspector briefly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from mirror.errors import ClusterRefuses, ClusterUnavailable
from mirror.kafka.cluster import Cluster
from mirror.model.flow_plan import FlowPlan
from mirror.runtime.background import BackgroundCall

PATIENCE_S = 1.0  # for a response of one cluster, before the other cluster gets its request

T = TypeVar("T")
Read = Callable[[FlowPlan, Cluster], T]  # a function of mirror.lag.cluster_offsets


class Poll(Protocol):
    """Sends requests to the clusters of a flow separately.

    A dead cluster does not block the other one.
    """

    def request(
        self, read: Read[T], plan: FlowPlan, cluster: Cluster, *, is_optional: bool = False
    ) -> tuple[T, float] | None:
        """Return a response and when it was requested, epoch seconds; None if there is none.

        Args:
            read: Reads the offsets from a cluster.
            plan: The flow.
            cluster: The cluster that gets the request.
            is_optional: Whether the poll succeeds without this response.
        """


class PendingRequests:
    """Requests of a flow without a response so far, one of each kind. Not thread-safe."""

    def __init__(self) -> None:
        self._calls: defaultdict[Read[Any], BackgroundCall[Any]] = defaultdict(BackgroundCall)

    def call(self, read: Read[T]) -> BackgroundCall[T]:
        """Return the call that sends this kind of request."""
        return self._calls[read]

    def close(self) -> None:
        """Send no more requests."""
        for call in self._calls.values():
            call.close()


@dataclass(kw_only=True, eq=False, repr=False)
class PatientPoll:
    """The driver's poll: a later poll gets the responses that take longer than PATIENCE_S."""

    pending: PendingRequests  # kept from poll to poll
    on_response: Callable[[str, bool], None]  # alias, and whether the cluster is up
    failures: list[ClusterUnavailable] = field(default_factory=list)  # of this poll

    def request(
        self, read: Read[T], plan: FlowPlan, cluster: Cluster, *, is_optional: bool = False
    ) -> tuple[T, float] | None:
        """Return a response and when it was requested; None while there is none."""
        try:
            found = self.pending.call(read).ask(lambda: read(plan, cluster), within_s=PATIENCE_S)
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
    """The inspector's poll: a cluster that failed once gets no further request."""

    now_s: float  # when it began, epoch seconds
    owner: str  # address of the process of this settings file, "" if it does not respond
    problems: dict[str, ClusterUnavailable] = field(default_factory=dict)  # by alias: why a cluster did not respond

    def request(
        self, read: Read[T], plan: FlowPlan, cluster: Cluster, *, is_optional: bool = False
    ) -> tuple[T, float] | None:
        """Return a response, requested at the start of the poll; None if there is none."""
        found = self.response(cluster, lambda: read(plan, cluster), is_optional=is_optional)
        return None if found is None else (found, self.now_s)

    def response(self, cluster: Cluster, read: Callable[[], T], *, is_optional: bool = False) -> T | None:
        """Return the response of a cluster to any request; None if there is none."""
        if cluster.alias in self.problems:
            return None
        try:
            return read()
        except ClusterUnavailable as error:
            if not is_optional or not isinstance(error, ClusterRefuses):
                self.problems[error.cluster or cluster.alias] = error
            return None
