"""What was read ahead in a slot and flow, and in which batches it goes on: whole where it can, packed anew where it must."""

from __future__ import annotations

import asyncio
from collections import deque

from mirror.config.clients import ProduceOptions
from mirror.replication import batches as wire_batches
from mirror.replication.batches import Batch, Outgoing
from mirror.replication.partition import Partition
from mirror.replication.spread import Round, rounds

TINY_BYTES = 8 * 1024  # a batch below this costs more as a request of its own than its records cost re-batched
TINY_RUN = 2  # this many tiny batches waiting are worth decoding
BUDGET_BYTES = 48 << 20  # read-ahead of the whole slot and flow: what bounds memory whatever the backlog


class Packing:
    """The queues of all topic-partitions of a slot and flow."""

    def __init__(self, produce: ProduceOptions) -> None:
        self._batch_size = produce.batch_size
        self._codec = None if produce.compression is None else wire_batches.CODECS[produce.compression]
        self.queued_bytes = 0
        self.room = asyncio.Event()  # set whenever something has left a queue

    @property
    def is_full(self) -> bool:
        """True when nothing more is to be read for now."""
        return self.queued_bytes >= BUDGET_BYTES

    def next_batches(self, partition: Partition) -> Round | None:
        """Return what goes next, by the remote topic's partition: one batch, or a round where the topic is spread."""
        if partition.assigned.spread_over:
            return self._next_round(partition)
        outgoing = self._next_outgoing(partition)
        return None if outgoing is None else {partition.assigned.partition: outgoing}

    def _next_round(self, partition: Partition) -> Round | None:
        queue = partition.queue
        while not partition.rounds and queue:
            batch = self._drop(partition)
            partition.rounds_end = batch.last_offset + 1
            if not batch.is_control:
                partition.turns += 1
                partition.rounds.extend(
                    rounds(
                        [batch], partition.acked, partitions=partition.assigned.spread_over, unkeyed=partition.turns,
                        codec=self._codec, max_bytes=self._batch_size,
                    )
                )  # fmt: skip
            if not partition.rounds:
                partition.acked = partition.rounds_end
        return partition.rounds.popleft() if partition.rounds else None

    def _next_outgoing(self, partition: Partition) -> Outgoing | None:
        if partition.ready:
            return partition.ready.popleft()
        queue = partition.queue
        while queue:
            batch = queue[0]
            if batch.is_control:
                self._drop(partition)
                partition.acked = batch.last_offset + 1
                continue
            tiny = self._tiny_run(queue)
            if tiny < TINY_RUN and batch.goes_whole(partition.acked):
                self._drop(partition)
                return wire_batches.whole(batch, self._codec)
            taken = [self._drop(partition) for _ in range(max(tiny, 1))]
            partition.ready.extend(
                wire_batches.rebatch(taken, partition.acked, codec=self._codec, max_bytes=self._batch_size)
            )
            if partition.ready:
                return partition.ready.popleft()
            partition.acked = taken[-1].last_offset + 1  # nothing in them survived compaction
        return None

    def _tiny_run(self, queue: deque[Batch]) -> int:
        """Return how many batches at the queue's head are tiny and together fit one batch."""
        run = size = 0
        for batch in queue:
            size += len(batch.data)
            if batch.is_control or len(batch.data) > TINY_BYTES or size > self._batch_size:
                break
            run += 1
        return run

    def take_in(self, partition: Partition, batch: Batch) -> None:
        """Queue a batch that was read."""
        partition.queue.append(batch)
        partition.queued_bytes += len(batch.data)
        self.queued_bytes += len(batch.data)
        partition.position = batch.last_offset + 1

    def clear(self, partition: Partition) -> None:
        """Forget what was read of a topic-partition and not sent."""
        while partition.queue:
            self._drop(partition)
        partition.ready.clear()
        partition.rounds.clear()

    def _drop(self, partition: Partition) -> Batch:
        batch = partition.queue.popleft()
        partition.queued_bytes -= len(batch.data)
        self.queued_bytes -= len(batch.data)
        self.room.set()
        return batch
