"""Page: every group and topic-partition, filtered and ordered as the address says. Where alerts and boards land."""

from __future__ import annotations

import time
from collections.abc import Callable

import streamlit as st

from app.session import NUMBERS, live
from app.tables import link, narrowed, table, worst_first
from metrics.verdict import Status
from mirror.lag.rows import Snapshot
from mirror.lag.text import checker_text, csv_text, json_text

TEXTS = ("source", "target", "group", "topic", "partition", "search")


def page() -> None:
    """Draw the page."""
    st.title("Lag")
    columns = st.columns([3, 3, 1, 2, 2, 2], vertical_alignment="bottom")
    columns[0].text_input("Group", key="group", bind="query-params", placeholder="a->b, or a consumer group")
    columns[1].text_input("Topic", key="topic", bind="query-params", placeholder="on either side")
    columns[2].text_input("Partition", key="partition", bind="query-params")
    columns[3].text_input("Search", key="search", bind="query-params", placeholder="part of any name")
    columns[4].selectbox("Status", ["", *(status.name for status in Status)], key="status", bind="query-params")
    columns[5].toggle("Only lagging", key="only_lagging", bind="query-params")
    live(_draw)


def _draw(snapshot: Snapshot) -> None:
    state, given = st.session_state, st.query_params
    rows = worst_first(
        narrowed(
            snapshot.rows,
            **{name: str(state.get(name) or given.get(name) or "") for name in TEXTS},
            status=state.get("status") or "",
            only_lagging=bool(state.get("only_lagging")),
        )
    )
    st.caption(f"{len(rows):,} of {len(snapshot.rows):,} rows")
    chosen = st.dataframe(
        table(rows),
        hide_index=True,
        key="rows",
        on_select="rerun",
        selection_mode="single-row",
        column_config=NUMBERS,
        placeholder="unknown",
        alt="Offsets, log ends and lag of groups by topic-partition, worst first",
    )
    for number in chosen.selection.rows[:1]:
        if number < len(rows):
            st.link_button(
                "Why? The chosen topic-partition in detail", link("partition", rows[number]), icon=":material/search:"
            )
    exports = st.columns(6)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    texts: tuple[tuple[str, str, str, Callable[[], str]], ...] = (
        ("CSV", "csv", "text/csv", lambda: csv_text(rows)),
        ("JSON", "json", "application/json", lambda: json_text(snapshot, rows)),
        ("Checker's text", "txt", "text/plain", lambda: checker_text(rows)),
    )
    for column, (label, suffix, mime, text) in zip(exports, texts, strict=False):
        # A callable: ten thousand rows are made into a text when somebody asks for it, not at each refresh.
        column.download_button(label, text, f"lag-{stamp}.{suffix}", mime, on_click="ignore", key=f"export_{suffix}")
