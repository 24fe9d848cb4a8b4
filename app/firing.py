"""Show the firing alerts: subject, start, and links."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from urllib.parse import quote

import streamlit as st

from app.inspection import settings
from app.links import address
from app.session import plain, warn
from app.statuses import SHAPES, colour
from metrics.lag_row import LagRow
from metrics.partition_status import Status
from metrics.process_status import flow_of
from mirror.errors import MirrorError
from mirror.runtime.prometheus import FiringAlert, Prometheus

NAMED = ("topic", "cluster", "group")  # labels that identify the subject of an alert, in addition to the flow


def draw_alerts(is_wanted: Callable[[FiringAlert], bool] = lambda _: True, *, is_open: bool = False) -> None:
    """Draw a strip with the number of firing alerts and the worst one.

    The strip unfolds to show all alerts. If Prometheus does not respond, draw a warning instead.
    """
    with st.container():  # one container, so that the elements after it keep their place
        url = settings().mirror.app_prometheus_url
        if url:
            _draw_alerts(url, is_wanted, is_open)


def _draw_alerts(url: str, is_wanted: Callable[[FiringAlert], bool], is_open: bool) -> None:
    try:
        firing = [alert for alert in _firing(url) if is_wanted(alert)]
        managers = _managers(url) if firing else []
    except MirrorError as error:
        warn(f"Prometheus at {url} cannot be read, so alerts are unknown.", error)
        return
    if not firing:
        return
    firing.sort(key=lambda each: (not each.is_critical, each.since))
    with st.expander(strip(firing), expanded=is_open, icon=":material/notifications_active:", key="alerts"):
        for alert in firing:
            st.markdown(f":{_colour(alert)}[{SHAPES[_status(alert)]}] {line(alert, managers)}")
        st.markdown(f"[Earlier alerts]({address('incidents', back='1 h')})")


def strip(firing: Sequence[FiringAlert]) -> str:
    """Return the number of alerts and the worst one, which is the first, as Markdown."""
    worst = firing[0]
    about = " ".join(part for part in (plain(subject(worst)), "since", plain(worst.since)) if part)
    fires = "1 alert is firing" if len(firing) == 1 else f"{len(firing)} alerts are firing. Worst"
    return f":{_colour(worst)}[**{fires}: {plain(worst.name)}**] {about}"


def _status(alert: FiringAlert) -> Status:
    """Return the status with the same colour and shape as an alert's severity."""
    return Status.STALL if alert.is_critical else Status.WARN


def _colour(alert: FiringAlert) -> str:
    return colour(_status(alert))


def line(alert: FiringAlert, managers: list[str]) -> str:
    """Return the Markdown line of an alert."""
    links = [("rows", rows_link(alert)), ("runbook", alert.runbook), ("dashboard", alert.board)]
    links += [("silence", silence_link(manager, alert)) for manager in managers[:1]]
    pointed = " · ".join(f"[{name}]({url})" for name, url in links if url)
    return (
        f"**{plain(alert.name)}** {plain(subject(alert))} since {plain(alert.since)}: {plain(alert.summary)} {pointed}"
    )


def subject(alert: FiringAlert) -> str:
    """Return the subject of an alert: its flow, and other labels that identify it."""
    flow = flow_of(alert.labels) if alert.labels.get("source") and alert.labels.get("target") else ""
    slot = f"slot {alert.labels['slot']}" if alert.labels.get("slot") else ""
    return " ".join(part for part in (flow, *(alert.labels.get(label) for label in NAMED), slot) if part)


def rows_link(alert: FiringAlert) -> str:
    """Return the address of an alert's rows, "" if its labels name none."""
    named = {name: alert.labels.get(name) for name in ("source", "target", "topic", "group")}
    return (
        address("partitions", **{name: value for name, value in named.items() if value}) if any(named.values()) else ""
    )


def concerns(alert: FiringAlert, row: LagRow) -> bool:
    """Return whether the labels of an alert match a row."""
    target = row.group.removeprefix(f"{row.cluster}->")
    own = {"source": row.cluster, "target": target, "topic": row.remote_topic, "partition": str(row.partition)}
    return all(alert.labels.get(name, value) == value for name, value in own.items())


def silence_link(manager: str, alert: FiringAlert) -> str:
    """Return the address of Alertmanager's form for silencing an alert."""
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
