"""Page: consumer groups of the sources, and what a fail-over now would mean for each."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.session import live
from app.tables import failovers
from mirror.lag.rows import Snapshot
from mirror.lag.text import duration


def page() -> None:
    """Draw the page."""
    st.title("If we fail over now")
    live(_draw)


def _draw(snapshot: Snapshot) -> None:
    found = failovers(snapshot)
    if not found:
        st.info("No consumer group of a source reads a topic that a flow copies.")
        return
    st.write(
        "For each consumer group that reads a mirrored topic on its source: records that it has not read yet, and how many "
        "of those are not on the target either. These would be lost to it, or delayed until the source is back."
    )
    frame = pd.DataFrame(
        [
            (each.group, each.flow, each.topics, each.unread, each.missing, duration(each.missing_s) or "0 s")
            for each in found
        ],
        columns=["Group", "Flow", "Topics", "Not read yet", "Missing on the target", "Longest wait of those"],
    )
    st.dataframe(frame, hide_index=True, alt="Consumer groups and what a fail-over now would mean for each")
    st.caption(
        "Where a group goes on reading on the target: `kafka-mirror translate FILE 'A->B' --group NAME`. Which groups may fail "
        "over now, by their checkpoints: the board Fail-over."
    )
