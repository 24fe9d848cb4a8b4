"""Ask of each flow whether one may fail over now, from a poll and from what the appliance serves."""

from __future__ import annotations

from app.inspection import process_status
from metrics.process_status import ProcessStatus
from mirror.lag.failover import FailoverReadiness, facts_of, judged, served_facts
from mirror.lag.flow_summary import FlowSummary
from mirror.lag.snapshot import Snapshot


def answers(snapshot: Snapshot, flows: list[FlowSummary]) -> list[FailoverReadiness]:
    """Return the answers for flows, in their order."""
    try:
        status = process_status()
    except OSError:
        status = None
    return [_answer(snapshot, flow, status) for flow in flows]


def _answer(snapshot: Snapshot, flow: FlowSummary, status: ProcessStatus | None) -> FailoverReadiness:
    own = None if status is None else served_facts(status, flow.name)
    return judged(facts_of(flow.name, snapshot, source=flow.source, target=flow.target, served=own))
