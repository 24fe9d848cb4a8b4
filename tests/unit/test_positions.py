"""The positions of a window, and the offset map that is written with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mirror.model.flow_plan import FlowPlan, PlannedPartition, Window
from mirror.model.identical_offsets import Fill
from mirror.model.offset_map import OffsetRun
from mirror.model.offset_map_tail import Tail
from mirror.model.position_metadata import PositionMetadata
from mirror.model.record_batches import Outgoing
from mirror.replication.alignment import complete_map
from mirror.replication.partition import Partition
from mirror.replication.positions import PositionCommits

PLAN = FlowPlan(source="A", target="B", tasks_max=1, consumer={}, producer={}, partitions=())
WINDOW = Window(number=1, window_ms=10_000, lanes=2, slots=1, slot=0, run_id=1)


class Target:
    """A target that has every topic, and keeps the sizes of the map's batches."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.during: Callable[[], None] = lambda: None

    def knows(self, topic: str, partition: int) -> bool:
        return True

    def send(self, batch: Outgoing, topic: str, partition: int) -> asyncio.Future[int]:
        assert topic == PLAN.offset_map_topic
        self.written.append(batch.count)
        self.during()
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.set_result(0)
        return done


def landed(partition: Partition) -> None:
    partition.tail.acknowledged([OffsetRun(0, 0, 5)], base=0)
    partition.acked = 5


def test_a_first_batch_that_is_acknowledged_while_the_map_is_written_is_in_the_next_write():
    one, other = (Partition(PlannedPartition("t", "A.t", n, "id"), 0, 0, tail=Tail(begins_at=0)) for n in (0, 1))
    commits, target = PositionCommits(PLAN, WINDOW, [one, other]), Target()
    target.during = lambda: landed(other)
    landed(one)

    async def moved_and_committed() -> None:
        await commits.move_tails(target)
        commits.completed(commits.pending(target))

    asyncio.run(moved_and_committed())
    assert (other.tail.is_new, other.acked) == (True, other.committed)
    target.during = lambda: None
    for _ in range(2):  # the second time, nothing is left to write
        asyncio.run(moved_and_committed())
    assert target.written == [1, 1]
    assert not other.tail.is_new


def test_a_gap_that_is_filled_after_its_position_was_committed_is_in_the_next_commit():
    """The position passes the marker behind a batch together with the batch, before the target has one at that offset."""
    one = Partition(PlannedPartition("t", "A.t", 0, "id", is_identical=True), 0, 0, tail=Tail(begins_at=0))
    commits, target = PositionCommits(PLAN, WINDOW, [one]), Target()
    landed(one)
    one.passed(6)
    pending = commits.pending(target)
    one.filled(Fill(5, 6), is_mapped=True)
    commits.completed(pending)
    ((offset, metadata),) = commits.pending(target).offsets.values()
    assert (offset, PositionMetadata.parse(metadata).tail) == (6, "0,0,6*")


@pytest.mark.parametrize(("log_end", "mapped"), [(5, 5), (6, 6), (9, 9)])
def test_equal_logs_complete_the_map_of_a_window_that_was_killed_while_it_filled_a_gap(log_end, mapped):
    one = Partition(PlannedPartition("t", "A.t", 0, "id", is_identical=True), 9, 9, tail=Tail("0,0,5"))
    complete_map(one, log_end)
    assert one.tail.runs.last == OffsetRun(0, 0, mapped)
