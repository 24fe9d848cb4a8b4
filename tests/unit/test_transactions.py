"""A runner in transactions: what counts is what was committed, and how long one lasts."""

from __future__ import annotations

import asyncio

import pytest

from mirror.config.clients import FetchOptions, ProduceOptions
from mirror.kafka.protocol import KafkaError
from mirror.model.flow_plan import Assigned
from mirror.model.record_batches import Outgoing
from mirror.replication.partition import Partition
from mirror.replication.positions import Page, Written
from mirror.replication.transactions import BACKLOG_BYTES, BACKLOG_LASTS, TransactionalRunner

FETCH = FetchOptions(
    min_bytes=1, max_wait_ms=500, max_bytes=1 << 20, max_partition_bytes=1 << 20, isolation_level=0, from_earliest=True
)
PRODUCE = ProduceOptions(
    compression=None, batch_size=1 << 18, max_request_size=1 << 20, largest_batch=None, transaction_timeout_ms=60_000
)
LONGEST_S = 0.1


class Target:
    """A target whose commits fail when they are to."""

    transaction_failure = None

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def begin_transaction(self) -> None: ...

    async def commit_transaction(self, group: str, offsets: object) -> None:
        if self._fails:
            raise KafkaError("fenced")


class Ledger:
    """A ledger with all that was acknowledged."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    async def move_tails(self, target: Target) -> None: ...

    def page(self, target: Target) -> Page:
        return Page({}, [Written(self._partition, self._partition.acked, None)])

    def wrote(self, page: Page) -> None: ...


def runner(*, fails: bool = False) -> tuple[TransactionalRunner, Partition]:
    partition = Partition(Assigned("t", "a.t", 0, "id"), position=100, acked=100)
    made = TransactionalRunner(
        "a->b", None, Target(fails=fails), [partition], fetch=FETCH, produce=PRODUCE, identities=None,
        ledger=Ledger(partition), group="g", longest_s=LONGEST_S,
    )  # fmt: skip
    return made, partition


@pytest.mark.parametrize(("fails", "stands", "counted"), [(False, 140, 40), (True, 100, 0)])
def test_what_was_acknowledged_and_not_committed_is_reported_nowhere(fails, stands, counted):
    """The position that a window reports, and what it has counted, are those of its last commit."""

    async def run() -> tuple[bool, int, int]:
        made, partition = runner(fails=fails)
        made._settle(partition, [(Outgoing(bytes(80), 40, 140, 0, 0, 0.0), 0)], 0.0)
        partition.acked = 140
        return await made.drained(1), partition.acked, partition.tally.records

    assert asyncio.run(run()) == (not fails, stands, counted)


@pytest.mark.parametrize(("queued", "times"), [(0, 1), (BACKLOG_BYTES + 1, BACKLOG_LASTS)])
def test_a_transaction_under_way_lasts_for_its_time_and_longer_at_a_backlog(queued, times):
    async def run() -> float:
        made, _ = runner()
        made._in_flight = 1
        made._quiet.clear()
        made._packing.held_bytes = queued
        began = asyncio.get_running_loop().time()
        await made._until_due()
        return asyncio.get_running_loop().time() - began

    assert times * LONGEST_S <= asyncio.run(run()) < (times + BACKLOG_LASTS - 1) * LONGEST_S


def test_a_window_that_ends_while_a_transaction_waits_for_its_last_answers_goes_on_at_once():
    async def run() -> bool:
        made, _ = runner()
        made._in_flight = 1
        made._quiet.clear()
        made._sent.set()
        made._transacting = asyncio.create_task(made._transact(asyncio.Event()))
        await asyncio.sleep(2 * LONGEST_S)  # it lasts too long now, and waits for what is under way
        made._stopping = True
        made._sent.set()
        made._in_flight = 0
        made._quiet.set()
        return await made.drained(1)

    assert asyncio.run(run())
