"""Look up offsets in logs: start, end, or a time, by one request (ListOffsets) per leader.

Not by librdkafka's admin client: it makes a future for each partition, which takes four times as long.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from mirror.kafka import packing
from mirror.kafka.by_topic import by_topic, partitions_by_topic
from mirror.kafka.client import Client
from mirror.kafka.errors import SILENCES, BrokerError, ErrorCode, KafkaError, NoAnswerError
from mirror.kafka.kept_client import KeptClient
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import CONSUMER, ApiKey
from mirror.model.codecs import Bytes
from mirror.model.topic_partition import TopicPartition
from mirror.runtime import background

MOST = 32  # partitions that are asked about at once


class OpenTransaction(NamedTuple):
    """The first open transaction of a partition. `transactional_id` is "" if brokers do not report it."""

    start: int
    producer_id: int
    transactional_id: str

    def __str__(self) -> str:
        named = f" ({self.transactional_id})" if self.transactional_id else ""
        return f"the transaction of producer id {self.producer_id}{named}, open since offset {self.start}"


async def open_transactions(client: Client, places: Iterable[TopicPartition]) -> dict[TopicPartition, OpenTransaction]:
    """Return each partition's first open transaction, as far as brokers (3.0 and later) report it.

    Args:
        client: Knows the leaders.
        places: At most MOST of them are looked up.
    """
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for place in list(places)[:MOST]:
        if (node := client.metadata.leader(*place)) is not None:
            by_leader[node].append(place)
    found: dict[TopicPartition, OpenTransaction] = {}
    for each in await asyncio.gather(*(_first(client, node, asked) for node, asked in by_leader.items())):
        found |= each
    names = await _names(client, {each.producer_id for each in found.values()})
    return {place: each._replace(transactional_id=names.get(each.producer_id, "")) for place, each in found.items()}


async def _first(client: Client, node: int, asked: Collection[TopicPartition]) -> dict[TopicPartition, OpenTransaction]:
    def build(module: ModuleType, _: int) -> Any:
        topics = (
            module.TopicRequest(name=topic, partition_indexes=tuple(partitions))
            for topic, partitions in partitions_by_topic(asked).items()
        )
        return module.DescribeProducersRequest(topics=tuple(topics))

    try:
        answer = await client.ask(node, Request(ApiKey.DESCRIBE_PRODUCERS, 0, 0, build))
    except KafkaError:  # a broker that is too old, or does not respond, adds nothing
        return {}
    found: dict[TopicPartition, OpenTransaction] = {}
    for topic in answer.topics:
        for part in topic.partitions:
            starts = [
                OpenTransaction(int(one.current_txn_start_offset), int(one.producer_id), "")
                for one in part.active_producers
                if part.error_code is ErrorCode.none and one.current_txn_start_offset >= 0
            ]
            if starts:
                found[TopicPartition(topic.name, part.partition_index)] = min(starts)
    return found


async def _names(client: Client, producer_ids: Collection[int]) -> Mapping[int, str]:
    """Return transactional ids by producer id, if their coordinators report them."""
    if not producer_ids:
        return {}

    def build(module: ModuleType, _: int) -> Any:
        return make(module.ListTransactionsRequest, state_filters=(), producer_id_filters=tuple(producer_ids))

    async def ask(node: int) -> Mapping[int, str]:
        try:
            answer = await client.ask(node, Request(ApiKey.LIST_TRANSACTIONS, 0, 0, build))
        except KafkaError:
            return {}
        return {int(each.producer_id): str(each.transactional_id) for each in answer.transaction_states}

    found: dict[int, str] = {}
    for each in await asyncio.gather(*map(ask, client.metadata.brokers)):
        found |= each
    return found


Answers = dict[TopicPartition, int | KafkaError]


async def offsets_of(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    *,
    replica: int = CONSUMER,
    isolation_level: int = 0,
    within_s: float | None = None,
) -> Answers:
    """Return an offset of each partition, or the error that it has instead.

    If a broker does not respond, only its own partitions lack their offsets.

    Args:
        client: Knows the leaders.
        wanted: EARLIEST, LATEST, or a time (epoch ms) whose first record is meant, by partition.
        replica: For DEBUGGER the latest offset is the end of the leader's log, which may have more than consumers are shown.
        isolation_level: 1: the latest offset is that of decided transactions.
        within_s: How long a broker may take; by default as long as for any request.
    """
    found: Answers = {}
    by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    metadata = client.metadata
    for (topic, partition), at in wanted.items():
        node = metadata.leader(topic, partition)
        if node is None:
            is_there = metadata.has(topic, partition)
            unknown = metadata.errors.get(topic, ErrorCode.unknown_topic_or_partition)
            code = ErrorCode.leader_not_available if is_there else unknown
            found[TopicPartition(topic, partition)] = BrokerError(code, f"{topic}-{partition}")
        else:
            by_leader[node][TopicPartition(topic, partition)] = at

    async def ask(node: int, asked: Mapping[TopicPartition, int]) -> None:
        failure: KafkaError
        try:
            async with asyncio.timeout(within_s):
                answer = await client.ask(node, list_offsets_request(replica, isolation_level, asked))
        except KafkaError as error:
            failure = error
        except TimeoutError:
            failure = NoAnswerError(f"no answer from broker {node} in time")
        else:
            for topic in answer.topics:
                for part in topic.partitions:
                    is_good = part.error_code is ErrorCode.none
                    where = f"{topic.name}-{part.partition_index}"
                    found[TopicPartition(topic.name, part.partition_index)] = (
                        int(part.offset) if is_good else BrokerError(part.error_code, where)
                    )
            return
        found.update(dict.fromkeys(asked, failure))

    await asyncio.gather(*(ask(node, asked) for node, asked in by_leader.items()))
    return found


def list_offsets_request(replica: int, isolation_level: int, asked: Mapping[TopicPartition, int]) -> Request:
    """Return the request for offsets at EARLIEST, LATEST or times (epoch ms)."""
    wanted = by_topic(asked.items())

    def build(module: ModuleType, _: int) -> Any:
        return make(
            module.ListOffsetsRequest,
            replica_id=replica,
            isolation_level=isolation_level,
            topics=tuple(
                module.ListOffsetsTopic(
                    name=topic,
                    partitions=tuple(
                        make(module.ListOffsetsPartition, partition_index=partition, timestamp=at)
                        for partition, at in partitions
                    ),
                )
                for topic, partitions in wanted.items()
            ),
        )

    def packs(version: int) -> list[Bytes] | None:
        return packing.list_offsets(replica, isolation_level, wanted) if version in packing.LIST_OFFSETS else None

    return Request(ApiKey.LIST_OFFSETS, 1, 7, build, packs=packs)


class LogOffsets:
    """A client of one cluster for repeated requests of any thread."""

    def __init__(self, client: KeptClient, *, within_s: float) -> None:
        """A question takes no longer than `within_s`."""
        self._client = client
        self._within_s = within_s

    def ask(self, places: Iterable[TopicPartition], at: int, *, isolation_level: int = 0) -> Answers:
        """Return each partition's offset at EARLIEST, LATEST or a time (epoch ms), or its error.

        Raises:
            KafkaError, OSError: no broker of the cluster responds.
        """
        wanted = dict.fromkeys(places, at)
        return background.run(self._asked(wanted, isolation_level)) if wanted else {}

    def open_transactions(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, OpenTransaction]:
        """Return each partition's first open transaction; at most MOST partitions are looked up.

        Raises:
            KafkaError, OSError: no broker of the cluster responds.
        """
        wanted = list(places)
        return background.run(self._asked_whose(wanted)) if wanted else {}

    async def _asked_whose(self, wanted: list[TopicPartition]) -> dict[TopicPartition, OpenTransaction]:
        until_s = time.monotonic() + self._within_s
        async with self._client.turn:
            client = await self._client.following({topic for topic, _ in wanted}, until_s)
            try:
                async with asyncio.timeout(max(0.0, until_s - time.monotonic())):
                    return await open_transactions(client, wanted)
            except TimeoutError:
                return {}

    async def _asked(self, wanted: Mapping[TopicPartition, int], isolation_level: int) -> Answers:
        until_s = time.monotonic() + self._within_s
        async with self._client.turn:
            client = await self._client.following({topic for topic, _ in wanted}, until_s)
            found = await _answers(client, wanted, isolation_level, until_s)
            if any(isinstance(answer, SILENCES) for answer in found.values()):
                client.abort()  # a connection may be half-open
                client.refresh_soon()
            moved = {place: wanted[place] for place, answer in found.items() if _has_moved(answer)}
            if moved:
                with contextlib.suppress(KafkaError, TimeoutError):
                    async with asyncio.timeout(max(0.0, until_s - time.monotonic())):
                        await client.refresh()
                    found |= await _answers(client, moved, isolation_level, until_s)
        return found


async def _answers(
    client: Client, wanted: Mapping[TopicPartition, int], isolation_level: int, until_s: float
) -> Answers:
    left_s = max(0.0, until_s - time.monotonic())
    return await offsets_of(client, wanted, isolation_level=isolation_level, within_s=left_s)


def _has_moved(answer: int | KafkaError) -> bool:
    return isinstance(answer, BrokerError) and answer.has_stale_metadata
