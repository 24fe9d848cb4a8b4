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


LINGER_S = 0.02


def test_without_linger_a_few_topic_partitions_are_fetched_again_at_once():
    assert fetch_delay_s(1, 1, 0.0) == fetch_delay_s(FREE, 1, 0.0) == 0.0


def test_records_gather_for_as_long_as_linger_ms():
    assert fetch_delay_s(1, 1, LINGER_S) == fetch_delay_s(FREE + 100, 1, LINGER_S) == LINGER_S


def test_many_topic_partitions_are_fetched_again_when_the_broker_has_had_time_for_others():
    assert fetch_delay_s(FREE + 100, 1, 0.0) == pytest.approx(100 * EACH_S)
    assert fetch_delay_s(FREE + 1_000, 1, LINGER_S) == pytest.approx(1_000 * EACH_S)


def test_after_a_fetch_without_records_the_next_one_follows_at_once():
    assert fetch_delay_s(5_000, 0, LINGER_S) == 0.0


def test_a_backlog_is_read_without_pauses():
    assert fetch_delay_s(5_000, SMALL_BYTES, LINGER_S) > 0.0
    assert fetch_delay_s(5_000, SMALL_BYTES + 1, LINGER_S) == 0.0


def gaps_s(topic_partitions: int, *, linger_s: float = 0.0) -> list[float]:
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
        fetching = fetchers(source, partitions, busy=keys, linger_s=linger_s)
        fetching.follow_leaders()
        async with asyncio.timeout(10):
            await is_over.wait()
        await fetching.stop()
        return [later - earlier for earlier, later in pairwise(asked_s)]

    return asyncio.run(run())


def test_a_fetcher_lingers():
    found = gaps_s(FETCHES + 1, linger_s=LINGER_S)
    assert len(found) == FETCHES
    assert min(found) >= LINGER_S * 0.9


def test_a_fetcher_of_many_topic_partitions_gives_the_broker_time():
    found = gaps_s(FREE + 300)
    assert len(found) == FETCHES
    assert min(found) >= 300 * EACH_S * 0.9
