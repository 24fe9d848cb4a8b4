"""Find out whose transactions are open in topic-partitions: what is behind them no reader of committed records is shown."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from mirror.kafka.by_topic import partitions_by_topic
from mirror.kafka.client import Client
from mirror.kafka.errors import ErrorCode, KafkaError
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import ApiKey
from mirror.model.topic_partition import TopicPartition

MOST = 32  # topic-partitions that are asked about at once


class OpenTransaction(NamedTuple):
    """The first open transaction of a topic-partition; `transactional_id` is "" where brokers do not tell it."""

    start: int
    producer_id: int
    transactional_id: str

    def __str__(self) -> str:
        named = f" ({self.transactional_id})" if self.transactional_id else ""
        return f"the transaction of producer id {self.producer_id}{named}, open since offset {self.start}"


async def open_transactions(client: Client, places: Iterable[TopicPartition]) -> dict[TopicPartition, OpenTransaction]:
    """Return the first open transaction of each topic-partition that has one, as far as brokers tell: those of 3.0 and later.

    Args:
        client: Knows the leaders.
        places: At most MOST of them are asked about.
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
    except KafkaError:  # a broker that is too old, or does not answer, tells nothing
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
    """Return transactional ids by producer id, of those that coordinators name."""
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
