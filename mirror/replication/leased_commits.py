"""Commit a window's positions, and its lease in the same write; what they leave out is in the ledger before."""

from __future__ import annotations

from collections.abc import Callable

from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, Window
from mirror.model.slot_lease import LeaseState, WindowOutcome
from mirror.model.topic_partition import TopicPartition
from mirror.replication.ledger import Ledger
from mirror.replication.positions import PendingCommit, PositionCommits


class LeasedCommits:
    """The commits of one window.

    The lease goes with every commit: a reader of positions that a process committed late reads its old lease with them, and
    looks at what the target has.
    """

    def __init__(
        self,
        plan: FlowPlan,
        window: Window,
        own: TopicPartition,
        positions: PositionCommits,
        ledger: Ledger,
        outcome: Callable[[], WindowOutcome],
    ) -> None:
        """Take what is committed.

        Args:
            plan: The flow.
            window: Who holds the lease.
            own: Where the lease is kept.
            positions: Those of the window; transactions commit their own.
            ledger: Takes the gaps before; transactions write their own.
            outcome: How the window ends, as far as that is known.
        """
        self._plan = plan
        self._window = window
        self._own = own
        self._positions = positions
        self._ledger = ledger
        self._outcome = outcome

    async def claim(self, target: Target) -> None:
        """Commit that the lease is held; raises KafkaError."""
        await self._write(target, await self._pending(target), is_released=False)

    async def commit(self, target: Target) -> None:
        """Commit what was acknowledged since the last commit, if anything was; raises KafkaError."""
        pending = await self._pending(target)
        if pending.offsets:
            await self._write(target, pending, is_released=False)

    async def release(self, target: Target) -> None:
        """Commit the last positions and release the lease; raises KafkaError."""
        await self._write(target, await self._pending(target), is_released=True)

    async def _write(self, target: Target, pending: PendingCommit, *, is_released: bool) -> None:
        window = self._window
        lease = LeaseState(
            window.number,
            window.run_id,
            is_released=is_released,
            outcome=self._outcome(),
            layout=self._plan.layout(window),
        )
        await target.commit(self._plan.group, {**pending.offsets, self._own: lease.encode()})
        self._positions.completed(pending)

    async def _pending(self, target: Target) -> PendingCommit:
        if self._plan.is_exactly_once:
            return PendingCommit({}, [])
        self._ledger.told(await self._ledger.write(target))
        return self._positions.pending(target)
