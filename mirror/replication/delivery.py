"""Decide when a batch that the target has acknowledged counts: at once, or when its transaction is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from mirror.model.record_batches import Outgoing
from mirror.replication.partition import Partition
from mirror.replication.positions import is_there
from mirror.runtime.clock import now_ms

if TYPE_CHECKING:
    from asyncio import Event
    from collections.abc import Callable

    from mirror.kafka.producer import UncertainError
    from mirror.kafka.target import Target

ARRIVES_S = 8.0  # how long a broker that has received a batch may take to append it, and be held up meanwhile


def hold_back(partition: Partition) -> None:
    """Write nothing to a partition until its last batch is in the target's log or can no longer arrive.

    The next window reads this with the position.
    """
    partition.outcome_unknown_until_ms = int(now_ms() + ARRIVES_S * 1000)
    partition.committed = None


class Acknowledged(NamedTuple):
    """A batch that the target has: since when it was read (epoch ms), and its base offset there, -1 where that is unknown."""

    partition: Partition
    outgoing: Outgoing
    read_ms: float
    base: int

    def counted(self) -> None:
        """Add it to what its window reports."""
        tally, outgoing, acked_ms = self.partition.tally, self.outgoing, now_ms()
        tally.records += outgoing.count
        tally.bytes += len(outgoing.data)
        low, high, total = outgoing.min_timestamp, outgoing.max_timestamp, outgoing.sum_timestamp
        tally.last_timestamp_ms = float(high)  # Arrow refuses integers above 2^53 for a double
        tally.age.add(self.read_ms - high, self.read_ms - low, self.read_ms * outgoing.count - total, outgoing.count)
        tally.latency.add(acked_ms - high, acked_ms - low, acked_ms * outgoing.count - total, outgoing.count)


class Sender(Protocol):
    """What a delivery requires of the sending part (mirror.replication.sending)."""

    needs_new_producer: bool

    @property
    def in_flight(self) -> int:
        """How many topic-partitions have a batch on its way."""

    @property
    def held_bytes(self) -> int:
        """How much was read, and is not acknowledged."""

    async def is_quiet(self, within_s: float | None = None) -> bool:
        """Wait until nothing is on its way; False when that took too long."""

    def send_next(self, partition: Partition) -> None:
        """Send the next batch of a topic-partition, if there is one."""


class Delivery(Protocol):
    """Decides when batches count, from all that happens to them."""

    def begin(self, sender: Sender, stop: Event) -> None:
        """Begin with the window; `stop` is to be set where it cannot go on."""

    def stop(self) -> None:
        """Note that nothing more is sent."""

    async def drained(self, within_s: float) -> bool:
        """Have all that was sent count; False when that took too long, or failed."""

    def admit(self, partition: Partition) -> bool:
        """Tell whether a batch may be sent now; where not, `Sending.send_next` is called when it may."""

    def sent(self) -> None:
        """Note that a batch was sent."""

    def acknowledged(self, batch: Acknowledged) -> None:
        """Note that the target has a batch."""

    def uncertain(self, partition: Partition, error: UncertainError) -> bool:
        """Deal with a batch that the target may have or not; False where only another producer can."""

    def unexpected_offset(self) -> bool:
        """Record that the target appended a batch at an unexpected offset; return whether the batch is aborted."""

    def has_settled(self, partition: Partition) -> bool:
        """Tell whether all that was read of a topic-partition is on the target, and counts."""

    def placed(self, partition: Partition) -> None:
        """Note that a topic-partition stands somewhere else now."""

    def announced(self) -> None:
        """Note that positions were committed, with the numbers of their topic-partitions."""


class AtLeastOnce:
    """At least once: what the target has acknowledged counts. Sequence numbers are the fence (mirror.model.sequences).

    A: A batch is sent with numbers that are with the position on the target, not before.
    """

    _sender: Sender

    def __init__(self, target: Target, commit_soon: Callable[[], None]) -> None:
        """Take the target, and what has new numbers committed; `announced` is to be called then."""
        self._target = target
        self._commit_soon = commit_soon
        self._unannounced: dict[Partition, None] = {}  # in order: had something to send meanwhile

    def begin(self, sender: Sender, stop: Event) -> None:
        """Remember who sends."""
        self._sender = sender

    def stop(self) -> None:
        """Do nothing."""

    async def drained(self, within_s: float) -> bool:
        """Wait until every batch that was sent has its answer."""
        return await self._sender.is_quiet(within_s)

    def admit(self, partition: Partition) -> bool:
        """Allow it where its numbers are known; have new ones committed where it has none. Spread topics have none."""
        assigned = partition.assigned
        if assigned.spread_over or partition.has_announced_numbers or not is_there(self._target, assigned):
            return True
        if partition.sequence is None:
            partition.sequence = self._target.numbers(assigned.remote_topic, assigned.partition)
        partition.committed = None
        self._unannounced[partition] = None
        self._commit_soon()
        return False

    def announced(self) -> None:
        """Send what has waited for its numbers, as far as they are committed."""
        waiting, self._unannounced = self._unannounced, {}
        for partition in waiting:
            self._sender.send_next(partition)

    def sent(self) -> None:
        """Do nothing."""

    def acknowledged(self, batch: Acknowledged) -> None:
        """Count it."""
        batch.partition.landed(batch.outgoing, batch.base)
        batch.counted()

    def uncertain(self, partition: Partition, error: UncertainError) -> bool:
        """Leave it to the next window, which finds out what the target has."""
        return False

    def unexpected_offset(self) -> bool:
        """Do nothing: an appended batch stays."""
        return False

    def has_settled(self, partition: Partition) -> bool:
        """Tell whether nothing of it is on its way."""
        return partition.has_arrived_whole

    def placed(self, partition: Partition) -> None:
        """Do nothing."""
