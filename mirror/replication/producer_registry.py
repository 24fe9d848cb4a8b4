"""Register a flow's producer ids on its target, for the reverse flow to recognize.

Each record batch carries the id of the producer that wrote it, and a cluster never assigns an id twice. A bidirectional flow
writes its ids to a topic of its target. A process that reads a batch, and then that topic, can determine whether the flow wrote
the batch.

A: An id is written to the topic before any log has a batch of that producer.
B: The topic is read after the batch, or after another batch of that producer in the same window.
C: If the topic does not exist or cannot be read, no batch is attributed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import NamedTuple

from mirror.config.clients import client_options
from mirror.kafka.errors import KafkaError
from mirror.kafka.fetcher import Source
from mirror.kafka.internal_topics import ends, read_followed, write, writer
from mirror.model import record_batches
from mirror.model.flow_plan import FlowPlan
from mirror.model.record_batches import NO_PRODUCER, Batch
from mirror.model.topic_partition import TopicPartition
from mirror.replication.partition import Partition
from mirror.runtime.logs import describe

MOST_OTHERS = 100_000  # remembered ids of other producers; for a forgotten id the topic is read again


class Registration:
    """Writes each producer id of a flow to the topic, once."""

    def __init__(self, plan: FlowPlan) -> None:
        self._plan = plan
        self._registered: set[int] = set()

    async def register(self, producer_ids: Iterable[int]) -> None:
        """Write ids to the topic before their producers write more; raises KafkaError or TimeoutError."""
        if new := set(producer_ids) - self._registered:
            topic, flow = self._plan.producers_topic, self._plan.name.encode()
            async with writer(self._plan.producer, [topic]) as target:
                await write(target, topic, ((str(producer_id).encode(), flow) for producer_id in sorted(new)))
            self._registered |= new

    async def announced(self, producer_id: int) -> None:
        """Register one producer id; the producer calls this when it gets its id."""
        await self.register([producer_id])


class RegisteredProducers(NamedTuple):
    """The registered producers. If they are unknown, `unknown` has the reason."""

    producers: frozenset[int] = frozenset()
    unknown: str = ""


NOBODY = RegisteredProducers()


class ProducerRegistry:
    """The registered ids of a flow, as far as they were read."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._next = 0  # offset in the topic to read from
        self._topic_id = ""
        self._registered: set[int] = set()
        self._others: dict[int, None] = {}  # ids that are not registered, oldest first
        self._reading = asyncio.Lock()

    async def written_by(self, cluster: Source, producer_ids: Iterable[int]) -> frozenset[int]:
        """Return the ids of the given producers that are registered.

        Args:
            cluster: Client of the cluster that has the batches and the topic.
            producer_ids: Producer ids of the batches.

        Raises:
            KafkaError: the topic does not exist or cannot be read.
        """
        asked = set(producer_ids)
        unknown = asked - self._registered - self._others.keys() - {NO_PRODUCER}
        if unknown:
            async with self._reading:
                await self._read(cluster)
            self._others |= dict.fromkeys(unknown - self._registered)
            while len(self._others) > MOST_OTHERS:
                del self._others[next(iter(self._others))]
        return frozenset(asked & self._registered)

    def doubt_others(self) -> None:
        """Read the topic again for all producers that were not registered.

        When a flow becomes bidirectional, it registers the producers of earlier batches. Its topics are left out until its
        positions contain the registration. The first window that starts with such positions calls this method.
        """
        self._others.clear()

    async def told(self, cluster: Source, fetched: Iterable[bytes]) -> RegisteredProducers:
        """Return the registered producers of fetched batches, or the reason why they are unknown."""
        producers = {each for records in fetched for each in record_batches.producer_ids(records)}
        try:
            return RegisteredProducers(await self.written_by(cluster, producers))
        except KafkaError as error:
            return RegisteredProducers(
                unknown=f"the records of the reverse flow cannot be distinguished: {describe(error)}"
            )

    async def only(self, cluster: Source, batches: list[Batch]) -> list[Batch]:
        """Return the batches that the flow wrote. Raises KafkaError like `written_by`."""
        ours = await self.written_by(cluster, {batch.producer_id for batch in batches})
        return [batch for batch in batches if batch.producer_id in ours]

    async def without(self, cluster: Source, batches: list[Batch]) -> list[Batch]:
        """Return the batches that other producers wrote. Raises KafkaError like `written_by`."""
        theirs = await self.written_by(cluster, {batch.producer_id for batch in batches})
        return [batch for batch in batches if batch.producer_id not in theirs]

    async def _read(self, cluster: Source) -> None:
        place = TopicPartition(self.topic, 0)
        if not cluster.knows(*place):
            await cluster.refresh()
        if not cluster.knows(*place):
            raise KafkaError(f"topic {self.topic} does not exist, or this client may not describe it")
        if (topic_id := cluster.topic_id(self.topic)) != self._topic_id:
            self._topic_id, self._next = topic_id, 0  # the topic was created again; producer ids are not assigned twice
        async for offset, record in read_followed(cluster, place, self._next):
            if record.key is not None and record.key.isdigit():
                self._registered.add(int(record.key))
            self._next = offset + 1


class BidirectionalState:
    """The data that a bidirectional flow keeps between windows: its registration, and its reverse flow's ids."""

    def __init__(self, plan: FlowPlan) -> None:
        self.registration = Registration(plan)
        self.written_back = ProducerRegistry(plan.producers_topic_back)

    async def begin_window(self, plan: FlowPlan, partitions: Collection[Partition]) -> None:
        """Register the producers of earlier windows' sequence numbers, and record the target's log ends.

        Args:
            plan: The flow.
            partitions: Partitions of the window, as they were placed.

        Raises:
            KafkaError, TimeoutError: the target refuses the registration, or does not report its log ends.
        """
        self.written_back.doubt_others()
        await self.registration.register({p.sequence.producer_id for p in partitions if p.sequence is not None})
        new = {
            p.on_target: p for p in partitions if p.registered is None or (p.start is not None and p.target_end is None)
        }
        found = await ends(client_options(plan.producer), new)
        for place, end in found.items():
            partition = new[place]
            if partition.registered is None:
                partition.register(end)
            partition.begin_after(end)
