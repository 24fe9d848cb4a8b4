"""Limit the records of a slot and flow that are read and not acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mirror.model.record_batches import Batch, Outgoing
from mirror.replication.partition import Partition

BUDGET_BYTES = 48 << 20  # per slot and flow, until acknowledgement: bounds memory for any backlog
LEAST_FETCH_BYTES = 64 << 10


class ReadAhead:
    """The queues of all partitions of a slot and flow."""

    def __init__(self) -> None:
        self.held_bytes = 0  # bytes read and not acknowledged
        self.most_held_bytes = 0
        self.read_records = 0
        self._reserved_bytes = 0  # maximal size of the fetches in flight
        self._is_short = False  # a fetcher has found no room since room was last released
        self.room = asyncio.Event()  # set whenever room becomes free

    def share(self, fetchers: int) -> int:
        """Return how many bytes a fetch may return now, 0 if there is no room.

        All fetchers together may reserve half of the budget, so that none waits for another's long poll.
        """
        share = max(LEAST_FETCH_BYTES, BUDGET_BYTES // 2 // max(1, fetchers))
        if self.held_bytes + self._reserved_bytes + share > BUDGET_BYTES:
            self._is_short = True
            return 0
        return share

    def reserve(self, share: int) -> None:
        """Reserve room for a fetch; `unreserve` releases it."""
        self._reserved_bytes += share

    def unreserve(self, share: int) -> None:
        """Release the reservation of a fetch whose batches are counted.

        Only fetchers that found no room are woken: fetchers without anything to fetch would wake one another endlessly.
        """
        self._reserved_bytes -= share
        if self._is_short:
            self._is_short = False
            self.room.set()

    def put_back(self, partition: Partition, taken: list[Batch], start: int) -> None:
        """Queue batches again from an offset on. A batch that starts before the offset also stays in `taken`."""
        while taken and taken[-1].last_offset >= start:
            last = taken[-1]
            partition.backlog.queue.appendleft(last)
            partition.backlog.taken_bytes -= len(last.data)
            if last.base_offset < start:
                break
            taken.pop()

    def expanded(self, partition: Partition, packed: Iterable[Outgoing], *taken: Batch) -> None:
        """Count the additional bytes of repacked batches."""
        more = sum(len(one.data) for one in packed) - sum(len(batch.data) for batch in taken)
        if more > 0:
            self._hold(partition, more)
            partition.backlog.taken_bytes += more

    def pass_over(self, partition: Partition, offset: int) -> None:
        """Skip to an offset: no record before the offset must be sent."""
        partition.passed(offset)
        self.let_go(partition)

    def take_in(self, partition: Partition, batch: Batch) -> None:
        """Queue a batch that was read."""
        self._hold(partition, len(batch.data))
        self.read_records += 0 if batch.is_control else batch.count
        partition.read(batch)

    def let_go(self, partition: Partition) -> None:
        """Release batches whose outcome is known, unless parts of them must still be sent."""
        if not (partition.backlog.ready or partition.in_flight):
            self._hold(partition, -partition.backlog.taken_bytes)
            partition.backlog.taken_bytes = 0

    def clear(self, partition: Partition) -> None:
        """Drop the batches of a partition that are not sent."""
        while partition.backlog.queue:
            self.take_out(partition)
        partition.backlog.ready.clear()
        self.let_go(partition)

    def take_out(self, partition: Partition) -> Batch:
        """Remove the next batch from the queue. It counts as held until its outcome is known."""
        batch = partition.backlog.queue.popleft()
        partition.backlog.taken_bytes += len(batch.data)
        return batch

    def _hold(self, partition: Partition, more: int) -> None:
        partition.backlog.held_bytes += more
        self.held_bytes += more
        if more < 0:
            self.room.set()
        else:
            self.most_held_bytes = max(self.most_held_bytes, self.held_bytes)
