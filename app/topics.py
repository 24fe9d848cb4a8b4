"""Page: one topic of one group by partition, to see whether one partition lags, or all of them."""

from __future__ import annotations

import streamlit as st

from app.charts import bars
from app.inspection import process_status
from app.links import address
from app.session import ROW_HEIGHT, columns, explained, field, fields, live, plain, search_field
from app.statuses import coloured
from app.tables import differing_settings, narrowed, totals
from metrics.lag_row import LagRow
from metrics.partition_status import Status
from mirror.lag.flow_summary import at_least, worst_first
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import duration

MOST_ROWS = 20  # a longer table scrolls


def page() -> None:
    """Draw the page."""
    st.title("Topics", anchor=False)
    fields(("group", "Group"), ("topic", "Topic"))
    if not field("topic"):
        search_field()
    live(_draw)


def _draw(snapshot: Snapshot) -> None:
    group, topic = field("group"), field("topic")
    rows = narrowed(snapshot.rows, group=group, topic=topic)
    if not topic:
        _all(narrowed((row for row in rows if row.is_flow or group), search=field("search")))
        return
    if not rows:
        st.info("No such topic now. Enter exact names, or search on the Partitions page.")
        return
    for name, cluster in dict.fromkeys((row.group, row.cluster) for row in worst_first(rows)):
        _one([row for row in rows if (row.group, row.cluster) == (name, cluster)])


def _all(rows: list[LagRow]) -> None:
    """Draw one line per topic, worst first, with a link to its partitions."""
    frame = totals(rows, lambda row: (row.group, row.topic))
    links = [
        address("topics", group=group, topic=topic) for group, topic in zip(frame["Group"], frame["Topic"], strict=True)
    ]
    frame.insert(1, "Details", links)
    config = {
        **columns(),
        "Details": st.column_config.LinkColumn("Details", display_text="partitions", pinned=True),
    }
    st.dataframe(
        frame,
        hide_index=True,
        column_config=config,
        placeholder="unknown",
        row_height=ROW_HEIGHT,
        height="content" if len(frame) <= MOST_ROWS else 620,
        alt="Topics, worst first, and a link to the partitions of each",
    )


def _one(rows: list[LagRow]) -> None:
    rows = worst_first(rows)
    worst = rows[0]
    st.subheader(
        f"{coloured(worst.status)} {plain(worst.group)}: {plain(worst.topic)} on {plain(worst.cluster)}", anchor=False
    )
    differing = _differing(worst) if worst.is_flow else None
    unknown = sum(row.lag is None or row.status is Status.UNKNOWN for row in rows)
    known = [row.lag_seconds for row in rows if row.lag_seconds is not None]
    with st.container(horizontal=True):
        st.metric("Partitions", f"{len(rows):,}", width=150)
        st.metric("Lagging", f"{sum(row.lag != 0 for row in rows):,}", width=150)
        st.metric("Records waiting", at_least(sum(row.lag or 0 for row in rows), unknown), width=150)
        st.metric("Longest wait", duration(max(known)) if known else "unknown", width=150)
        if differing is not None:
            what = "'kafka-mirror plan' lists them with the reasons"
            st.metric("Settings that differ", f"{differing:,}", help=what, width=180)
    if any(row.lag for row in rows):
        bars(
            {row.partition: row.lag or 0 for row in rows},
            x_title="partition",
            y_title="records waiting",
            description="Records waiting by partition; the table below has the values",
        )
    explained(rows, alt="The topic's partitions, worst first, and a link to the reason of each")


def _differing(row: LagRow) -> int | None:
    """Return how many settings of the remote topic differ.

    Return None while the process does not respond.
    """
    try:
        return differing_settings(process_status(), row.group, row.remote_topic)
    except OSError:
        return None
