"""Hold what a slot and flow has read, within bounds, and pack it into batches: whole if possible, else repacked."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable

from mirror.config.clients import ProduceOptions
from mirror.model import record_batches
from mirror.model.record_batches import Batch, Outgoing
from mirror.model.repartition import Round, rounds
from mirror.model.transforms import TransformError
from mirror.replication.partition import Partition

TINY_BYTES = 8 * 1024  # a batch below this costs more as a request of its own than its records cost re-batched
TINY_RUN = 2  # this many tiny batches waiting are worth decoding
BUDGET_BYTES = 48 << 20  # of the whole slot and flow, until it is acknowledged: what bounds memory whatever the backlog
LEAST_FETCH_BYTES = 64 << 10


class ReadAhead:
    """The queues of all topic-partitions of a slot and flow."""

    def __init__(self, produce: ProduceOptions) -> None:
        self._largest = produce.largest_batch
        self._batch_size = min(produce.batch_size, produce.largest_batch or produce.batch_size)
        self._codec = None if produce.compression is None else record_batches.CODECS[produce.compression]
        self._level = produce.level
        self.held_bytes = 0  # read, and not acknowledged
        self.most_held_bytes = 0
        self.read_records = 0
        self.spent_s = 0.0  # on packing
        self._reserved_bytes = 0  # may come by the fetches that are under way
        self._is_short = False  # a fetcher has found no room since the last was given back
        self.room = asyncio.Event()  # set whenever something was let go of

    def share(self, fetchers: int) -> int:
        """Return how many bytes a fetch may bring now, 0 when there is no room.

        All fetchers together may hold half of the budget, so that none waits for another's long poll.
        """
        share = max(LEAST_FETCH_BYTES, BUDGET_BYTES // 2 // max(1, fetchers))
        if self.held_bytes + self._reserved_bytes + share > BUDGET_BYTES:
            self._is_short = True
            return 0
        return share

    def reserve(self, share: int) -> None:
        """Keep room for what a fetch may bring; `unreserve` gives it back."""
        self._reserved_bytes += share

    def unreserve(self, share: int) -> None:
        """Give back what a fetch may have brought, when what it brought is held.

        Only who found no room is woken: fetchers that have nothing to ask for would wake one another without end.
        """
        self._reserved_bytes -= share
        if self._is_short:
            self._is_short = False
            self.room.set()

    def next_batches(self, partition: Partition) -> Round | None:
        """Return what goes next, by the remote topic's partition: one batch, or a round where the topic is spread."""
        began = time.perf_counter()
        try:
            return self._packed(partition)
        finally:
            self.spent_s += time.perf_counter() - began

    def _packed(self, partition: Partition) -> Round | None:
        if partition.assigned.spread_over:
            return self._next_round(partition)
        outgoing = self._next_outgoing(partition)
        while outgoing is not None and self.is_too_large(outgoing) and outgoing.count > 1:
            outgoing, rest = record_batches.split_batch(outgoing)
            partition.backlog.ready.appendleft(rest)
        return None if outgoing is None else {partition.assigned.partition: outgoing}

    def is_too_large(self, outgoing: Outgoing) -> bool:
        """Tell whether a batch is larger than the file's max.request.size."""
        return self._largest is not None and len(outgoing.data) > self._largest

    def _next_round(self, partition: Partition) -> Round | None:
        queue = partition.backlog.queue
        while not partition.backlog.rounds and queue:
            batch = self._drop(partition)
            partition.backlog.rounds_end = batch.last_offset + 1
            if not batch.is_control:
                partition.backlog.turns += 1
                partition.backlog.rounds.extend(
                    rounds(
                        [batch],
                        partition.acked,
                        partitions=partition.assigned.spread_over,
                        unkeyed=partition.backlog.turns,
                        codec=self._codec,
                        level=self._level,
                        max_bytes=self._batch_size,
                    )
                )
                self._expanded(partition, (one for part in partition.backlog.rounds for one in part.values()), batch)
            if not partition.backlog.rounds:
                self._nothing_of(partition, partition.backlog.rounds_end)
        return partition.backlog.rounds.popleft() if partition.backlog.rounds else None

    def _next_outgoing(self, partition: Partition) -> Outgoing | None:
        if partition.backlog.ready:
            return partition.backlog.ready.popleft()
        queue = partition.backlog.queue
        while queue:
            batch = queue[0]
            if batch.is_control:
                self._drop(partition)
                self._nothing_of(partition, batch.last_offset + 1)
                continue
            tiny = self._tiny_run(queue)
            transforms = partition.assigned.transforms
            if tiny < TINY_RUN and not transforms and batch.is_copyable(partition.acked):
                self._drop(partition)
                return record_batches.copy_batch(batch, self._codec, self._level)
            taken = [self._drop(partition) for _ in range(max(tiny, 1))]
            behind = self._rebatched(partition, taken)
            self._expanded(partition, partition.backlog.ready, *taken)
            if partition.backlog.ready:
                return partition.backlog.ready.popleft()
            self._nothing_of(partition, behind)  # compaction, or a transform, has left nothing of them
        return None

    def _rebatched(self, partition: Partition, taken: list[Batch]) -> int:
        """Pack records anew, and return the source offset behind them.

        Those before one that a transform does not take go alone, and that one comes first the next time.
        """
        until: int | None = None
        while True:
            try:
                packed = record_batches.rebatch(
                    taken,
                    partition.acked,
                    codec=self._codec,
                    level=self._level,
                    max_bytes=self._batch_size,
                    transforms=partition.assigned.transforms,
                    until=until,
                )
            except TransformError as error:
                if until is not None or error.offset <= partition.acked:
                    raise
                until = error.offset
                self._put_back(partition, taken, until)
                if not taken:
                    return until
            else:
                partition.backlog.ready.extend(packed)
                return taken[-1].last_offset + 1 if until is None else until

    def _put_back(self, partition: Partition, taken: list[Batch], start: int) -> None:
        """Queue again what has records from an offset on; batches that begin before stay in `taken`, too."""
        while taken and taken[-1].last_offset >= start:
            last = taken[-1]
            partition.backlog.queue.appendleft(last)
            partition.backlog.taken_bytes -= len(last.data)
            if last.base_offset < start:
                break
            taken.pop()

    def _expanded(self, partition: Partition, packed: Iterable[Outgoing], *taken: Batch) -> None:
        """Count what repacked batches take more than those they were made of."""
        more = sum(len(one.data) for one in packed) - sum(len(batch.data) for batch in taken)
        if more > 0:
            self._hold(partition, more)
            partition.backlog.taken_bytes += more

    def _nothing_of(self, partition: Partition, offset: int) -> None:
        partition.passed(offset)
        self.let_go(partition)

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
        self._hold(partition, len(batch.data))
        self.read_records += 0 if batch.is_control else batch.count
        partition.read(batch)

    def let_go(self, partition: Partition) -> None:
        """Let go of what was taken out of a queue and has its outcome; nothing while more of it is to be sent."""
        if not (partition.backlog.ready or partition.backlog.rounds or partition.in_flight):
            self._hold(partition, -partition.backlog.taken_bytes)
            partition.backlog.taken_bytes = 0

    def clear(self, partition: Partition) -> None:
        """Forget what was read of a topic-partition and not sent."""
        while partition.backlog.queue:
            self._drop(partition)
        partition.backlog.ready.clear()
        partition.backlog.rounds.clear()
        self.let_go(partition)

    def _drop(self, partition: Partition) -> Batch:
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
