"""Conduct scheduled drills, and export the result of each flow's last drill."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from metrics.recorder import Recorder
from mirror.config.settings import Settings
from mirror.errors import MirrorError
from mirror.flows.flow import FlowState
from mirror.switching.conductor import REPORTS, SwitchOptions
from mirror.switching.drill import RATE, WITHIN_S, Drill, create, drills, journal_of, rehearse
from mirror.switching.run import Step
from mirror.switching.scope import Scope

log = logging.getLogger("mirror")

LOOK_S = 30.0
AGAIN_S = 600.0  # shortest time between a failed drill and the next one
OVERDUE = 2  # intervals without a successful drill


class Drills:
    """Rehearses the flows that this process leads, one after the other, in a separate thread."""

    def __init__(
        self, settings: Settings, flows: Sequence[FlowState], recorder: Recorder, *, ends: threading.Event
    ) -> None:
        """Prepare.

        Args:
            settings: Those of the process; `mirror.drill.*` schedules drills.
            flows: All flows of the process.
            recorder: Receives the metrics.
            ends: Set to end the thread.
        """
        self._settings = settings
        self._flows = [state for state in flows if state.flow.has_canaries]
        self._recorder = recorder
        self._ends = ends
        self._since_s = time.time()

    def start(self) -> None:
        """Start the thread if a flow carries canaries."""
        if self._flows:
            threading.Thread(target=self._run, name="drills", daemon=True).start()

    def _run(self) -> None:
        try:
            while not self._ends.wait(LOOK_S):
                led = [state for state in self._flows if state.leads]
                for step in (self._create_canaries, self._look):  # a drill needs the canaries of both directions
                    for state in led:
                        self._try(step, state)
        except _Ended:
            pass  # the next drill cleans up what this drill has left

    def _try(self, step: Callable[[FlowState], None], state: FlowState) -> None:
        try:
            step(state)
        except (MirrorError, ValueError) as error:
            log.warning("%s: drills: %s", state.flow.name, error)

    def _create_canaries(self, state: FlowState) -> None:
        if lacking := state.flow.canaries - {topic.source.name for topic in state.topics}:
            for topic in lacking:
                create(Scope.of_drill(self._settings, state.flow.name), topic)
            state.refresh_due.hasten(0.0)

    def _look(self, state: FlowState) -> None:
        scope = Scope.of_drill(self._settings, state.flow.name)
        past = drills(journal_of(scope))
        interval_s = self._settings.mirror.drill_interval_s
        if interval_s and time.time() >= next_at(past, interval_s=interval_s):
            log.info("%s: a drill begins", state.flow.name)
            past.append(rehearse(scope, self._how(), rate=RATE))
            self._log(past[-1])
        due_s = due(past, interval_s=interval_s, since_s=self._since_s) if interval_s else None
        self._recorder.record_drill(state.name, told(past, due_s=due_s), steps=steps(past))

    def _how(self) -> SwitchOptions:
        mirror = self._settings.mirror

        def may_go_on(step: Step) -> None:
            if self._ends.is_set():
                raise _Ended(step)

        return SwitchOptions(
            within_s=WITHIN_S,
            window_ms=mirror.window_ms,
            folder=mirror.state_dir / REPORTS,
            say=lambda sentence: log.debug("drill: %s", sentence),
            may_go_on=may_go_on,
        )

    def _log(self, drill: Drill) -> None:
        if drill.has_passed:
            log.info("%s: the drill has passed, RTO %.1f s", drill.flow, drill.rto_s)
        else:
            wrong = drill.failure or f"{drill.lost} records were lost, {drill.repeated} read twice"
            log.error("%s: the drill has failed: %s", drill.flow, wrong)


class _Ended(Exception):
    """The mirror ends during a drill."""


def next_at(past: Sequence[Drill], *, interval_s: float) -> float:
    """Return when the next drill is due: immediately at first, earlier after a failure. Pure."""
    if not past:
        return 0.0
    return past[-1].began_s + (interval_s if past[-1].has_passed else min(interval_s, max(AGAIN_S, interval_s / 4)))


def told(past: Sequence[Drill], *, due_s: float | None) -> dict[str, float | None]:
    """Return the metrics of past drills (oldest first) by the end of their names; None: unknown. Pure."""
    last = past[-1] if past else None
    return {
        "last_success_timestamp_seconds": max((each.ended_s for each in past if each.has_passed), default=None),
        "due_timestamp_seconds": due_s,
        "passed": None if last is None else float(last.has_passed),
        "rpo_records": last.rpo_records if last is not None else None,
        "rto_seconds": last.rto_s if last is not None else None,
    }


def steps(past: Sequence[Drill]) -> dict[tuple[str, str], float]:
    """Return the duration of each step of the last drill, by run and step. Pure."""
    return {
        (run, step): took_s
        for run, of_run in (past[-1].steps if past else {}).items()
        for step, took_s in of_run.items()
    }


def due(past: Sequence[Drill], *, interval_s: float, since_s: float) -> float:
    """Return the time by which a drill must have passed: two intervals after the last success. Pure.

    If no drill has passed, the time counts from the first drill.

    Args:
        past: Drills, oldest first.
        interval_s: The interval of drills.
        since_s: Time since which drills are expected; used if there was no drill.
    """
    good = [each.ended_s for each in past if each.has_passed]
    first = past[0].began_s if past else since_s
    return (max(good) if good else first) + OVERDUE * interval_s
