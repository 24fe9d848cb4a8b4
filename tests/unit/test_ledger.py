"""Gaps that a window finds reach the ledger once, and hold nothing up where it cannot be written."""

from __future__ import annotations

import asyncio

import pytest

from mirror.kafka.errors import KafkaError
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.model.gaps import Cause, Effect, Gap
from mirror.model.record_batches import records
from mirror.replication.ledger import Ledger
from mirror.replication.partition import Partition

PLAN = FlowPlan(source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=())


class Target:
    """A target that has the ledger's topic, takes what is sent, and keeps it."""

    def __init__(self, *, knows: bool = True, failure: Exception | None = None) -> None:
        self._knows = knows
        self._failure = failure
        self.has: list[Gap | None] = []

    def knows(self, topic: str, partition: int) -> bool:
        assert (topic, partition) == (PLAN.gaps_topic, 0)
        return self._knows

    def send(self, batch, topic: str, partition: int) -> asyncio.Future[int]:
        sent = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            sent.set_exception(self._failure)
        else:
            self.has += [Gap.decode(record.value) for record in records(batch.data)]
            sent.set_result(0)
        return sent


@pytest.fixture
def partition():
    return Partition(PlannedPartition("t", "a.t", 0, "id"), position=5, acked=5)


def lost(partition: Partition, last: int) -> None:
    partition.record_gap(Effect.LOST, Cause.RETENTION, 5, last, "deleted")


def refused(partition: Partition, reason: str = "refused") -> None:
    partition.record_gap(Effect.REFUSED, Cause.REFUSAL, partition.acked, None, reason)


def test_a_gap_is_written_again_until_it_counts(partition):
    """As where the transaction that had it is aborted."""
    book, target = Ledger(PLAN, [partition], {}), Target()
    lost(partition, 9)
    written = asyncio.run(book.write(target))
    assert [gap.last for gap in target.has] == [9]
    lost(partition, 12)  # found again, and retention went on
    book.told(written)
    book.told(asyncio.run(book.write(target)))
    assert [gap.last for gap in target.has] == [9, 12], "what came meanwhile is not forgotten"
    assert asyncio.run(book.write(target)) == []


def test_a_record_that_is_refused_in_each_window_has_one_entry(partition):
    target, newest = Target(), {}
    for _ in range(3):
        book = Ledger(PLAN, [partition], newest)
        refused(partition)
        book.told(asyncio.run(book.write(target)))
    assert len(target.has) == 1
    refused(partition, "for another reason")
    book.told(asyncio.run(book.write(target)))
    assert len(target.has) == 2
    assert partition.gaps == []


@pytest.mark.parametrize("target", [Target(knows=False), Target(failure=KafkaError("denied"))])
def test_a_ledger_that_cannot_be_written_is_logged_once_and_delays_nothing(partition, target, caplog):
    book = Ledger(PLAN, [partition], {})
    lost(partition, 9)
    for _ in range(3):
        assert asyncio.run(book.write(target)) == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the ledger of gaps cannot be written" in caplog.text
    assert len(partition.gaps) == 1, "it is tried again"
