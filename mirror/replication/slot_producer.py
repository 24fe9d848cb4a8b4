"""Open a slot's transactional producer, and end its predecessor's transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from mirror.config.clients import client_options
from mirror.handover.lease import Lease
from mirror.kafka.errors import KafkaError
from mirror.kafka.group_offsets import Offsets
from mirror.kafka.internal_topics import REQUEST_BYTES
from mirror.kafka.producer import DECIDES_S
from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, Window
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.clock import now_ms

log = logging.getLogger("mirror")

Claim = Callable[[Target], Awaitable[None]]


class SlotProducer:
    """Writes a transactional id into the lease before its first use: successors fence it.

    Attributes:
        spare: Number of the transactional id: 0 for the regular id, else the number of a spare one.
    """

    def __init__(self, plan: FlowPlan, window: Window, lease: Lease, claim: Claim) -> None:
        """`claim` commits the lease with `spare`, the number of the spare id."""
        self._plan = plan
        self._window = window
        self._lease = lease
        self._claim = claim
        self.spare = 0

    async def claim(self, target: Target) -> None:
        """Claim the lease for the transactional id with which the predecessor wrote; raises KafkaError."""
        self.spare = self._lease.predecessor.outcome.spare
        await self._claim(target)

    @property
    def has_transactional_predecessor(self) -> bool:
        """True if the predecessor wrote in transactions."""
        return self._lease.predecessor.outcome.is_transactional

    async def fence_predecessor(self, target: Target, found: Offsets, places: Iterable[TopicPartition]) -> Offsets:
        """Open the slot's producer, which ends the predecessor's transaction; then return the positions.

        Args:
            target: The target.
            found: The offsets of `Lease.looks_at`, read after `claim`.
            places: Partitions whose offsets are returned, with those of `Lease.looks_at`. A successor that claimed the lease may
                write with another transactional id, which was not fenced.

        Raises:
            KafkaError: the target refuses.
        """
        await self._await_decision(target, found)
        await target.fence(self.spare, lambda spare: self.write_by(target, spare))
        return await self._positions(target, places)

    async def end_predecessor(self, target: Target, found: Offsets, places: Iterable[TopicPartition]) -> Offsets:
        """End the predecessor's open transaction, for a window that writes without transactions.

        Otherwise records and positions would appear, or vanish, later: when the transaction times out, or when a suspended
        process wakes up.

        Raises:
            KafkaError: the target refuses, or a partition currently accepts no marker.
        """
        await self._await_decision(target, found)
        await self._end_transaction(self._window.slot, self.spare)
        return await self._positions(target, places)

    async def _await_decision(self, target: Target, found: Offsets) -> None:
        if self.spare != (spare := self._lease.newest_spare(found)):
            self.spare = spare
            await self._claim(target)
        decided_at_ms = self._lease.predecessor.outcome.decided_at_ms
        await asyncio.sleep(max(0.0, min(DECIDES_S, (decided_at_ms - now_ms()) / 1000)))
        await self._end_others()

    async def _positions(self, target: Target, places: Iterable[TopicPartition]) -> Offsets:
        return await target.committed(self._plan.group, [*places, *self._lease.looks_at], is_stable=True)

    async def _end_others(self) -> None:
        """End the transactions of slots of another layout: this slot may now own their partitions."""
        outcomes = {(slot, lease.outcome.spare) for slot, lease in self._lease.others if lease.outcome.is_transactional}
        for slot, spare in sorted(outcomes):
            await self._end_transaction(slot, spare)

    async def _end_transaction(self, slot: int, spare: int) -> None:
        options, name = client_options(self._plan.producer), self._plan.transactional_id(slot)
        fences = Target(options, request_bytes=REQUEST_BYTES, transactional_id=name)
        try:
            await fences.open(())
            await fences.fence(spare)
        finally:
            await fences.close()
        log.info("%s: slot %d: its last transaction is ended", self._plan.name, slot)

    async def write_by(self, target: Target, spare: int) -> None:
        """Record a spare id in the lease, before the first transaction with that id.

        Raises:
            KafkaError: the target refuses, or a successor has claimed the lease: a process that was suspended must not overwrite
                the claim.
        """
        found = await target.committed(self._plan.group, self._lease.looks_at)
        if not self._lease.status(found).may_write:
            raise KafkaError("another window or process has the slot")
        self.spare = spare
        self._lease.is_claimed_again = True
        await self._claim(target)
        log.warning(
            "%s: slot %d: a transaction does not end, one of its partitions accepts no writes; using another transactional id",
            self._plan.name,
            self._window.slot,
        )
