"""Write the card of each flow as HTML: status, RPO, rates, both failover answers, last hour. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from app.links import address, of_row
from app.statuses import HEADLINES, SHAPES, tone
from metrics.partition_status import Status
from metrics.trend import MINUTE_S, MINUTES, Point, UnhealthySince
from mirror.lag.failover import FailoverReadiness, Objective, Planned
from mirror.lag.flow_summary import FlowSummary, at_least
from mirror.lag.text import duration, pluralized

_HEIGHT = 28  # height of the chart of the last hour, in drawing units; a minute is one unit wide
_LEAST = 2  # height of a minute in which no record waited
# Possible ends of the scale, seconds. The smallest one makes the short waits of a healthy flow look short.
_SCALES = (
    *((10.0, "10 s"), (30.0, "30 s"), (60.0, "1 min"), (300.0, "5 min"), (900.0, "15 min"), (3600.0, "1 h")),
    *((4 * 3600.0, "4 h"), (86_400.0, "1 d"), (7 * 86_400.0, "7 d")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowBar:
    """The content of a card: the flow, its last hour, its failover check."""

    flow: FlowSummary
    points: Sequence[Point]
    unhealthy_since: UnhealthySince | None
    failover: FailoverReadiness


def bars_html(bars: Sequence[FlowBar], now_s: float) -> str:
    """Return all cards, in their order."""
    return f'<ol class="flows" aria-label="Flows, worst first">{"".join(_bar(bar, now_s) for bar in bars)}</ol>'


def headline(flows: Sequence[FlowSummary]) -> str:
    """Return the state of all flows in one sentence."""
    unhealthy = [flow for flow in flows if flow.worst is not Status.OK]
    if not flows:
        return "No flow has partitions yet"
    if not unhealthy:
        few = {1: f"{flows[0].name} is healthy", 2: "Both flows are healthy"}
        return few.get(len(flows), f"All {len(flows)} flows are healthy")
    first, *others = unhealthy
    what = HEADLINES[first.worst].format(flow=first.name)
    have = "flow has" if len(others) == 1 else "flows have"
    return f"{what}; {len(others)} other {have} a problem" if others else what


def since(bar: FlowBar, now_s: float) -> str:
    """Return how long a flow has been unhealthy, as text; "" if it is healthy."""
    if bar.flow.worst is Status.OK or bar.unhealthy_since is None:
        return ""
    lasted = duration(max(0.0, now_s - bar.unhealthy_since.time_s))
    return f"not OK for {lasted}" if bar.unhealthy_since.is_seen else f"not OK for at least {lasted}"


def rpo(flow: FlowSummary) -> tuple[str, str]:
    """Return the longest wait of a record, and how many records wait, as text."""
    if flow.unknown == flow.partitions or (flow.unknown and not flow.lag):
        return "unknown", ""
    if not flow.lag:
        return "0 s", "no record waits"
    return flow.waits, f"{at_least(flow.lag, flow.unknown)} record{'' if flow.lag == 1 else 's'}"


def _bar(bar: FlowBar, now_s: float) -> str:
    flow, found = bar.flow, bar.failover
    rows = address("partitions", source=flow.source, target=flow.target, group=flow.name)
    known = f"{flow.fresh:.1%} known to be fresh" if flow.fresh < 1 else "all fresh"
    about = since(bar, now_s) or f"{pluralized(flow.partitions, 'partition')}, {known}"
    waits, waiting = rpo(flow)
    return (
        f'<li class="flow {tone(flow.worst)}">'
        f'<div class="who"><p class="status"><span class="mark" aria-hidden="true">{SHAPES[flow.worst]}</span>'
        f' <strong>{flow.worst.name}</strong> <a href="{escape(rows)}">{escape(flow.name)}</a></p>'
        f"<small>{about}</small></div>"
        f"<dl>{_fact('RPO now', f'{escape(waits)} <small>{escape(waiting)}</small>')}"
        f"{_fact('In → out', escape(f'{_rate(flow.in_per_s)} → {_rate(flow.out_per_s)}'))}"
        f"{_fact('Planned switch', _planned(found))}"
        f"{_fact(f'If {escape(flow.source)} is lost now', _loss(found))}</dl>"
        f"{_last_hour(bar, now_s)}{_why(flow)}</li>"
    )


def _fact(name: str, html: str) -> str:
    return f"<div><dt>{name}</dt><dd>{html}</dd></div>"


def _planned(found: FailoverReadiness) -> str:
    kind = "ok" if found.planned is Planned.READY else "ill"
    return _answer(kind, found.planned.value, found.blockers or (found.planned_text,))


def _loss(found: FailoverReadiness) -> str:
    kind = {Objective.WITHIN: "ok", Objective.BEYOND: "ill", Objective.UNKNOWN: "unknown"}[found.objective]
    return _answer(kind, found.objective.value, (found.loss_text, *found.unknowns))


def _answer(kind: str, value: str, reasons: Sequence[str]) -> str:
    return f'<a href="{escape(address("failover"))}" class="answer {kind}" title="{escape("; ".join(reasons))}">{value}</a>'


def _rate(per_s: float | None) -> str:
    if per_s is None:
        return "unknown"
    return f"{per_s:,.0f}/s" if per_s >= 10 or per_s == int(per_s) else f"{per_s:.1f}/s"


def _why(flow: FlowSummary) -> str:
    """Return the reason for the worst status with a link, "" for a healthy flow."""
    row = flow.first
    if flow.worst is Status.OK:
        return ""
    unhealthy = sum(count for status, count in flow.statuses.items() if status is not Status.OK)
    more = f" {unhealthy:,} of {flow.partitions:,} partitions are not OK." if unhealthy > 1 else ""
    return (
        f'<p class="why"><strong>{escape(row.topic)}-{row.partition}</strong> {escape(row.reason)}.{more}'
        f' <a href="{escape(of_row(row))}">Why?</a></p>'
    )


def _last_hour(bar: FlowBar, now_s: float) -> str:
    """Draw the waits of the last hour with their scale.

    A dashed line marks the objective, if the scale reaches it.
    """
    tallest = max((point.waits_s or 0.0 for point in bar.points), default=0.0)
    longest = f"up to {duration(tallest)}" if bar.points else "unknown"
    _, top = scale_of(bar.points)
    return (
        f"<figure><figcaption>Waits of the last hour: {longest}</figcaption>"
        f'<div class="plot"><span>{top}</span><span>0</span>'
        f"{columns_svg(bar.points, now_s, objective_s=bar.failover.objective_s)}</div>"
        f'<p class="ends"><span>1 h ago</span><span>now</span></p></figure>'
    )


def scale_of(points: Sequence[Point]) -> tuple[float, str]:
    """Return the end of the scale for waits, in seconds and as text."""
    tallest = max((point.waits_s or 0.0 for point in points), default=0.0)
    return next((step for step in _SCALES if tallest <= step[0]), (tallest, duration(tallest)))


def columns_svg(points: Sequence[Point], now_s: float, *, objective_s: float | None = None) -> str:
    """Draw a column per minute: its height is the longest wait, its colour the status.

    A minute without a poll has no column.
    """
    last, (top_s, top) = int(now_s // MINUTE_S), scale_of(points)
    drawn = "".join(
        f'<rect class="{tone(point.status)}" x="{MINUTES - 1 - (last - point.minute)}" width="0.8" '
        f'y="{_HEIGHT - height:.1f}" height="{height:.1f}"/>'
        for point in points
        if 0 <= last - point.minute < MINUTES
        for height in (_height(point, top_s),)
    )
    if objective_s is not None and objective_s <= top_s:
        goal = _HEIGHT * (1 - objective_s / top_s)
        drawn += f'<line class="objective" x1="0" x2="{MINUTES}" y1="{goal:.1f}" y2="{goal:.1f}"/>'
    return (
        f'<svg viewBox="0 0 {MINUTES} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="Longest wait of each minute of the last hour; scale 0 to {top}">{drawn}</svg>'
    )


def _height(point: Point, top_s: float) -> float:
    if point.waits_s is None:
        return float(_HEIGHT)  # unknown: the whole column has the colour of its status
    return _LEAST + (_HEIGHT - _LEAST) * point.waits_s / top_s
