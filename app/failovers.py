"""Ask of each flow whether one may fail over now, from a poll and from what the appliance serves."""

from __future__ import annotations

from app.inspection import exposition
from mirror.lag.failover import FailOver, facts_of, judged
from mirror.lag.flow_summary import FlowSummary
from mirror.lag.rows import Snapshot
from mirror.lag.served_metrics import served_facts


def answers(snapshot: Snapshot, flows: list[FlowSummary]) -> list[FailOver]:
    """Return the answers for flows, in their order."""
    try:
        text: str | None = exposition()
    except OSError:
        text = None
    return [_answer(snapshot, flow, text) for flow in flows]


def _answer(snapshot: Snapshot, flow: FlowSummary, text: str | None) -> FailOver:
    served = served_facts(text, flow.source, flow.target) if text is not None else None
    return judged(facts_of(flow.name, snapshot, source=flow.source, target=flow.target, served=served))
