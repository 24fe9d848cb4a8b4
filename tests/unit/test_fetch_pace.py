"""How soon a broker is asked again, and that fetchers heed it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from unittest.mock import create_autospec

import pytest

from mirror.kafka.client import Purpose
from mirror.kafka.errors import ErrorCode
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Fetched, Source
from mirror.model.flow_plan import PlannedPartition
from mirror.model.topic_partition import TopicPartition
from mirror.replication.fetching import EACH_S, FREE, SMALL_BYTES, fetch_delay_s
from mirror.replication.partition import Partition
from tests.unit.test_fetching import fetchers, stamped_batch

FETCHES = 4


def test_a_few_topic_partitions_are_asked_for_at_once_again():
    assert fetch_delay_s(1, 1) == fetch_delay_s(FREE, 1) == 0.0


def test_many_are_asked_for_when_the_broker_has_had_time_for_others():
    assert fetch_delay_s(FREE + 100, 1) == pytest.approx(100 * EACH_S)


def test_after_an_empty_response_there_is_no_delay():
    assert fetch_delay_s(5_000, 0) == 0.0


def test_a_lagging_partition_is_fetched_without_delay():
    assert fetch_delay_s(5_000, SMALL_BYTES) > 0.0
    assert fetch_delay_s(5_000, SMALL_BYTES + 1) == 0.0


def gaps_s(topic_partitions: int) -> list[float]:
    """Return the times between fetches of so many busy topic-partitions, whose source answers each at once with a record."""

    async def run() -> list[float]:
        loop, data, is_over = asyncio.get_running_loop(), stamped_batch(), asyncio.Event()
        asked_s: list[float] = []
        keys: list[TopicPartition] = [("t", number) for number in range(topic_partitions)]

        async def fetch(
            node: int, wanted: Mapping[TopicPartition, FetchPosition], limits: FetchLimits, purpose: Purpose
        ) -> list[Fetched]:
            asked_s.append(loop.time())
            if len(asked_s) > FETCHES or purpose is Purpose.IDLE_FETCH:
                is_over.set()
                await asyncio.Event().wait()
            return [Fetched(*keys[len(asked_s)], ErrorCode.none, 1, 0, [], data)]

        source = create_autospec(Source, instance=True)
        source.leader.return_value = 1
        source.fetch = fetch
        partitions = {key: Partition(PlannedPartition("t", "a.t", key[1], ""), 0, 0) for key in keys}
        fetching = fetchers(source, partitions, busy=keys)
        fetching.follow_leaders()
        async with asyncio.timeout(10):
            await is_over.wait()
        await fetching.stop()
        return [later - earlier for earlier, later in pairwise(asked_s)]

    return asyncio.run(run())


def test_a_fetcher_heeds_it():
    found = gaps_s(FREE + 300)
    assert len(found) == FETCHES
    assert min(found) >= 300 * EACH_S * 0.9
