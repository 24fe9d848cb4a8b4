"""Measure one flow, poll by poll: positions, log bounds, and when the first unreplicated records were written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from metrics.history import History
from metrics.verdict import LONG_AGO_S, written_by_s
from mirror.lag.first_unreplicated import FirstUnreplicated
from mirror.lag.partition_offsets import NO_POSITIONS, FlowOffsets, LogBounds, Positions, joined
from mirror.model.flow_plan import FlowPlan
from mirror.model.topic_partition import TopicPartition


class FlowClusters(Protocol):
    """Asks a flow's two clusters for one poll (mirror.lag.cluster_offsets)."""

    def positions(self, plan: FlowPlan) -> Positions | None:
        """Return the positions on the target; None while it does not answer."""

    def shown_positions(self, plan: FlowPlan) -> Mapping[TopicPartition, int]:
        """Return the positions that the source shows to lag tools; none while it does not answer."""

    def log_bounds(self, plan: FlowPlan) -> LogBounds | None:
        """Return the bounds of the source's logs; None while it does not answer."""


class FlowLag:
    """Measures one flow, and keeps its last positions and its connections to the source from poll to poll.

    A. Positions are read before log ends: no lag is negative.
    B. While the target does not answer, the last positions hold: nothing can commit there. The lag is seen to grow.
       Where it has not answered yet, those of an earlier run's polls hold, else those that the source shows.
    C. While the source does not answer, nothing new is known of its logs.
    """

    def __init__(self, history: History, *, reads: Callable[[FlowPlan], FirstUnreplicated] = FirstUnreplicated) -> None:
        self._history = history
        self._reads = reads
        self._reader: FirstUnreplicated | None = None
        self._positions: Positions | None = None  # the last ones that are known; None before the first
        self._until_s: dict[TopicPartition, float] = {}  # of the poll before

    def read(self, plan: FlowPlan, clusters: FlowClusters) -> FlowOffsets:
        """Return where the flow's topic-partitions stand."""
        answered = clusters.positions(plan)
        if answered is not None:
            self._positions = answered
        elif self._positions is None:
            self._positions = self._polled_before(plan) or self._shown(plan, clusters)
        positions = self._positions or NO_POSITIONS
        return joined(plan, positions, clusters.log_bounds(plan), is_target_read=answered is not None)

    def replicated_until_s(self, plan: FlowPlan, flow: FlowOffsets) -> Mapping[TopicPartition, float]:
        """Return up to when (epoch seconds) each topic-partition is replicated; called when the history has the poll.

        Where records wait, that is when the first of them was written. While that is not known it stays what it was, and what
        was never known is left out.
        """
        if self._reader is None:
            self._reader = self._reads(plan)
        timestamps_ms = self._reader.timestamps(flow.first_unreplicated)
        labels = plan.labels
        until_s = {key: at_s for key, at_s in self._until_s.items() if key in flow.of}
        for key, timestamp_ms in timestamps_ms.items():
            until_s[key] = written_by_s(
                timestamp_ms / 1000, self._history.of(labels[key]), before_s=self._until_s.get(key)
            )
        if flow.seen_s > LONG_AGO_S:
            until_s |= {key: flow.seen_s for key, at in flow.of.items() if at.lag == 0}
        self._until_s = until_s
        return until_s

    def close(self) -> None:
        """Close the connections."""
        if self._reader is not None:
            self._reader.close()

    def _polled_before(self, plan: FlowPlan) -> Positions | None:
        """Return the positions of an earlier run's last polls; None where none are kept."""
        polled = {key: samples[-1] for key, at in plan.labels.items() if (samples := self._history.of(at))}
        if not polled:
            return None
        read_s = min(sample.position_s or sample.time_s for sample in polled.values())
        return Positions({key: sample.position for key, sample in polled.items()}, read_s)

    def _shown(self, plan: FlowPlan, clusters: FlowClusters) -> Positions | None:
        """Return the positions that the source shows (mirror.source.group.enabled); nobody knows how old these are."""
        shown = clusters.shown_positions(plan)
        return Positions(shown, LONG_AGO_S) if shown else None
