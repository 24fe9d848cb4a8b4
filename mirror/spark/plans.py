"""Make the plan that workers read from the flows as the driver sees them, and write it when it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mirror.checkpoints.plan import CheckpointPlan
from mirror.flows.flow import FlowState, led
from mirror.flows.topics import offset_syncs_topic
from mirror.spark.plan_file import Plan, write_plan


class Plans:
    """The plan file of an appliance."""

    def __init__(self, path: Path, flows: Sequence[FlowState]) -> None:
        self.path = path
        self._flows = flows
        self._led: set[tuple[str, str]] = set()  # flows whose checkpoints the file asks for

    def write(self, *, is_stopping: bool = False) -> None:
        """Write what is to be replicated now; a plan that is stopping ends every window."""
        self._led = led(self._flows)
        plans = tuple(state.plan for state in self._flows if state.plan is not None)
        checkpoints = tuple(self._of_groups(state) for state in self._flows if state.follows_groups and state.leads)
        write_plan(self.path, Plan(plans, checkpoints=checkpoints, is_stopping=is_stopping))

    def follow_leads(self) -> None:
        """Write it again where this process leads other flows than it did."""
        if led(self._flows) != self._led:
            self.write()

    def _of_groups(self, state: FlowState) -> CheckpointPlan:
        flow, plan = state.flow, state.plan
        assert plan is not None
        back = [s.plan for s in self._flows if s.plan is not None and s.name == state.name[::-1]]
        if not back and plan.is_bidirectional:
            back = [plan.back()]  # another process runs it, by a file of its own
        return CheckpointPlan(
            flow=plan,
            back=next(iter(back), None),
            settings=flow.checkpoints,
            checkpoints_topic=flow.policy.checkpoints_topic(flow.source.alias),
            offset_syncs_topic=offset_syncs_topic(flow),
            source_client=dict(flow.source_admin),
            target_client=dict(flow.target_admin),
            offset_syncs_client=dict(flow.offset_syncs_producer),
        )
