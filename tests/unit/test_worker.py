"""What a window reports of a slot: of idle topic-partitions only now and then."""

from __future__ import annotations

import asyncio

import pytest

from metrics.reports import SlotReport
from mirror.model.flow_plan import FlowPlan, PlannedPartition, Window
from mirror.replication import worker
from mirror.replication.partition import Partition, Pause
from mirror.replication.window import Served

SLOT = SlotReport(12.0, 1, 0.5, 0.25, 3.0, 2.0, 4096)


def window(number: int) -> Window:
    return Window(number=number, window_ms=2000, lanes=2, slots=1, slot=0, run_id=1)


@pytest.fixture
def partitions(monkeypatch):
    """Three topic-partitions that each window of flow a->b is to have served."""
    found = [Partition(PlannedPartition("t", "a.t", number, ""), 5, 5) for number in range(3)]

    async def serve(*_: object) -> Served:
        return Served(found, SLOT)

    loop = asyncio.new_event_loop()
    monkeypatch.setattr(worker, "serve", serve)
    monkeypatch.setattr(worker, "_workers", {worker.os.getpid(): worker.Worker(loop)})
    yield found
    loop.close()


def test_idle_partitions_are_reported_at_first_and_once_a_minute(partitions):
    plan = FlowPlan(source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=())

    def told(number: int) -> list[int]:
        rows = list(worker.serve_slot(window(number), (plan,)))
        assert rows[0].of_slot == SLOT, "the first row tells of the slot"
        assert [row.of_slot for row in rows[1:]] == [None] * (len(rows) - 1)
        return [row.partition for row in rows]

    assert told(31) == [0, 1, 2], "the first window of this process"
    assert told(32) == [0], "nothing to tell, but how the slot did"
    partitions[2].tally.records = 1
    partitions[1].pause.begin(Pause.BACK_OFF, "too large")
    assert told(33) == [0, 1, 2]
    partitions[2].tally.records, partitions[2].tally.lost = 0, 4
    partitions[1].pause.end()
    assert told(34) == [0, 2]
    partitions[2].tally.lost, partitions[2].tally.rewinds = 0, 1
    assert told(35) == [0, 2]
    partitions[2].tally.rewinds = 0
    assert told(60) == [0, 1, 2], "the first window of a minute"
