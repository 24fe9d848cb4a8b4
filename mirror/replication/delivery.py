"""Define how a window's records and positions reach the target: the protocol, and delivery at least once.

For exactly once see mirror.replication.exactly_once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mirror.handover.lease import NETWORK, LeaseTerm
from mirror.model.record_batches import Outgoing
from mirror.replication.ledger import Ledger
from mirror.replication.partition import Partition, named
from mirror.replication.positions import PendingCommit, PositionCommits, is_there
from mirror.runtime.clock import now_ms

if TYPE_CHECKING:
    from asyncio import Event
    from collections.abc import Callable, Sequence

    from mirror.kafka.group_offsets import Offsets
    from mirror.kafka.producer import UncertainError
    from mirror.kafka.target import Target
    from mirror.model.flow_plan import FlowPlan, Window
    from mirror.model.topic_partition import TopicPartition
    from mirror.replication.pauses import Pauses
    from mirror.replication.positions import LeasedCommits
    from mirror.replication.read_ahead import ReadAhead
    from mirror.replication.slot_producer import SlotProducer

log = logging.getLogger("mirror")

ARRIVES_S = 8.0  # how long a broker may hold up a batch that it has received before it appends it


def hold_back(partition: Partition) -> None:
    """Stop writing to a partition until its last batch has arrived or cannot arrive.

    The next window reads this with the position.
    """
    partition.hold_back(int(now_ms() + ARRIVES_S * 1000))


class Acknowledged(NamedTuple):
    """An acknowledged batch, when it was read (epoch ms), and its target offset (-1: unknown)."""

    partition: Partition
    outgoing: Outgoing
    read_ms: float
    base: int

    def counted(self) -> None:
        """Add the batch to the report of its window."""
        tally, outgoing, acked_ms = self.partition.tally, self.outgoing, now_ms()
        tally.records += outgoing.count
        tally.bytes += len(outgoing.data)
        low, high, total = outgoing.min_timestamp, outgoing.max_timestamp, outgoing.sum_timestamp
        tally.last_timestamp_ms = float(high)  # Arrow refuses integers above 2^53 for a double
        tally.age.add(self.read_ms - high, self.read_ms - low, self.read_ms * outgoing.count - total, outgoing.count)
        tally.latency.add(acked_ms - high, acked_ms - low, acked_ms * outgoing.count - total, outgoing.count)


class Sender(Protocol):
    """The part of mirror.replication.sending.Sending that a delivery uses."""

    needs_new_producer: bool
    target: Target

    @property
    def in_flight(self) -> int:
        """How many partitions have a batch in flight."""

    @property
    def held_bytes(self) -> int:
        """Bytes that were read and are not acknowledged."""

    async def is_quiet(self, within_s: float | None = None) -> bool:
        """Wait until nothing is in flight; return False on a time-out."""

    def send_next(self, partition: Partition) -> None:
        """Send the next batch of a partition, if there is one."""


class Delivery(Protocol):
    """Opens the producer, commits positions, and decides when batches are sent and when they count.

    One object per window.
    """

    is_transactional: bool  # records and positions are written in transactions
    # nothing is sent while the lease is not valid; None: the target itself refuses a producer that may not write
    lease_term: LeaseTerm | None

    async def open(
        self, producer: SlotProducer, target: Target, found: Offsets, places: Sequence[TopicPartition]
    ) -> Offsets:
        """Fence the predecessor; return the offsets of `places` and the leases.

        The returned offsets are `found`, unless they must be read again. Raises KafkaError.
        """

    async def pending(self, target: Target) -> PendingCommit:
        """Write new gaps to the ledger, then return the positions for the next commit."""

    async def commit(self, target: Target, leased: LeasedCommits) -> None:
        """Commit positions during the window, unless transactions commit them. Raises KafkaError."""

    def begin(self, sender: Sender, read_ahead: ReadAhead, pauses: Pauses, stop: Event) -> None:
        """Start to replicate; set `stop` if the window cannot continue."""

    def stop(self) -> None:
        """Record that nothing more is sent."""

    def abandon(self) -> int:
        """Handle batches that have no response at the end of the window.

        Returns:
            The time (epoch ms) before which the last transaction should not be aborted; 0 if it may be aborted at once.
        """

    async def finish(self, target: Target, *, is_last: bool) -> None:
        """Write what the target needs before the last positions of a window; raise nothing.

        `is_last`: no window of this process follows.
        """

    async def leave(self, target: Target) -> None:
        """Close clients that must not outlive the lease."""

    async def drained(self, within_s: float) -> bool:
        """Wait until all sent batches count; return False on a timeout or an error."""

    def admit(self, partition: Partition) -> bool:
        """Return whether a batch may be sent now. If not, call `Sending.send_next` when it may."""

    def sent(self) -> None:
        """Record that a batch was sent."""

    def acknowledged(self, batch: Acknowledged) -> None:
        """Record that the target has acknowledged a batch."""

    def uncertain(self, partition: Partition, error: UncertainError) -> bool:
        """Handle a batch with an unknown outcome. Return False if only another producer can."""

    def unexpected_offset(self) -> bool:
        """Record that a batch got an unexpected target offset; return whether its transaction is aborted."""

    def has_settled(self, partition: Partition) -> bool:
        """Return whether all read records of a partition are on the target and count."""

    def placed(self, partition: Partition) -> None:
        """Record that a partition has another position now."""


@dataclass(kw_only=True, eq=False, repr=False)
class AtLeastOnce:
    """At least once: acknowledged records count; sequence numbers fence (mirror.model.sequences).

    A: A batch is sent only after its sequence numbers are committed with the position on the target.
    """

    plan: FlowPlan
    window: Window
    partitions: Sequence[Partition]  # those of the window
    positions: PositionCommits  # of these partitions
    ledger: Ledger  # receives their gaps
    lease_term: LeaseTerm | None  # without it nothing is sent
    commit_soon: Callable[[], None]  # called when sequence numbers must be committed
    warn: Callable[[str, BaseException], None]  # called with what failed, and the error
    is_transactional = False

    def __post_init__(self) -> None:
        self._unannounced: dict[Partition, None] = {}  # partitions that wait for a commit of their numbers, in order

    async def open(
        self, producer: SlotProducer, target: Target, found: Offsets, places: Sequence[TopicPartition]
    ) -> Offsets:
        """End the predecessor's transactions, if it used any.

        Otherwise their records and positions would appear, or vanish, later.
        """
        if not producer.has_transactional_predecessor:
            return found
        return await producer.end_predecessor(target, found, places)

    async def pending(self, target: Target) -> PendingCommit:
        """Write new gaps to the ledger, then return the changed positions."""
        self.ledger.told(await self.ledger.write(target))
        return self.positions.pending(target)

    async def commit(self, target: Target, leased: LeasedCommits) -> None:
        """Commit positions, then send the batches that waited for a commit of their sequence numbers."""
        await self._move_tails(target)
        await leased.commit(target)
        waiting, self._unannounced = self._unannounced, {}
        for partition in waiting:
            self._sender.send_next(partition)

    def begin(self, sender: Sender, read_ahead: ReadAhead, pauses: Pauses, stop: Event) -> None:
        """Keep the sender."""
        self._sender = sender

    def abandon(self) -> int:
        """Block writes to each partition whose last batch may still be appended. The other partitions continue."""
        unknown = [p for p in self.partitions if p.in_flight]
        for partition in unknown:
            hold_back(partition)
        log.warning(
            "%s: slot %d: no answer about the last batches of %d partitions (%s): nothing is written to these partitions for "
            "%.0f s",
            self.plan.name,
            self.window.slot,
            len(unknown),
            named(unknown),
            ARRIVES_S,
        )
        return 0

    async def finish(self, target: Target, *, is_last: bool) -> None:
        """Write new tails to the offset map. In the last window, complete the map.

        The next window cannot see that a tail is new.
        """
        self.positions.map_is_due |= is_last
        await self._move_tails(target)

    async def leave(self, target: Target) -> None:
        """Do nothing: the process' next window uses the same producer."""

    async def _move_tails(self, target: Target) -> None:
        try:
            await self.positions.move_tails(target)
        except NETWORK as error:
            self.warn(f"write {self.plan.offset_map_topic}", error)

    def stop(self) -> None:
        """Do nothing."""

    async def drained(self, within_s: float) -> bool:
        """Wait until every sent batch has its response."""
        return await self._sender.is_quiet(within_s)

    def admit(self, partition: Partition) -> bool:
        """Allow the batch if its sequence numbers are committed; otherwise request their commit.

        Repartitioned topics have no such numbers, so their batches are always allowed.
        """
        assigned = partition.assigned
        target = self._sender.target
        if partition.has_announced_numbers or not is_there(target, assigned):
            return True
        if partition.sequence is None:
            partition.number(target.numbers(assigned.remote_topic, assigned.partition))
        partition.rewrite_position()
        self._unannounced[partition] = None
        self.commit_soon()
        return False

    def sent(self) -> None:
        """Do nothing."""

    def acknowledged(self, batch: Acknowledged) -> None:
        """Count it."""
        batch.partition.landed(batch.outgoing, batch.base)
        batch.counted()

    def uncertain(self, partition: Partition, error: UncertainError) -> bool:
        """Leave the batch to the next window, which reads the target's log."""
        return False

    def unexpected_offset(self) -> bool:
        """Do nothing: an appended batch stays."""
        return False

    def has_settled(self, partition: Partition) -> bool:
        """Return whether no batch of the partition is queued or in flight."""
        return partition.has_arrived_whole

    def placed(self, partition: Partition) -> None:
        """Do nothing."""
