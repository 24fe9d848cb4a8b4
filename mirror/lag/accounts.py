"""Keep account of what is to be measured: its series exist from the start, those of what is gone do not stay."""

from __future__ import annotations

import time
from collections.abc import Sequence

from metrics.recorder import Recorder
from mirror.flows.flow import FlowState, led
from mirror.lag.poller import Poller


class TrackedSeries:
    """What this process is to measure of each flow, as far as it is known which slots it serves."""

    def __init__(self, flows: Sequence[FlowState], recorder: Recorder, poller: Poller) -> None:
        self._flows = flows
        self._recorder = recorder
        self._poller = poller

    def share(self) -> None:
        """Take in which slots this process serves, and how many share them."""
        for state in self._flows:
            if (membership := state.membership) is not None and membership.owned is not None:
                self._recorder.record_share(
                    state.name,
                    owned=membership.owned,
                    slots=membership.layout.slots,
                    processes=membership.processes,
                    has_conflict=membership.has_conflict,
                )

    def keep(self) -> None:
        """Have the series of what is to be measured, and no others.

        While it is not known yet what of a flow is ours, what the last run has seen of it stays.
        """
        plans = [state.served() or state.plan for state in self._flows]
        present = [labels for plan in plans if plan is not None for labels in plan.labels.values()]
        self._recorder.keep_only(present)
        self._poller.keep_only(present)
        owned = {s.name: s.membership.owned if s.membership is not None else None for s in self._flows}
        unknown = {name for name, slots in owned.items() if slots is None}
        served, ours = {name for name, slots in owned.items() if slots} | unknown, led(self._flows) | unknown
        self._recorder.keep_flows(served=served, led=ours)
        for state in self._flows:
            self._recorder.record_flow(state.name, has_begun=state.plan is not None)
            if state.name in served:
                emits_heartbeats = state.flow.heartbeats.enabled and state.name in ours
                self._recorder.record_expected_heartbeats(state.name, heartbeats=emits_heartbeats, now_s=time.time())
            if state.matching is not None:
                self._recorder.record_matched_topics(state.name, topics=state.matching)
            if state.plan is not None:
                served_plan = state.served()
                self._recorder.record_served_partitions(
                    state.name,
                    served_plan.labels.values() if served_plan is not None else (),
                    expected=len(state.plan.labels),
                    slots=owned[state.name] or (),
                )
