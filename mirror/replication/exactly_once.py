"""Exactly once: batches and their positions are written in transactions, and count when committed.

A transaction is committed as soon as nothing more waits to be sent, or after its maximum duration. Opening the slot's
transactional producer fences every earlier producer, so the broker refuses later writes of a window that seems dead. There is
one exception: if the last transaction of a producer does not end, its successor uses a spare transactional id.
A spare id does not fence that producer. Therefore a window reads its lease before each commit:

    this window:   begin a transaction, read the lease, commit the transaction
    a successor:   claim the lease, open the producer, read the positions

If this window does not see the claim, the successor opens the producer after the transaction began. Then the coordinator aborts
the transaction, or has committed it before the successor reads the positions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from mirror.handover.lease import Lease, LeaseTerm
from mirror.kafka.errors import BrokerError, KafkaError
from mirror.kafka.group_offsets import Offsets
from mirror.kafka.producer import DECIDES_S, NotAppendedError, UncertainError, WithdrawnError
from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, Window
from mirror.model.slot_lease import GRACE_S
from mirror.model.topic_partition import TopicPartition
from mirror.replication.delivery import Acknowledged, Sender, hold_back
from mirror.replication.ledger import Ledger
from mirror.replication.partition import Partition
from mirror.replication.pauses import Pauses
from mirror.replication.positions import LeasedCommits, PendingCommit, PositionCommits
from mirror.replication.read_ahead import ReadAhead
from mirror.replication.slot_producer import SlotProducer
from mirror.runtime.clock import now_ms

log = logging.getLogger("mirror")

# Nothing is sent while a transaction is committed. With a backlog records are late anyway, so transactions may last longer.
BACKLOG_BYTES = 1 << 20
BACKLOG_LASTS = 5  # times as long as without a backlog

# After its response to a commit, a broker needs some ms to write the markers, and makes producers retry meanwhile.
# A short pause costs less than those retries, and fewer transactions leave the brokers more time for each.
REST_S = 0.01
LOOKS_AGAIN_S = 0.05


@dataclass(kw_only=True, eq=False, repr=False)
class ExactlyOnce:
    """Exactly-once delivery: records and positions count only if one transaction committed both.

    A: Nothing is sent while a transaction ends.
    B: A position is committed by the transaction that contains the last batch before it.
    C: If a transaction is aborted, every partition returns to its position in the last committed transaction.
    """

    plan: FlowPlan
    window: Window
    partitions: Sequence[Partition]  # those of the window
    positions: PositionCommits  # of these partitions
    ledger: Ledger  # receives the gaps, in the transaction that commits the positions after them
    lease: Lease  # shows whether another window has the slot
    lease_term: LeaseTerm | None = None
    is_transactional = True

    def __post_init__(self) -> None:
        self._is_ending = False  # the transaction accepts no more batches
        self._must_abort = False
        self._is_stopping = False
        self._waiting: dict[Partition, None] = {}  # partitions that may have something to send, in order
        self._has_sent = asyncio.Event()  # the transaction has a batch, or must end
        self._uncommitted: list[Acknowledged] = []
        self._committed: dict[Partition, int] = {}

    async def open(
        self, producer: SlotProducer, target: Target, found: Offsets, places: Sequence[TopicPartition]
    ) -> Offsets:
        """Open the slot's transactional producer, which fences the predecessor's; then read the positions."""
        return await producer.fence_predecessor(target, found, places)

    async def pending(self, target: Target) -> PendingCommit:
        """Return nothing: transactions commit the positions."""
        return PendingCommit({}, [])

    async def commit(self, target: Target, leased: LeasedCommits) -> None:
        """Do nothing: transactions commit the positions."""

    def begin(self, sender: Sender, read_ahead: ReadAhead, pauses: Pauses, stop: asyncio.Event) -> None:
        """Begin the first transaction; set `stop` when the producer can no longer be used."""
        self._sender, self._read_ahead, self._pauses, self._target = sender, read_ahead, pauses, sender.target
        for partition in self.partitions:
            if not partition.outcome_unknown_until_ms:  # else the numbers show that its last batch is in no transaction
                partition.number(None)  # of the default mode, whose sequence numbers end here
        self._committed = {partition: partition.acked for partition in self.partitions}
        self._target.begin_transaction()
        self._ends = asyncio.get_running_loop().create_task(self._end_in_time(stop))

    def stop(self) -> None:
        """Begin no further transaction."""
        self._is_stopping = True
        self._has_sent.set()

    async def drained(self, within_s: float) -> bool:
        """Commit all sent batches; return False on a timeout or an error.

        After False, the slot's next producer aborts the transaction.
        """
        is_committed = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._ends
                is_committed = await self._end_transaction()
        if not is_committed:
            self._take_back()
        return is_committed

    def admit(self, partition: Partition) -> bool:
        """Allow the batch if the transaction still accepts batches."""
        if self._is_ending or self._must_abort:
            self._waiting[partition] = None
            return False
        return True

    def sent(self) -> None:
        """Schedule the end of the transaction."""
        self._has_sent.set()

    def acknowledged(self, batch: Acknowledged) -> None:
        """Keep the batch until the commit."""
        self._uncommitted.append(batch)

    def uncertain(self, partition: Partition, error: UncertainError) -> bool:
        """Abort the transaction, and leave the partition to a window that determines the outcome."""
        self._pauses.standstill(partition, error)
        # Otherwise the next attempt would cost another transaction at once.
        hold_back(partition)
        self._abort_soon()
        return True

    def unexpected_offset(self) -> bool:
        """Abort the transaction: `read_committed` consumers must not see the batch at that offset."""
        self._abort_soon()
        return True

    def has_settled(self, partition: Partition) -> bool:
        """Return whether no batch of the partition is queued, in flight or uncommitted."""
        return partition.has_arrived_whole and all(one.partition is not partition for one in self._uncommitted)

    def abandon(self) -> int:
        """Leave the transaction to the successor, which aborts it by opening the slot's producer.

        If batches are in flight, the successor waits until the target has detected which of its brokers are alive.
        """
        log.warning(
            "%s: slot %d: the last transaction is aborted: the target has not responded",
            self.plan.name,
            self.window.slot,
        )
        is_unknown = any(p.in_flight for p in self.partitions)
        return int(now_ms() + (DECIDES_S - GRACE_S) * 1000) if is_unknown else 0

    async def finish(self, target: Target, *, is_last: bool) -> None:
        """Do nothing: transactions write the offset map."""

    async def leave(self, target: Target) -> None:
        """Close the producer: the other lane fences it next, and this lane's next window opens another."""
        await target.close()

    def placed(self, partition: Partition) -> None:
        """Record the position to which an aborted transaction returns."""
        self._committed[partition] = partition.acked

    async def _end_in_time(self, stop: asyncio.Event) -> None:
        while True:
            await self._has_sent.wait()
            await self._until_due()
            if self._is_stopping:
                return
            if not await self._end_transaction():
                stop.set()
                return
            await asyncio.sleep(REST_S)
            self._begin_next()

    async def _until_due(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while self._sender.in_flight and not self._is_stopping and not self._must_abort:
            has_backlog = self._sender.held_bytes > BACKLOG_BYTES
            left_s = began_s + self.plan.transaction_ms / 1000 * (BACKLOG_LASTS if has_backlog else 1) - loop.time()
            if left_s <= 0:
                return
            await self._sender.is_quiet(min(left_s, self.plan.transaction_ms / 1000))

    def _begin_next(self) -> None:
        """Begin the next transaction with the batches that arrived meanwhile."""
        self._target.begin_transaction()
        self._is_ending = False
        waiting, self._waiting = self._waiting, {}
        for partition in waiting:
            self._sender.send_next(partition)

    async def _end_transaction(self) -> bool:
        """Commit the transaction, or abort it. Return False if the producer is unusable."""
        self._is_ending = True
        self._has_sent.clear()  # before the wait: an event at the window's end may come meanwhile
        while self._sender.in_flight:
            await self._sender.is_quiet()
        if self._sender.needs_new_producer:
            return False
        try:
            if self._must_abort:
                await self._abort()
            else:
                await self._commit()
        except KafkaError as error:
            self._sender.needs_new_producer = True
            log.warning("%s: a transaction failed, and none of its records counts: %s", self.plan.name, error)
            return False
        return True

    async def _commit(self) -> None:
        for batch in self._uncommitted:
            batch.partition.landed(batch.outgoing, batch.base)
        await self._move_tails()
        gaps = await self.ledger.write(self._target)
        pending = self.positions.pending(self._target)
        await self._target.commit_transaction(self.plan.group, pending.offsets, self._confirm)
        self.positions.completed(pending)
        self.ledger.told(gaps)
        self._committed |= {written.partition: written.acked for written in pending.written}
        for batch in self._uncommitted:
            batch.counted()
        self._uncommitted.clear()

    async def _move_tails(self) -> None:
        """Add the offset map to the transaction. If the target refuses the map, the records still count.

        Only map batches that the target certainly did not append are dropped. The commit raises any other error again.
        """
        try:
            await self.positions.move_tails(self._target)
        except WithdrawnError:
            pass  # the window ends while a quota holds the map back: a later window writes it
        except (BrokerError, NotAppendedError) as error:
            log.warning(
                "%s: the offset map cannot be written (%s); records are replicated, and offsets of groups are translated less "
                "exactly. Fix the reason, or delete the topic: the mirror creates it again",
                self.plan.name,
                error,
            )

    async def _confirm(self) -> None:
        """Read the lease until the target responds.

        Raises KafkaError if a successor may not have fenced this window.
        """
        while not self._target.is_closed:
            try:
                found = await self._target.committed(self.plan.group, self.lease.looks_at)
            except KafkaError as error:
                log.debug("%s: the lease cannot be read: %s", self.plan.name, error)
                await asyncio.sleep(LOOKS_AGAIN_S)
                continue
            if not self.lease.may_commit(found):
                raise KafkaError("another window has the slot")
            return
        raise KafkaError("the producer was closed")

    async def _abort(self) -> None:
        """Return all partitions to their committed positions; their records are read again."""
        await self._target.abort_transaction()
        # In the first protocol version this may have fenced a successor: then the positions of this window are outdated.
        # A successor claims the lease before it opens its producer. So if the lease is still ours, no successor was fenced.
        found = await self._target.committed(self.plan.group, self.lease.looks_at)
        if not self.lease.status(found).may_write:
            raise KafkaError("another window or process has the slot")
        self._must_abort = False
        self._take_back()

    def _take_back(self) -> None:
        """Return to the last commit: later acknowledgements of the target do not count."""
        self._uncommitted.clear()
        for partition, acked in self._committed.items():
            self._read_ahead.clear(partition)
            partition.rewind(acked)

    def _abort_soon(self) -> None:
        self._must_abort = True
        self._has_sent.set()
