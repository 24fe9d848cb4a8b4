"""Make the workers' plan from the driver's flows, and write it when it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mirror.checkpoints.plan import CheckpointPlan
from mirror.flows.flow import FlowState, led_flows
from mirror.flows.topics import offset_syncs_topic
from mirror.spark.plan_file import Plan, write_plan


class Plans:
    """The plan file of a process."""

    def __init__(self, path: Path, flows: Sequence[FlowState]) -> None:
        self.path = path
        self._flows = flows
        self._led: set[tuple[str, str]] = set()  # flows whose checkpoints are in the written plan

    def write(self, *, is_stopping: bool = False) -> None:
        """Write the current plan; a stopping plan ends every window."""
        self._led = led_flows(self._flows)
        plans = tuple(state.plan for state in self._flows if state.plan is not None)
        checkpoints = tuple(self._of_groups(state) for state in self._flows if state.follows_groups and state.leads)
        write_plan(self.path, Plan(plans, checkpoints=checkpoints, is_stopping=is_stopping))

    def follow_leads(self) -> None:
        """Write the plan again if this process leads other flows than before."""
        if led_flows(self._flows) != self._led:
            self.write()

    def _of_groups(self, state: FlowState) -> CheckpointPlan:
        flow, plan = state.flow, state.plan
        assert plan is not None
        back = [s.plan for s in self._flows if s.plan is not None and s.name == state.name[::-1]]
        if not back and plan.is_bidirectional:
            back = [plan.back()]  # another process with other settings runs the reverse flow
        return CheckpointPlan(
            flow=plan,
            back=next(iter(back), None),
            settings=flow.checkpoints,
            checkpoints_topic=flow.policy.checkpoints_topic(flow.source.alias),
            offset_syncs_topic=offset_syncs_topic(flow),
            source_client=flow.source_admin,
            target_client=flow.target_admin,
            offset_syncs_client=flow.offset_syncs_producer,
        )
