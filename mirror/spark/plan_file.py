"""Write the plan file of a process, and read it where windows are planned.

Such a process needs no Kafka client, so this module imports none: one that has loaded the clients takes 20 MiB more.
"""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

from mirror.model.flow_plan import FlowPlan

if TYPE_CHECKING:
    from mirror.checkpoints.plan import CheckpointPlan


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
