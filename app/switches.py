"""Show the switches of each flow: the last one with its steps, and earlier ones."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set

import pandas as pd
import streamlit as st

from app.inspection import settings
from app.links import MIRROR
from app.session import ROW_HEIGHT, plain, warn
from mirror.errors import MirrorError
from mirror.flows.selection import flow_named
from mirror.kafka.cluster import Cluster
from mirror.lag.text import duration, pluralized, utc
from mirror.switching.drill import Drill, drills, journal_of
from mirror.switching.journal import Journal
from mirror.switching.run import STEPS, RunState, StepRecord, StepState, SwitchRun
from mirror.switching.scope import Scope
from mirror.switching.text import took_s

SHAPES = {
    StepState.WAITING: "○ waiting",
    StepState.RUNNING: "▶ running",
    StepState.DONE: "● done",
    StepState.FAILED: "✖ failed",
    StepState.UNDONE: "◀ undone",
}
KEPT_S = 5.0  # how long the same result is shown to all viewers


def draw_switches(*, up: Set[str]) -> None:
    """Draw the switches of the flows whose target (by alias) is `up`."""
    st.subheader("Switches", anchor=False)
    is_any = False
    for flow in settings().flows:
        if flow.target.alias not in up:
            st.caption(f"{plain(flow.target.alias)}, which keeps the switches of {plain(flow.name)}, does not respond.")
            continue
        try:
            runs, progress = _read(MIRROR.get(), flow.name)
            past = _read_drills(MIRROR.get(), flow.name) if flow.has_canaries else []
        except (MirrorError, ValueError) as error:
            warn(f"The switches of {flow.name} cannot be read from {flow.target.alias}.", error)
            continue
        if runs:
            is_any = True
            _last(runs[-1], progress)
        if past:
            is_any = True
            _drills(flow.name, past)
        if runs[1:]:
            with st.expander(f"Earlier switches of {flow.name}", expanded=False):
                earlier = runs_table(runs[-2::-1])
                st.dataframe(earlier, hide_index=True, row_height=ROW_HEIGHT, alt="Earlier switches, newest first")
    if not is_any:
        st.caption(
            "None yet. 'kafka-mirror switch FILE A->B --dry-run' shows what a switch would do now; see docs/failover.md."
        )


def _last(run: SwitchRun, progress: str) -> None:
    draw = {RunState.DONE: st.success, RunState.ABORTED: st.info}.get(run.state, st.warning)
    began = utc(run.began_s)
    whole_s = took_s(run)
    said = f"**{run.kind.value} {plain(run.flow)}: {run.state.value}**, started {began} by {plain(run.by)}"
    said += f", {duration(whole_s)} in total" if whole_s is not None else ""
    draw(said + (f"\n\nnow: {plain(progress)}" if progress and run.state is RunState.OPEN else ""))
    frame = steps_table(run, time.time())
    st.dataframe(frame, hide_index=True, row_height=ROW_HEIGHT, alt=f"Steps of the last switch of {run.flow}")


def _drills(flow: str, past: Sequence[Drill]) -> None:
    last = past[-1]
    draw = st.success if last.has_passed else st.error
    said = f"**drill {plain(flow)}: {last.outcome}**, started {utc(last.began_s)}"
    said += f", RTO {duration(last.rto_s)}" if last.rto_s is not None else ""
    said += f", RPO {pluralized(last.rpo_records, 'record')}" if last.rpo_records is not None else ""
    draw(said + (f"\n\n{plain(last.failure)}" if last.failure else ""))
    with st.expander(f"Drills of {flow}", expanded=False):
        frame = drills_table(past[::-1])
        st.dataframe(frame, hide_index=True, row_height=ROW_HEIGHT, alt="Drills, newest first")


def drills_table(past: Sequence[Drill]) -> pd.DataFrame:
    """Return one line per drill; a value that was not measured is empty."""
    content = [
        (
            utc(drill.began_s),
            drill.outcome,
            duration(drill.rto_s),
            duration(drill.back_s),
            None if drill.rpo_records is None else str(drill.rpo_records),
            drill.records,
            drill.lost,
            drill.repeated,
            drill.failure,
        )
        for drill in past
    ]
    columns = ["Started", "Result", "RTO over", "RTO back", "RPO", "Records", "Lost", "Read twice", "Why it failed"]
    return pd.DataFrame(content, columns=columns)


def steps_table(run: SwitchRun, now_s: float) -> pd.DataFrame:
    """Return a run's steps in order."""
    content = [
        (step.value, SHAPES[record.state], _took(record, now_s), "; ".join(record.said))
        for step in STEPS[run.kind]
        for record in (run.step(step),)
    ]
    return pd.DataFrame(content, columns=["Step", "State", "Duration", "What was done"])


def runs_table(runs: Sequence[SwitchRun]) -> pd.DataFrame:
    """Return one line per run."""
    content = [
        (
            utc(run.began_s),
            run.kind.value,
            run.state.value,
            duration(took_s(run)),
            run.by,
            run.id,
        )
        for run in runs
    ]
    return pd.DataFrame(content, columns=["Started", "Kind", "State", "Duration", "By", "Run"])


def _took(record: StepRecord, now_s: float) -> str:
    if record.state is StepState.RUNNING and record.began_s is not None:
        return f"for {duration(max(0.0, now_s - record.began_s))}"
    return duration(record.took_s)


@st.cache_data(ttl=KEPT_S, show_spinner=False)
def _read(mirror: str, flow: str) -> tuple[list[SwitchRun], str]:
    own = flow_named(settings(mirror), flow, command="app")
    found = Journal(own, Cluster(own.target.alias, own.target_admin)).read()
    return found.runs(), found.progress


@st.cache_data(ttl=KEPT_S, show_spinner=False)
def _read_drills(mirror: str, flow: str) -> list[Drill]:
    return drills(journal_of(Scope.of_drill(settings(mirror), flow)))
