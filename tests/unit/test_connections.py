"""A worker's clients, as it serves one slot of a flow after the other."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

from mirror.model.flow_plan import FlowPlan, Window
from mirror.replication.connections import ConnectionRegistry

CLIENT = {"bootstrap.servers": "127.0.0.1:1"}
PLAN = FlowPlan(source="a", target="b", tasks_max=2, consumer=CLIENT, producer=CLIENT, partitions=())
EXACTLY_ONCE = replace(PLAN, transaction_ms=100)


def window(slot: int) -> Window:
    return Window(number=1, window_ms=2000, lanes=2, slots=1, slot=slot, run_id=1)


@asynccontextmanager
async def worker():
    registry = ConnectionRegistry()
    try:
        yield registry
    finally:
        await registry.forget(PLAN.name)


def test_a_slot_is_never_written_to_by_the_transactional_id_of_another():
    """As where a worker waited for a slot that it did not get, and serves another one next."""

    async def clients() -> None:
        async with worker() as registry:
            first = (await registry.connect(EXACTLY_ONCE, window(0))).target
            assert (await registry.connect(EXACTLY_ONCE, window(0))).target is first, "kept from window to window"
            connections = await registry.connect(EXACTLY_ONCE, window(1))
            assert connections.target is not first
            assert first.is_closed, "nobody else closes it"
            assert connections.transactional_id == EXACTLY_ONCE.transactional_id(1)
            assert (await registry.connect(EXACTLY_ONCE, window(0))).transactional_id == EXACTLY_ONCE.transactional_id(
                0
            )

    asyncio.run(clients())


def test_a_target_without_transactions_serves_every_slot():
    async def clients() -> None:
        async with worker() as registry:
            first = (await registry.connect(PLAN, window(0))).target
            assert (await registry.connect(PLAN, window(1))).target is first

    asyncio.run(clients())


def test_a_target_that_was_closed_is_replaced():
    async def clients() -> None:
        async with worker() as registry:
            connections = await registry.connect(EXACTLY_ONCE, window(0))
            first = connections.target
            await first.close()
            assert (await registry.connect(EXACTLY_ONCE, window(0))) is connections
            assert connections.target is not first

    asyncio.run(clients())
