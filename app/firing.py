"""Show the alerts that fire: what each is about, since when, and where to go from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote, urlencode

import streamlit as st

from app.inspection import settings
from app.session import plain
from metrics.lag_row import LagRow
from metrics.process_status import flow_of
from mirror.errors import MirrorError
from mirror.runtime.prometheus import FiringAlert, Prometheus

NAMED = ("topic", "cluster", "group")  # labels that say what an alert is about, beside its flow


def draw_alerts(is_wanted: Callable[[FiringAlert], bool] = lambda _: True, *, most: int = 20) -> None:
    """Draw a line for each of at most so many alerts that fire, critical ones first, or that Prometheus does not answer."""
    with st.container():  # however many they are, what follows keeps its place
        _draw_alerts(is_wanted, most)


def _draw_alerts(is_wanted: Callable[[FiringAlert], bool], most: int) -> None:
    url = settings().mirror.app_prometheus_url
    if not url:
        return
    try:
        firing = [alert for alert in _firing(url) if is_wanted(alert)]
        managers = _managers(url) if firing else []
    except MirrorError as error:
        st.warning(plain(str(error)))
        return
    firing.sort(key=lambda each: (not each.is_critical, each.since))
    for alert in firing[:most]:
        draw = st.error if alert.is_critical else st.warning
        draw(line(alert, managers), icon=":material/notifications_active:")
    if firing[most:]:
        st.caption(f"{len(firing) - most} more alerts fire: the page [Incidents](incidents?back=1+h) has them.")


def line(alert: FiringAlert, managers: list[str]) -> str:
    """Return what a page says of an alert, in Markdown."""
    links = [("rows", rows_link(alert)), ("runbook", alert.runbook), ("board", alert.board)]
    links += [("silence", silence_link(manager, alert)) for manager in managers[:1]]
    pointed = " · ".join(f"[{name}]({url})" for name, url in links if url)
    return (
        f"**{plain(alert.name)}** {plain(subject(alert))} since {plain(alert.since)}: {plain(alert.summary)} {pointed}"
    )


def subject(alert: FiringAlert) -> str:
    """Return what an alert is about: its flow, and what else it names."""
    flow = flow_of(alert.labels) if alert.labels.get("source") and alert.labels.get("target") else ""
    return " ".join(part for part in (flow, *(alert.labels.get(label) for label in NAMED)) if part)


def rows_link(alert: FiringAlert) -> str:
    """Return the address of the rows that an alert is about, "" where it names none."""
    named = {name: alert.labels.get(name) for name in ("source", "target", "topic", "group")}
    query = urlencode({name: value for name, value in named.items() if value})
    return f"lag?{query}" if query else ""


def concerns(alert: FiringAlert, row: LagRow) -> bool:
    """Tell whether an alert is about a row: what it names of the row is the row's."""
    target = row.group.removeprefix(f"{row.cluster}->")
    own = {"source": row.cluster, "target": target, "topic": row.remote_topic, "partition": str(row.partition)}
    return all(alert.labels.get(name, value) == value for name, value in own.items())


def silence_link(manager: str, alert: FiringAlert) -> str:
    """Return the address at which an Alertmanager offers to silence an alert."""
    matchers = ",".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in sorted(alert.labels.items())
    )
    return f"{manager}/#/silences/new?filter={quote('{' + matchers + '}')}"


@st.cache_data(ttl=10, show_spinner=False)
def _firing(url: str) -> list[FiringAlert]:
    return Prometheus(url).firing()


@st.cache_data(ttl=10, show_spinner=False)
def _managers(url: str) -> list[str]:
    return Prometheus(url).alertmanagers()
