"""Commit a window's positions, and its lease in the same write; what they leave out is in the ledger before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, Window
from mirror.model.slot_lease import LeaseState, WindowOutcome
from mirror.model.topic_partition import TopicPartition
from mirror.replication.positions import PendingCommit, PositionCommits


@dataclass(kw_only=True, eq=False, repr=False)
class LeasedCommits:
    """The commits of one window.

    The lease goes with every commit: a reader of positions that a process committed late reads its old lease with them, and
    looks at what the target has.
    """

    plan: FlowPlan  # the flow
    window: Window  # who holds the lease
    own: TopicPartition  # where the lease is kept
    positions: PositionCommits  # those of the window
    pending: Callable[[Target], Awaitable[PendingCommit]]  # returns those that a commit takes along
    outcome: Callable[[], WindowOutcome]  # how the window ends, as far as that is known

    async def claim(self, target: Target) -> None:
        """Commit that the lease is held; raises KafkaError."""
        await self._write(target, await self.pending(target), is_released=False)

    async def commit(self, target: Target) -> None:
        """Commit what was acknowledged since the last commit, if anything was; raises KafkaError."""
        pending = await self.pending(target)
        if pending.offsets:
            await self._write(target, pending, is_released=False)

    async def release(self, target: Target) -> None:
        """Commit the last positions and release the lease; raises KafkaError."""
        await self._write(target, await self.pending(target), is_released=True)

    async def _write(self, target: Target, pending: PendingCommit, *, is_released: bool) -> None:
        window = self.window
        lease = LeaseState(
            window.number,
            window.run_id,
            is_released=is_released,
            outcome=self.outcome(),
            layout=self.plan.layout(window),
        )
        await target.commit(self.plan.group, {**pending.offsets, self.own: lease.encode()})
        self.positions.completed(pending)
