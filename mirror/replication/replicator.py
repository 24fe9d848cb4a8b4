"""Replicate one slot's share of one flow until the window ends.

Fetching, sending, placing and pausing run concurrently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from metrics.reports import SlotReport
from mirror.config.clients import FetchOptions
from mirror.kafka.fetcher import Source
from mirror.kafka.target import Target
from mirror.model.paused_topics import Paused
from mirror.model.topic_partition import TopicPartition
from mirror.replication.alignment import Alignment, LogComparison
from mirror.replication.delivery import Delivery
from mirror.replication.fetching import Fetching, raise_failure
from mirror.replication.identities import Identities
from mirror.replication.partition import Partition
from mirror.replication.pauses import Pauses
from mirror.replication.placement import Placement
from mirror.replication.producer_registry import ProducerRegistry
from mirror.replication.read_ahead import ReadAhead
from mirror.replication.repacking import Repacking
from mirror.replication.sending import Sending

LOOKS_EVERY_S = 1.0
WITHDRAWS_S = 1.0  # a response takes less, unless a quota delays requests
WITHDRAWS_EVERY_S = 0.2


@dataclass(kw_only=True, eq=False, repr=False)
class Replicator:
    """Runs until it is stopped. Once drained, `acked` of each partition is exactly the end of the target's records."""

    name: str  # the flow, for the log
    source: Source  # reads the source
    target: Target  # writes to the target
    partitions: Sequence[Partition]  # partitions to replicate, each at its position
    fetch: FetchOptions  # how to read
    linger_s: float  # how long a record may wait at the source for others
    read_ahead: ReadAhead  # holds the records that were read
    repacking: Repacking  # forms the batches that are sent
    pauses: Pauses  # pauses of the same partitions
    delivery: Delivery  # decides when acknowledged batches count
    identities: Identities  # finds out to which topics the partitions belong
    busy_before: Collection[TopicPartition]  # partitions with data at the end of an earlier window
    written_back: (
        ProducerRegistry | None
    )  # shows which records on the source the reverse flow wrote; None: there is no reverse flow

    comparison: LogComparison | None = None  # how to compare logs; None: no partition has identical offsets

    def __post_init__(self) -> None:
        by_key = {p.on_source: p for p in self.partitions}
        self._alignment = self._make_alignment() if self.comparison is not None else None
        self._placement = Placement(
            name=self.name,
            source=self.source,
            partitions=by_key,
            identities=self.identities,
            pauses=self.pauses,
            delivery=self.delivery,
            on_placed=self._placed,
        )
        self._sending = Sending(
            name=self.name,
            target=self.target,
            read_ahead=self.read_ahead,
            repacking=self.repacking,
            pauses=self.pauses,
            delivery=self.delivery,
            lease=self.delivery.lease_term,
            on_doubt=self._placement.doubt,
            alignment=self._alignment,
        )
        self._fetching = Fetching(
            name=self.name,
            source=self.source,
            partitions=by_key,
            options=self.fetch,
            linger_s=self.linger_s,
            read_ahead=self.read_ahead,
            pauses=self.pauses,
            busy_before=self.busy_before,
            on_batches=self._sending.send_next,
            on_doubt=self._placement.doubt,
            written_back=self.written_back,
        )
        self.has_silent_source = False  # a fetch got no response in time: its connection may be half-open

    def _make_alignment(self) -> Alignment:
        assert self.comparison is not None
        return Alignment(
            name=self.name,
            source=self.source,
            comparison=self.comparison,
            partitions=[p for p in self.partitions if p.remote_log is not None],
            pauses=self.pauses,
            read_ahead=self.read_ahead,
            isolation_level=self.fetch.isolation_level,
            on_aligned=lambda partition: self._sending.send_next(partition),
            on_doubt=lambda partition: self._placement.doubt(partition),
        )

    def _placed(self, partition: Partition) -> None:
        """Fill the log of a new remote partition up to its start offset.

        This applies even if there are no records to copy.
        """
        if partition.remote_log is not None:
            self._sending.send_next(partition)

    @property
    def needs_new_producer(self) -> bool:
        """True if the target no longer accepts this replicator's batches."""
        return self._sending.needs_new_producer

    @property
    def busy(self) -> frozenset[TopicPartition]:
        """The partitions that have had data lately."""
        return self._fetching.busy

    def report(self, slot: SlotReport) -> SlotReport:
        """Return a report: the time spent, the records read, and the records not sent."""
        read_ahead, polled = self.read_ahead, self._fetching.polled
        return slot._replace(
            sending_s=self._sending.spent_s,
            packing_s=self.repacking.spent_s,
            read_ahead_bytes=read_ahead.most_held_bytes,
            read_ahead_records=sum(p.position - p.acked for p in self.partitions if p.backlog.held_bytes),
            polls=polled.fetches,
            polled_records=read_ahead.read_records,
            polling_s=polled.spent_s,
            longest_poll_s=polled.longest_s,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Replicate until `stop` is set, then wait for the running requests only."""
        self.delivery.begin(self._sending, self.read_ahead, self.pauses, stop)
        tasks = [asyncio.create_task(self._placement.run(self._fetching))]
        if self._alignment is not None:
            tasks.append(asyncio.create_task(self._alignment.run()))
        try:
            while not stop.is_set():
                self._fetching.follow_leaders()
                self.pauses.end_standstills()
                for task in tasks:
                    raise_failure(task)
                try:
                    await asyncio.wait_for(stop.wait(), LOOKS_EVERY_S)
                except TimeoutError:
                    continue
        finally:
            self._sending.stop()
            self.delivery.stop()
            self.has_silent_source = self._fetching.is_silent()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, self._fetching.stop(), return_exceptions=True)

    def follow(self, paused: Paused) -> None:
        """Pause the topics that an operator wants paused, and resume the others."""
        self.pauses.follow(paused)

    def lease_confirmed(self) -> None:
        """Send the batches that were held back while the lease was unconfirmed."""
        self._sending.lease_confirmed()

    async def drained(self, within_s: float) -> bool:
        """Wait until every sent batch counts or is refused. Return False on a timeout.

        After a second, batches that a quota still delays are withdrawn: the next window reads them again.
        """
        withdrawing = asyncio.create_task(withdraw_late(self.target))
        try:
            return await self.delivery.drained(within_s)
        finally:
            withdrawing.cancel()


async def withdraw_late(target: Target) -> None:
    """After a second, withdraw the batches that are not sent yet, again and again.

    One withdrawal is not enough, because the offset map is sent after the last records.
    """
    await asyncio.sleep(WITHDRAWS_S)
    while True:
        target.withdraw()
        await asyncio.sleep(WITHDRAWS_EVERY_S)
