"""Judge topic-partitions from their last polls: the poller's and the inspector's verdicts are made here."""

from __future__ import annotations

from collections.abc import Mapping

from metrics.as_of import MaxAge
from metrics.history import History
from metrics.series import Labels
from metrics.verdict import KNOWN_POLLS, Sample, Status, Verdict, judge
from mirror.lag.partition_offsets import PartitionOffsets
from mirror.model.flow_plan import Absent, PlannedPartition
from mirror.model.topic_partition import TopicPartition

SILENT_WINDOWS = 4  # a report comes each window; a flow that misses this many has stopped
LEAST_KNOWN_S = 3.0  # no poll need be faster than this to count as known
HISTORY_AGE_S = 600.0  # older polls say nothing about a partition that we see again now


def horizon_of(*, poll_interval_s: float, window_s: float) -> MaxAge:
    """Return how old answers of clusters, and a flow's last report, may be."""
    return MaxAge(known_s=max(KNOWN_POLLS * poll_interval_s, LEAST_KNOWN_S), silence_s=SILENT_WINDOWS * window_s)


def status_in_plan(verdict: Verdict, place: PlannedPartition | Absent, held: Mapping[TopicPartition, str]) -> Verdict:
    """Return the status of a partition from its polls and from the plan, which knows absent and hidden ones.

    Args:
        verdict: The status by the polls alone.
        place: The partition in the flow's plan.
        held: The open transaction that each held-up partition waits for.
    """
    if isinstance(place, Absent):
        return Verdict(Status.ABSENT, place.reason, is_complete=True)
    if place.is_hidden:
        return verdict.of_hidden()
    return verdict.of_held(held[place.on_source]) if place.on_source in held else verdict


class Judge:
    """Keeps the last polls of each topic-partition, by the labels of its series, and makes verdicts from them."""

    def __init__(self, history: History, horizon: MaxAge) -> None:
        self._history = history
        self._horizon = horizon

    def take_in(self, key: Labels, at: PartitionOffsets, *, time_s: float, position_s: float, lost: int = 0) -> None:
        """Keep one poll; one that lacks the position or the log end says nothing.

        Args:
            key: Labels of the topic-partition.
            at: What was read.
            time_s: When the log end was asked for, epoch seconds.
            position_s: When the position was read.
            lost: Source offsets of the topic-partition that were lost so far.
        """
        if at.position is not None and at.log_end is not None:
            start = at.log_start or 0
            sample = Sample(time_s, at.position, at.log_end, lost, start, position_s)
            self._history.add(key, sample)

    def verdict(self, key: Labels, *, now_s: float, last_report_s: float, is_old_known: bool = True) -> Verdict:
        """Return the verdict of one topic-partition.

        Args:
            key: Labels of the topic-partition.
            now_s: The present, epoch seconds.
            last_report_s: When the flow last reported a finished window, epoch seconds.
            is_old_known: Whether the answers of earlier polls still count as known, as far as the horizon allows.
        """
        return judge(
            self._history.of(key),
            last_report_s=last_report_s,
            now_s=now_s,
            silence_s=self._horizon.silence_s,
            known_s=self._horizon.known_s if is_old_known else 0.0,
        )
