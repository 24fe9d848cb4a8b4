"""The appliance, top to bottom: settings, clusters, topics, Spark, metrics, until a signal."""

from __future__ import annotations

import logging
import platform
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from metrics.cap import Labels
from metrics.exporter import PortTakenError, serve
from metrics.exposition import exposition
from metrics.listener import MirrorQueryListener, Take
from metrics.recorder import Recorder
from mirror import __version__
from mirror.admin import Admin, Topic
from mirror.checkpoints.plan import CheckpointPlan
from mirror.config.settings import Flow, Settings
from mirror.errors import ClusterUnavailable, SettingsError, StreamTerminated
from mirror.heartbeats import Heart
from mirror.local.jars import cache_folder, java
from mirror.poller import Poller
from mirror.positions import Position, begin, fence_unused, write_positions
from mirror.replication.class_archive import ClassArchive
from mirror.replication.datasource import Plan, write_plan
from mirror.replication.plan import FlowPlan, Key, slots_of_batons, stop_key
from mirror.replication.recreated import OnRecreated
from mirror.replication.reports import BEHIND_THE_END
from mirror.replication.stream import OBSERVED, OBSERVED_CHECKPOINTS, CheckpointStream, Lanes, close, session
from mirror.topics import (
    Matched,
    ensure_internal,
    ensure_remote,
    flow_plan,
    matched,
    offset_syncs_topic,
    sync_acls,
    sync_configs,
)

log = logging.getLogger("mirror")

STOP_WITHIN_S = 22.0  # from the request on; what a dead cluster held up before comes off the windows' time
LANES_END_S = 5.0
POLL_ENDS_S = 6.0  # a poll that runs asks two clusters; the rest of the round is left out
SPARE_TASKS = 2
_ON_GONE = {
    OnRecreated.RESTART: "it is created anew, and filled from the source's start",
    OnRecreated.STOP: "nothing is replicated there until somebody creates it, or the appliance is started again",
    OnRecreated.CONTINUE: "it is created anew, and what comes is replicated",
}
RESTARTS_BEFORE_GIVING_UP = 10


@dataclass(slots=True)
class Turn:
    """When something is to be done again; at once the first time."""

    at_s: float = 0.0

    def has_come(self, interval_s: float) -> bool:
        """Tell whether it is to be done now; the next time is an interval away then."""
        if time.monotonic() < self.at_s:
            return False
        self.at_s = time.monotonic() + interval_s
        return True


@dataclass(slots=True)
class FlowState:
    """One flow as the driver sees it: its control planes, and what it replicates now."""

    flow: Flow
    source: Admin
    target: Admin
    topics: list[Matched] = field(default_factory=list)
    remote: dict[str, int] = field(default_factory=dict)  # partitions of each topic on the target
    plan: FlowPlan | None = None
    first: frozenset[Key] | None = None  # topic-partitions that were there when the flow began
    refresh_turn: Turn = field(default_factory=Turn)
    configs_turn: Turn = field(default_factory=Turn)
    acls_turn: Turn = field(default_factory=Turn)
    told_gone: set[str] = field(default_factory=set)  # remote topics that were deleted, told already
    acl_objections: set[str] = field(default_factory=set)  # those of the last time, told already

    @property
    def name(self) -> tuple[str, str]:
        """Aliases of source and target: the labels of the flow's own series."""
        return self.flow.source.alias, self.flow.target.alias

    @property
    def follows_groups(self) -> bool:
        """True when checkpoints of its consumer groups are made."""
        return self.plan is not None and self.flow.checkpoints.enabled

    def labels(self) -> dict[tuple[str, int], Labels]:
        """Return the metric labels of each topic-partition of the source."""
        return labels_of(self.plan) if self.plan is not None else {}


def labels_of(plan: FlowPlan) -> dict[tuple[str, int], Labels]:
    """Return the metric labels of each topic-partition of a plan, by source topic and partition."""
    return {
        (p.topic, p.partition): (plan.source, plan.target, p.remote_topic, str(p.partition)) for p in plan.partitions
    }


class Appliance:
    """Runs all flows of one settings file in this process and its Spark."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._mirror = settings.mirror
        self._plan_file: Path = settings.mirror.state_dir / "plan"
        self._is_ready = False
        self._stop = threading.Event()
        self._stop_asked_s = 0.0
        self.recorder = Recorder()
        self.flows = [_state(flow) for flow in settings.flows]
        self.port = 0
        self.poller = Poller(
            self.recorder,
            settings.mirror.state_dir / "history.json",
            window_s=settings.mirror.window_ms / 1000,
            publishes=settings.mirror.source_group_enabled,
        )

    def run(self, *, on_started: Callable[[Appliance], None] | None = None) -> None:
        """Replicate until `stop` is called or SIGTERM or SIGINT arrives; then hand every position over and return.

        Raises:
            SettingsError: both ends of a flow are the same cluster, or the metrics address is taken.
            ClusterUnavailable: a cluster did not answer at start.
            StreamTerminated: Spark ended the queries again and again.
        """
        mirror = self._mirror
        mirror.state_dir.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                host, port = mirror.metrics_listen
                self.port = stack.enter_context(serve(self._exposition, host, port, is_ready=lambda: self._is_ready))
            except PortTakenError as error:
                raise SettingsError(str(error)) from error
            self.recorder.info("kafka_mirror_build_info", (__version__, platform.python_version(), version("pyspark")))
            refuse_same_cluster(self.flows)
            self.poller.load()
            self._refresh(force=True)
            archive = ClassArchive(cache_folder(), java())
            spark = session(mirror.spark, archive, tasks=mirror.lanes * mirror.slots + SPARE_TASKS)
            stack.callback(close, spark, archive)
            self._on_signals()  # after Spark, which installs a handler of its own
            spark.streams.addListener(MirrorQueryListener(self.recorder, takes=self._takes()))
            lanes = Lanes(
                spark,
                mirror.state_dir,
                plan=self._plan_file,
                lanes=mirror.lanes,
                slots=mirror.slots,
                window_ms=mirror.window_ms,
            )
            streams: list[Lanes | CheckpointStream] = [lanes]
            if intervals := [state.flow.checkpoints.interval_s for state in self.flows if state.follows_groups]:
                streams.append(CheckpointStream(spark, mirror.state_dir, plan=self._plan_file, every_s=min(intervals)))
            heart = Heart(self._settings.beats, self._beaten)
            stack.callback(heart.stop)
            polling = threading.Thread(target=self._poll_on, name="poller", daemon=True)
            if not self._stop.is_set():
                for stream in streams:
                    stream.start()
                polling.start()
                heart.start()
                self._is_ready = True
                log.info("replicating %s; metrics on http://%s:%d/metrics", self._summary(), host, self.port)
                if on_started is not None:
                    on_started(self)
                self._watch(streams)
            self._is_ready = False
            self._finish(lanes, polling)
            for stream in streams:
                stream.stop()

    def _takes(self) -> dict[str, Take]:
        """Return who takes in the rows of which stream."""
        return {OBSERVED: self._reported, OBSERVED_CHECKPOINTS: self.recorder.checkpoints}

    def _reported(self, rows: Sequence[Mapping[str, Any]], *, now_s: float) -> None:
        self.recorder.reports(rows, now_s=now_s)
        odd = {(row["source"], row["target"]) for row in rows if row["reason"].startswith(BEHIND_THE_END)}
        for state in self.flows:
            if state.name in odd:
                state.refresh_turn.at_s = 0.0  # is it another topic by now?

    def _beaten(self, flow: tuple[str, str]) -> None:
        self.recorder.heartbeat(flow, now_s=time.time())

    def _exposition(self) -> str:
        mirror = self._mirror
        return exposition(
            self.recorder.snapshot(), max_series=mirror.metrics_max_series, strimzi_names=mirror.metrics_strimzi_names
        )

    @property
    def is_stopping(self) -> bool:
        """True from the first request to stop on."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Ask `run` to end; safe from any thread."""
        self._stop_asked_s = self._stop_asked_s or time.monotonic()
        self._stop.set()

    def _on_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
            signal.signal(signal.SIGHUP, lambda *_: self.refresh())

    def refresh(self) -> None:
        """Look for topics, and carry settings and ACLs over, at once instead of at the end of their intervals."""
        for state in self.flows:
            for turn in (state.refresh_turn, state.configs_turn, state.acls_turn):
                turn.at_s = 0.0

    def _summary(self) -> str:
        return ", ".join(
            f"{len(state.plan.partitions) if state.plan else 0} topic-partitions {state.flow.name}"
            for state in self.flows
        )

    # --- while it runs ------------------------------------------------------------------------------------------

    def _watch(self, streams: list[Lanes | CheckpointStream]) -> None:
        restarts = 0
        while not self._stop.wait(0.2):
            for ended in [ended for stream in streams for ended in stream.revive()]:
                restarts += 1
                self.recorder.count("kafka_mirror_query_restarts_total")
                log.error("%s; started again (%d)", ended, restarts)
                if restarts > RESTARTS_BEFORE_GIVING_UP:
                    raise StreamTerminated(f"{ended}; given up after {restarts} restarts")
            self._refresh()
            self._sync()

    def _sync(self) -> None:
        """Carry topic settings and ACLs over, at once after the start and then at each flow's intervals.

        Where a flow is not asked to, only what differs is measured; a client that may not even look is no news then.
        """
        for state in self.flows:
            flow = state.flow
            for what, turn, every, sync in (
                ("topic settings", state.configs_turn, flow.sync_configs, self._sync_configs),
                ("ACLs", state.acls_turn, flow.sync_acls, self._sync_acls),
            ):
                if state.plan is None or not turn.has_come(every.interval_s):
                    continue
                try:
                    sync(state)
                except ClusterUnavailable as error:
                    say = log.warning if every.enabled else log.debug
                    say("%s: %s not synchronized: %s", flow.name, what, error)

    def _sync_configs(self, state: FlowState) -> None:
        present = {assigned.remote_topic for assigned in state.plan.partitions} if state.plan is not None else set()
        drift = sync_configs(state.flow, state.topics, state.source, state.target, present=present)
        self.recorder.config_drift(state.name, drift)

    def _sync_acls(self, state: FlowState) -> None:
        lacking = sync_acls(state.flow, state.topics, state.source, state.target)
        self.recorder.acl_drift(state.name, len(lacking))
        objections = {objection for objection in lacking.values() if objection}
        for objection in objections - state.acl_objections:
            log.warning("%s: ACLs cannot be added on %s: %s", state.flow.name, state.flow.target.alias, objection)
        state.acl_objections = objections

    def _refresh(self, *, force: bool = False) -> None:
        """Follow new topics and grown partitions of the flows whose interval is over; tell the planner."""
        changed = False
        for state in self.flows:
            is_due = state.refresh_turn.has_come(state.flow.refresh_topics.interval_s)
            if not force and not (is_due and state.flow.refresh_topics.enabled):
                continue
            try:
                changed |= self._discover(state)
            except ClusterUnavailable as error:
                if force:
                    raise
                log.warning("%s: topics not refreshed: %s", state.flow.name, error)
        if changed or force:
            self._write_plan(is_stopping=False)

    def _discover(self, state: FlowState) -> bool:
        """Match topics, prepare the target, and return whether the flow's topic-partitions changed."""
        on_source, on_target = state.source.topics(), state.target.topics()
        state.topics = matched(state.flow, on_source)
        ensure_internal(
            state.flow, state.source, state.target,
            on_source=on_source, on_target=on_target, slots=self._mirror.slots,
        )  # fmt: skip
        gone = self._gone(state, on_target)
        stopped = gone if state.flow.on_recreated is OnRecreated.STOP else set()
        wanted = [topic for topic in state.topics if topic.remote not in stopped]
        present = ensure_remote(state.flow, wanted, on_target, state.source, state.target)
        state.remote = present | {name: state.remote[name] for name in stopped}
        before = state.plan
        if before is None:
            first = flow_plan(state.flow, state.topics, state.remote)
            state.first = begin(state.flow, first)
            batons = on_target.get(first.baton_topic)
            if first.is_exactly_once and batons is not None:
                fence_unused(
                    state.flow, first, slots=self._mirror.slots, slots_before=slots_of_batons(batons.partitions)
                )
        if not present.keys() <= on_target.keys():
            on_target = _with(state.target, present.keys())
        if state.flow.on_recreated is OnRecreated.CONTINUE:
            self._put_back(state, gone)
        ids = {name: topic.topic_id for name, topic in on_target.items()}
        state.plan = flow_plan(state.flow, state.topics, state.remote, first=state.first, remote_ids=ids)
        return state.plan != before

    def _gone(self, state: FlowState, on_target: Mapping[str, Topic]) -> set[str]:
        """Return the remote topics that were replicated into and are not on the target any more; say what becomes of them."""
        known = {p.remote_topic for p in state.plan.partitions} if state.plan is not None else set()
        gone = {name for name in known if name not in on_target}
        for name in gone - state.told_gone:
            log.error("%s: %s was deleted on the target: %s", state.flow.name, name, _ON_GONE[state.flow.on_recreated])
        state.told_gone = gone
        return gone

    def _put_back(self, state: FlowState, gone: Collection[str]) -> None:
        """Give topic-partitions the positions that the target's broker forgot with their topics, as far as they were polled."""
        plan = state.plan
        places = [p for p in plan.partitions if p.remote_topic in gone] if plan is not None else []
        labels = state.labels()
        found = {
            (p.remote_topic, p.partition): Position(offset, p.topic_id)
            for p in places
            if (offset := self.poller.last_position(labels[p.topic, p.partition])) is not None
        }
        if plan is not None and found:
            write_positions(state.flow, plan.group, found)

    def _write_plan(self, *, is_stopping: bool) -> None:
        plans = tuple(state.plan for state in self.flows if state.plan is not None)
        checkpoints = tuple(self._checkpoint_plan(state) for state in self.flows if state.follows_groups)
        write_plan(self._plan_file, Plan(plans, checkpoints=checkpoints, is_stopping=is_stopping))

    def _checkpoint_plan(self, state: FlowState) -> CheckpointPlan:
        flow, plan = state.flow, state.plan
        assert plan is not None
        back = (s.plan for s in self.flows if (s.plan is not None and s.name == state.name[::-1]))
        return CheckpointPlan(
            flow=plan,
            back=next(back, None),
            settings=flow.checkpoints,
            checkpoints_topic=flow.policy.checkpoints_topic(flow.source.alias),
            offset_syncs_topic=offset_syncs_topic(flow),
            source_client=dict(flow.source_admin),
            target_client=dict(flow.target_admin),
            offset_syncs_client=dict(flow.offset_syncs_producer),
        )

    def _poll_on(self) -> None:
        """Poll until the appliance stops; a thread of its own, for a cluster that hangs also holds up `_refresh`."""
        while True:
            self._forget_the_gone()
            for state in self.flows:
                if self._stop.is_set():
                    return
                try:
                    self._poll(state)
                except Exception:
                    log.exception("%s: a poll failed", state.flow.name)
                    self.recorder.count("kafka_mirror_poll_errors_total", state.name)
            if self._stop.wait(self._mirror.poll_interval_s):
                return

    def _forget_the_gone(self) -> None:
        present = [labels for state in self.flows for labels in state.labels().values()]
        self.recorder.keep_only(present)
        self.poller.keep_only(present)

    def _poll(self, state: FlowState) -> None:
        plan = state.plan
        if plan is not None:
            for names in {(assigned.remote_topic, assigned.topic) for assigned in plan.partitions}:
                self.recorder.info("kafka_mirror_topic_info", (*state.name, *names))
            self.poller.poll(plan, state.source, state.target, labels_of(plan))

    # --- the end ------------------------------------------------------------------------------------------------

    def _finish(self, lanes: Lanes, polling: threading.Thread) -> None:
        """Let the running windows end themselves: everything in flight acknowledged, positions committed."""
        log.info("stopping: running windows hand over their positions")
        self._write_plan(is_stopping=True)
        for state in self.flows:
            if state.plan is not None:
                try:
                    state.target.commit(state.plan.group, {(state.plan.baton_topic, stop_key()): lanes.run_id})
                except ClusterUnavailable as error:
                    log.warning("%s: windows cannot be told to stop: %s", state.flow.name, error)
        left_s = STOP_WITHIN_S - (time.monotonic() - (self._stop_asked_s or time.monotonic()))
        is_in_time = lanes.finish(max(LANES_END_S, left_s))
        if polling.ident is not None:  # a stop asked for while Spark starts comes before the first poll
            polling.join(POLL_ENDS_S)
        if not polling.is_alive():
            for state in self.flows if is_in_time else ():
                self._poll(state)
            self.poller.save()
            self.poller.close()
        if is_in_time:
            log.info("stopped; every position is committed")
        else:
            log.warning("stopped without the windows' own end; the next start repeats at most their last second")


def _with(target: Admin, created: Set[str]) -> dict[str, Topic]:
    """Return the target's topics when those that were just created are among them, or have been waited for long enough."""
    for _ in range(10):
        topics = target.topics()
        if created <= topics.keys():
            break
        time.sleep(0.2)
    return topics


def _state(flow: Flow) -> FlowState:
    return FlowState(flow, Admin(flow.source.alias, flow.source_admin), Admin(flow.target.alias, flow.target_admin))


def refuse_same_cluster(flows: list[FlowState]) -> None:
    """Raise SettingsError when a flow's ends are one cluster: it would replicate its own output without end."""
    for state in flows:
        source, target = state.source.cluster_id(), state.target.cluster_id()
        if source == target:
            raise SettingsError(
                f"{state.flow.name}: both ends are the same cluster (cluster id {source}); "
                "it would replicate its own records without end. Point one alias at another cluster."
            )


def check(settings: Settings) -> list[FlowState]:
    """Connect to every flow's clusters, match topics, change nothing: what `plan` prints."""
    states = [_state(flow) for flow in settings.flows]
    refuse_same_cluster(states)
    for state in states:
        state.topics = matched(state.flow, state.source.topics())
    return states
