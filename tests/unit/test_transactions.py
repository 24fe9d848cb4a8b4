"""Batches in transactions: what counts is what was committed, and how long one lasts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from mirror.config.clients import produce_options
from mirror.handover.lease import LeaseStatus
from mirror.kafka.errors import BrokerError, ErrorCode, KafkaError
from mirror.kafka.producer import NotAppendedError, UncertainError, WithdrawnError
from mirror.model.flow_plan import FlowPlan, PlannedPartition, Window
from mirror.model.record_batches import Outgoing
from mirror.model.slot_lease import GRACE_S
from mirror.model.topic_partition import TopicPartition
from mirror.replication.delivery import Acknowledged
from mirror.replication.exactly_once import BACKLOG_BYTES, BACKLOG_LASTS, ExactlyOnce
from mirror.replication.ledger import LedgerEntry
from mirror.replication.partition import Partition, Pause
from mirror.replication.pauses import LoggedReasons, Pauses
from mirror.replication.positions import PendingCommit, PendingPosition
from mirror.replication.read_ahead import ReadAhead
from mirror.replication.replicator import WITHDRAWS_S, withdraw_late

pytestmark = pytest.mark.usefixtures("virtual_clock")

PRODUCE = produce_options({"batch.size": str(1 << 18)})
LONGEST_S = 0.1
PLAN = FlowPlan(
    source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=(), transaction_ms=int(LONGEST_S * 1000)
)


class Target:
    """A target whose commits fail when they are to."""

    is_closed = False

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def begin_transaction(self) -> None: ...

    async def abort_transaction(self) -> None: ...

    async def committed(self, group: str, wanted: object) -> dict[TopicPartition, tuple[int, str]]:
        return {}

    async def commit_transaction(self, group: str, offsets: object, confirm: Callable[[], Awaitable[None]]) -> None:
        await confirm()
        if self._fails:
            raise KafkaError("fenced")


class PositionCommits:
    """Commits of all that was acknowledged."""

    map_failure: KafkaError | None = None

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    async def move_tails(self, target: Target) -> None:
        if self.map_failure is not None:
            raise self.map_failure

    def pending(self, target: Target) -> PendingCommit:
        return PendingCommit({}, [PendingPosition(self._partition, self._partition.acked, 0)])

    def completed(self, pending: PendingCommit) -> None: ...


class Lease:
    """A slot's lease, as it is found."""

    looks_at = ()

    def __init__(self, status: LeaseStatus) -> None:
        self._status = status

    def status(self, found: object) -> LeaseStatus:
        return self._status

    def may_commit(self, found: object) -> bool:
        return self._status is not LeaseStatus.OVERTAKEN


class Ledger:
    """A ledger for no gap."""

    async def write(self, target: Target) -> list[LedgerEntry]:
        return []

    def told(self, written: list[LedgerEntry]) -> None: ...


class Sending:
    """Says how much is on its way, and how much waits."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.in_flight = 0
        self.held_bytes = 0
        self.needs_new_producer = False
        self.quiet = asyncio.Event()

    def send_next(self, partition: Partition) -> None: ...

    async def is_quiet(self, within_s: float | None = None) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.quiet.wait(), within_s)
        return self.quiet.is_set()


def begun(
    *, fails: bool = False, status: LeaseStatus = LeaseStatus.HOLDS
) -> tuple[ExactlyOnce, Sending, Partition, asyncio.Event]:
    """Return one that has begun, who sends, a topic-partition, and what is set when the window cannot go on."""
    partition = Partition(PlannedPartition("t", "a.t", 0, "id"), position=100, acked=100)
    target, read_ahead = Target(fails=fails), ReadAhead()
    made = ExactlyOnce(
        plan=PLAN,
        window=Window(number=7, window_ms=10_000, lanes=2, slots=1, slot=0, run_id=1),
        partitions=[partition],
        positions=PositionCommits(partition),
        ledger=Ledger(),
        lease=Lease(status),
    )
    pauses = Pauses(
        name=PLAN.name,
        target=target,
        partitions=[partition],
        read_ahead=read_ahead,
        tries_all=False,
        logged_reasons=LoggedReasons(),
    )
    sending, stop = Sending(target), asyncio.Event()
    made.begin(sending, read_ahead, pauses, stop)
    return made, sending, partition, stop


@pytest.mark.parametrize(("fails", "stands", "counted"), [(False, 140, 40), (True, 100, 0)])
def test_acknowledged_records_count_when_they_are_committed(fails, stands, counted):
    """The position that a window reports, and what it has counted, are those of its last commit (B, C)."""

    async def run() -> tuple[bool, int, int]:
        made, _, partition, _ = begun(fails=fails)
        made.acknowledged(Acknowledged(partition, Outgoing(bytes(80), 40, 140, 0, 0, 0.0), 0.0, 0))
        partition.acked = 140
        made.stop()
        return await made.drained(1), partition.acked, partition.tally.records

    assert asyncio.run(run()) == (not fails, stands, counted)


@pytest.mark.parametrize(
    ("failure", "counted"),
    [
        (BrokerError(ErrorCode.message_too_large, "mm2-offset-map.a.internal-0"), 40),
        (NotAppendedError(BrokerError(ErrorCode.leader_not_available, "mm2-offset-map.a.internal-0")), 40),
        (UncertainError(BrokerError(ErrorCode.request_timed_out, "mm2-offset-map.a.internal-0")), 0),
    ],
)
def test_a_map_that_the_target_refuses_keeps_no_record_from_being_committed(monkeypatch, caplog, failure, counted):
    """A batch of it that may be in the log does: then the transaction can only be aborted."""
    monkeypatch.setattr(PositionCommits, "map_failure", failure)

    async def run() -> int:
        made, _, partition, _ = begun()
        made.acknowledged(Acknowledged(partition, Outgoing(bytes(80), 40, 140, 0, 0, 0.0), 0.0, 0))
        partition.acked = 140
        made.stop()
        await made.drained(1)
        return partition.tally.records

    assert asyncio.run(run()) == counted
    is_told = f"a->b: the offset map cannot be written ({failure}); records are replicated" in caplog.text
    assert is_told is (counted > 0)


def test_an_offset_map_delayed_by_a_quota_does_not_delay_the_commit(caplog):
    """The map is sent after the last records were acknowledged. It is taken back too, without a word about it."""

    class ThrottledMap(PositionCommits):
        """Positions whose map is never sent."""

        async def move_tails(self, target: Target) -> None:
            await asyncio.sleep(WITHDRAWS_S + 0.1)  # it is sent when the first withdrawal is over
            self.held_back = asyncio.get_running_loop().create_future()
            await self.held_back

        def withdraw(self) -> None:
            if self.held_back is not None and not self.held_back.done():
                self.held_back.set_exception(WithdrawnError())

        held_back: asyncio.Future[None] | None = None

    async def run() -> tuple[bool, int]:
        made, _, partition, _ = begun()
        made.positions = ThrottledMap(partition)
        made.acknowledged(Acknowledged(partition, Outgoing(bytes(80), 40, 140, 0, 0, 0.0), 0.0, 0))
        made.stop()
        withdrawing = asyncio.create_task(withdraw_late(made.positions))
        is_committed = await made.drained(GRACE_S)
        withdrawing.cancel()
        return is_committed, partition.tally.records

    assert asyncio.run(run()) == (True, 40)
    assert caplog.text == ""


def test_a_transaction_that_fails_ends_the_window():
    async def run() -> bool:
        made, _, _, stop = begun(fails=True)
        made.sent()
        await asyncio.wait_for(stop.wait(), 5)
        made.stop()
        return await made.drained(1)

    assert asyncio.run(run()) is False


@pytest.mark.parametrize(("queued", "times"), [(0, 1), (BACKLOG_BYTES + 1, BACKLOG_LASTS)])
def test_an_open_transaction_lasts_longer_at_a_backlog(queued, times):
    """Nothing more is sent when it ends (A)."""

    async def run() -> float:
        made, sending, partition, _ = begun()
        sending.in_flight, sending.held_bytes = 1, queued
        loop = asyncio.get_running_loop()
        began = loop.time()
        made.sent()
        while made.admit(partition):
            await asyncio.sleep(0.005)
        lasted = loop.time() - began
        made.stop()
        sending.in_flight = 0
        sending.quiet.set()
        await made.drained(1)
        return lasted

    assert times * LONGEST_S <= asyncio.run(run()) < (times + BACKLOG_LASTS - 1) * LONGEST_S


def test_a_window_that_ends_during_a_transaction_commits_at_once():
    async def run() -> bool:
        made, sending, _, _ = begun()
        sending.in_flight = 1
        made.sent()
        await asyncio.sleep(2 * LONGEST_S)  # it lasts too long now, and waits for what is under way
        made.stop()
        sending.in_flight = 0
        sending.quiet.set()
        return await made.drained(1)

    assert asyncio.run(run())


def test_a_batch_without_an_outcome_aborts_its_transaction_and_pauses_its_partition():
    async def run() -> tuple[bool, int, Pause]:
        made, _, partition, _ = begun()
        partition.acked = 140
        made.uncertain(partition, UncertainError(BrokerError(ErrorCode.request_timed_out)))
        assert not made.admit(partition)
        made.stop()
        return await made.drained(1), partition.acked, partition.pause.kind

    assert asyncio.run(run()) == (True, 100, Pause.STANDSTILL)


@pytest.mark.parametrize("status", [LeaseStatus.LOST, LeaseStatus.OVERTAKEN])
def test_after_an_abort_a_window_whose_slot_is_taken_over_commits_nothing_more(status):
    """The abort may have fenced the successor, whose positions are newer."""

    async def run() -> tuple[bool, bool]:
        made, sending, partition, _ = begun(status=status)
        made.uncertain(partition, UncertainError(BrokerError(ErrorCode.request_timed_out)))
        made.stop()
        return await made.drained(1), sending.needs_new_producer

    assert asyncio.run(run()) == (False, True)


@pytest.mark.parametrize(("status", "is_committed"), [(LeaseStatus.LOST, True), (LeaseStatus.OVERTAKEN, False)])
def test_a_window_whose_successor_has_claimed_the_lease_commits_nothing_more(status, is_committed):
    """The successor may write by a spare id, and has not fenced this window then."""

    async def run() -> tuple[bool, int]:
        made, _, partition, _ = begun(status=status)
        made.acknowledged(Acknowledged(partition, Outgoing(bytes(80), 40, 140, 0, 0, 0.0), 0.0, 0))
        partition.acked = 140
        made.stop()
        return await made.drained(1), partition.acked

    assert asyncio.run(run()) == (is_committed, 140 if is_committed else 100)
