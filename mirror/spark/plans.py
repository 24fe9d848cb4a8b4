"""Make the workers' plan from the driver's flows, and write it when it has changed."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from pathlib import Path

from mirror.checkpoints.plan import CheckpointPlan
from mirror.flows.flow import FlowState, led_flows
from mirror.flows.topics import offset_syncs_topic
from mirror.model.flow_plan import FlowPlan


class Plan:
    """All flows with their partitions, the flows with checkpoints, and whether the process stops."""

    def __init__(
        self, flows: tuple[FlowPlan, ...], *, checkpoints: tuple[CheckpointPlan, ...] = (), is_stopping: bool = False
    ) -> None:
        self.flows = flows
        self.checkpoints = checkpoints
        self.is_stopping = is_stopping


def write_plan(path: Path, plan: Plan) -> None:
    """Replace the plan file atomically. It holds client settings, so only its owner may read it."""
    partial = path.with_suffix(".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        pickle.dump(plan, file)
    partial.replace(path)


def read_plan(path: Path) -> Plan:
    """Read the plan that the driver of this process wrote."""
    with path.open("rb") as file:
        plan = pickle.load(file)  # noqa: S301 - our own file, readable by its owner only
    if not isinstance(plan, Plan):
        raise TypeError(f"{path} is not a plan: {json.dumps(str(type(plan)))}")
    return plan


class PlanFile:
    """Caches the plan file for frequent reads: it is read again only after it was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[tuple[int, int], Plan] | None = None

    def current(self) -> Plan:
        """Return the current plan."""
        found = self._path.stat()
        version = found.st_ino, found.st_mtime_ns
        if self._read is None or self._read[0] != version:
            self._read = version, read_plan(self._path)
        return self._read[1]


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
