"""Page: which flow is unhealthy, since when, how much is at risk, and where to look."""

from __future__ import annotations

import time

import streamlit as st

from app import components, heat_map
from app.failovers import answers
from app.firing import draw_alerts
from app.flow_bars import FlowBar, bars_html, headline
from app.inspection import settings, watch
from app.links import address
from app.past import flow_points
from app.session import explained, live, plain
from metrics.partition_status import Status
from metrics.trend import Point, joined, unhealthy_since
from mirror.errors import MirrorError
from mirror.lag.flow_summary import summaries, worst_first
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import pluralized
from mirror.runtime.prometheus import Prometheus

WORST = 100  # rows of the table; the Partitions page has all


def page() -> None:
    """Draw the page."""
    live(_draw)


def _draw(snapshot: Snapshot) -> None:
    flows = summaries(snapshot)
    st.title(plain(headline(flows)), anchor=False)
    if not flows:
        if not snapshot.problems:
            st.info(
                "Check that topics match and the process runs. 'kafka-mirror plan FILE' prints what a flow replicates."
            )
        draw_alerts()
        return
    trend, past = watch().trend, _past()
    bars = [
        FlowBar(flow=flow, points=points, unhealthy_since=unhealthy_since(points), failover=answer)
        for flow, answer in zip(flows, answers(snapshot, flows), strict=True)
        for points in (joined(past.get(flow.name, []), trend.of(flow.name)),)
    ]
    components.flow_bars(bars_html(bars, time.time()))
    draw_alerts()
    components.heat_map(
        heat_map.cells(snapshot.rows),
        legend=heat_map.legend_html(snapshot.rows),
        summary=heat_map.summary(snapshot.rows),
    )
    _not_ok(snapshot)


def _not_ok(snapshot: Snapshot) -> None:
    """Draw the flows' partitions that are not OK, worst first."""
    rows = [row for row in snapshot.rows if row.is_flow]
    bad = worst_first(row for row in rows if row.status is not Status.OK)
    if not bad:
        all_of = {1: "The partition is", 2: "Both partitions are"}.get(len(rows), f"All {len(rows):,} partitions are")
        st.markdown(f":green[:material/check_circle:] {all_of} OK.")
        return
    st.subheader(f"{len(bad):,} of {pluralized(len(rows), 'partition')} not OK", anchor=False)
    if len(bad) > WORST:
        st.markdown(f"The {WORST} worst; [all partitions]({address('partitions')}).")
    explained(bad[:WORST], alt="The partitions with the worst statuses, and a link to the reason of each")


def _past() -> dict[str, list[Point]]:
    """Return the last hour from Prometheus; {} without Prometheus.

    Without Prometheus, the page shows the polls of this process and of the mirror's process.
    """
    url = settings().mirror.app_prometheus_url
    if not url:
        return {}
    try:
        return _flow_points(url)
    except MirrorError:
        return {}  # draw_alerts has shown the warning


@st.cache_data(ttl=30, show_spinner=False)
def _flow_points(url: str) -> dict[str, list[Point]]:
    return flow_points(Prometheus(url), time.time())
