"""Find when the first unreplicated record was written. Read from the source: exact, not interpolated.

One fetch per leader returns the batches at the replicated offsets of lagging partitions; headers suffice unless a position
lies inside a batch. The cost of a poll is limited: if many partitions lag, they take turns, the longest unread first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from mirror.config.clients import client_options
from mirror.kafka.errors import ErrorCode, KafkaError
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Source
from mirror.model import record_batches
from mirror.model.flow_plan import FlowPlan
from mirror.model.record_batches import Batch
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import describe

log = logging.getLogger("mirror")

READ_UNCOMMITTED = 0
WITHIN_S = 3.0
FETCH_PARTITIONS = 32  # in one request, whose response has a complete first batch of each
PARTITION_BYTES = 64 * 1024  # a larger first batch comes only from the first partition of a request
POLL_BYTES = 8 << 20


@dataclass(slots=True)
class _Known:
    position: int
    timestamp_ms: float


class FirstUnreplicated:
    """Reads one flow's source. Keeps its connections and results from poll to poll. Not thread-safe."""

    def __init__(self, plan: FlowPlan) -> None:
        self._name = plan.name
        self._options = client_options(plan.consumer)
        self._known: dict[TopicPartition, _Known] = {}
        self._loop = asyncio.new_event_loop()
        self._source: Source | None = None
        self._is_failing = False

    def timestamps(self, lagging: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """Return the timestamp (epoch ms) of the record at each lagging partition's next offset.

        Until its turn, a partition keeps the timestamp of an earlier position, which is older; a partition that was never read is
        left out. If the source does not respond, known timestamps stay.
        """
        self._known = {key: known for key, known in self._known.items() if key in lagging}
        unread = [key for key, position in lagging.items() if not self._is_read(key, position)]
        if unread:
            self._loop.run_until_complete(self._read_in_time(unread, lagging))
        return {key: known.timestamp_ms for key, known in self._known.items()}

    def close(self) -> None:
        """Close the connections."""
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._forget())
            self._loop.close()

    def _is_read(self, key: TopicPartition, position: int) -> bool:
        known = self._known.get(key)
        return known is not None and known.position == position

    async def _read_in_time(self, unread: list[TopicPartition], lagging: Mapping[TopicPartition, int]) -> None:
        try:
            await asyncio.wait_for(self._read(unread, lagging), WITHIN_S)
            self._is_failing = False
        except (KafkaError, OSError, TimeoutError) as error:
            if not self._is_failing:
                log.warning("%s: the first unreplicated records cannot be read: %s", self._name, describe(error))
            self._is_failing = True
            await self._forget()

    async def _read(self, unread: list[TopicPartition], lagging: Mapping[TopicPartition, int]) -> None:
        if self._source is None:
            self._source = Source(self._options)
        await self._source.open({topic for topic, _ in unread})
        # Partitions without a timestamp first, then those with the oldest timestamp.
        unread.sort(key=lambda key: self._known[key].timestamp_ms if key in self._known else float("-inf"))
        by_leader: dict[int, list[TopicPartition]] = {}
        for key in unread:
            leader = self._source.leader(*key)
            if leader is not None:
                by_leader.setdefault(leader, []).append(key)
        left = POLL_BYTES
        for leader, keys in by_leader.items():
            for at in range(0, len(keys), FETCH_PARTITIONS):
                if left <= 0:
                    return
                left -= await self._fetch(self._source, leader, keys[at : at + FETCH_PARTITIONS], lagging)

    async def _fetch(
        self, source: Source, leader: int, keys: list[TopicPartition], lagging: Mapping[TopicPartition, int]
    ) -> int:
        """Read the response of one request; return its bytes."""
        wanted = {key: FetchPosition(lagging[key], PARTITION_BYTES) for key in keys}
        # Also uncommitted records: they wait for their transaction.
        limits = FetchLimits(0, 0, FETCH_PARTITIONS * PARTITION_BYTES, READ_UNCOMMITTED)
        fetched = await source.read(leader, wanted, limits)
        for part in fetched:
            key = TopicPartition(part.topic, part.partition)
            timestamp = None if part.error is not ErrorCode.none else first_timestamp(part.records, lagging[key])
            if timestamp is not None:
                self._known[key] = _Known(lagging[key], timestamp)
        return sum(len(part.records) for part in fetched)

    async def _forget(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            try:
                await source.close()
            except (KafkaError, OSError) as error:
                log.debug("%s: a connection did not close: %r", self._name, error)


def first_timestamp(records: bytes, position: int) -> float | None:
    """Return the timestamp (epoch ms) of the first record from `position` on, if any."""
    for batch in record_batches.batches(records):
        if batch.last_offset >= position:
            return _timestamp(batch, position)
    return None


def _timestamp(batch: Batch, position: int) -> float:
    if batch.is_copyable(position):
        return float(batch.base_timestamp)
    return next(
        (float(record.timestamp) for record in record_batches.records(batch.data) if record.offset >= position),
        float(batch.max_timestamp),  # only markers or compacted records up to the batch's end
    )
