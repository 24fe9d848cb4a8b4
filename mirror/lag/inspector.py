"""Poll the clusters of a settings file for everything that the lag inspector shows. Works with the appliance down.

A cluster that does not answer costs seconds once a poll, and no row: rows are judged again by what is known, and what is not
known is told as unknown.
"""

from __future__ import annotations

import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from metrics.history import History
from metrics.verdict import KNOWN_POLLS, LONG_AGO_S, Sample, Verdict, judge, written_by_s
from mirror.config.settings import Cluster, Flow, Settings
from mirror.errors import ClusterUnavailable
from mirror.flows.topics import flow_plan, matched
from mirror.kafka.admin import Admin
from mirror.kafka.groups import Group, Groups, warn_of_hidden
from mirror.lag import log_bounds
from mirror.lag.first_unreplicated import FirstUnreplicated
from mirror.lag.log_bounds import LogBounds
from mirror.lag.poller import HISTORY_AGE_S, Positions
from mirror.lag.rows import LagRow, Snapshot, pace
from mirror.model.flow_plan import FlowPlan, Key, is_own_group

log = logging.getLogger("mirror")

READY_S = 2.0
# How long a cluster may take to answer a question; after one that it does not answer it is asked no more in this poll
CLUSTER_S = 3.0

RowKey = tuple[str, ...]
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Poll:
    """One poll: when it was asked for, and what it has brought so far."""

    now_s: float
    owner: str  # where the appliance of this file answers
    rows: list[LagRow] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)  # by cluster: why it does not answer

    def asked(self, alias: str, question: Callable[[], Answer]) -> Answer | None:
        """Return a cluster's answer; None where it does not answer, or has not answered before in this poll."""
        if alias in self.problems:
            return None
        try:
            return question()
        except ClusterUnavailable as error:
            self.problems[error.cluster or alias] = str(error)
            return None


class Inspector:
    """Reads only; one `poll` at a time, from whichever thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._history = History()
        self._lock = threading.Lock()
        self._known_s = KNOWN_POLLS * settings.mirror.poll_interval_s
        clusters = {end.alias: end for flow in settings.flows for end in (flow.source, flow.target)}
        options = {alias: _admin_options(settings.flows, end) for alias, end in clusters.items()}
        self._admins = {alias: Admin(alias, own, within_s=CLUSTER_S) for alias, own in options.items()}
        self._groups = {alias: Groups(alias, own, within_s=CLUSTER_S) for alias, own in options.items()}
        self._readers: dict[str, FirstUnreplicated] = {}
        self._hidden: set[str] = set()  # groups of whom it was said that they may not be read
        self._plans: dict[str, FlowPlan] = {}  # by flow: as its clusters described it last
        self._positions: dict[str, Positions] = {}  # by flow: the last ones
        self._consumers: dict[str, list[LagRow]] = {}  # by cluster: what it answered last
        # The appliance keeps its polls: with them verdicts are there at once.
        self._history.load(settings.mirror.state_dir / "history.json", now_s=time.time(), max_age_s=HISTORY_AGE_S)

    def poll(self) -> Snapshot:
        """Return what is known now, and a sentence on each cluster that does not answer."""
        with self._lock:
            poll = _Poll(time.time(), self._owner())
            for flow in self._settings.flows:
                poll.rows += self._of_flow(flow, poll)
            for alias in self._admins:
                poll.rows += self._of_cluster(alias, poll)
            if not poll.problems:
                self._history.keep_only([self._key(row) for row in poll.rows])
            return Snapshot(
                time_s=poll.now_s,
                rows=tuple(poll.rows),
                problems=tuple(poll.problems.values()),
                clusters=tuple((alias, alias not in poll.problems) for alias in self._admins),
            )

    def window(self, row: LagRow) -> list[Sample]:
        """Return the polls that a row's verdict is made from, oldest first."""
        return self._history.of(self._key(row))

    def _key(self, row: LagRow) -> RowKey:
        topic = row.remote_topic if row.is_flow else row.topic
        return _key(row.group, row.cluster, topic, row.partition, is_flow=row.is_flow)

    def close(self) -> None:
        """Close the connections."""
        for reader in self._readers.values():
            reader.close()

    # --- the mirror's own flows ----------------------------------------------------------------------------------

    def _of_flow(self, flow: Flow, poll: _Poll) -> list[LagRow]:
        source, target = self._admins[flow.source.alias], self._admins[flow.target.alias]
        plan = self._plan(flow, source, target, poll)
        if plan is None:
            return self._without_source(flow, target, poll)
        known = self._known_positions(flow, plan, source, target, poll)
        logs = poll.asked(source.alias, lambda: log_bounds.bounds(plan, source)) or LogBounds({}, {})
        timestamps = self._reader(plan).timestamps(log_bounds.lagging(known.offsets, logs)) if logs.ends else {}
        rows = []
        for assigned in plan.partitions:
            place = (assigned.topic, assigned.partition)
            offset, end = known.offsets.get(place), logs.ends.get(place)
            key = _key(flow.name, source.alias, assigned.remote_topic, assigned.partition, is_flow=True)
            verdict, rate, level_in_s = self._judged(key, offset, end, poll.now_s, known.read_s)
            waits_s = None
            if place in timestamps:
                waits_s = poll.now_s - written_by_s(timestamps[place] / 1000, self._history.of(key))
            rows.append(
                LagRow(
                    group=flow.name,
                    cluster=source.alias,
                    topic=assigned.topic,
                    partition=assigned.partition,
                    offset=offset,
                    log_end=end,
                    owner=poll.owner,
                    is_flow=True,
                    remote_topic=assigned.remote_topic,
                    lag_seconds=0.0 if offset is not None and end is not None and end <= offset else waits_s,
                    status=verdict.status,
                    reason=verdict.reason,
                    records_per_s=rate,
                    level_in_s=level_in_s,
                )
            )
        return rows

    def _plan(self, flow: Flow, source: Admin, target: Admin, poll: _Poll) -> FlowPlan | None:
        """Return what the flow replicates, as its clusters describe it, or described it last.

        While nobody knows what the target has, every matching topic of the source counts. None where nothing is known at all.
        """
        on_source = poll.asked(source.alias, source.topics)
        on_target = poll.asked(target.alias, target.topics)
        if on_source is None or (on_target is None and flow.name in self._plans):
            return self._plans.get(flow.name)
        topics = matched(flow, on_source)
        if on_target is None:
            return flow_plan(flow, topics, {topic.remote: topic.source.partitions for topic in topics})
        plan = flow_plan(flow, topics, {name: topic.partitions for name, topic in on_target.items()})
        self._plans[flow.name] = plan
        return plan

    def _known_positions(self, flow: Flow, plan: FlowPlan, source: Admin, target: Admin, poll: _Poll) -> Positions:
        """Return positions from the target, else of the last poll by us or the appliance, else what the source's group shows."""
        found = poll.asked(target.alias, lambda: log_bounds.positions(plan, target))
        if found is not None:
            self._positions[flow.name] = Positions(found, poll.now_s)
        elif flow.name not in self._positions:
            polled = {
                (p.topic, p.partition): samples[-1]
                for p in plan.partitions
                if (samples := self._history.of((plan.source, plan.target, p.remote_topic, str(p.partition))))
            }
            if polled:
                read_s = min(sample.position_s or sample.time_s for sample in polled.values())
                self._positions[flow.name] = Positions({key: sample.position for key, sample in polled.items()}, read_s)
            else:
                shown = poll.asked(source.alias, lambda: log_bounds.shown(plan, source)) or {}
                return Positions(shown, LONG_AGO_S)
        return self._positions[flow.name]

    def _without_source(self, flow: Flow, target: Admin, poll: _Poll) -> list[LagRow]:
        """Return rows where the source does not tell what there is: of what the appliance has polled, or has positions of."""
        ends = (flow.source.alias, flow.target.alias)
        polled = {
            (key[2], int(key[3])): self._history.of(key)[-1].position
            for key in self._history.known()
            if key[:2] == ends
        }
        return [
            self._of_remote(flow, *place, position, poll)
            for place, position in sorted((polled or self._committed(flow, target, poll)).items())
        ]

    def _committed(self, flow: Flow, target: Admin, poll: _Poll) -> dict[Key, int]:
        """Return the positions that the target has of a flow, by remote topic and partition."""
        group = poll.asked(target.alias, lambda: self._groups[target.alias].one(flow_plan(flow, [], {}).group))
        offsets = group.offsets if group is not None else {}
        return {
            place: offset
            for place, offset in offsets.items()
            if flow.policy.topic_source(place[0]) in (flow.source.alias, None) and not flow.policy.is_internal(place[0])
        }

    def _of_remote(self, flow: Flow, topic: str, partition: int, position: int, poll: _Poll) -> LagRow:
        key = _key(flow.name, flow.source.alias, topic, partition, is_flow=True)
        verdict, _, _ = self._judged(key, None, None, poll.now_s)
        return LagRow(
            group=flow.name,
            cluster=flow.source.alias,
            topic=flow.policy.upstream_topic(topic) or topic,
            partition=partition,
            offset=position,
            log_end=None,
            owner=poll.owner,
            is_flow=True,
            remote_topic=topic,
            status=verdict.status,
            reason=verdict.reason,
        )

    def _reader(self, plan: FlowPlan) -> FirstUnreplicated:
        reader = self._readers.get(plan.name)
        if reader is None:
            reader = self._readers[plan.name] = FirstUnreplicated(plan)
        return reader

    def _owner(self) -> str:
        """Return where the appliance of this file answers, "" when it does not."""
        address = self._settings.mirror.metrics_address
        try:
            self._settings.mirror.http.read(address, "/ready", timeout_s=READY_S)
        except urllib.error.HTTPError as error:
            error.close()
        except (urllib.error.URLError, TimeoutError) as error:
            log.debug("the appliance at %s does not answer: %s", address, error)
        else:
            return address
        return ""

    # --- everybody's groups --------------------------------------------------------------------------------------

    def _of_cluster(self, alias: str, poll: _Poll) -> list[LagRow]:
        """Return the rows of a cluster's consumer groups; while it does not answer the last ones, judged again."""
        groups = poll.asked(alias, self._groups[alias].read)
        if groups is None:
            return [self._judged_anew(row, poll.now_s) for row in self._consumers.get(alias, ())]
        groups = [group for group in groups if not is_own_group(group.name)]
        warn_of_hidden(groups, alias, self._hidden)
        places = sorted({place for group in groups for place in (*group.offsets, *group.owners)})
        ends = poll.asked(alias, lambda: self._admins[alias].end_offsets(places, read_committed=False)) or {}
        self._consumers[alias] = [row for group in groups for row in self._of_group(alias, group, ends, poll.now_s)]
        return self._consumers[alias]

    def _of_group(self, alias: str, group: Group, ends: Mapping[Key, int], now_s: float) -> Iterator[LagRow]:
        for place in sorted({*group.offsets, *group.owners}):
            offset, end = group.offsets.get(place), ends.get(place)
            key = _key(group.name, alias, *place, is_flow=False)
            verdict, rate, level_in_s = self._judged(key, offset, end, now_s)
            yield LagRow(
                group=group.name,
                cluster=alias,
                topic=place[0],
                partition=place[1],
                offset=offset,
                log_end=end,
                owner=group.owners.get(place, ""),
                status=verdict.status,
                reason=verdict.reason,
                records_per_s=rate,
                level_in_s=level_in_s,
            )

    def _judged_anew(self, row: LagRow, now_s: float) -> LagRow:
        """Return a row of before without what is not known any more."""
        verdict, _, _ = self._judged(self._key(row), None, None, now_s)
        return replace(
            row,
            log_end=None,
            owner="",
            lag_seconds=None,
            records_per_s=None,
            level_in_s=None,
            status=verdict.status,
            reason=verdict.reason,
        )

    def _judged(
        self, key: RowKey, offset: int | None, end: int | None, now_s: float, position_s: float = 0.0
    ) -> tuple[Verdict, float | None, float | None]:
        """Return verdict, records per second and seconds until level; the latter of what was read now only."""
        is_read = offset is not None and end is not None
        if offset is not None and end is not None:
            self._history.add(key, Sample(now_s, offset, end, position_s=position_s if position_s < now_s else 0.0))
        samples = self._history.of(key)
        # Whether the appliance still reports only its own metrics can tell: here a silent flow is one that stands still.
        verdict = judge(
            samples, last_report_s=now_s, now_s=now_s, silence_s=float("inf"), known_s=self._known_s if is_read else 0.0
        )
        return verdict, *(pace(samples) if is_read else (None, None))


def _key(group: str, cluster: str, topic: str, partition: int, *, is_flow: bool) -> RowKey:
    """Return a row's key in the history; a flow's is what the appliance keeps its own polls by."""
    source, arrow, target = group.partition("->")
    if is_flow and arrow:
        return source, target, topic, str(partition)
    return "group", cluster, group, topic, str(partition)


def _admin_options(flows: tuple[Flow, ...], cluster: Cluster) -> Mapping[str, str]:
    """Return the control-plane client's settings for a cluster, as the first flow that has it says."""
    return next(
        flow.source_admin if flow.source.alias == cluster.alias else flow.target_admin
        for flow in flows
        if cluster.alias in (flow.source.alias, flow.target.alias)
    )
