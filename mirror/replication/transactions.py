"""Exactly once: the runner whose batches and positions reach the target in one transaction after the other.

Each transaction is committed as soon as nothing more waits to be sent, or when it has lasted for its time. Opening the slot's
transactional producer fences every earlier one, so what a window that is taken for dead still writes is refused by the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from mirror.kafka.producer import UncertainError
from mirror.kafka.protocol import KafkaError
from mirror.model.record_batches import Outgoing
from mirror.replication.partition import Partition
from mirror.replication.positions import Ledger
from mirror.replication.replicator import ARRIVES_S, FlowRunner
from mirror.runtime.clock import now_ms

log = logging.getLogger("mirror")

# Nothing is sent while a transaction is committed. With so much waiting, records are late anyway: more of them at a time.
BACKLOG_BYTES = 1 << 20
BACKLOG_LASTS = 5  # times as long

# After its answer to a commit a broker writes the markers for some ms, and tells who sends meanwhile to come again: 20 ms later
# for aiokafka. A rest costs less than that, and fewer transactions leave the brokers more time for each.
REST_S = 0.01


class Unsettled(NamedTuple):
    """A batch that the target has, in a transaction that is not committed yet."""

    partition: Partition
    outgoing: Outgoing
    read_ms: float
    base: int


class TransactionalRunner(FlowRunner):
    """A FlowRunner in transactions: what is counted and written down is what was committed."""

    def __init__(self, *args: Any, ledger: Ledger, group: str, longest_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ledger = ledger
        self._group = group
        self._longest_s = longest_s
        self._is_closed = False  # the transaction takes no more batches
        self._must_abort = False
        self._waiting: set[Partition] = set()  # had something to send meanwhile, perhaps
        self._sent = asyncio.Event()
        self._unsettled: list[Unsettled] = []
        self._settled = {partition: partition.acked for partition in self.partitions.values()}
        self._transacting: asyncio.Task[None] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Replicate until `stop` is set, which a broken producer does too."""
        self._target.begin_transaction()
        self._transacting = self._loop.create_task(self._transact(stop))
        try:
            await super().run(stop)
        finally:
            self._sent.set()  # wakes it, to see that we stop

    async def drained(self, within_s: float) -> bool:
        """Commit what was sent; False when that took too long or failed: the next producer of the slot aborts it then."""
        is_committed = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                if self._transacting is not None:
                    await self._transacting
                is_committed = await self._end_transaction()
        if not is_committed:
            self._take_back()
        return is_committed

    async def _transact(self, stop: asyncio.Event) -> None:
        while True:
            await self._sent.wait()
            await self._until_due()
            if self._stopping:
                return
            if not await self._end_transaction():
                stop.set()
                return
            await asyncio.sleep(REST_S)
            self._open()

    async def _until_due(self) -> None:
        began_s = self._loop.time()
        while self._in_flight and not self._stopping and not self._must_abort:
            has_backlog = self._packing.held_bytes > BACKLOG_BYTES
            left_s = began_s + self._longest_s * (BACKLOG_LASTS if has_backlog else 1) - self._loop.time()
            if left_s <= 0:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), min(left_s, self._longest_s))

    def _open(self) -> None:
        """Begin the next transaction with what came meanwhile."""
        self._target.begin_transaction()
        self._is_closed = False
        waiting, self._waiting = self._waiting, set()
        for partition in waiting:
            if not partition.in_flight:
                self._send_next(partition)

    async def _end_transaction(self) -> bool:
        """Commit the running transaction, or abort it where it cannot be; False when the producer is of no more use."""
        self._is_closed = True
        self._sent.clear()  # before we wait: what wakes us at the window's end may come meanwhile
        while self._in_flight:
            await self._quiet.wait()
        if self.needs_new_producer:
            return False
        try:
            if self._must_abort:
                await self._abort()
                return True
            for partition, outgoing, _, base in self._unsettled:
                partition.landed(outgoing, base)
            await self._ledger.move_tails(self._target)
            page = self._ledger.page(self._target)
            await self._target.commit_transaction(self._group, page.offsets)
        except (KafkaError, OSError) as error:
            self.needs_new_producer = True
            log.warning("%s: a transaction failed, nothing of it counts: %r", self.name, error)
            return False
        self._ledger.wrote(page)
        self._settled |= {written.partition: written.acked for written in page.written}
        for partition, outgoing, read_ms, _ in self._unsettled:
            self._count(partition, outgoing, read_ms)
        self._unsettled.clear()
        return True

    async def _abort(self) -> None:
        """Take everything back that is not committed; it is read again."""
        await self._target.abort_transaction()
        self._must_abort = False
        self._take_back()

    def _take_back(self) -> None:
        """Stand where the last commit was: what the target has acknowledged since then does not count."""
        self._unsettled.clear()
        for partition, acked in self._settled.items():
            self._packing.clear(partition)
            partition.position = partition.acked = acked

    # --- what differs from a runner without transactions ----------------------------------------------------------

    def _begin(self, partition: Partition, answer: int | type[KafkaError]) -> None:
        super()._begin(partition, answer)
        self._settled[partition] = partition.acked

    def _has_settled(self, partition: Partition) -> bool:
        return super()._has_settled(partition) and all(one.partition is not partition for one in self._unsettled)

    def _identified(self, partition: Partition) -> None:
        super()._identified(partition)
        self._settled[partition] = partition.acked

    def _strayed(self, partition: Partition, base: int, goes_to: int) -> None:
        super()._strayed(partition, base, goes_to)
        self._abort_soon()  # nobody who reads committed records is to see it there

    def _send_next(self, partition: Partition) -> None:
        if self._is_closed or self._must_abort:
            self._waiting.add(partition)
            return
        super()._send_next(partition)
        if partition.in_flight:
            self._sent.set()

    def _settle(self, partition: Partition, outgoings: Iterable[tuple[Outgoing, int]], read_ms: float) -> None:
        self._unsettled.extend(Unsettled(partition, outgoing, read_ms, base) for outgoing, base in outgoings)

    def _refused(self, partition: Partition, outgoing: Outgoing, error: BaseException | None) -> None:
        if isinstance(error, UncertainError):
            self._stands_still(partition, error)
            # Else the next attempt would cost a transaction at once.
            partition.until_ms = int(now_ms() + ARRIVES_S * 1000)
            self._abort_soon()
        else:
            super()._refused(partition, outgoing, error)

    def _abort_soon(self) -> None:
        self._must_abort = True
        self._sent.set()
