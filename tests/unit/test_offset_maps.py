"""What is forgotten of a flow's offset maps as the source's logs begin later."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest

from mirror.flows import offset_maps
from mirror.flows.offset_maps import FlowMaps
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.model.offset_map import OffsetMap, OffsetRun
from mirror.model.offset_map_tail import PAUSED, MapRecord

PLAN = FlowPlan(
    source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=(PlannedPartition("t", "a.t", 0, "id"),)
)


def test_the_topic_is_written_out_whole_for_topics_that_are_the_same_still(monkeypatch):
    """What is written makes the same map again: with the ids of the topics, in records of a bounded size."""
    kept = {("a.t", 0): (99, "id:there 0,0,5"), ("mm2-offset-map.a.internal", 0): (1, '["x.*"]')}
    written: list[tuple[bytes, bytes]] = []

    async def topic(options, name, start):
        for offset, (key, value) in enumerate(written[start:], start):
            yield offset, SimpleNamespace(key=key, value=value)

    async def positions(options, group):
        return kept

    monkeypatch.setattr(offset_maps, "read_topic", topic)
    monkeypatch.setattr(offset_maps, "committed", positions)
    monkeypatch.setattr(offset_maps, "RUNS_EACH", 2)
    found, client = FlowMaps(PLAN), {"bootstrap.servers": "h:1"}
    asyncio.run(found.refresh(client))
    found.maps["t", 0] = OffsetMap([OffsetRun(0, 0, 5), OffsetRun(7, 5, 5), OffsetRun(20, 10, 1)])
    asyncio.run(found.read_again(client))
    written += found.written_out()
    assert [key for key, _ in written] == [PAUSED, MapRecord.key("t", 0, 0), MapRecord.key("t", 0, 20)]
    decoded = MapRecord.decode(*written[1])
    assert decoded is not None
    assert decoded.ids == "id:there"
    kept["a.t", 0] = (99, "id:there 20,10,1")
    again = FlowMaps(PLAN)
    asyncio.run(again.refresh(client))
    assert again.maps == found.maps
    assert again.foreign == 0
    kept["a.t", 0] = (3, "id:another 0,0,3")
    asyncio.run(found.read_again(client))
    assert found.maps == {}, "the remote topic was created again: its offsets are others"


@pytest.fixture
def maps(monkeypatch):
    """Read a topic with these runs in one record each, and a tail."""

    def read(*records: list[OffsetRun], tail: str = "", most_runs: int | None = None) -> FlowMaps:
        written = [MapRecord("t", 0, OffsetMap(runs)).encode() for runs in records] + [(b"foreign", b"x")]

        async def topic(options, name, start):
            assert name == "mm2-offset-map.a.internal"
            for offset, (key, value) in enumerate(written[start:], start):
                yield offset, SimpleNamespace(key=key, value=value)

        async def positions(options, group):
            return {("a.t", 0): (99, f"id {tail}"), ("mm2-batons.a.internal", 0): (1, "")}

        monkeypatch.setattr(offset_maps, "read_topic", topic)
        monkeypatch.setattr(offset_maps, "committed", positions)
        found = FlowMaps(PLAN, most_runs)
        for _ in range(2):  # the second time there is nothing new, and nothing changes
            asyncio.run(found.refresh({"bootstrap.servers": "h:1"}))
        return found

    return read


def test_topic_and_tail_make_the_map(maps):
    found = maps([OffsetRun(0, 0, 10)], [OffsetRun(12, 10, 5)], tail="12,10,8*")
    assert list(found.maps["t", 0]) == [OffsetRun(0, 0, 10), OffsetRun(12, 10, 8)]
    assert found.positions == {("t", 0): 99}
    assert found.foreign == 1


def test_keys_of_what_retention_took_are_given_back_once(maps):
    found = maps([OffsetRun(0, 0, 10)], [OffsetRun(12, 10, 8)], [OffsetRun(30, 18, 5)])
    first, second, _ = (MapRecord("t", 0, OffsetMap([run])).encode()[0] for run in found.maps["t", 0])
    assert found.forget_before({("t", 0): 5}) == []
    assert found.forget_before({("t", 0): 12, ("other", 0): 5}) == [first]
    assert found.forget_before({("t", 0): 99}) == [second]  # the newest run stays
    assert list(found.maps["t", 0]) == [OffsetRun(30, 18, 5)]
    assert found.forget_before({("t", 0): 99}) == []


def test_memory_is_bounded_however_many_transactions_there_were(maps, caplog):
    records = [[OffsetRun(10 * n, 11 * n, 10) for n in range(first, first + 20)] for first in range(0, 4_000, 20)]
    with caplog.at_level(logging.INFO, "mirror"):
        found = maps(*records, most_runs=200).maps["t", 0]
    assert 100 <= len(found) <= 250
    assert [run.source for run in found][-80:] == list(range(39_200, 40_000, 10)), "the newest are all there"
    assert found.translate(39_995) == 11 * 3_999 + 5
    assert 0 < found.translate(20_000) <= 22_000
    assert found.first == OffsetRun(0, 0, 10)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("a->b: more than 200 runs of offsets;")
    assert len(maps(*records).maps["t", 0]) == 4_000, "who does not stay keeps all"
