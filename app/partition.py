"""Page: one group in one topic-partition: why its verdict is what it is, with what it is made from drawn."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.charts import lag_over_time
from app.findings import limit, spent_on
from app.firing import concerns, draw_alerts
from app.inspection import last_errors, process_status, settings, unread, watch
from app.session import field, fields, live, plain
from app.tables import board_link, narrowed, window_table
from app.verdicts import MEANING, coloured
from metrics.lag_row import LagRow
from metrics.trend import MINUTE_S
from metrics.verdict import WINDOW, Sample
from mirror.lag.flow_summary import worst_first
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import duration, level_in, utc


def page() -> None:
    """Draw the page."""
    # What chooses stands below, so that a phone shows the answer first.
    body = st.container()
    fields(("group", "Group"), ("cluster", "Cluster"), ("topic", "Topic"), ("partition", "Partition"))
    with body:
        live(_draw)


def _draw(snapshot: Snapshot) -> None:
    cluster = field("cluster")
    fitting = narrowed(snapshot.rows, group=field("group"), topic=field("topic"), partition=field("partition"))
    rows = [row for row in worst_first(fitting) if not cluster or row.cluster == cluster]
    if not rows:
        st.title("One topic-partition", anchor=False)
        st.info("No such topic-partition now. Names are exact here; the page Lag searches.")
        return
    if len(rows) > 1:
        st.caption(f"{len(rows)} rows fit; this is the worst of them.")
    _one(rows[0], snapshot.time_s)


def _one(row: LagRow, polled_s: float) -> None:
    st.title(f"{coloured(row.status)} {plain(row.group)}: {plain(row.topic)}-{row.partition}", anchor=False)
    st.write(f"**Why:** {plain(row.reason) or 'nothing is known yet'}. {row.status.name} means: {MEANING[row.status]}.")
    _numbers(row)
    if row.lag_seconds:
        st.write(f"The first record that is not on the target was written at {utc(polled_s - row.lag_seconds)}.")
    if row.is_flow:
        _last_error(row)
        _limits(row)
        draw_alerts(lambda alert: concerns(alert, row))
    samples = watch().window(row)
    lag_over_time(
        past_of(samples, watch().row_trends.of(row)),
        window_from=pd.Timestamp(samples[0].time_s, unit="s") if samples else None,
        rule=f"{row.status.name}: {row.reason}",
        description=f"Lag over the last hour; the verdict {row.status.name} is made from the marked part",
    )
    st.caption(f"The marked part: the verdict is made from {len(samples)} of {WINDOW} polls.")
    with st.expander("The polls", expanded=False):
        st.dataframe(
            window_table(samples),
            hide_index=True,
            alt="The polls of the window: seconds before the newest, position, log end, lag",
        )
    if row.is_flow:
        st.write("Kafka's own tool shows the same:")
        command = f"kafka-consumer-groups.sh --bootstrap-server ... --describe --group 'mirror.{row.group}'"
        st.code(command, language=None)
        grafana = settings().mirror.app_grafana_url
        if grafana:
            st.link_button("Board of this topic", board_link(grafana, row), icon=":material/monitoring:")


def past_of(samples: list[Sample], minutes: list[tuple[float, int]]) -> pd.DataFrame:
    """Return the lag of the last hour by time: the polls of the window, before them the largest of each minute, at its end."""
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
        ("First record waits", "none waits" if row.lag == 0 else duration(row.lag_seconds) or "unknown"),
        ("Written/s", known(row.written_per_s, ",.1f")),
        ("Passed/s", known(row.records_per_s, ",.1f")),
        ("Level in", level_in(row)),
    )
    with st.container(horizontal=True):
        for name, value in numbers:
            st.metric(name, value, width=150)


def _last_error(row: LagRow) -> None:
    """Say why the appliance paused the topic-partition last, where it did."""
    try:
        found = last_errors()
    except (OSError, ValueError) as failed:
        st.write(f"**Its last error** is not known: {plain(unread('/errors', failed))}.")
        return
    own = (*row.group.split("->"), row.remote_topic, row.partition)
    for error in found:
        if (error.source, error.target, error.topic, error.partition) == own:
            until = "" if error.until_s is None else f" until {utc(error.until_s)}"
            st.write(f"**Its last error**, from {utc(error.since_s)}{until}: {plain(error.reason)}")


def _limits(row: LagRow) -> None:
    """Say what limits the flow, as the appliance tells."""
    try:
        said = limit(spent_on(process_status()).get(row.group, {}))
    except OSError as failed:
        st.write(f"**What limits {plain(row.group)}** is not known: {plain(unread('/api/v1/status', failed))}.")
        return
    if said:
        st.write(f"**What limits {plain(row.group)}:** {plain(said)}.")
