"""Page: alerts, statuses, restarts and takeovers over time, from a configured Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app.charts import lines, timeline
from app.inspection import settings
from app.past import Span, spans
from app.session import ROW_HEIGHT, warn
from dashboards.recording import FLOW_LAG_SECONDS
from metrics.process_status import flow_of
from mirror.errors import MirrorError
from mirror.lag.text import duration
from mirror.runtime.prometheus import Prometheus

RANGES = {"1 h": 3600, "6 h": 6 * 3600, "1 d": 86_400, "7 d": 7 * 86_400, "30 d": 30 * 86_400}
POINTS = 240


def page() -> None:
    """Draw the page."""
    st.title("Incidents", anchor=False)
    url = settings().mirror.app_prometheus_url
    if not url:
        st.info(
            "Prometheus is not configured. Set mirror.app.prometheus.url in the settings file to see incidents here."
        )
        return
    chosen = st.segmented_control("Time range", list(RANGES), default="1 d", key="back", bind="query-params") or "1 d"
    step_s = max(15.0, RANGES[chosen] / POINTS)
    try:
        happened = _spans(url, RANGES[chosen], step_s)
        lag = _lag(url, RANGES[chosen], step_s)
    except MirrorError as error:
        warn(f"Prometheus at {url} cannot be read, so earlier events are unknown.", error)
        return
    _happened(happened)
    st.subheader("Longest wait of a record, by flow", anchor=False)
    lines(
        _drawn(lag),
        x="time",
        x_title="time",
        y_title="seconds",
        description="Longest wait of a record over time, for each flow",
    )


def _happened(happened: list[Span]) -> None:
    told = [span for span in happened if span.said.lane != "version"]
    if not told:
        st.success("No alert fired in this time range, and every status was OK.", icon=":material/check_circle:")
    timeline(frame_of(by_weight(happened)), description="Timeline of events; the table below has the same content")
    if any(span.said.state == "pending" for span in told):
        st.caption(
            "An alert is pending (outlined) while its condition holds for less than its time, then it fires (filled)."
        )
    if told:
        st.dataframe(incident_table(told), hide_index=True, row_height=ROW_HEIGHT, alt="Events, newest first")


def by_weight(happened: Sequence[Span]) -> list[Span]:
    """Order events: alerts that fired, other events, alerts that were only pending, versions."""
    fired = {span.said.what for span in happened if span.said.state == "firing"}

    def weight(span: Span) -> int:
        if span.said.lane == "alert":
            return 0 if span.said.what in fired else 2
        return 3 if span.said.lane == "version" else 1

    return sorted(happened, key=weight)


def frame_of(happened: Iterable[Span]) -> pd.DataFrame:
    """Return spans for the timeline, in their order."""
    content = [
        (span.said.lane, span.said.what, span.said.state, span.said.tone, _time(span.from_s), _time(span.to_s))
        for span in happened
    ]
    return pd.DataFrame(content, columns=["lane", "what", "state", "tone", "from", "to"])


def incident_table(happened: Iterable[Span]) -> pd.DataFrame:
    """Return a table of events, newest first."""
    content = [
        (
            " ".join(part for part in (span.said.lane, span.said.state) if part),
            span.said.what,
            _when(span.from_s),
            _when(span.to_s),
            duration(span.to_s - span.from_s),
        )
        for span in sorted(happened, key=lambda span: -span.to_s)
    ]
    return pd.DataFrame(content, columns=["Kind", "Event", "From", "To", "Duration"])


@st.cache_data(ttl=10, show_spinner="Querying Prometheus ...")
def _spans(url: str, back_s: float, step_s: float) -> list[Span]:
    now_s = time.time()
    return spans(Prometheus(url), start_s=now_s - back_s, end_s=now_s, step_s=step_s)


@st.cache_data(ttl=10, show_spinner=False)
def _lag(url: str, back_s: float, step_s: float) -> list[dict[str, Any]]:
    now_s = time.time()
    longest = f"max_over_time({FLOW_LAG_SECONDS}[{round(step_s)}s])"
    return Prometheus(url).query_range(longest, start_s=now_s - back_s, end_s=now_s, step_s=step_s)


def _drawn(lag: list[dict[str, Any]]) -> pd.DataFrame:
    """Return a column of seconds per flow, by time."""
    columns = {
        flow_of(each["metric"]): pd.Series(
            {pd.Timestamp(float(at), unit="s"): float(value) for at, value in each["values"]}
        )
        for each in lag
    }
    return pd.DataFrame(columns).rename_axis("time").reset_index()


def _time(time_s: float) -> pd.Timestamp:
    return pd.Timestamp(time_s, unit="s")


def _when(time_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time_s))
