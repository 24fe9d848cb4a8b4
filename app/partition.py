"""Page: the status of one partition, with its reason and its polls."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.charts import lag_over_time
from app.findings import limit, spent_on
from app.firing import concerns, draw_alerts
from app.inspection import last_errors, process_status, settings, watch
from app.session import field, fields, live, plain, warn
from app.statuses import MEANING, coloured
from app.tables import board_link, narrowed, window_table
from metrics.lag_row import LagRow
from metrics.partition_status import WINDOW, Sample
from metrics.trend import MINUTE_S
from mirror.lag.flow_summary import worst_first
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import duration, level_in, utc


def page() -> None:
    """Draw the page."""
    # The fields are below, so that a phone shows the status first.
    body = st.container()
    fields(("group", "Group"), ("cluster", "Cluster"), ("topic", "Topic"), ("partition", "Partition"))
    with body:
        live(_draw)


def _draw(snapshot: Snapshot) -> None:
    cluster = field("cluster")
    fitting = narrowed(snapshot.rows, group=field("group"), topic=field("topic"), partition=field("partition"))
    rows = [row for row in worst_first(fitting) if not cluster or row.cluster == cluster]
    if not rows:
        st.title("Partition detail", anchor=False)
        st.info("No such partition now. Enter exact names, or search on the page Partitions.")
        return
    if len(rows) > 1:
        st.caption(f"{len(rows)} rows match; this is the worst.")
    _one(rows[0], snapshot.time_s)


def _one(row: LagRow, polled_s: float) -> None:
    st.title(f"{coloured(row.status)} {plain(row.group)}: {plain(row.topic)}-{row.partition}", anchor=False)
    st.write(f"**Why:** {plain(row.reason) or 'not known yet'}. {row.status.name} means: {MEANING[row.status]}.")
    _numbers(row)
    if row.lag_seconds:
        st.write(f"The first unreplicated record was written at {utc(polled_s - row.lag_seconds)}.")
    if row.is_flow:
        _last_error(row)
        _limits(row)
        draw_alerts(lambda alert: concerns(alert, row), is_open=True)
    samples = watch().window(row)
    lag_over_time(
        past_of(samples, watch().row_trends.of(row)),
        window_from=pd.Timestamp(samples[0].time_s, unit="s") if samples else None,
        rule=f"{row.status.name}: {row.reason}",
        description=f"Lag over the last hour; the marked polls determine the status {row.status.name}",
    )
    st.caption(f"Marked: the polls that determine the status, {len(samples)} of {WINDOW}.")
    with st.expander("Polls", expanded=False):
        st.dataframe(
            window_table(samples),
            hide_index=True,
            alt="Polls of the window: seconds before the newest, position, log end, lag",
        )
    if row.is_flow:
        st.write("The same with Kafka's own tool:")
        command = f"kafka-consumer-groups.sh --bootstrap-server ... --describe --group 'mirror.{row.group}'"
        st.code(command, language=None)
        grafana = settings().mirror.app_grafana_url
        if grafana:
            st.link_button("Dashboard of this topic", board_link(grafana, row), icon=":material/monitoring:")


def past_of(samples: list[Sample], minutes: list[tuple[float, int]]) -> pd.DataFrame:
    """Return the lag of the last hour by time.

    These are the polls of the window and, before them, the largest lag of each minute at its end.
    """
    first_s = samples[0].time_s if samples else float("inf")
    content = [(at_s + MINUTE_S, lag) for at_s, lag in minutes if at_s + MINUTE_S < first_s]
    content += [(sample.time_s, sample.lag) for sample in samples]
    frame = pd.DataFrame(content, columns=["time", "lag"])
    return frame.assign(time=pd.to_datetime(frame["time"], unit="s"))


def _numbers(row: LagRow) -> None:
    def known(value: float | None, form: str) -> str:
        return "unknown" if value is None else format(value, form)

    numbers = (
        ("Offset", known(row.offset, ",")),
        ("Log end", known(row.log_end, ",")),
        ("Lag", known(row.lag, ",")),
        ("Time lag", "0 s" if row.lag == 0 else duration(row.lag_seconds) or "unknown"),
        ("In/s", known(row.written_per_s, ",.1f")),
        ("Out/s", known(row.records_per_s, ",.1f")),
        ("Caught up in", level_in(row)),
    )
    with st.container(horizontal=True):
        for name, value in numbers:
            st.metric(name, value, width=150)


def _last_error(row: LagRow) -> None:
    """Show why the process last paused the partition, if it did."""
    try:
        found = last_errors()
    except (OSError, ValueError) as failed:
        warn(f"The last error is unknown: {settings().mirror.metrics_address}/errors cannot be read.", failed)
        return
    own = (*row.group.split("->"), row.remote_topic, row.partition)
    for error in found:
        if (error.source, error.target, error.topic, error.partition) == own:
            until = "" if error.until_s is None else f" until {utc(error.until_s)}"
            st.write(f"**Last error**, from {utc(error.since_s)}{until}: {plain(error.reason)}")


def _limits(row: LagRow) -> None:
    """Show what the flow spends its time on, from its process."""
    try:
        said = limit(spent_on(process_status()).get(row.group, {}))
    except OSError:
        st.write(f"**What limits {plain(row.group)}:** unknown, because the process does not respond.")
        return
    if said:
        st.write(f"**What limits {plain(row.group)}:** {plain(said)}.")
