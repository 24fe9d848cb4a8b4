"""Run the failover check of each flow, from a poll and its process' status."""

from __future__ import annotations

from app.inspection import process_status, settings
from mirror.lag.failover import RPO_S, FailoverReadiness, readiness
from mirror.lag.flow_summary import FlowSummary
from mirror.lag.snapshot import Snapshot


def answers(snapshot: Snapshot, flows: list[FlowSummary]) -> list[FailoverReadiness]:
    """Return the results of the failover check, in the order of the flows."""
    try:
        status = process_status()
    except OSError:
        status = None
    objectives = {flow.name: float(flow.rpo_objective_s) for flow in settings().flows}
    return [
        readiness(
            flow.name,
            snapshot,
            source=flow.source,
            target=flow.target,
            status=status,
            objective_s=objectives.get(flow.name, RPO_S),
        )
        for flow in flows
    ]
