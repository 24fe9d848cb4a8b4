"""Hand the plan of all flows from the driver to the workers, as a file."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

from mirror.checkpoints.plan import CheckpointPlan
from mirror.model.flow_plan import FlowPlan


class Plan:
    """All flows with their topic-partitions, those whose groups are followed, and whether the appliance is stopping."""

    def __init__(
        self, flows: tuple[FlowPlan, ...], *, checkpoints: tuple[CheckpointPlan, ...] = (), is_stopping: bool = False
    ) -> None:
        self.flows = flows
        self.checkpoints = checkpoints
        self.is_stopping = is_stopping


def write_plan(path: Path, plan: Plan) -> None:
    """Replace the plan file at once; it holds client settings, so only its owner may read it."""
    partial = path.with_suffix(".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        pickle.dump(plan, file)
    partial.replace(path)


def read_plan(path: Path) -> Plan:
    """Read the plan that the driver of this very appliance wrote."""
    with path.open("rb") as file:
        plan = pickle.load(file)  # noqa: S301 - our own file, readable by its owner only
    if not isinstance(plan, Plan):
        raise TypeError(f"{path} is no plan but {json.dumps(str(type(plan)))}")
    return plan


class PlanFile:
    """The plan file as somebody sees it who looks often: it is read again only when it was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[tuple[int, int], Plan] | None = None

    def current(self) -> Plan:
        """Return the plan of now."""
        found = self._path.stat()
        version = found.st_ino, found.st_mtime_ns
        if self._read is None or self._read[0] != version:
            self._read = version, read_plan(self._path)
        return self._read[1]
