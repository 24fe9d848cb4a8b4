"""Define the Spark data source `kafka-checkpoints`: a micro-batch is a round, a row a group's partition.

It is a simple stream reader on purpose: that runs in one permanent process, which keeps the offset maps in memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from metrics.reports import CheckpointReport, schema_of
from mirror.checkpoints.flow import FlowCheckpoints
from mirror.checkpoints.plan import CheckpointPlan
from mirror.kafka.errors import KafkaError
from mirror.policy.java_regex import SlowPattern
from mirror.runtime.logs import describe, hang_up_quietly, level_once, log_to_stderr
from mirror.spark.plan_file import read_plan

NAME = "kafka-checkpoints"
WITHIN_S = 45.0

log = logging.getLogger("mirror")


class CheckpointSource(DataSource):
    """Has the option `plan`: a file that the driver keeps up to date."""

    @classmethod
    def name(cls) -> str:
        """Name for `format()`."""
        return NAME

    def schema(self) -> str:
        """Return the columns of a row; there is one per group, topic and partition."""
        return schema_of(CheckpointReport)

    def simpleStreamReader(self, schema: object) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader."""
        return CheckpointReader(self.options)


class CheckpointReader(SimpleDataSourceStreamReader):
    """Each read is a round over the flows that are due. Offsets are `{"round": rounds done}`."""

    def __init__(self, options: dict[str, str]) -> None:
        self._plan = Path(options["plan"])
        self._flows: dict[str, FlowCheckpoints] = {}
        self._due_s: dict[str, float] = {}
        self._logged: set[str] = set()  # flows without checkpoints, already logged
        log_to_stderr()
        hang_up_quietly()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return round 0."""
        return {"round": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[CheckpointReport], dict[str, int]]:
        """Do a round; return its reports."""
        plans = [plan for plan in read_plan(self._plan).checkpoints if self._is_due(plan)]
        if not plans:
            return iter([]), start
        reports = asyncio.run(self._round(plans))
        return iter(reports), {"round": start["round"] + 1}

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[CheckpointReport]:
        """Return nothing: a lost round is not repeated; the next one handles the same offsets."""
        return iter([])

    def _is_due(self, plan: CheckpointPlan) -> bool:
        """Return whether a flow is due, rather a little early than a whole trigger late."""
        now_s, interval_s = time.monotonic(), plan.settings.interval_s
        if now_s < self._due_s.get(plan.flow.name, 0.0):
            return False
        self._due_s[plan.flow.name] = now_s + interval_s * 0.9
        return True

    async def _round(self, plans: list[CheckpointPlan]) -> list[CheckpointReport]:
        found = await asyncio.gather(*(self._flow(plan) for plan in plans))
        return [report for reports in found for report in reports]

    async def _flow(self, plan: CheckpointPlan) -> list[CheckpointReport]:
        """Return a flow's reports, or one report of its failure, so that other flows continue."""
        flow = self._flows.get(plan.flow.name)
        if flow is None:
            flow = self._flows[plan.flow.name] = FlowCheckpoints(plan)
        flow.follow(plan)
        try:
            reports = await asyncio.wait_for(flow.checkpoint(), WITHIN_S)
        except (KafkaError, OSError, TimeoutError, SlowPattern) as error:
            failure = describe(error)
            log.log(level_once(self._logged, plan.flow.name), "%s: no checkpoints: %s", plan.flow.name, failure)
            return [CheckpointReport(plan.flow.source, plan.flow.target, failure=failure)]
        if plan.flow.name in self._logged:
            self._logged.discard(plan.flow.name)
            log.info("%s: checkpoints are written again", plan.flow.name)
        return reports
