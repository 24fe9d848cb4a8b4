"""Poll the clusters of a settings file for everything that the lag inspector shows.

The process need not run. A cluster that does not respond costs seconds per poll, and no row: rows keep known values, and
unknown values are shown as unknown.
"""

from __future__ import annotations

import logging
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from metrics.as_of import MaxAge
from metrics.history import HISTORY_FILE, History
from metrics.lag_row import LagRow
from metrics.partition_status import KNOWN_POLLS, Sample, Status
from mirror.config.settings import ClusterSettings, Flow, Settings
from mirror.flows.topics import flow_plan, matched, source_topics
from mirror.kafka.cluster import Cluster, Topic
from mirror.kafka.groups import Group, warn_of_left_out
from mirror.lag.cluster_offsets import consumer_groups, group_offsets
from mirror.lag.first_unreplicated import FirstUnreplicated
from mirror.lag.flow_lag import SETTLES_S, FlowLag
from mirror.lag.flow_offsets import FlowOffsets, PartitionOffsets, Positions, joined
from mirror.lag.judgement import HISTORY_AGE_S, Judge
from mirror.lag.leader_changes import LeaderChange, LeaderChanges
from mirror.lag.log_end_times import LogEndTimes
from mirror.lag.polls import BoundedPoll
from mirror.lag.problems import problem
from mirror.lag.snapshot import Snapshot
from mirror.model.flow_plan import FlowPlan, PlannedPartition, own_group
from mirror.model.topic_partition import TopicPartition

log = logging.getLogger("mirror")

READY_S = 2.0
# How long a cluster may take to respond; after one request without a response it gets no more in this poll
CLUSTER_S = 3.0


class Inspector:
    """Polls the clusters.

    Reads only. Any thread may call `poll`; polls run one at a time.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._has_polled = False
        self._history = History()
        judge = Judge(
            history=self._history,
            horizon=MaxAge(known_s=KNOWN_POLLS * settings.mirror.poll_interval_s),
            bridges_polls=False,
        )
        aliases = {end.alias: end for flow in settings.flows for end in (flow.source, flow.target)}
        clusters = {
            alias: Cluster(alias, _admin_options(settings.flows, end), within_s=CLUSTER_S)
            for alias, end in aliases.items()
        }
        hidden: set[str] = set()
        self._leaders = LeaderChanges()
        self._flows = [
            InspectedFlow(flow, clusters[flow.source.alias], clusters[flow.target.alias], judge, leaders=self._leaders)
            for flow in settings.flows
        ]
        self._clusters = {alias: InspectedGroups(cluster, judge, hidden) for alias, cluster in clusters.items()}
        # The process keeps its polls: with them there is a status immediately.
        now_s = time.time()
        self._history.load(settings.mirror.state_dir / HISTORY_FILE, within_s=(now_s - HISTORY_AGE_S, now_s))

    def poll(self, *, settles: bool | None = None) -> Snapshot:
        """Return the present snapshot, and a sentence on each cluster that does not respond.

        Args:
            settles: Whether to wait for the next commit of positions if records are being copied. Without it, records that are
                on the target may still count as lag. None: all polls but the first, whose viewer waits.
        """
        with self._lock:
            settles, self._has_polled = self._has_polled if settles is None else settles, True
            poll = BoundedPoll(time.time(), self._owner())
            rows: list[LagRow] = []
            for flow in self._flows:
                flow.read(poll)
            copying = [flow for flow in self._flows if settles and flow.is_copying]
            if copying:
                time.sleep(SETTLES_S)
            for flow in copying:
                flow.read_settled(poll)
            for flow in self._flows:
                rows += flow.rows(poll)
            for cluster in self._clusters.values():
                rows += cluster.read(poll)
            if not poll.problems:
                self._history.keep_only([row.key for row in rows])
            return Snapshot(
                time_s=poll.now_s,
                rows=tuple(rows),
                problems=tuple(problem(error, alias, self._settings) for alias, error in poll.problems.items()),
                clusters=tuple((alias, alias not in poll.problems) for alias in self._clusters),
            )

    def window(self, row: LagRow) -> list[Sample]:
        """Return the polls that a row's status is made from, oldest first."""
        return self._history.of(row.key)

    def leader_changes(self, row: LagRow) -> list[LeaderChange]:
        """Return the leader changes of a row's partition, of a flow's row on both clusters."""
        found = self._leaders.of(row.cluster, row.topic, row.partition)
        if row.is_flow:
            target = row.group.removeprefix(f"{row.cluster}->")
            found += self._leaders.of(target, row.remote_topic, row.partition)
        return found

    def close(self) -> None:
        """Close the connections."""
        for flow in self._flows:
            flow.close()

    def _owner(self) -> str:
        """Return the address of the process of this file, "" if it does not respond."""
        mirror = self._settings.mirror
        address = mirror.metrics_address
        try:
            mirror.http.read(address, "/ready", timeout_s=READY_S)
        except urllib.error.HTTPError as error:
            error.close()
        except (urllib.error.URLError, TimeoutError) as error:
            log.debug("the process at %s does not respond: %s", address, error)
        else:
            return address
        return ""


def _admin_options(flows: tuple[Flow, ...], cluster: ClusterSettings) -> Mapping[str, str]:
    """Return the control-plane client's settings for a cluster, from its first flow."""
    return next(
        flow.source_admin if flow.source.alias == cluster.alias else flow.target_admin
        for flow in flows
        if cluster.alias in (flow.source.alias, flow.target.alias)
    )


class InspectedFlow:
    """One flow from poll to poll: its partitions as last described by its clusters."""

    def __init__(
        self,
        flow: Flow,
        source: Cluster,
        target: Cluster,
        judge: Judge,
        *,
        leaders: LeaderChanges | None = None,
        reads: Callable[[FlowPlan], FirstUnreplicated] = FirstUnreplicated,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._history = judge.history
        self._leaders = leaders or LeaderChanges()
        self._lag = FlowLag(judge, reads=reads)
        self._plan: FlowPlan | None = None
        self._known: list[Topic] = []
        self._read: tuple[FlowPlan, FlowOffsets] | None = None

    def read(self, poll: BoundedPoll) -> None:
        """Read the offsets of all partitions."""
        plan = self._described(poll)
        if plan is not None:
            self._read = plan, self._lag.read(plan, self._source, self._target, poll)
        else:
            plan, positions = self._without_source(poll)
            self._read = plan, joined(plan, positions, None, is_target_read=False)

    @property
    def is_copying(self) -> bool:
        """True if some of the records that wait may be on the target already."""
        return self._read is not None and self._lag.is_copying(*self._read)

    def read_settled(self, poll: BoundedPoll) -> None:
        """Read the positions once more."""
        assert self._read is not None
        plan, found = self._read
        self._read = plan, self._lag.read_settled(plan, found, self._target, poll)

    def rows(self, poll: BoundedPoll) -> list[LagRow]:
        """Keep the read offsets; return a row per partition."""
        assert self._read is not None
        plan, found = self._read
        return self._lag.rows(plan, self._lag.keep(plan, found), now_s=poll.now_s, owner=poll.owner)

    def close(self) -> None:
        """Close the connections."""
        self._lag.close()

    def _described(self, poll: BoundedPoll) -> FlowPlan | None:
        """Return the flow's plan, as its clusters describe it now or described it last.

        While the target's topics are unknown, every matching topic of the source counts. None if nothing is known.
        """
        flow = self._flow
        on_target = poll.response(self._target, self._target.topics)
        on_source = poll.response(
            self._source, lambda: source_topics(flow, self._source, on_target or {}, known=self._known)
        )
        for cluster, described in ((self._source, on_source), (self._target, on_target)):
            self._leaders.record(cluster.alias, (described or {}).values(), poll.now_s)
        if on_source is None or (on_target is None and self._plan is not None):
            return self._plan
        topics = matched(flow, on_source)
        self._known = [topic.source for topic in topics]
        if on_target is None:
            return flow_plan(flow, topics, {topic.remote: topic.source.partitions for topic in topics})
        self._plan = flow_plan(flow, topics, {name: topic.partitions for name, topic in on_target.items()})
        return self._plan

    def _without_source(self, poll: BoundedPoll) -> tuple[FlowPlan, Positions]:
        """Return partitions without the source: of earlier polls, else of the target's positions."""
        ends = (self._flow.source.alias, self._flow.target.alias)
        known = {
            TopicPartition(key[2], int(key[3])): self._history.of(key)[-1].position
            for key in self._history.known()
            if key[:2] == ends
        }
        by_remote = known or self._committed(poll)
        policy, planned, positions = self._flow.policy, {}, {}
        # A remote topic that names its source comes later, and so replaces one that just has the source topic's name.
        names_source = {at: policy.topic_source(at.topic) is not None for at in by_remote}
        for at in sorted(by_remote, key=lambda at: (names_source[at], at)):
            place = PlannedPartition(policy.upstream_topic(at.topic) or at.topic, at.topic, at.partition, topic_id="")
            planned[place.on_source], positions[place.on_source] = place, by_remote[at]
        plan = replace(flow_plan(self._flow, [], {}), partitions=tuple(sorted(planned.values())))
        return plan, Positions(positions, poll.now_s)

    def _committed(self, poll: BoundedPoll) -> dict[TopicPartition, int]:
        """Return the flow's positions on the target, by remote topic and partition."""
        policy, source = self._flow.policy, self._flow.source.alias
        group = own_group(self._flow.name)
        offsets = poll.response(self._target, lambda: group_offsets(group, self._target)) or {}
        return {
            place: offset
            for place, offset in offsets.items()
            if policy.topic_source(place[0]) in (source, None) and not policy.is_internal(place[0])
        }


@dataclass(eq=False, repr=False)
class InspectedGroups:
    """A cluster's groups.

    While the cluster does not respond, their last rows get a new status.
    """

    cluster: Cluster
    judge: Judge
    hidden: set[str]  # groups that this client is not authorized to read, as logged

    def __post_init__(self) -> None:
        self._rows: list[LagRow] = []
        self._end_times: dict[TopicPartition, LogEndTimes] = {}

    def read(self, poll: BoundedPoll) -> list[LagRow]:
        """Return a row per group and partition."""
        groups = poll.response(self.cluster, lambda: consumer_groups(self.cluster))
        if groups is None:
            return [self._judged_again(row, poll) for row in self._rows]
        warn_of_left_out(groups, self.cluster.alias, self.hidden)
        places = sorted({place for group in groups for place in (*group.offsets, *group.owners)})
        ends = poll.response(self.cluster, lambda: self.cluster.end_offsets(places)) or {}
        self._end_times = {place: self._end_times.get(place) or LogEndTimes() for place in places}
        for place, end in ends.items():
            self._end_times[place].record(end, poll.now_s)
        self._rows = [row for group in groups for row in self._of_group(group, ends, poll)]
        return self._rows

    def _of_group(self, group: Group, ends: Mapping[TopicPartition, int], poll: BoundedPoll) -> Iterator[LagRow]:
        for place in sorted({*group.offsets, *group.owners}):
            at = PartitionOffsets(group.offsets.get(place), log_end=ends.get(place))
            row = LagRow(
                group=group.name,
                cluster=self.cluster.alias,
                topic=place[0],
                partition=place[1],
                offset=at.position,
                log_end=at.log_end,
                owner=group.owners.get(place, ""),
                lag_seconds=self._time_lag_s(place, at),
            )
            self.judge.record(row.key, at, time_s=poll.now_s, position_s=poll.now_s)
            judged = self._judged(row, poll)
            yield judged if group.owners else _memberless(judged)

    def _time_lag_s(self, place: TopicPartition, at: PartitionOffsets) -> float | None:
        """Return the estimated time lag, None if unknown; `at`: as read by this poll."""
        if at.position is None or at.log_end is None:
            return None
        return self._end_times[place].time_lag_s(at.position)

    def _judged_again(self, row: LagRow, poll: BoundedPoll) -> LagRow:
        """Return a row of an earlier poll without the values that are unknown now."""
        return self._judged(replace(row, log_end=None, owner="", lag_seconds=None), poll)

    def _judged(self, row: LagRow, poll: BoundedPoll) -> LagRow:
        status = self.judge.status(row.key, is_read=row.lag is not None, now_s=poll.now_s)
        pace = self.judge.pace(row.key, is_read=row.lag is not None)
        return replace(row, status=status.status, reason=status.reason, **pace._asdict())


def _memberless(row: LagRow) -> LagRow:
    """Return the row of a group without members: IDLE instead of STALL."""
    if row.status is not Status.STALL:
        return row
    return replace(row, status=Status.IDLE, reason=f"the group has no member; {row.reason}")
