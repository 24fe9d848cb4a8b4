"""Write the bar of each flow as HTML: its verdict, since when, what would be lost, rates, the last hour. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import urlencode

from app.tables import link
from app.verdicts import MEANING, SHAPES, tone
from metrics.trend import MINUTE_S, MINUTES, IllSince, Point
from metrics.verdict import Status
from mirror.lag.failover import Answer, FailoverReadiness
from mirror.lag.flow_summary import FlowSummary, at_least
from mirror.lag.text import duration

_HEIGHT = 28  # of the last hour, in the units of its drawing; a minute is one unit wide
_LEAST = 2  # height of a minute in which nothing waited


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowBar:
    """What a bar shows: the flow now, its last hour, since when it is ill, and whether one may fail over."""

    flow: FlowSummary
    points: Sequence[Point]
    ill_since: IllSince | None
    failover: FailoverReadiness


def bars_html(bars: Sequence[FlowBar], now_s: float) -> str:
    """Return all bars, in their order."""
    return f'<ol class="flows" aria-label="Flows, the worst first">{"".join(_bar(bar, now_s) for bar in bars)}</ol>'


def headline(flows: Sequence[FlowSummary]) -> str:
    """Return the answer of the first screen in one sentence."""
    ill = [flow for flow in flows if flow.worst is not Status.OK]
    if not flows:
        return "No flow has topic-partitions yet"
    if not ill:
        return f"{flows[0].name} is well" if len(flows) == 1 else f"All {len(flows)} flows are well"
    first = ill[0]
    what = "is not known" if first.worst is Status.UNKNOWN else f"is ill: {MEANING[first.worst]}"
    others = len(ill) - 1
    more = f"; {others} more {'is' if others == 1 else 'are'} not well" if others else ""
    return f"{first.name} {what}{more}"


def since(bar: FlowBar, now_s: float) -> str:
    """Return since when a flow is ill in words, "" while it is well."""
    if bar.flow.worst is Status.OK or bar.ill_since is None:
        return ""
    lasted = duration(max(0.0, now_s - bar.ill_since.time_s))
    return f"not OK for {lasted}" if bar.ill_since.is_seen else f"not OK for at least {lasted}"


def would_be_lost(flow: FlowSummary) -> str:
    """Return what is not on the target now, as far as anybody knows."""
    if flow.unknown == flow.partitions:
        return "unknown"
    if not flow.lag and not flow.unknown:
        return "nothing"
    waits = f", {flow.waits}" if flow.lag and flow.lag_seconds is not None else ""
    return f"{at_least(flow.lag, flow.unknown)} records{waits}"


def _bar(bar: FlowBar, now_s: float) -> str:
    flow = bar.flow
    chosen = urlencode({"source": flow.source, "target": flow.target, "group": flow.name})
    known = f"{flow.fresh:.1%} known to be fresh" if flow.fresh < 1 else "all fresh"
    return (
        f'<li class="flow {tone(flow.worst)}">'
        f'<p class="verdict"><span class="mark" aria-hidden="true">{SHAPES[flow.worst]}</span>'
        f' <strong>{flow.worst.name}</strong> <span class="since">{since(bar, now_s)}</span></p>'
        f'<p class="name"><a href="/lag?{escape(chosen)}">{escape(flow.name)}</a>'
        f"<small>{flow.partitions:,} topic-partitions, {known}</small></p>"
        f"<dl>{_fact('Would be lost now', would_be_lost(flow))}{_fact('Written', _rate(flow.in_per_s))}"
        f"{_fact('Replicated', _rate(flow.out_per_s))}{_fail_over(bar.failover)}</dl>"
        f"{_last_hour(bar.points, now_s)}{_why(flow)}</li>"
    )


def _fact(name: str, value: str) -> str:
    return f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>"


def _fail_over(found: FailoverReadiness) -> str:
    kind = {Answer.GO: "ok", Answer.GO_WITH_LOSS: "warn", Answer.NO: "ill"}[found.answer]
    reasons = "; ".join((*found.vetoes, *found.costs, *found.unknowns))
    link = f'<a href="/groups" class="answer {kind}" title="{escape(reasons)}">{found.answer.words}</a>'
    return f"<div><dt>May I fail over?</dt><dd>{link}</dd></div>"


def _rate(per_s: float | None) -> str:
    if per_s is None:
        return "unknown"
    return f"{per_s:,.0f}/s" if per_s >= 10 or per_s == int(per_s) else f"{per_s:.1f}/s"


def _why(flow: FlowSummary) -> str:
    """Return the reason of what is worst, and the way to it; nothing while all is well."""
    row = flow.first
    if flow.worst is Status.OK:
        return ""
    ill = sum(count for status, count in flow.statuses.items() if status is not Status.OK)
    more = f" {ill:,} of {flow.partitions:,} topic-partitions are not OK." if ill > 1 else ""
    return (
        f'<p class="why"><strong>{escape(row.topic)}-{row.partition}</strong> {escape(row.reason)}.{more}'
        f' <a href="{escape(link("partition", row))}">Why?</a></p>'
    )


def _last_hour(points: Sequence[Point], now_s: float) -> str:
    """Draw a column a minute: as high as the longest wait, coloured by the verdict; no column where nobody looked."""
    last = int(now_s // MINUTE_S)
    tallest = max((point.waits_s or 0.0 for point in points), default=0.0)
    columns = "".join(
        f'<rect class="{tone(point.status)}" x="{MINUTES - 1 - (last - point.minute)}" width="0.8" '
        f'y="{_HEIGHT - height:.1f}" height="{height:.1f}"/>'
        for point in points
        if 0 <= last - point.minute < MINUTES
        for height in (_height(point, tallest),)
    )
    said = f"longest wait of the last hour {duration(tallest)}" if points else "the last hour is not known"
    return (
        f'<figure><svg viewBox="0 0 {MINUTES} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{said}">'
        f"{columns}</svg><figcaption>{said}</figcaption></figure>"
    )


def _height(point: Point, tallest: float) -> float:
    if point.waits_s is None:
        return float(_HEIGHT)  # nothing is known: the whole column says so in its colour
    return _LEAST + (_HEIGHT - _LEAST) * point.waits_s / max(tallest, 1.0) if tallest else float(_LEAST)
