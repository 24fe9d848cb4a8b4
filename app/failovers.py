"""Ask of each flow whether one may fail over now, from a poll and from what the appliance serves."""

from __future__ import annotations

from collections.abc import Mapping

from app.inspection import exposition
from mirror.lag.failover import FailOver, ServedFacts, facts_of, judged
from mirror.lag.flow_summary import FlowSummary
from mirror.lag.rows import Snapshot
from mirror.lag.served_metrics import NOTHING, served_by_flow


def answers(snapshot: Snapshot, flows: list[FlowSummary]) -> list[FailOver]:
    """Return the answers for flows, in their order."""
    try:
        served = served_by_flow(exposition())
    except OSError:
        served = None
    return [_answer(snapshot, flow, served) for flow in flows]


def _answer(snapshot: Snapshot, flow: FlowSummary, served: Mapping[tuple[str, str], ServedFacts] | None) -> FailOver:
    own = None if served is None else served.get((flow.source, flow.target), NOTHING)
    return judged(facts_of(flow.name, snapshot, source=flow.source, target=flow.target, served=own))
