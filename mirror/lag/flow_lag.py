"""Measure one flow, poll by poll, and make its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from metrics.lag_row import LagRow
from metrics.partition_status import LONG_AGO_S, USUAL_POLLS, PartitionStatus, Status, written_by_s
from mirror.kafka.cluster import Cluster
from mirror.lag.cluster_offsets import log_bounds, positions, shown_positions
from mirror.lag.first_unreplicated import FirstUnreplicated
from mirror.lag.flow_offsets import NO_POSITIONS, FlowOffsets, LogBounds, Positions, joined, time_lag_s
from mirror.lag.judgement import Judge
from mirror.lag.polls import Poll
from mirror.model.flow_plan import Absent, FlowPlan, PlannedPartition
from mirror.model.slot_ownership import COMMIT_S
from mirror.model.topic_partition import TopicPartition

# A window commits positions every COMMIT_S. After this time, all that was acknowledged when the log ends were read is committed.
SETTLES_S = COMMIT_S + 0.5


class _Polled(NamedTuple):
    """What the rows of one poll have in common."""

    plan: FlowPlan
    found: FlowOffsets
    held: Mapping[TopicPartition, str]  # the open transaction that a partition waits for
    owner: str
    now_s: float  # epoch seconds
    last_report_s: float | None


class FlowLag:
    """Measures one flow. Keeps its last positions and its connections to the source.

    A. Positions are read after log ends, and once more after a commit of the windows if records wait: records that the target
       had acknowledged by then are no lag (docs/adr/0046).
    B. While the target does not respond, the last positions stay valid, because no process can commit. The lag grows.
       Before its first response, positions of an earlier run's polls are used, else those that the source shows.
    C. While the source does not respond, its logs are unknown.
    """

    def __init__(self, judge: Judge, *, reads: Callable[[FlowPlan], FirstUnreplicated] = FirstUnreplicated) -> None:
        self._judge = judge
        self._reads = reads
        self._reader: FirstUnreplicated | None = None
        self._positions: Positions | None = None  # the last known ones; None before the first
        self._until_s: dict[TopicPartition, float] = {}  # of the poll before
        # of the poll before: rows of quiet partitions, each after the facts that it shows
        self._quiet: dict[TopicPartition, tuple[object, LagRow]] = {}

    def read(self, plan: FlowPlan, source: Cluster, target: Cluster, poll: Poll) -> FlowOffsets:
        """Read the offsets of all partitions, log ends first."""
        logs, response = _logs(plan, source, poll), poll.request(positions, plan, target)
        if response is not None:
            self._positions = Positions(*response)
        elif self._positions is None:
            self._positions = self._polled_before(plan) or self._shown(plan, source, poll)
        return joined(plan, self._positions or NO_POSITIONS, logs, is_target_read=response is not None)

    def is_copying(self, plan: FlowPlan, found: FlowOffsets) -> bool:
        """Return whether records wait, and some were copied lately: more of them may be on the target already."""
        return found.is_whole and any(
            at.lag and at.position is not None and at.position > self._earlier_position(plan, key)
            for key, at in found.of.items()
        )

    def read_settled(self, plan: FlowPlan, found: FlowOffsets, target: Cluster, poll: Poll) -> FlowOffsets:
        """Read the positions once more, after SETTLES_S, for the same log ends.

        A position that has moved beyond the log end shows that the log has grown: the log end is at the position at least.
        """
        response = poll.request(positions, plan, target)
        if response is None or found.logs is None:
            return found
        before, self._positions = found.positions.offsets, Positions(*response)
        after = self._positions.offsets
        moved = {key: at for key, at in after.items() if at > before.get(key, at) and at > found.logs.ends.get(key, at)}
        logs = found.logs._replace(ends={**found.logs.ends, **moved})
        return joined(plan, self._positions, logs, is_target_read=True)

    def keep(self, plan: FlowPlan, found: FlowOffsets) -> FlowOffsets:
        """Keep the offsets of a poll; return them with the time since when records wait."""
        if found.logs is None:
            return found
        for key, at in found.of.items():
            self._judge.record(plan.labels[key], at, time_s=found.logs.read_s, position_s=found.positions.read_s)
        return replace(found, replicated_until_s=self._replicated_until_s(plan, found)) if found.logs.ends else found

    def rows(
        self, plan: FlowPlan, found: FlowOffsets, *, now_s: float, last_report_s: float | None = None, owner: str = ""
    ) -> list[LagRow]:
        """Return the row of each partition.

        Args:
            plan: The flow.
            found: What `read` returned.
            now_s: The present, epoch seconds.
            last_report_s: When the flow last reported a finished window, epoch seconds; None if only its process knows.
            owner: Address of the process that replicates the flow, "" if unknown.
        """
        poll = _Polled(plan, found, found.held, owner, now_s, last_report_s)
        rows: list[LagRow] = []
        quiet: dict[TopicPartition, tuple[object, LagRow]] = {}
        for place in plan.places:
            source = place.on_source
            at = found.of[source]
            facts = place, at, owner
            is_quiet = found.is_whole and at.lag == 0 and self._judge.is_quiet(plan.labels[source], now_s=now_s)
            # Most partitions of a large flow are quiet. A new row costs more than the rest of a poll, so theirs are kept.
            kept, row = self._quiet.get(source, (None, None)) if is_quiet else (None, None)
            if row is None or kept != facts:
                row = self._row(place, poll)
            if is_quiet and row.status is Status.OK:
                quiet[source] = facts, row
            rows.append(row)
        self._quiet = quiet
        return rows

    def close(self) -> None:
        """Close the connections."""
        if self._reader is not None:
            self._reader.close()

    def _row(self, place: PlannedPartition | Absent, poll: _Polled) -> LagRow:
        plan, found, now_s = poll.plan, poll.found, poll.now_s
        source = place.on_source
        key, at = plan.labels[source], found.of[source]
        held_by, until_s = poll.held.get(source, ""), found.replicated_until_s.get(source)
        is_read = at.lag is not None
        polled = self._judge.status(key, is_read=is_read, now_s=now_s, last_report_s=poll.last_report_s)
        status = _status_in_plan(polled, place, held_by)
        pace = self._judge.pace(key, is_read=is_read, is_position_known=found.is_target_read)
        return LagRow(
            group=plan.name,
            cluster=plan.source,
            topic=place.topic,
            partition=place.partition,
            offset=at.position,
            log_end=at.log_end,
            owner=poll.owner,
            is_flow=True,
            remote_topic=place.remote_topic,
            offsets=_offsets_of(place),
            lag_seconds=time_lag_s(at.lag, until_s, now_s),
            status=status.status,
            reason=status.reason,
            records_per_s=pace.records_per_s,
            written_per_s=pace.written_per_s,
            level_in_s=pace.level_in_s,
            log_start=at.log_start,
            replicated_until_s=until_s if at.lag else None,
            held_by=held_by,
            is_complete=status.is_complete,
        )

    def _replicated_until_s(self, plan: FlowPlan, found: FlowOffsets) -> Mapping[TopicPartition, float]:
        """Return the time up to which each partition is replicated, epoch seconds.

        Keep its poll before.

        If records wait, that is when the first of them was written. While that is unknown, the earlier time stays; if it was
        never known, the partition is left out.
        """
        if self._reader is None:
            self._reader = self._reads(plan)
        until_s = {key: at_s for key, at_s in self._until_s.items() if key in found.of}
        for key, timestamp_ms in self._reader.timestamps(found.first_unreplicated).items():
            samples = self._judge.history.of(plan.labels[key])
            until_s[key] = written_by_s(timestamp_ms / 1000, samples, before_s=self._until_s.get(key))
        if (seen_s := found.seen_s) is not None:
            until_s |= {key: seen_s for key, at in found.of.items() if at.lag == 0}
        self._until_s = until_s
        return until_s

    def _earlier_position(self, plan: FlowPlan, key: TopicPartition) -> int:
        """Return the position some polls ago: between two of them there may be no commit."""
        samples = self._judge.history.of(plan.labels[key])
        return samples[max(0, len(samples) - USUAL_POLLS)].position if samples else -1

    def _polled_before(self, plan: FlowPlan) -> Positions | None:
        """Return the positions of an earlier run's last polls; None if none are kept."""
        polled = {key: samples[-1] for key, at in plan.labels.items() if (samples := self._judge.history.of(at))}
        if not polled:
            return None
        read_s = min(sample.position_s or sample.time_s for sample in polled.values())
        return Positions({key: sample.position for key, sample in polled.items()}, read_s)

    def _shown(self, plan: FlowPlan, source: Cluster, poll: Poll) -> Positions | None:
        """Return the positions that the source shows (mirror.source.group.enabled), whose age is unknown."""
        shown = poll.request(shown_positions, plan, source, is_optional=True)
        return Positions(shown[0], LONG_AGO_S) if shown is not None and shown[0] else None


def _logs(plan: FlowPlan, source: Cluster, poll: Poll) -> LogBounds | None:
    response = poll.request(log_bounds, plan, source)
    return None if response is None else response[0]._replace(read_s=response[1])


def _offsets_of(place: PlannedPartition | Absent) -> str:
    """Return whether a partition's offsets are identical or translated, "" if absent."""
    if isinstance(place, Absent):
        return ""
    return "identical" if place.is_identical else "translated"


def _status_in_plan(polled: PartitionStatus, place: PlannedPartition | Absent, held_by: str) -> PartitionStatus:
    """Return a status from polls and from the plan, which knows absent and hidden partitions."""
    if isinstance(place, Absent):
        return PartitionStatus(Status.ABSENT, place.reason, is_complete=True)
    if place.is_hidden:
        return polled.of_hidden()
    return polled.of_held(held_by) if held_by else polled
