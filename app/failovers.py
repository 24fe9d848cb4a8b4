"""Run the failover check of each flow, from a poll and its process' status."""

from __future__ import annotations

from app.inspection import process_status
from mirror.lag.failover import FailoverReadiness, readiness
from mirror.lag.flow_summary import FlowSummary
from mirror.lag.snapshot import Snapshot


def answers(snapshot: Snapshot, flows: list[FlowSummary]) -> list[FailoverReadiness]:
    """Return the results of the failover check, in the order of the flows."""
    try:
        status = process_status()
    except OSError:
        status = None
    return [readiness(flow.name, snapshot, source=flow.source, target=flow.target, status=status) for flow in flows]
