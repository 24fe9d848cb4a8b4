"""Write a window's gaps into the flow's ledger before their positions are committed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from mirror.kafka.errors import KafkaError
from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan
from mirror.model.gaps import Gap
from mirror.model.record_batches import of_values
from mirror.model.topic_partition import TopicPartition
from mirror.replication.partition import Partition
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import describe

log = logging.getLogger("mirror")

WRITE_S = 2.0
AGAIN_S = 30.0  # until the next attempt after a failure

NewestGaps = dict[tuple[str, TopicPartition], Gap]  # by flow and partition: the last gap that this process wrote


class LedgerEntry(NamedTuple):
    """A gap that was written."""

    partition: Partition
    gap: Gap


class Ledger:
    """Writes the gaps of one flow in one window.

    A: A gap is written to the ledger before a position after the gap is committed, or in the same transaction. After a crash
        between the two, the gap is found again, and its new record replaces the earlier one.
    B: If the ledger cannot be written, no record is delayed: the log shows the gaps.
    """

    def __init__(self, plan: FlowPlan, partitions: Sequence[Partition], newest: NewestGaps) -> None:
        self._plan = plan
        self._newest = newest
        self._partitions = partitions
        self._again_s = 0.0

    async def write(self, target: Target) -> list[LedgerEntry]:
        """Write the new gaps and return them. When the write is committed, the caller passes them to `told`."""
        found = [LedgerEntry(p, gap) for p in self._partitions if p.gaps for gap in p.gaps]
        if not found or time.monotonic() < self._again_s:
            return []
        known = [each for each in found if self._is_known(each)]
        self.told(known)
        new = [each for each in found if each not in known]
        try:
            await self._write(target, new)
        except (KafkaError, TimeoutError) as error:
            self._again_s = time.monotonic() + AGAIN_S
            log.warning("%s: the ledger of gaps cannot be written (%s), retrying", self._plan.name, describe(error))
            return []
        return new

    async def _write(self, target: Target, new: Sequence[LedgerEntry]) -> None:
        topic, records = self._plan.gaps_topic, (each.gap.encode() for each in new)
        if not target.knows(topic, 0):
            raise KafkaError(f"there is no topic {topic}")
        sent = [target.send(batch, topic, 0) for batch in of_values(records, timestamp_ms=int(now_ms()))]
        await asyncio.wait_for(asyncio.gather(*sent), WRITE_S)

    def told(self, written: Sequence[LedgerEntry]) -> None:
        """Forget the gaps that are in the ledger."""
        for partition, gap in written:
            partition.forget_gap(gap)
            self._newest[self._plan.name, partition.on_source] = gap

    def _is_known(self, told: LedgerEntry) -> bool:
        """Return whether the gap differs only in its time: a refused record is refused in each window."""
        newest = self._newest.get((self._plan.name, told.partition.on_source))
        return newest is not None and newest._replace(at_ms=told.gap.at_ms) == told.gap
