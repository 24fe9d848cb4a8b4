"""Page: one group in one topic-partition: why its verdict is what it is, with the polls that it is made from drawn."""

from __future__ import annotations

import time

import streamlit as st

from app.charts import lines
from app.session import field, fields, live, plain, settings, watch
from app.tables import MEANING, board_link, coloured, narrowed, window_table, worst_first
from metrics.verdict import WINDOW
from mirror.lag.rows import LagRow, Snapshot
from mirror.lag.text import duration, level_in


def page() -> None:
    """Draw the page."""
    st.title("One topic-partition")
    fields(("group", "Group"), ("cluster", "Cluster"), ("topic", "Topic"), ("partition", "Partition"))
    live(_draw)


def _draw(snapshot: Snapshot) -> None:
    cluster = field("cluster")
    fitting = narrowed(snapshot.rows, group=field("group"), topic=field("topic"), partition=field("partition"))
    rows = [row for row in worst_first(fitting) if not cluster or row.cluster == cluster]
    if not rows:
        st.info("No such topic-partition now. Names are exact here; the page Lag searches.")
        return
    if len(rows) > 1:
        st.caption(f"{len(rows)} rows fit; this is the worst of them.")
    _one(rows[0], snapshot.time_s)


def _one(row: LagRow, polled_s: float) -> None:
    st.subheader(f"{coloured(row.status)} {plain(row.group)}: {plain(row.topic)}-{row.partition}", anchor=False)
    st.write(f"**Why:** {plain(row.reason) or 'nothing is known yet'}. {row.status.name} means: {MEANING[row.status]}.")
    columns = st.columns(6)
    columns[0].metric("Offset", "unknown" if row.offset is None else f"{row.offset:,}")
    columns[1].metric("Log end", "unknown" if row.log_end is None else f"{row.log_end:,}")
    columns[2].metric("Lag", "unknown" if row.lag is None else f"{row.lag:,}")
    columns[3].metric("First record waits", "none waits" if row.lag == 0 else duration(row.lag_seconds) or "unknown")
    columns[4].metric("Records/s", "unknown" if row.records_per_s is None else f"{row.records_per_s:,.1f}")
    columns[5].metric("Level in", level_in(row))
    if row.lag_seconds:
        written = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(polled_s - row.lag_seconds))
        st.write(f"The first record that is not on the target was written at {written}.")
    samples = watch().window(row)
    frame = window_table(samples)
    st.caption(f"The verdict is made from {len(samples)} of {WINDOW} polls.")
    lines(
        frame[["seconds", "position", "log end"]],
        x="seconds",
        x_title="seconds before the newest poll",
        y_title="offset",
        description="Position and log end at the polls of the window; the table below has the numbers",
    )
    st.dataframe(
        frame, hide_index=True, alt="The polls of the window: seconds before the newest, position, log end, lag"
    )
    if row.is_flow:
        st.write("Kafka's own tool shows the same:")
        command = f"kafka-consumer-groups.sh --bootstrap-server ... --describe --group 'mirror.{row.group}'"
        st.code(command, language=None)
        grafana = settings().mirror.app_grafana_url
        if grafana:
            st.link_button("Board of this topic", board_link(grafana, row), icon=":material/monitoring:")
