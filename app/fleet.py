"""Page: all flows of all mirrors, worst first, if the inspector has several settings files."""

from __future__ import annotations

import time
from collections.abc import Iterable

import streamlit as st

from app import components
from app.fleet_table import FleetFlow, fleet_html, fleet_of, fleet_sentence
from app.inspection import Inspected, mirrors
from app.session import REFRESH, plain
from app.statuses import shown
from metrics.partition_status import Status

FIRST_POLL_S = 8.0  # how long a viewer waits for the first polls of all mirrors
_STATUSES = {shown(status): status for status in sorted(Status, reverse=True)}


def page() -> None:
    """Draw the page."""
    every = REFRESH[st.session_state.get("refresh") or "5 s"]
    st.fragment(_draw, run_every=every)()


def _draw() -> None:
    found = _flows(mirrors())
    st.title(plain(fleet_sentence(found)), anchor=False)
    chosen = st.pills("Status", list(_STATUSES), selection_mode="multi", key="status", label_visibility="collapsed")
    wanted = {_STATUSES[each] for each in chosen or ()}
    kept = [each for each in found if not wanted or each.status in wanted]
    components.fleet(fleet_html(kept, time.time()))
    st.caption(f"{len(kept):,} of {len(found):,} flows of {len(mirrors()):,} mirrors. This page is read-only.")


def _flows(inspected: dict[str, Inspected]) -> list[FleetFlow]:
    """Return the flows of all mirrors, worst first."""
    until_s = time.monotonic() + FIRST_POLL_S
    found: list[FleetFlow] = []
    for name, each in inspected.items():
        snapshot = each.watch.latest(wait_s=max(0.0, until_s - time.monotonic()))
        flows: Iterable[str] = (flow.name for flow in each.settings.flows)
        found += fleet_of(name, flows, snapshot, each.watch.trend)
    return sorted(found, key=lambda each: each.rank)
