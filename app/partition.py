"""Page: the status of one partition, with its reason and the polls."""

from __future__ import annotations

import time

import pandas as pd
import streamlit as st

from app.charts import lag_over_time
from app.findings import limit, spent_on, throttled
from app.firing import concerns, draw_alerts
from app.inspection import file_name, last_errors, process_status, settings, watch
from app.marks import Mark, of_errors, of_leaders, of_process, of_prometheus, table
from app.next_step import next_step
from app.session import ROW_HEIGHT, field, fields, live, plain, warn
from app.statuses import MEANING, coloured
from app.tables import board_link, narrowed, window_table
from metrics.lag_row import LagRow
from metrics.last_errors import LastError
from metrics.partition_status import WINDOW, Sample
from metrics.trend import MINUTE_S, MINUTES
from mirror.config.properties import servers_of
from mirror.errors import MirrorError
from mirror.lag.flow_summary import worst_first
from mirror.lag.snapshot import Minute, Snapshot
from mirror.lag.text import duration, level_in, utc
from mirror.runtime.prometheus import Prometheus

MARK_COLUMNS = ["time", "kind", "what"]


def page() -> None:
    """Draw the page."""
    # The input fields are below the status, so that a phone shows the status first.
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
        st.info("No such partition now. Enter exact names, or search on the Partitions page.")
        return
    if len(rows) > 1:
        st.caption(f"{len(rows)} rows match; this is the worst.")
    _one(rows[0], snapshot.time_s)


def _one(row: LagRow, polled_s: float) -> None:
    st.title(f"{coloured(row.status)} {plain(row.group)}: {plain(row.topic)}-{row.partition}", anchor=False)
    st.write(f"**Why:** {plain(row.reason) or 'not known yet'}. {row.status.name} means: {MEANING[row.status]}.")
    _numbers(row)
    if row.lag_seconds:
        written = utc(polled_s - row.lag_seconds)
        if row.is_flow:
            st.write(f"The first unreplicated record was written at {written}.")
        else:
            st.write(f"The group's next record was written at about {written}.")
    errors = _errors() if row.is_flow else []
    _last_error(row, errors)
    _next_step(row, errors)
    if row.is_flow:
        _limits(row)
        draw_alerts(lambda alert: concerns(alert, row), is_open=True)
    _past(row, polled_s, [*of_errors(errors, row), *of_leaders(watch().leader_changes(row)), *_restarts(row)])
    if row.is_flow:
        _elsewhere(row)


def _past(row: LagRow, polled_s: float, marks: list[Mark]) -> None:
    """Draw the last hour with its events and the polls that determine the status."""
    samples = watch().window(row)
    past = past_of(samples, watch().row_trends.of(row), now=(polled_s, row.lag_seconds))
    first_s = past["time"].min().timestamp() if len(past) else polled_s
    marks = [mark for mark in marks if mark.time_s >= first_s]
    lag_over_time(
        past,
        pd.DataFrame(
            [(pd.Timestamp(mark.time_s, unit="s"), mark.kind, mark.what) for mark in marks], columns=MARK_COLUMNS
        ),
        window_from=pd.Timestamp(samples[0].time_s, unit="s") if samples else None,
        rule=f"{row.status.name}: {row.reason}",
        description=f"Lag and time lag over the last hour; the marked polls determine the status {row.status.name}",
    )
    st.caption(f"Marked: the polls that determine the status, {len(samples)} of {WINDOW}.")
    if marks:
        st.dataframe(table(marks), hide_index=True, row_height=ROW_HEIGHT, alt="Events of the partition, newest first")
    with st.expander("Polls", expanded=False):
        st.dataframe(
            window_table(samples),
            hide_index=True,
            alt="Polls of the window: seconds before the newest, position, log end, lag",
        )


def past_of(samples: list[Sample], minutes: list[Minute], *, now: tuple[float, float | None]) -> pd.DataFrame:
    """Return lag and time lag of the last hour by time.

    The points are the polls of the window and, for the time before them, the largest values of each minute, at its end. The polls
    have no time lag: `now` is the time and time lag of the row that is shown. The window may already have a newer poll.
    """
    first_s = samples[0].time_s if samples else float("inf")
    content: list[tuple[float, int | None, float | None]]
    content = [(each.time_s + MINUTE_S, each.lag, each.waits_s) for each in minutes if each.time_s + MINUTE_S < first_s]
    content += [(sample.time_s, sample.lag, None) for sample in samples]
    content += [(now[0], None, now[1])] if content else []
    frame = pd.DataFrame(content, columns=["time", "lag", "waits"]).astype({"lag": "float", "waits": "float"})
    return frame.assign(time=pd.to_datetime(frame["time"], unit="s"))


def _restarts(row: LagRow) -> list[Mark]:
    """Return when a flow's process stopped or started, from polls and, if configured, from Prometheus."""
    if not row.is_flow:
        return []
    url = settings().mirror.app_prometheus_url
    try:
        known = _known_restarts(url, row.group) if url else []
    except MirrorError:
        known = []  # draw_alerts has shown the warning
    return [*of_process(watch().process_changes), *known]


@st.cache_data(ttl=30, show_spinner=False)
def _known_restarts(url: str, flow: str) -> list[Mark]:
    now_s = time.time()
    return of_prometheus(Prometheus(url), flow, start_s=now_s - MINUTES * MINUTE_S, end_s=now_s, step_s=MINUTE_S)


def _next_step(row: LagRow, errors: list[LastError]) -> None:
    """Show the next step with its command."""
    name = row.group if row.is_flow else ""
    flow = next(
        (each for each in settings().flows if name in ("", each.name) and each.source.alias == row.cluster), None
    )
    kinds = [error.kind for error in errors if error.until_s is None and error.concerns(row.key)]
    step = next_step(
        row,
        flow,
        error=kinds[0] if kinds else None,
        file=file_name(),
        process=settings().mirror.metrics_address,
    )
    if step:
        st.write(f"**Next step:** {plain(step.sentence)}")
        st.code(step.command, language=None, wrap_lines=True)


def _elsewhere(row: LagRow) -> None:
    """Show the same numbers in Kafka's tool and in Grafana."""
    flow = next((each for each in settings().flows if each.name == row.group), None)
    servers = servers_of(flow.source.client) if flow else "..."
    st.write("The same with Kafka's own tool:")
    command = f"kafka-consumer-groups.sh --bootstrap-server {servers} --describe --group 'mirror.{row.group}'"
    st.code(command, language=None)
    grafana = settings().mirror.app_grafana_url
    if grafana:
        st.link_button("Dashboard of this topic", board_link(grafana, row), icon=":material/monitoring:")


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
        ("Offsets", row.offsets or "unknown"),
    )
    with st.container(horizontal=True):
        for name, value in numbers:
            st.metric(name, value, width=150)


def _errors() -> list[LastError]:
    """Return the process' reasons for paused partitions; show a warning if they are unknown."""
    try:
        return last_errors()
    except (OSError, ValueError) as failed:
        warn(f"The last error is unknown: {settings().mirror.metrics_address}/errors cannot be read.", failed)
        return []


def _last_error(row: LagRow, errors: list[LastError]) -> None:
    """Show why the process last paused the partition, if it ever did."""
    for error in errors:
        if error.concerns(row.key):
            until = "" if error.until_s is None else f" until {utc(error.until_s)}"
            st.write(f"**Last error**, from {utc(error.since_s)}{until}: {plain(error.reason)}")


def _limits(row: LagRow) -> None:
    """Show how the flow spends its time, from its process' report."""
    try:
        status = process_status()
        said = ". ".join(filter(None, (limit(spent_on(status).get(row.group, {})), *throttled(status, row.group))))
    except OSError:
        st.write(f"**What limits {plain(row.group)}:** unknown, because the process does not respond.")
        return
    if said:
        st.write(f"**What limits {plain(row.group)}:** {plain(said)}.")
