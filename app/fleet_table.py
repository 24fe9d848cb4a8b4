"""Write the flows of several mirrors as HTML, one line per flow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import urlencode

from app.flow_bars import columns_svg, rpo
from app.statuses import MEANING, SHAPES, tone
from metrics.partition_status import Status
from metrics.trend import Point, Trend
from mirror.lag.flow_summary import FlowSummary, summaries
from mirror.lag.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFlow:
    """One flow of one mirror, with its last hour."""

    mirror: str
    name: str
    summary: FlowSummary | None  # None while no partition is known
    points: Sequence[Point] = ()

    @property
    def status(self) -> Status:
        """The worst status of its partitions."""
        return Status.UNKNOWN if self.summary is None else self.summary.worst

    @property
    def rank(self) -> tuple[int, float, str, str]:
        """Sort key: worst status first, then the longest wait."""
        waits_s = 0.0 if self.summary is None else self.summary.lag_seconds or 0.0
        return -self.status, -waits_s, self.mirror, self.name


def fleet_of(mirror: str, names: Iterable[str], snapshot: Snapshot, trend: Trend) -> list[FleetFlow]:
    """Return the flows of a mirror's settings, including flows without partitions."""
    known = {flow.name: flow for flow in summaries(snapshot)}
    return [
        FleetFlow(mirror=mirror, name=name, summary=known.get(name), points=trend.of(name))
        for name in dict.fromkeys((*names, *known))
    ]


def fleet_sentence(found: Sequence[FleetFlow]) -> str:
    """Return the state of all flows in one sentence."""
    bad = [each for each in found if each.status is not Status.OK]
    if not found:
        return "No flow is configured"
    if not bad:
        return "The flow is healthy" if len(found) == 1 else f"All {len(found):,} flows are healthy"
    worst = bad[0]
    return f"{len(bad):,} of {len(found):,} flows not OK; worst: {worst.name} of {worst.mirror}, {worst.status.name}"


def fleet_html(found: Sequence[FleetFlow], now_s: float) -> str:
    """Return all flows in order, each as a link to the pages of its mirror."""
    return f'<ol class="fleet" aria-label="Flows, worst first">{"".join(_line(each, now_s) for each in found)}</ol>'


def _line(flow: FleetFlow, now_s: float) -> str:
    waits = "unknown" if flow.summary is None else rpo(flow.summary)[0]
    pages = f"/overview?{urlencode({'mirror': flow.mirror})}"
    why = MEANING[flow.status] if flow.summary is None else flow.summary.first.reason
    return (
        f'<li class="{tone(flow.status)}"><a href="{escape(pages)}" title="{escape(why)}">'
        f'<strong><span class="mark" aria-hidden="true">{SHAPES[flow.status]}</span> {flow.status.name}</strong>'
        f'<span class="name">{escape(flow.name)} <small>{escape(flow.mirror)}</small></span>'
        f'<span class="rpo">{escape(waits)}</span>{columns_svg(flow.points, now_s)}</a></li>'
    )
