"""Run kafka-mirror: read settings, check clusters and topics, start Spark and metrics, replicate until a signal."""

from __future__ import annotations

import logging
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any, ClassVar

from metrics.exporter import PortTakenError, serve
from metrics.exposition import Format, exposition
from metrics.history import HISTORY_FILE
from metrics.listener import Stream
from metrics.process_status import ProcessStatus
from metrics.recorder import Recorder
from metrics.reports import CheckpointReport, WindowReport
from metrics.series import Labels
from metrics.store import Store
from mirror import __version__
from mirror.config.settings import Mirror, Settings, digest
from mirror.errors import ClusterRefuses, ClusterUnavailable, SettingsError, StreamTerminated
from mirror.flows.flow import Due, FlowState, led_flows, refuse_same_cluster, state_of
from mirror.flows.heartbeats import HeartbeatEmitter
from mirror.flows.upkeep import BEGIN_AGAIN_S, FlowMaintenance
from mirror.handover.membership import Membership, Memberships
from mirror.lag.failover import answer_failover
from mirror.lag.flow_progress import FlowProgress
from mirror.lag.judgement import horizon_of
from mirror.lag.poller import Poller, Polling, TrackedSeries
from mirror.model.slot_lease import lane_takes_s
from mirror.model.slot_ownership import SlotLayout, versioned
from mirror.runtime.clock import Clock
from mirror.runtime.engine import Engine, Query, WindowQueries
from mirror.runtime.lanes import LaneProgress, Restarts
from mirror.runtime.notify import READY, STOPPING, notify
from mirror.runtime.signals import on_signals
from mirror.runtime.state_folder import MOST_HERE, StateFolder
from mirror.spark.engine import SparkEngine
from mirror.spark.plans import Plans
from mirror.spark.queries import OBSERVED, OBSERVED_CHECKPOINTS, lane_name
from mirror.switching.drills import Drills

log = logging.getLogger("mirror")

STOP_WITHIN_S = 22.0  # from the request on; delays by a dead cluster leave less time for the windows
LANES_END_S = 5.0
POLL_ENDS_S = 6.0  # a running poll still asks two clusters; the rest of the round is skipped
SPARE_TASKS = 2
RESTARTS_BEFORE_GIVING_UP = 10  # within the following time
RESTARTS_COUNT_S = 600.0
REVIVE_EVERY_S = 1.0  # how often the JVM is asked whether its queries run: each request costs both processes CPU time
LOOK_AGAIN_S = 60.0


def lane_progress(mirror: Mirror) -> LaneProgress:
    """Return a record of the process' lanes, which shows whether a lane hangs."""
    names, longest_s = map(lane_name, range(mirror.lanes)), lane_takes_s(mirror.lanes, mirror.window_ms)
    return LaneProgress(names, longest_s=longest_s)


def _objectives(flows: Sequence[FlowState]) -> dict[Labels, float]:
    """Return the RPO objectives (s) of the flows that this process serves at least partly."""
    served = [state for state in flows if state.membership is not None and state.membership.owned]
    return {state.name: float(state.flow.rpo_objective_s) for state in served}


class Appliance:
    """Runs all flows of one settings file in this process and its Spark."""

    engine: ClassVar[type[Engine]] = SparkEngine

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._mirror = settings.mirror
        state = settings.mirror.state_dir
        self._folder = StateFolder.of_several(state) if settings.mirror.is_state_default else StateFolder(state)
        self._memberships = Memberships()
        self._is_ready = False
        self._stop = threading.Event()
        self._stop_requested_s = 0.0
        self._is_changed = threading.Event()  # a flow's plan differs from the plan file
        self._failure: Exception | None = None  # raised after every position is handed over
        horizon = horizon_of(poll_interval_s=settings.mirror.poll_interval_s, window_s=settings.mirror.window_ms / 1000)
        self.recorder = Recorder(horizon)
        self.flows = [state_of(flow) for flow in settings.flows]
        self.port = 0
        self._flow_progress = FlowProgress()
        self.poller = Poller(
            self.recorder,
            self._folder.path / HISTORY_FILE,
            progress=self._flow_progress,
            horizon=horizon,
            publishes=settings.mirror.source_group_enabled,
            wait=self._stop.wait,
        )
        self._plans = Plans(self._folder.path / "plan", self.flows)
        self._progress = lane_progress(settings.mirror)
        self._accounts = TrackedSeries(self.flows, self.recorder, self.poller, self._flow_progress)

    def run(self, *, on_started: Callable[[Appliance], None] | None = None) -> None:
        """Replicate until `stop`, SIGTERM or SIGINT; then commit every position and return.

        Raises:
            SettingsError: both ends of a flow are the same cluster, or the state folder or the metrics address is taken.
            ClusterUnavailable: at the start, no flow's clusters responded.
            StreamTerminated: Spark ended the queries repeatedly or cannot start them, the state folder's disk is full, or
                the machine's clock was set back.
        """
        mirror = self._mirror
        with ExitStack() as stack:
            stack.enter_context(self._folder.written())
            self._folder.take()
            stack.callback(self._folder.leave)
            self.port = self._serve(stack)
            build = __version__, platform.python_version(), version("pyspark")
            self.recorder.store.info("kafka_mirror_build_info", build)
            self.poller.load()
            self._begin()
            stack.callback(self._memberships.end)
            self._memberships.start()
            engine = self.engine.start(mirror.spark, tasks=mirror.lanes * mirror.slots + SPARE_TASKS)
            stack.callback(engine.close)
            self._on_signals()  # after Spark's start, because Spark installs its own handlers
            engine.listen(self.recorder, self._streams(), self._progress.completed)
            lanes = self._lanes(engine)
            queries: list[Query] = [lanes, *self._checkpoint_queries(engine)]
            heartbeats = HeartbeatEmitter(
                self._settings.heartbeat_flows, self._heartbeat_acknowledged, self._emits_heartbeats
            )
            stack.callback(heartbeats.stop)
            polling = Polling(self.flows, self.poller, self.recorder, mirror.poll_interval_s, self._stop)
            if not self._stop.is_set():
                for query in queries:
                    query.start()
                polling.start()
                for state in self.flows:
                    self._upkeep(state).start()
                heartbeats.start()
                Drills(self._settings, self.flows, self.recorder, ends=self._stop).start()
                self._is_ready = True
                notify(READY)
                address = f"{mirror.http.scheme}://{mirror.metrics_listen[0]}:{self.port}"
                log.info("replicating %s; metrics on %s/metrics", self._summary(), address)
                if on_started is not None:
                    on_started(self)
                self._watch(queries)
            self._is_ready = False
            notify(STOPPING)
            self._finish(lanes, polling)
            engine.silence()
            for query in queries:
                query.stop()
            if self._failure is not None:
                raise self._failure

    def _lanes(self, engine: Engine) -> WindowQueries:
        """Return the queries that serve windows, not started yet."""
        mirror, plan = self._mirror, self._plans.path
        return engine.lanes(self._folder, plan=plan, lanes=mirror.lanes, slots=mirror.slots, window_ms=mirror.window_ms)

    def _checkpoint_queries(self, engine: Engine) -> list[Query]:
        """Return the query of checkpoint rounds, or nothing if no flow makes checkpoints."""
        intervals = [s.flow.checkpoints.interval_s for s in self.flows if s.flow.checkpoints.enabled]
        if not intervals:
            return []
        return [engine.checkpoints(self._folder, plan=self._plans.path, every_s=min(intervals))]

    def _upkeep(self, state: FlowState) -> FlowMaintenance:
        return FlowMaintenance(
            state=state,
            recorder=self.recorder,
            begin=self._begin_flow,
            discover=self._discover,
            on_change=self._is_changed.set,
            on_failure=self._fail,
            ends=self._stop,
        )

    def _serve(self, stack: ExitStack) -> int:
        """Serve metrics and status. Return the port; if the default port is taken, it is the next free one.

        Raises:
            SettingsError: the address is taken.
        """
        mirror = self._mirror
        host, port = mirror.metrics_listen
        served = serve(
            self._scrape,
            host,
            port,
            tries=MOST_HERE if mirror.is_listen_default else 1,
            is_ready=lambda: self._is_ready,
            errors=self.recorder.windows.last_errors.text,
            status=lambda: ProcessStatus.of(self.recorder.snapshot()).text(),
            access=mirror.http,
        )
        try:
            found = stack.enter_context(served)
        except PortTakenError as error:
            raise SettingsError(str(error)) from error
        if port and found != port:
            log.info("mirror.metrics.listen: port %d is taken; metrics are on port %d", port, found)
        return found

    def _begin(self) -> None:
        """Begin every flow whose clusters respond. The other flows are tried again later.

        Raises:
            SettingsError: both ends of a flow are the same cluster, or a MirrorMaker 2 still replicates it.
            ClusterUnavailable: no flow's clusters respond.
            ClusterRefuses: no flow can begin, and a cluster refuses the first one.
        """
        failures: list[ClusterUnavailable] = []
        down: set[str] = set()
        for state in self.flows:
            if down & set(state.name):
                continue
            try:
                self._begin_flow(state)
            except ClusterRefuses as error:  # a refusal concerns a flow; the cluster itself is up
                failures.append(error)
            except ClusterUnavailable as error:
                failures.append(error)
                down.add(error.cluster)
                self.recorder.record_cluster(state.name, error.cluster, is_up=False)
        if all(state.plan is None for state in self.flows):
            raise failures[0]
        for failure in failures:
            log.error("%s Its flows are tried again every %.0f seconds; the others begin.", failure, BEGIN_AGAIN_S)
        self._plans.write()

    def _begin_flow(self, state: FlowState) -> None:
        refuse_same_cluster([state])
        state.refresh_due.take(state.flow.refresh_topics.interval_s)
        self._discover(state)
        assert state.plan is not None
        mirror, flow = self._mirror, state.flow
        layout = SlotLayout(mirror.slots, flow.tasks_max, mirror.window_ms, mirror.lanes)
        state.membership = Membership(
            flow=flow,
            plan=state.plan,
            layout=layout,
            run_id=self._folder.run_id,
            gone=self._folder.gone,
            settings=versioned(__version__, digest(flow)),
            is_ready=lambda: self._is_ready,
            hung=lambda: self._progress.hung() if self._is_ready else "",
        )
        self._memberships.add(state.membership)

    def _discover(self, state: FlowState) -> bool:
        return state.discover(slots=self._mirror.slots, last_position=self.poller.last_position)

    def _emits_heartbeats(self, flow: tuple[str, str]) -> bool:
        """Return whether this process emits the flow's heartbeats.

        If the flow replicates nothing, every process emits them.
        """
        return all(state.leads for state in self.flows if state.name == flow)

    def _streams(self) -> dict[str, Stream[Any]]:
        """Return the row type of each stream, and the function that records its rows."""
        return {
            OBSERVED: Stream(WindowReport, self._reported),
            OBSERVED_CHECKPOINTS: Stream(CheckpointReport, self.recorder.record_checkpoints),
        }

    def _reported(self, rows: Sequence[WindowReport], *, now_s: float) -> None:
        self.recorder.windows.record(rows, now_s=now_s)
        self._flow_progress.record_windows(rows, now_s=now_s)
        odd = {(row.source, row.target) for row in rows if row.rewinds or row.is_topic_in_question}
        with_gaps = {(row.source, row.target) for row in rows if row.rewinds or row.lost}
        for state in self.flows:
            if state.name in with_gaps:
                state.gaps_due.hasten(0.0)
            if state.name in odd:
                # A topic was replaced or is gone, perhaps only for a moment.
                state.refresh_due.hasten(LOOK_AGAIN_S)

    def _heartbeat_acknowledged(self, flow: tuple[str, str]) -> None:
        self.recorder.record_heartbeat(flow, now_s=time.time())

    def _scrape(self, wanted: Format) -> bytes:
        mirror, now_s = self._mirror, time.time()
        families = self.recorder.snapshot(now_s=now_s)
        answer_failover(families, now_s=now_s, flows=_objectives(self.flows), reporting_groups=led_flows(self.flows))
        return exposition(
            families,
            self.recorder.store.began(),
            wanted=wanted,
            max_series=mirror.metrics_max_series,
            strimzi_names=mirror.metrics_strimzi_names,
        ).encode()

    @property
    def is_stopping(self) -> bool:
        """True since the first request to stop."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Request the end of `run`; safe from any thread."""
        self._stop_requested_s = self._stop_requested_s or time.monotonic()
        self._stop.set()

    def _fail(self, error: Exception) -> None:
        """Make `run` stop cleanly and raise an error; safe from any thread."""
        self._failure = self._failure or error
        self.stop()

    def _on_signals(self) -> None:
        on_signals({signal.SIGTERM: self.stop, signal.SIGINT: self.stop, signal.SIGHUP: self.refresh})

    def refresh(self) -> None:
        """Refresh topics, and sync settings and ACLs, now instead of at their intervals."""
        for state in self.flows:
            for due in (state.refresh_due, state.configs_due, state.acls_due):
                due.hasten(0.0)

    def _summary(self) -> str:
        return ", ".join(
            f"{len(state.plan.partitions) if state.plan else 0} partitions {state.flow.name}" for state in self.flows
        )

    # --- while it runs ------------------------------------------------------------------------------------------

    def _watch(self, queries: list[Query]) -> None:
        restarts = Restarts(within_s=RESTARTS_COUNT_S)
        clock = Clock()
        account_due, revive_due = Due(), Due()
        while not self._stop.wait(0.2):
            if (back_s := clock.set_back_s()) * 1000 > self._mirror.window_ms:
                back = f"the machine's clock was set back by {back_s:.0f} s; windows are numbered by it"
                self._fail(StreamTerminated(f"{back}. Start kafka-mirror again"))
                continue
            if revive_due.take(REVIVE_EVERY_S):
                _revive(queries, restarts, self.recorder.store)
            self._accounts.share()
            if self._is_changed.is_set():
                self._is_changed.clear()
                self._plans.write()
            self._plans.follow_leads()
            if account_due.take(self._mirror.poll_interval_s):
                self._accounts.keep()

    # --- the end ------------------------------------------------------------------------------------------------

    def _finish(self, lanes: WindowQueries, polling: Polling) -> None:
        """Wait for the running windows, which send their last batches and commit positions."""
        log.info("stopping: running windows hand over their positions")
        self._plans.write(is_stopping=True)
        self._memberships.leave()
        asked_s = self._stop_requested_s or time.monotonic()
        is_in_time = lanes.finish(max(LANES_END_S, asked_s + STOP_WITHIN_S - time.monotonic()))
        left_s = max(1.0, asked_s + STOP_WITHIN_S - time.monotonic())
        silent = polling.end(within_s=min(POLL_ENDS_S, left_s), once_more=is_in_time)
        if not is_in_time:
            log.warning("stopped without the windows' own end; the next start repeats at most their last second")
        elif silent:
            log.warning(
                "stopped; a cluster of %s does not respond, so the positions of its last windows may not be committed; "
                "the next start resumes at the committed ones",
                ", ".join(silent),
            )
        else:
            log.info("stopped; every position is committed")


def _revive(queries: Iterable[Query], restarts: Restarts, store: Store) -> None:
    """Restart ended queries; raises StreamTerminated after too many restarts."""
    for ended in [ended for query in queries for ended in query.revive()]:
        count = restarts.one_more()
        store.count("kafka_mirror_query_restarts_total")
        log.error("%s; started again (%d)", ended, count)
        if count > RESTARTS_BEFORE_GIVING_UP:
            raise StreamTerminated(f"{ended}; given up after {count} restarts in {RESTARTS_COUNT_S:.0f} s")
