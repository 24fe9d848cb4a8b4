"""Keep flows up to date with their clusters: topics, settings, ACLs and clocks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from metrics.recorder import Recorder
from mirror.errors import ClusterUnavailable, MirrorError
from mirror.flows.flow import Due, FlowState
from mirror.flows.gaps import GapLedger, by_effect
from mirror.flows.sync import sync_acls, sync_configs
from mirror.kafka.cluster_facts import ClockUnknown
from mirror.policy.java_regex import SlowPattern

log = logging.getLogger("mirror")

LOOKS_EVERY_S = 0.2
GAPS_EVERY_S = 60.0
CLOCKS_EVERY_S = 60.0  # metrics.as_of.CLOCK_KNOWN_S is three times as long
BEGIN_AGAIN_S = 10.0


@dataclass(kw_only=True, eq=False, repr=False)
class FlowMaintenance:
    """Maintains one flow in a thread, so that a hanging cluster delays no other flow."""

    state: FlowState  # the flow
    recorder: Recorder  # counts differences between the clusters
    begin: Callable[[FlowState], None]  # begins a flow; raises MirrorError if that is not possible yet
    discover: Callable[[FlowState], bool]  # finds new topics; returns whether the flow's partitions changed
    on_change: Callable[[], None]  # called when the flow's plan has changed
    on_failure: Callable[[Exception], None]  # called with the error that ends the process
    ends: threading.Event  # set to end the upkeep

    def __post_init__(self) -> None:
        self._gaps = GapLedger(self.state.flow)
        self._clocks_due = Due()
        self._clocks_unknown: dict[str, str] = {}  # by cluster: the reason that was logged last
        self._thread = threading.Thread(target=self._keep_up, name=f"upkeep {self.state.flow.name}", daemon=True)

    def start(self) -> None:
        """Start the thread. It ends after the event is set and no request is pending."""
        self._thread.start()

    def _keep_up(self) -> None:
        try:
            while not self.ends.wait(LOOKS_EVERY_S):
                for step in (
                    self._begin_late,
                    self._refresh,
                    self._follow_loops,
                    self._sync_configs,
                    self._sync_acls,
                    self._read_gaps,
                    self._read_clocks,
                ):
                    if not self.ends.is_set():
                        step()
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self.on_failure(error)

    def _begin_late(self) -> None:
        """Try again to begin a flow whose clusters did not respond at the start."""
        state = self.state
        if state.plan is not None or not state.begin_due.take(BEGIN_AGAIN_S):
            return
        try:
            self.begin(state)
        except MirrorError as error:
            if state.not_begun != str(error):
                self._warn(f"not begun yet: {error}")
            state.not_begun = str(error)
        else:
            log.info("%s: its clusters answer: it begins", state.flow.name)
            self.on_change()

    def _refresh(self) -> None:
        """Follow new topics and grown partitions."""
        state, every = self.state, self.state.flow.refresh_topics
        if state.plan is None or not state.refresh_due.take(every.interval_s) or not every.enabled:
            return
        try:
            if self.discover(state):
                self.on_change()
        except (ClusterUnavailable, SlowPattern) as error:  # of a new topic's name: mirrored topics continue
            self._warn(f"topics not refreshed: {error}")

    def _follow_loops(self) -> None:
        """Detect soon that another mirror starts, or stops, to bring this flow's records back."""
        state = self.state
        if state.plan is not None and state.loops.is_due and state.follow_loops():
            self.on_change()

    # Settings and ACLs are synced right after the start, and then at their intervals. If a flow does not sync them,
    # differences are only measured; then it is no failure if this client may not read them.

    def _sync_configs(self) -> None:
        state, every = self.state, self.state.flow.sync_configs
        if not state.leads or not state.configs_due.take(every.interval_s):
            return
        present = {assigned.remote_topic for assigned in state.plan.partitions} if state.plan is not None else set()
        try:
            drift = sync_configs(state.flow, state.topics, state.source, state.target, present=present)
        except ClusterUnavailable as error:
            self._warn(f"topic settings not synchronized: {error}", is_asked_for=every.enabled)
        else:
            self.recorder.record_config_drift(state.name, drift)

    def _sync_acls(self) -> None:
        state, every = self.state, self.state.flow.sync_acls
        if not state.leads or not state.acls_due.take(every.interval_s):
            return
        try:
            lacking = sync_acls(state.flow, state.topics, state.source, state.target)
        except ClusterUnavailable as error:
            self._warn(f"ACLs not synchronized: {error}", is_asked_for=every.enabled)
            return
        self.recorder.record_acl_drift(state.name, len(lacking))
        objections = {objection for objection in lacking.values() if objection}
        for objection in sorted(objections - state.acl_objections):
            self._warn(f"ACLs cannot be added on {state.flow.target.alias}: {objection}")
        state.acl_objections = objections

    def _read_gaps(self) -> None:
        """Report the flow's ledger, including losses of other processes and of earlier runs."""
        state = self.state
        if not state.leads or not state.gaps_due.take(GAPS_EVERY_S):
            return
        try:
            found = self._gaps.refresh()
        except ClusterUnavailable as error:
            self.recorder.record_gaps(state.name, None)
            self._warn(str(error), is_asked_for=False)
        else:
            last_s = max((gap.at_ms / 1000 for gap in found), default=None)
            self.recorder.record_gaps(state.name, by_effect(found), last_s=last_s)

    def _read_clocks(self) -> None:
        """Compare the clusters' clocks with this machine's: ages and lags depend on all of them."""
        state = self.state
        if not self._clocks_due.take(CLOCKS_EVERY_S):
            return
        for cluster in (state.source, state.target):
            alias, skew_s, why = cluster.alias, None, ""
            try:
                skew_s = cluster.clock_skew()
            except ClockUnknown as error:
                why = str(error)
            self.recorder.record_cluster_clock(state.name, alias, skew_s, now_s=time.time())
            if why and why != self._clocks_unknown.get(alias):
                self._warn(f"the clock of {alias} is not known: {why}", is_asked_for=False)
            self._clocks_unknown[alias] = why

    def _warn(self, what: str, *, is_asked_for: bool = True) -> None:
        """Log a failure. After the end, log it at debug level, because clusters may be stopping too."""
        level = logging.WARNING if is_asked_for and not self.ends.is_set() else logging.DEBUG
        log.log(level, "%s: %s", self.state.flow.name, what)
