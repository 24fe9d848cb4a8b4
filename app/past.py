"""Query Prometheus for the past: the last hour of flows, and events.

Every query covers the whole time between two samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from app.statuses import tone
from dashboards.recording import FLOW_LAG, FLOW_LAG_SECONDS, WORST
from metrics.partition_status import Status
from metrics.process_status import flow_of
from metrics.trend import MINUTE_S, MINUTES, Point
from mirror.runtime.prometheus import Prometheus

OURS = 'alertname=~"KafkaMirror.*"'
LEAST_WINDOW_S = 120  # contains at least two scrapes
ALERTS = f"ALERTS{{{OURS}}}"


class Event(NamedTuple):
    """An event on the timeline: its lane, its text, its tone."""

    lane: str
    what: str
    tone: str
    state: str = ""  # for an alert: pending or firing


class Span(NamedTuple):
    """An event from its start to its end (epoch seconds)."""

    said: Event
    from_s: float
    to_s: float


def flow_points(prometheus: Prometheus, now_s: float) -> dict[str, list[Point]]:
    """Return the last hour of each flow, one point per minute.

    Raises:
        MirrorError: The server does not respond, or refuses.
    """
    asked = {name: f"max_over_time({name}[1m])" for name in (WORST, FLOW_LAG_SECONDS, FLOW_LAG)}
    end_s = now_s - now_s % MINUTE_S
    ranges = {
        name: prometheus.query_range(expr, start_s=end_s - MINUTES * MINUTE_S, end_s=end_s, step_s=MINUTE_S)
        for name, expr in asked.items()
    }
    found: dict[str, dict[float, dict[str, float]]] = {}
    for name, series in ranges.items():
        for each in series:
            flow = found.setdefault(flow_of(each["metric"]), {})
            for at, value in each["values"]:
                flow.setdefault(float(at), {})[name] = float(value)
    return {
        flow: [_point(at, values) for at, values in sorted(of.items()) if WORST in values] for flow, of in found.items()
    }


def spans(
    prometheus: Prometheus, *, start_s: float, end_s: float, step_s: float, happened: _Events | None = None
) -> list[Span]:
    """Return the events of a time range: alerts, bad statuses, restarts, takeovers, versions.

    `happened`: other queries than the default ones.

    Raises:
        MirrorError: The server does not respond, or refuses.
    """
    step, window = f"[{max(1, round(step_s))}s]", f"[{max(LEAST_WINDOW_S, round(step_s))}s]"
    return [
        span
        for expr, said in (HAPPENED if happened is None else happened).items()
        for each in prometheus.query_range(
            expr.replace("[step]", step).replace("[window]", window), start_s=start_s, end_s=end_s, step_s=step_s
        )
        for span in runs(each["values"], step_s, partial(said, each["metric"]))
    ]


def runs(values: Iterable[tuple[float, str]], step_s: float, said: Callable[[float], Event | None]) -> list[Span]:
    """Return one span for each run of samples with the same event.

    A sample stands for the step before it.
    """
    found: list[Span] = []
    for at, value in values:
        at_s, now = float(at), said(float(value))
        if now is None:
            continue
        last = found[-1] if found else None
        if last and last.said == now and at_s - last.to_s < 1.5 * step_s:
            found[-1] = last._replace(to_s=at_s)
        else:
            found.append(Span(now, at_s - step_s, at_s))
    return found


def _alert(metric: Mapping[str, str], _: float) -> Event:
    flow = flow_of(metric) if metric.get("source") and metric.get("target") else ""
    where = [metric[label] for label in ("topic", "cluster", "group") if metric.get(label)]
    said = " ".join(part for part in (metric["alertname"], flow, *where) if part)
    state = metric.get("alertstate", "firing")
    severity = "ill" if metric.get("severity") == "critical" else "warn"
    return Event("alert", said, "pending" if state == "pending" else severity, state)


def _status(metric: Mapping[str, str], value: float) -> Event | None:
    status = Status(int(value))
    return None if status is Status.OK else Event(f"status {flow_of(metric)}", status.name, tone(status))


def _restart(metric: Mapping[str, str], _: float) -> Event:
    return Event("restart", metric.get("instance", ""), "warn")


def _takeover(metric: Mapping[str, str], _: float) -> Event:
    return Event("takeover", flow_of(metric), "warn")


def _version(metric: Mapping[str, str], _: float) -> Event:
    return Event("version", metric.get("version", ""), "idle")


_Events = dict[str, Callable[[Mapping[str, str], float], Event | None]]
# Queries, and the events of their samples. [step] is the time between samples; [window] is at least as long, and has two scrapes.
RESTARTS: _Events = {
    "changes(process_start_time_seconds[window]) > 0"
    " and on (job, instance) last_over_time(kafka_mirror_build_info[window])": _restart,
    "sum by (source, target) (increase(kafka_mirror_takeovers_total[window])) > 0": _takeover,
}
HAPPENED: _Events = {
    f"max by (alertname, alertstate, severity, source, target, topic, cluster, group) (max_over_time({ALERTS}[step]))": _alert,
    f"max_over_time({WORST}[step])": _status,
    **RESTARTS,
    "max by (version) (max_over_time(kafka_mirror_build_info[step]))": _version,
}


def _point(at_s: float, values: Mapping[str, float]) -> Point:
    waiting = values.get(FLOW_LAG)
    # A sample stands for the minute before it.
    return Point(
        at_s - MINUTE_S,
        Status(int(values[WORST])),
        values.get(FLOW_LAG_SECONDS),
        None if waiting is None else int(waiting),
        None,
        None,
    )
