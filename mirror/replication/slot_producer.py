"""End the transactions of a slot's predecessor, and open its transactional producer, by the id that the slot's lease names."""

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
    """Names a transactional id in the lease before it is used: a successor fences the id that the lease names.

    Attributes:
        spare: Number of the transactional id: 0, or that of a spare one.
    """

    def __init__(self, plan: FlowPlan, window: Window, lease: Lease, claim: Claim) -> None:
        """Take what names the id; `claim` commits the lease with `spare` in it."""
        self._plan = plan
        self._window = window
        self._lease = lease
        self._claim = claim
        self.spare = 0

    async def claim(self, target: Target) -> None:
        """Claim the lease for the transactional id that the predecessor wrote by; raises KafkaError."""
        self.spare = self._lease.predecessor.outcome.spare
        await self._claim(target)

    async def open(self, target: Target, found: Offsets, places: Iterable[TopicPartition]) -> Offsets:
        """Fence the predecessor, which ends its open transaction, then read positions, which that may have moved.

        In the default mode that is done where the predecessor wrote in transactions: its records and positions would come, or go,
        later, when the broker's time-out ends the transaction or a process that slept wakes up.

        Args:
            target: The target.
            found: The offsets of `places` and `Lease.looks_at`, read after `claim`; in exactly once those of the latter.
            places: Whose offsets to return, with those of `Lease.looks_at`. A successor that claimed the lease may write by
                another transactional id, which was not fenced.

        Raises:
            KafkaError: the cluster refuses; in the default mode also where a topic-partition takes no marker at the moment.
        """
        predecessor = self._lease.predecessor.outcome
        if not (self._plan.is_exactly_once or predecessor.is_transactional):
            return found
        if self.spare != (spare := self._lease.newest_spare(found)):
            self.spare = spare
            await self._claim(target)
        await asyncio.sleep(max(0.0, min(DECIDES_S, (predecessor.decided_at_ms - now_ms()) / 1000)))
        await self._end_others()
        if self._plan.is_exactly_once:
            await target.fence(self.spare, lambda spare: self.write_by(target, spare))
        else:
            await self._end_transaction(self._window.slot, self.spare)
        return await target.committed(self._plan.group, [*places, *self._lease.looks_at], is_stable=True)

    async def _end_others(self) -> None:
        """End the transactions of slots of another layout: their partitions may belong to this slot now."""
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
        """Name a spare id in the lease, before the first transaction is written by it.

        Raises:
            KafkaError: the cluster refuses, or a successor has claimed the lease: a process that slept must not cover that claim.
        """
        found = await target.committed(self._plan.group, self._lease.looks_at)
        if not self._lease.standing(found).may_write:
            raise KafkaError("another window or process has the slot")
        self.spare = spare
        self._lease.is_claimed_again = True
        await self._claim(target)
        log.warning(
            "%s: slot %d: a transaction does not end: one of its topic-partitions takes no writes; going on beside it",
            self._plan.name,
            self._window.slot,
        )
