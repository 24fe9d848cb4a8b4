"""Verify the topics of unverified partitions, and find start offsets where positions are missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mirror.kafka.errors import SILENCES, KafkaError
from mirror.kafka.fetcher import Source
from mirror.model.gaps import Cause, Effect
from mirror.model.topic_partition import TopicPartition
from mirror.replication.delivery import Delivery
from mirror.replication.fetching import Fetching
from mirror.replication.identities import Identities
from mirror.replication.partition import Identity, Partition
from mirror.replication.pauses import Pauses
from mirror.runtime.logs import describe

log = logging.getLogger("mirror")

RETRY_S = 0.2
IDENTIFY_EVERY_S = 1.0


@dataclass(kw_only=True, eq=False, repr=False)
class Placement:
    """Places partitions, as soon as their read records are on the target, while others continue."""

    name: str
    source: Source
    partitions: Mapping[TopicPartition, Partition]
    identities: Identities
    pauses: Pauses
    delivery: Delivery
    on_placed: Callable[[Partition], None]  # called with a partition that has its start

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_needed = asyncio.Event()
        self._has_failed = False

    def doubt(self, partition: Partition) -> None:
        """Stop fetching a partition until the clusters have reported its topics. Queued batches are still sent."""
        partition.doubt()
        self._is_needed.set()

    async def run(self, fetching: Fetching) -> None:
        """Place partitions until cancelled."""
        while True:
            self._is_needed.clear()
            await self._identify(fetching)
            await self._find_starts(fetching)
            if any(p.identity is Identity.UNVERIFIED or p.start is not None for p in self.partitions.values()):
                await asyncio.sleep(RETRY_S)
            else:
                await self._is_needed.wait()

    async def _identify(self, fetching: Fetching) -> None:
        now = self._loop.time()
        unverified = [
            p
            for p in self.partitions.values()
            if p.identity is Identity.UNVERIFIED and p.pause.is_due(now) and self.delivery.has_settled(p)
        ]
        if not unverified:
            return
        try:
            unclear = await self.identities.identify(unverified)
        except (KafkaError, TimeoutError) as error:
            say = logging.DEBUG if self._has_failed else logging.WARNING
            log.log(say, "%s: the ids of some topics cannot be read (%s), retrying", self.name, describe(error))
            self._has_failed = True
            await asyncio.sleep(IDENTIFY_EVERY_S)
            return
        self._has_failed = False
        for partition in unverified:
            if partition in unclear:
                self.pauses.back_off(partition, unclear[partition], lacks_topic=True)
            else:
                self._identified(partition)
        await fetching.refresh()  # a topic that was deleted and created again has other leaders

    def _identified(self, partition: Partition) -> None:
        """Continue a partition whose topic is the same, or was handled by the policy."""
        if partition.fetch.truncated_to is not None:
            partition.tally.rewinds += 1
            assigned, end = partition.assigned, partition.fetch.truncated_to
            said = (
                f"the source's log was truncated: the target keeps offsets {end} to {partition.position - 1}, which the source "
                f"no longer has; resuming at {end}"
            )
            log.error("%s: %s-%d: %s", self.name, assigned.topic, assigned.partition, said)
            partition.record_gap(Effect.KEPT, Cause.TRUNCATION, end, partition.position - 1, said)
            partition.moved(end)
        if partition.hole is not None:
            self._tell_hole(partition, *partition.hole)
        partition.place_again()
        self.delivery.placed(partition)

    def _tell_hole(self, partition: Partition, first: int | None, last: int) -> None:
        """Log and record lost records of the target, if a batch follows the cut."""
        assigned = partition.assigned
        named = f"offsets {first} to {last}" if first is not None else f"the records before offset {last + 1}"
        said = f"{assigned.remote_topic} lost {named} of the source, and other records were appended since"
        log.error("%s: %s-%d: %s", self.name, assigned.topic, assigned.partition, said)
        partition.record_gap(Effect.LOST, Cause.TARGET_CUT, first, last, said)
        partition.tally.lost += last - first + 1 if first is not None else 0

    async def _find_starts(self, fetching: Fetching) -> None:
        now = self._loop.time()
        wanted = {
            key: p.start
            for key, p in self.partitions.items()
            if p.start is not None and p.identity is Identity.VERIFIED and p.pause.is_due(now)
        }
        if not wanted:
            return
        found = await self.source.offsets(wanted)
        for key, answer in found.items():
            if isinstance(answer, SILENCES):
                fetching.warn("the start offsets of topics cannot be read", answer)
            else:
                self._place(self.partitions[key], answer)
        if sum(isinstance(answer, int) for answer in found.values()) < len(wanted):
            await fetching.refresh()

    def _place(self, partition: Partition, answer: int | KafkaError) -> None:
        if isinstance(answer, int):
            partition.place(answer)
            self.pauses.end(partition)
            self.delivery.placed(partition)
            self.on_placed(partition)
        else:
            self.pauses.back_off(partition, f"the source does not report its start offset: {answer}")
            partition.doubt()  # a partition without a leader may have been created after the plan was made
