"""Clients of a flow in a worker process, kept open from window to window."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, NamedTuple

from mirror.config.clients import client_options, produce_options
from mirror.handover.lease import NETWORK
from mirror.kafka.fetcher import Source
from mirror.kafka.remote_logs import RemoteLogs
from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, Window
from mirror.model.slot_lease import GRACE_S
from mirror.model.topic_partition import TopicPartition
from mirror.replication.producer_registry import BidirectionalState, ProducerRegistry


class Throttled(NamedTuple):
    """Seconds for which quotas of the source's and the target's brokers throttled clients."""

    source: float
    target: float

    def since(self, before: Throttled) -> Throttled:
        """Return the increase since an earlier reading."""
        return Throttled(self.source - before.source, self.target - before.target)


@dataclass(slots=True)
class Connections:
    """The clients of one flow, and data that the next window of the process needs."""

    source: Source
    target: Target
    transactional_id: str | None  # with which the target writes
    both_ways: BidirectionalState | None = None  # None: the flow is not bidirectional
    remote_logs: RemoteLogs | None = None  # of partitions with identical offsets
    # partitions of the source that had data at the end of the last window of this process
    busy: frozenset[TopicPartition] = frozenset()
    is_dirty: bool = False  # a batch was left unacknowledged: the producer must be closed

    @property
    def written_back(self) -> ProducerRegistry | None:
        """The registry that shows which records on the source the reverse flow wrote; None: there is no reverse flow."""
        return None if self.both_ways is None else self.both_ways.written_back

    @property
    def is_connecting(self) -> bool:
        """True while a connection to either cluster is being opened."""
        return self.source.is_connecting or self.target.is_connecting

    @property
    def throttled_s(self) -> Throttled:
        """Time for which brokers have throttled these clients."""
        return Throttled(self.source.throttled_s, self.target.throttled_s)

    async def logs_of(self, plan: FlowPlan, window: Window) -> RemoteLogs:
        """Return the client for the logs of partitions with identical offsets."""
        name, logs = plan.filler_id(window.slot), self.remote_logs
        if logs is None or logs.is_closed or logs.name != name:
            if logs is not None:
                await _close(logs, within_s=GRACE_S)
            logs = self.remote_logs = RemoteLogs(client_options(plan.producer), name)
        return logs

    def abort(self) -> None:
        """Stop sending to the target at once."""
        self.target.abort()
        if self.remote_logs is not None:
            self.remote_logs.abort()

    async def close(self) -> None:
        """Close all clients within a bounded time."""
        for client in (self.target, self.remote_logs, self.source):
            if client is not None:
                await _close(client, within_s=2 * GRACE_S)

    async def renew_source(self, plan: FlowPlan) -> None:
        """Replace the connections to the source."""
        await _close(self.source, within_s=GRACE_S)
        self.source = Source(client_options(plan.consumer))


class ConnectionRegistry:
    """The clients of each flow in one worker process."""

    def __init__(self) -> None:
        self._by_flow: dict[str, Connections] = {}

    def find(self, name: str) -> Connections | None:
        """Return a flow's clients, None if it has none."""
        return self._by_flow.get(name)

    async def connect(self, plan: FlowPlan, window: Window) -> Connections:
        """Return a flow's clients; connect clients that are missing or belong to another slot.

        Each slot writes with its own transactional id. The id of another slot would not fence this slot's earlier writers, but
        would fence the current window of that slot.
        """
        name = plan.producer_id(window.slot)
        connections = self._by_flow.get(plan.name)
        if connections is None:
            both_ways = BidirectionalState(plan) if plan.is_bidirectional else None
            source, target = Source(client_options(plan.consumer)), _target(plan, name, both_ways)
            connections = self._by_flow[plan.name] = Connections(source, target, name, both_ways)
        elif connections.target.is_closed or connections.transactional_id != name:
            await _close(connections.target, within_s=GRACE_S)
            connections.target, connections.transactional_id = _target(plan, name, connections.both_ways), name
        return connections

    async def forget_unless_connecting(self, name: str) -> None:
        """Do the same as `forget`, unless a connection is being opened: a slow login must not begin again and again."""
        connections = self.find(name)
        if connections is not None and not connections.is_connecting:
            await self.forget(name)

    async def forget(self, name: str) -> None:
        """Close a flow's clients within a bounded time; the next window opens new ones."""
        connections = self._by_flow.pop(name, None)
        if connections is not None:
            await connections.close()


def _target(plan: FlowPlan, transactional_id: str | None, both_ways: BidirectionalState | None) -> Target:
    produce = produce_options(plan.producer)
    return Target(
        client_options(plan.producer),
        request_bytes=produce.max_request_size,
        transactional_id=transactional_id,
        transaction_timeout_ms=produce.transaction_timeout_ms,
        announced=None if both_ways is None else both_ways.registration.announced,
    )


async def _close(client: Source | Target | RemoteLogs, *, within_s: float) -> None:
    async def closed() -> None:
        with contextlib.suppress(*NETWORK):
            await client.close()

    await ended(asyncio.create_task(closed()), within_s=within_s)


async def ended(task: asyncio.Task[Any], *, within_s: float) -> bool:
    """Wait for a task within a time limit, even if the task swallows its cancellation.

    asyncio.timeout would wait for such a task. Return whether the task has ended.
    """
    await asyncio.wait({task}, timeout=within_s)
    return task.done()
