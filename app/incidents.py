"""Page: which alerts fired, and how the lag went; from a Prometheus, where one is configured."""

from __future__ import annotations

import time
from typing import Any

import pandas as pd
import streamlit as st

from app.charts import lines
from app.session import plain, settings
from app.tables import incident_table
from mirror.errors import MirrorError
from mirror.runtime.prometheus import Prometheus

RANGES = {"1 h": 3600, "6 h": 6 * 3600, "1 d": 86_400, "7 d": 7 * 86_400}
POINTS = 240
FIRING = 'ALERTS{alertname=~"KafkaMirror.*",alertstate="firing"}'
LAG = "max by (source, target) (source_target:kafka_mirror_lag_seconds:max)"  # recorded: one series a flow, also for a week


def page() -> None:
    """Draw the page."""
    st.title("Past incidents")
    url = settings().mirror.app_prometheus_url
    if not url:
        st.info("No Prometheus is configured: set mirror.app.prometheus.url in the mirror's file to see the past here.")
        return
    chosen = st.segmented_control("How far back", list(RANGES), default="1 d", key="back", bind="query-params") or "1 d"
    step_s = max(15.0, RANGES[chosen] / POINTS)
    try:
        fired, lag = (_range(url, query, RANGES[chosen], step_s) for query in (FIRING, LAG))
    except MirrorError as error:
        st.warning(plain(str(error)))
        return
    frame = incident_table(fired, step_s)
    if frame.empty:
        st.success("No alert fired in this time.", icon=":material/check_circle:")
    else:
        st.dataframe(frame, hide_index=True, alt="Alerts that fired, the newest first")
    st.subheader("Longest wait of a record, by flow", anchor=False)
    lines(
        _drawn(lag),
        x="time",
        x_title="time",
        y_title="seconds",
        description="How long the longest waiting record of each flow waited",
    )


def alerts_firing() -> list[str]:
    """Return the names of the alerts that fire now; none where no Prometheus is configured or it does not answer."""
    url = settings().mirror.app_prometheus_url
    if not url:
        return []
    try:
        return sorted(_now(url))
    except MirrorError as error:
        st.warning(plain(str(error)))
        return []


@st.cache_data(ttl=10, show_spinner=False)
def _now(url: str) -> set[str]:
    return {each["metric"]["alertname"] for each in Prometheus(url).query(FIRING)}


@st.cache_data(ttl=10, show_spinner=False)
def _range(url: str, query: str, back_s: float, step_s: float) -> list[dict[str, Any]]:
    now_s = time.time()
    return Prometheus(url).query_range(query, start_s=now_s - back_s, end_s=now_s, step_s=step_s)


def _drawn(lag: list[dict[str, Any]]) -> pd.DataFrame:
    """Return a column of seconds for each flow, by time."""
    columns = {
        f"{each['metric']['source']}->{each['metric']['target']}": pd.Series(
            {pd.Timestamp(float(at), unit="s"): float(value) for at, value in each["values"]}
        )
        for each in lag
    }
    return pd.DataFrame(columns).rename_axis("time").reset_index()
