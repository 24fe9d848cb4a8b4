"""Poll the clusters of a settings file for everything that the lag inspector shows. Works with the appliance down."""

from __future__ import annotations

import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from metrics.verdict import History, Sample, Verdict, judge
from mirror import offsets
from mirror.admin import Admin
from mirror.config.settings import Cluster, Flow, Settings
from mirror.errors import ClusterUnavailable
from mirror.first_unreplicated import FirstUnreplicated
from mirror.groups import Group, Groups, tell_hidden
from mirror.lag.rows import LagRow, Snapshot, pace
from mirror.poller import HISTORY_AGE_S
from mirror.replication.plan import FlowPlan, is_own_group
from mirror.topics import present_plan

log = logging.getLogger("mirror")

READY_S = 2.0

Key = tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """What one poll has brought so far."""

    rows: list[LagRow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    down: set[str] = field(default_factory=set)


class Inspector:
    """Reads only; one `poll` at a time, from whichever thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._history = History()
        self._lock = threading.Lock()
        clusters = {end.alias: end for flow in settings.flows for end in (flow.source, flow.target)}
        self._admins = {alias: Admin(alias, _admin_options(settings.flows, end)) for alias, end in clusters.items()}
        self._groups = {alias: Groups(alias, _admin_options(settings.flows, end)) for alias, end in clusters.items()}
        self._readers: dict[str, FirstUnreplicated] = {}
        self._hidden: set[str] = set()  # groups of whom it was said that they may not be read
        self._last: dict[str, tuple[float, list[LagRow]]] = {}  # by flow or cluster: when, and what it answered
        # The appliance keeps its polls: with them verdicts are there at once.
        self._history.load(settings.mirror.state_dir / "history.json", now_s=time.time(), max_age_s=HISTORY_AGE_S)

    def poll(self) -> Snapshot:
        """Return what is there now; of a cluster that does not answer the rows of the last time, and a sentence."""
        with self._lock:
            now_s = time.time()
            found = _Found()
            owner = self._owner()
            for flow in self._settings.flows:
                self._ask(found, flow.name, now_s, partial(self._flow, flow, owner, now_s))
            for alias in self._admins:
                self._ask(found, alias, now_s, partial(self._consumers, alias, now_s))
            if not found.problems:
                self._history.keep_only([self._key(row) for row in found.rows])
            return Snapshot(
                time_s=now_s,
                rows=tuple(found.rows),
                problems=tuple(dict.fromkeys(found.problems)),
                clusters=tuple((alias, alias not in found.down) for alias in self._admins),
            )

    def _ask(self, found: _Found, about: str, now_s: float, question: Callable[[], list[LagRow]]) -> None:
        """Take in an answer; without one the rows of the last answer, and the sentence on why."""
        try:
            self._last[about] = (now_s, question())
        except ClusterUnavailable as error:
            asked_s, _ = self._last.get(about, (0.0, []))
            old = time.strftime(" Its rows are of %H:%M:%S UTC.", time.gmtime(asked_s)) if asked_s else ""
            found.problems.append(f"{error}{old}")
            found.down.add(error.cluster)
        found.rows += self._last.get(about, (0.0, []))[1]

    def window(self, row: LagRow) -> list[Sample]:
        """Return the polls that a row's verdict rests on, oldest first."""
        return self._history.of(self._key(row))

    def _key(self, row: LagRow) -> Key:
        topic = row.remote_topic if row.is_flow else row.topic
        return _key(row.group, row.cluster, topic, row.partition, is_flow=row.is_flow)

    def close(self) -> None:
        """Close the connections."""
        for reader in self._readers.values():
            reader.close()

    # --- the mirror's own flows ----------------------------------------------------------------------------------

    def _flow(self, flow: Flow, owner: str, now_s: float) -> list[LagRow]:
        source, target = self._admins[flow.source.alias], self._admins[flow.target.alias]
        plan = present_plan(flow, source, target)
        positions = offsets.positions(plan, target)
        logs = offsets.bounds(plan, source)
        timestamps = self._reader(plan).timestamps(offsets.lagging(positions, logs))
        rows = []
        for assigned in plan.partitions:
            place = (assigned.topic, assigned.partition)
            offset, end = positions.get(place), logs.ends.get(place)
            key = _key(flow.name, flow.source.alias, assigned.remote_topic, assigned.partition, is_flow=True)
            verdict, rate, level_in_s = self._judged(key, offset, end, now_s)
            waits_s = max(0.0, now_s - timestamps[place] / 1000) if place in timestamps else None
            rows.append(
                LagRow(
                    group=flow.name, cluster=flow.source.alias, topic=assigned.topic, partition=assigned.partition,
                    offset=offset, log_end=end, owner=owner, is_flow=True, remote_topic=assigned.remote_topic,
                    lag_seconds=0.0 if offset is not None and end is not None and end <= offset else waits_s,
                    status=verdict.status, reason=verdict.reason, records_per_s=rate, level_in_s=level_in_s,
                )
            )  # fmt: skip
        return rows

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

    def _consumers(self, alias: str, now_s: float) -> list[LagRow]:
        groups = [group for group in self._groups[alias].read() if not is_own_group(group.name)]
        tell_hidden(groups, alias, self._hidden)
        places = sorted({place for group in groups for place in (*group.offsets, *group.owners)})
        ends = self._admins[alias].end_offsets(places, read_committed=False)
        return [row for group in groups for row in self._of_group(alias, group, ends, now_s)]

    def _of_group(
        self, alias: str, group: Group, ends: Mapping[tuple[str, int], int], now_s: float
    ) -> Iterator[LagRow]:
        for place in sorted({*group.offsets, *group.owners}):
            offset, end = group.offsets.get(place), ends.get(place)
            verdict, rate, level_in_s = self._judged(_key(group.name, alias, *place, is_flow=False), offset, end, now_s)
            yield LagRow(
                group=group.name, cluster=alias, topic=place[0], partition=place[1], offset=offset, log_end=end,
                owner=group.owners.get(place, ""), status=verdict.status, reason=verdict.reason,
                records_per_s=rate, level_in_s=level_in_s,
            )  # fmt: skip

    def _judged(
        self, key: Key, offset: int | None, end: int | None, now_s: float
    ) -> tuple[Verdict, float | None, float | None]:
        if offset is not None and end is not None:
            self._history.add(key, Sample(now_s, offset, end))
        samples = self._history.of(key)
        # Whether the appliance still reports only its own metrics can tell: here a silent flow is one that stands still.
        return judge(samples, last_report_s=now_s, now_s=now_s, silence_s=float("inf")), *pace(samples)


def _key(group: str, cluster: str, topic: str, partition: int, *, is_flow: bool) -> Key:
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
