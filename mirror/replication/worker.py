"""Serve one slot's window of every flow inside a worker process, and report."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Iterator

import uvloop

from metrics.reports import SlotReport, WindowReport
from mirror.model.flow_plan import FlowPlan, Window
from mirror.replication.partition import Partition
from mirror.replication.window import MINUTE_MS, Served, serve
from mirror.replication.worker_state import WorkerState
from mirror.runtime.logs import log_to_stderr


class Worker:
    """Serves the windows of one worker process, with the state that it keeps between them.

    Attributes:
        loop: Runs all windows of the process.
        state: The state that is kept between windows.
        has_told: Flows and slots for which this process has reported all partitions.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.state = WorkerState()
        self.has_told: set[tuple[str, int]] = set()

    def serve(self, window: Window, flows: tuple[FlowPlan, ...]) -> Iterator[WindowReport]:
        """Yield reports when the window is over. Idle partitions are reported only occasionally."""
        started = time.time()
        served = self.loop.run_until_complete(_serve_all(window, flows, self.state))
        duration_ms = (time.time() - max(started, window.start_ms / 1000)) * 1000
        for flow, done in zip(flows, served, strict=True):
            of_slot = done.slot
            tells_all = window.is_first_of(MINUTE_MS) or (flow.name, window.slot) not in self.has_told
            self.has_told.add((flow.name, window.slot))
            for partition in done.partitions:
                if of_slot is not None or tells_all or not partition.is_idle:
                    yield _report(flow, window, partition, duration_ms, of_slot)
                of_slot = None  # the flow's first row has them


_workers: dict[int, Worker] = {}  # by process: never shared across a fork


def serve_slot(window: Window, flows: tuple[FlowPlan, ...]) -> Iterator[WindowReport]:
    """Yield the reports of this process' worker when the window is over."""
    worker = _workers.get(os.getpid())
    if worker is None:
        log_to_stderr()
        gc.collect()
        gc.freeze()  # loaded objects stay: the collector need not scan them after each task
        worker = _workers[os.getpid()] = Worker(uvloop.new_event_loop())
    yield from worker.serve(window, flows)


async def _serve_all(window: Window, flows: tuple[FlowPlan, ...], state: WorkerState) -> list[Served]:
    """Serve every flow of the slot concurrently: a dead cluster delays its own flows only."""
    return await asyncio.gather(*(serve(flow, window, state) for flow in flows))


def _report(
    flow: FlowPlan,
    window: Window,
    partition: Partition,
    duration_ms: float,
    of_slot: SlotReport | None,
) -> WindowReport:
    """Return the row of one partition; called once a window, not per record."""
    assigned, tally = partition.assigned, partition.tally
    return WindowReport(
        source=flow.source,
        target=flow.target,
        topic=assigned.remote_topic,
        source_topic=assigned.topic,
        partition=assigned.partition,
        window_id=window.number,
        slot=window.slot,
        duration_ms=duration_ms,
        records=tally.records,
        bytes=tally.bytes,
        last_timestamp_ms=tally.last_timestamp_ms,
        age=tally.age.measured(),
        latency=tally.latency.measured(),
        lost=tally.lost,
        rewinds=tally.rewinds,
        reason=partition.pause.reason,
        error_kind=partition.pause.error.value,
        is_paused_by_operator=partition.pause.is_by_operator,
        is_topic_in_question=partition.pause.is_topic_in_question,
        are_offsets_identical=None if partition.remote_log is None else partition.remote_log.is_identical,
        of_slot=of_slot,
    )
