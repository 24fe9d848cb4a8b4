"""Inside a worker process: serve one slot's window of every flow, and report."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Iterator

import uvloop

from mirror.model.flow_plan import FlowPlan, Window
from mirror.replication.partition import Partition
from mirror.replication.window import Served, serve
from mirror.runtime.logs import log_to_stderr

_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process: never shared across a fork


def serve_slot(window: Window, flows: tuple[FlowPlan, ...]) -> Iterator[tuple[object, ...]]:
    """Yield one report (mirror.model.reports.SCHEMA) per topic-partition when the window is over."""
    loop = _loops.get(os.getpid())
    if loop is None:
        log_to_stderr()
        gc.collect()
        gc.freeze()  # what is loaded stays: the collector after each task need not look at it
        loop = _loops[os.getpid()] = uvloop.new_event_loop()
    started = time.time()
    served = loop.run_until_complete(_serve_all(window, flows))
    duration_ms = (time.time() - max(started, window.start_ms / 1000)) * 1000
    for flow, done in zip(flows, served, strict=True):
        lease: tuple[float | None, int] = (done.lease_wait_ms, done.takeovers)
        for partition in done.partitions:
            yield (*_row(flow, window, partition, duration_ms), *lease)
            lease = (None, 0)


async def _serve_all(window: Window, flows: tuple[FlowPlan, ...]) -> list[Served]:
    """Serve every flow of the slot beside the others: a dead cluster holds up its own flows only."""
    return await asyncio.gather(*(serve(flow, window) for flow in flows))


def _row(flow: FlowPlan, window: Window, partition: Partition, duration_ms: float) -> tuple[object, ...]:
    assigned, tally = partition.assigned, partition.tally
    return (
        flow.source,
        flow.target,
        assigned.remote_topic,
        assigned.topic,
        assigned.partition,
        window.number,
        window.slot,
        duration_ms,
        tally.records,
        tally.bytes,
        partition.acked,
        tally.last_timestamp_ms,
        *tally.age.columns(),
        *tally.latency.columns(),
        tally.lost,
        tally.rewinds,
        partition.reason,
    )
