"""Page: is anything behind, what, and why?"""

from __future__ import annotations

import streamlit as st

from app.incidents import alerts_firing
from app.session import explained, live, plain
from app.tables import MEANING, at_least, coloured, summaries, worst_first
from mirror.lag.rows import Snapshot

WORST = 10


def page() -> None:
    """Draw the page."""
    st.title("Is the mirror level?")
    live(_draw)


def _draw(snapshot: Snapshot) -> None:
    flows = summaries(snapshot)
    firing = alerts_firing()
    if firing:
        st.error(f"Alerts that fire now: {plain(', '.join(firing))}.", icon=":material/notifications_active:")
    if not flows and not snapshot.problems:
        st.info("No flow has topic-partitions yet: does a topic match, and does the appliance run?")
    for flow in flows:
        st.subheader(f"{coloured(flow.worst)} {plain(flow.name)}", anchor=False)
        st.write(f"{MEANING[flow.worst].capitalize()}.")
        columns = st.columns(4)
        columns[0].metric("Topic-partitions", f"{flow.partitions:,}")
        columns[1].metric("Known to be fresh", f"{flow.fresh:.1%}")
        columns[2].metric("Records waiting", at_least(flow.lag, flow.unknown))
        columns[3].metric("Longest wait", flow.waits)
    flow_rows = [row for row in snapshot.rows if row.is_flow and (row.lag != 0 or row.status > 1)]
    if flow_rows:
        worst = worst_first(flow_rows)[:WORST]
        st.subheader("Where to look", anchor=False)
        explained(worst, alt="The topic-partitions with the worst verdicts, and a link to the reason for each")
    elif flows:
        st.success("Everything is on the target.", icon=":material/check_circle:")
    answers = [f"{plain(alias)} {'answers' if is_up else 'does not answer'}" for alias, is_up in snapshot.clusters]
    st.caption(f"Clusters: {', '.join(answers)}.")
