"""Define the Spark data source `kafka-replication`: micro-batches are windows, tasks slots, rows reports."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from metrics.reports import WindowReport, schema_of
from mirror.model.flow_plan import FlowPlan, Window, next_window
from mirror.runtime.logs import hang_up_quietly
from mirror.runtime.state_folder import StateFolder
from mirror.spark.plan_file import PlanFile

NAME = "kafka-replication"
AHEAD_S = 1.0  # how long before its start a window is planned: Spark's planning plus a task's warm-up
LOOKS_S = 0.2  # between two checks whether the process stops, while a window waits to be planned


class SlotPartition(InputPartition):
    """The input of one task: its window and its share of every flow."""

    def __init__(self, window: Window, flows: tuple[FlowPlan, ...]) -> None:
        super().__init__(window.slot)
        self.window = window
        self.flows = flows


class ReplicationSource(DataSource):
    """Has the options `plan` (the driver's file), `lane`, `lanes`, `slots`, `window_ms`, `first`, `run_id`, `gone`."""

    @classmethod
    def name(cls) -> str:
        """Name for `format()`."""
        return NAME

    def schema(self) -> str:
        """Return the columns of a row; there is one per partition and window."""
        return schema_of(WindowReport)

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of one lane."""
        return LaneReader(self.options)


def lane_options(folder: StateFolder, *, plan: Path, lanes: int, slots: int, window_ms: int) -> dict[str, str]:
    """Return the options that all lanes share: those of ReplicationSource without `lane` and `first`."""
    return {
        "plan": str(plan),
        "lanes": str(lanes),
        "slots": str(slots),
        "window_ms": str(window_ms),
        "run_id": str(folder.run_id),
        "gone": " ".join(map(str, sorted(folder.gone))),
    }


class LaneReader(DataSourceStreamReader):
    """Plans the windows of one lane. Offsets are `{"window": next window}`."""

    def __init__(self, options: dict[str, str]) -> None:
        self._plan = PlanFile(Path(options["plan"]))
        self._lanes = int(options["lanes"])
        self._slots = int(options["slots"])
        self._window_ms = int(options["window_ms"])
        self._first = int(options["first"])
        self._run_id = int(options["run_id"])
        self._gone = frozenset(map(int, options["gone"].split()))
        hang_up_quietly()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the lane's first window."""
        return {"window": self._first}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: N802
        """Return the offset after the lane's next due window; return `start` while the process stops."""
        window = next_window(start["window"], time.time() * 1000, window_ms=self._window_ms, lanes=self._lanes)
        return {"window": window + self._lanes} if self._is_due(window) else start

    def _is_due(self, window: int) -> bool:
        """Wait until a window must be planned, with the plan that is current then. Return False on a stop."""
        due_s, parent = window * self._window_ms / 1000 - AHEAD_S, os.getppid()
        while not self._plan.current().is_stopping:
            wait_s = due_s - time.time()
            if wait_s <= 0:
                return True
            if os.getppid() != parent:
                return False  # the JVM is gone, so nothing waits for the result
            time.sleep(min(wait_s, LOOKS_S))
        return False

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[SlotPartition]:
        """Return one task per slot that has partitions."""
        if start == end:
            return []
        number = end["window"] - self._lanes
        plan = self._plan.current()
        tasks = []
        shares = [flow.shares(self._slots) for flow in plan.flows]
        for slot in range(self._slots):
            flows = tuple(share[slot] for share in shares if share[slot].partitions)
            window = Window(
                number=number,
                window_ms=self._window_ms,
                lanes=self._lanes,
                slots=self._slots,
                slot=slot,
                run_id=self._run_id,
                gone=self._gone,
            )
            tasks.append(SlotPartition(window, flows))
        return tasks

    def read(self, partition: SlotPartition) -> Iterator[WindowReport]:
        """Serve the window and yield its reports."""
        from mirror.replication.worker import serve_slot  # imported here: the planner's process needs no Kafka client

        task = TaskContext.get()
        window = replace(partition.window, is_retry=task is not None and task.attemptNumber() > 0)
        yield from serve_slot(window, partition.flows)
