"""Form rounds from the read batches: batches stay whole if possible, else their records are repacked."""

from __future__ import annotations

import time
from collections import deque
from itertools import chain

from mirror.config.clients import ProduceOptions
from mirror.model import record_batches, repartition
from mirror.model.identical_offsets import Fill, Step, next_step
from mirror.model.record_batches import Batch, Outgoing, Round
from mirror.model.transforms import TransformError
from mirror.replication.partition import Partition
from mirror.replication.read_ahead import ReadAhead

TINY_BYTES = 8 * 1024  # a smaller batch costs more as a request than repacking its records
TINY_RECORDS = 100  # a batch with more records, however well compressed, costs more to decode than to send
TINY_RUN = 2  # decode if at least this many tiny batches wait


class NotIdenticalError(Exception):
    """The target's log ends after the offset of the next record."""

    def __init__(self, log_end: int) -> None:
        super().__init__(f"the target's log already ends at offset {log_end}")


class Repacking:
    """Removes batches from the queues of a slot and flow, and forms rounds from them."""

    def __init__(self, produce: ProduceOptions, read_ahead: ReadAhead) -> None:
        """Take the limits of the target's producer, and the queues."""
        self._largest = produce.largest_batch
        self._batch_size = min(produce.batch_size, produce.largest_batch or produce.batch_size)
        self._codec = None if produce.compression is None else record_batches.CODECS[produce.compression]
        self._level = produce.level
        self._read_ahead = read_ahead
        self.spent_s = 0.0

    def next_round(self, partition: Partition) -> Round | Fill | None:
        """Return the next round of a partition, None if nothing waits.

        With identical offsets, a gap in the source's log comes first: it is returned as a `Fill`.

        Raises:
            TransformError: a transform refuses the next record.
            NotIdenticalError: the next record would get another offset than it has on the source.
        """
        began = time.perf_counter()
        try:
            ready = partition.backlog.ready
            while not ready and partition.backlog.queue:
                pack = self._repartition if partition.assigned.spread_over else self._pack
                passed = pack(partition)
                if not ready:
                    self._read_ahead.pass_over(partition, passed)  # compaction, or a transform, has left no record
            if (remote_log := partition.remote_log) is not None and remote_log.end is not None:
                step = next_step(
                    remote_log.end,
                    ready[0].first.runs[0].source if ready else None,
                    partition.acked,
                    disposable_before=remote_log.disposable_before,
                )
                if step is Step.DIVERGE:
                    raise NotIdenticalError(remote_log.end)
                if isinstance(step, Fill):
                    return step
            return self._fitting(partition) if ready else None
        finally:
            self.spent_s += time.perf_counter() - began

    def is_too_large(self, outgoing: Outgoing) -> bool:
        """Return whether a batch is larger than max.request.size of the target's producer."""
        return self._largest is not None and len(outgoing.data) > self._largest

    def split(self, partition: Partition, outgoing: Outgoing) -> None:
        """Send the two halves of a batch next, one after the other."""
        halves = record_batches.split_batch(outgoing)
        partition.backlog.ready.extendleft(_alone(partition, half) for half in reversed(halves))

    def _fitting(self, partition: Partition) -> Round:
        while True:
            following = partition.backlog.ready.popleft()
            if len(following.batches) > 1:
                return following
            (outgoing,) = following.batches.values()
            if partition.assigned.spread_over or outgoing.count == 1 or not self.is_too_large(outgoing):
                return following
            self.split(partition, outgoing)

    def _repartition(self, partition: Partition) -> int:
        """Pack the next batch for the target's partitions; return the source offset after it."""
        batch, backlog = self._read_ahead.take_out(partition), partition.backlog
        if not batch.is_control:
            backlog.turns += 1
            packed = repartition.rounds(
                [batch],
                partition.acked,
                partitions=partition.assigned.spread_over,
                unkeyed=backlog.turns,
                codec=self._codec,
                level=self._level,
                max_bytes=self._batch_size,
            )
            backlog.ready.extend(packed)
            self._read_ahead.expanded(partition, chain.from_iterable(each.batches.values() for each in packed), batch)
        return batch.last_offset + 1

    def _pack(self, partition: Partition) -> int:
        """Copy the next batch, or repack the records of several. Return the source offset after them."""
        batch, ready = partition.backlog.queue[0], partition.backlog.ready
        if batch.is_control:
            self._read_ahead.take_out(partition)
            return batch.last_offset + 1
        tiny = self._tiny_run(partition.backlog.queue)
        if tiny < TINY_RUN and not partition.assigned.transforms and batch.is_copyable(partition.acked):
            self._read_ahead.take_out(partition)
            ready.append(_alone(partition, record_batches.copy_batch(batch, self._codec, self._level)))
            return batch.last_offset + 1
        taken = [self._read_ahead.take_out(partition) for _ in range(max(tiny, 1))]
        packed, passed = self._rebatched(partition, taken)
        ready.extend(_alone(partition, outgoing) for outgoing in packed)
        self._read_ahead.expanded(partition, packed, *taken)
        return passed

    def _rebatched(self, partition: Partition, taken: list[Batch]) -> tuple[list[Outgoing], int]:
        """Pack records again; return their batches, and the source offset after them.

        If a transform refuses a record, only the records before it are packed. The refused record comes first the next time.
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
                    is_contiguous=partition.remote_log is not None,
                )
            except TransformError as error:
                if until is not None or error.offset <= partition.acked:
                    raise
                until = error.offset
                self._read_ahead.put_back(partition, taken, until)
                if not taken:
                    return [], until
            else:
                return packed, taken[-1].last_offset + 1 if until is None else until

    def _tiny_run(self, queue: deque[Batch]) -> int:
        """Return how many tiny batches at the head of the queue fit into one batch."""
        run = size = 0
        for batch in queue:
            size += len(batch.data)
            is_tiny = len(batch.data) <= TINY_BYTES and batch.count <= TINY_RECORDS
            if batch.is_control or not is_tiny or size > self._batch_size:
                break
            run += 1
        return run


def _alone(partition: Partition, outgoing: Outgoing) -> Round:
    return Round({partition.assigned.partition: outgoing}, outgoing.next_offset)
