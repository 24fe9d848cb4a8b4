"""A slot's lease: whatever a cluster holds up, two windows of a slot never both replicate. The group's offsets are in memory."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.handover.lease import Lease, LeaseStatus, LeaseTerm
from mirror.kafka.errors import KafkaError
from mirror.kafka.forgotten_positions import Recalled
from mirror.model.flow_plan import FlowPlan, PlannedPartition, Window
from mirror.model.slot_lease import LeaseState, Predecessor, WindowOutcome, predecessor_of
from mirror.model.slot_ownership import (
    Owner,
    SlotLayout,
    is_stopped,
    lease_key,
    lease_topic_partitions,
    owner_key,
    ready_key,
    stop_key,
    with_stop,
)
from mirror.replication.partition import Partition
from mirror.replication.positions import PositionCommits
from mirror.replication.window import Connections, FlowWindow
from mirror.replication.worker_state import WorkerState
from tests.unit.fakes import FakeGroupOffsets

pytestmark = pytest.mark.usefixtures("virtual_clock")

WINDOW_MS = 1000
PLAN = FlowPlan(
    source="A", target="B", tasks_max=1, consumer={}, producer={}, partitions=(PlannedPartition("t", "A.t", 0, "id"),)
)


class GroupOffsets(FakeGroupOffsets):
    """What the target keeps of the flow's group."""

    def __init__(self) -> None:
        super().__init__(PLAN.group, {(PLAN.lease_topic, owner_key(0)): Owner(7).encode()})

    def knows(self, topic: str, partition: int) -> bool:
        return (topic, partition) == ("A.t", 0) or (topic == PLAN.lease_topic and partition < lease_topic_partitions(4))

    def lease(self, lane: int) -> LeaseState | None:
        at = self.kept.get((PLAN.lease_topic, lease_key(0, lane)))
        return LeaseState.parse(at)._replace(layout=None) if at is not None else None

    def gives_the_slot_to(self, run_id: int) -> None:
        self.kept[PLAN.lease_topic, owner_key(0)] = Owner(run_id, int(time.time() * 1000)).encode()

    def says_ready(self, window: int) -> None:
        self.kept[PLAN.lease_topic, ready_key(0)] = (window, "")


@pytest.fixture(autouse=True)
def nothing_behind(monkeypatch):
    """Neither the offset map nor a log has anything behind the positions: there is no cluster to ask."""

    async def recalled(*_, **__):
        return Recalled({})

    async def find_outcomes(*_, **__):
        return True

    monkeypatch.setattr("mirror.replication.window.recalled", recalled)
    monkeypatch.setattr("mirror.replication.window.find_outcomes", find_outcomes)


def served_by(number: int, run_id: int) -> Window:
    return Window(number=number, window_ms=WINDOW_MS, lanes=2, slots=1, slot=0, run_id=run_id, gone=frozenset({5, 6}))


def window(number: int, *, run_id: int = 7, plan: FlowPlan = PLAN) -> FlowWindow:
    return FlowWindow(plan, served_by(number, run_id), WorkerState())


def lease_of(number: int, *, run_id: int = 7, plan: FlowPlan = PLAN) -> Lease:
    return Lease(plan, served_by(number, run_id), lambda *_: None)


async def acquired(served: FlowWindow, target: GroupOffsets) -> bool:
    connections = seen_by(target)
    return await served._lease.acquire(connections.target, served._term, lambda: served._begin(connections))


def seen_by(target: GroupOffsets) -> Connections:
    return Connections(source=None, target=target, transactional_id=None)  # type: ignore[arg-type]


async def next_start() -> int:
    """Wait for the begin of an even window and return its number."""
    number = int(time.time() * 1000 // WINDOW_MS) // 2 * 2 + 2
    await asyncio.sleep(number * WINDOW_MS / 1000 - time.time() + 0.01)
    return number


def test_a_late_claim_gives_way_to_the_successor():
    async def scene() -> None:
        here = GroupOffsets()
        late = GroupOffsets()
        late.kept = here.kept  # the same group, by a connection that hangs
        late.arrives.clear()
        number = await next_start()
        first = asyncio.create_task(acquired(window(number), late))
        here.says_ready(number + 1)
        assert await acquired(window(number + 1), here), "nobody holds the lease as far as it can see"
        late.arrives.set()
        assert await first is False
        assert here.lease(lane=1) == LeaseState(number + 1, 7, is_released=False)
        assert here.lease(lane=0) == LeaseState(number, 7, is_released=True)

    asyncio.run(scene())


def test_a_late_claim_holds_where_no_successor_has_looked_yet():
    async def scene() -> None:
        target = GroupOffsets()
        passed = await next_start() - 4
        target.says_ready(passed)
        assert await window(passed)._begin(seen_by(target))
        assert target.lease(lane=0) == LeaseState(passed, 7, is_released=False)

    asyncio.run(scene())


def test_a_successor_that_was_ready_first_announces_itself_again():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        first, second = window(number), window(number + 1)
        target.says_ready(number + 1)
        target.says_ready(number)  # the first one begins late: its own word covers that of its successor
        assert await acquired(first, target)
        waiting = asyncio.create_task(acquired(second, target))
        while (number + 1) * WINDOW_MS / 1000 + 0.1 > time.time():
            await asyncio.sleep(0.01)
        assert target.kept[PLAN.lease_topic, ready_key(0)][0] == number + 1
        await first._leased.release(target)  # type: ignore[arg-type]
        assert await waiting

    asyncio.run(scene())


def test_a_successor_waits_for_the_lease_and_acquires_it_with_the_last_positions():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        first, second = window(number), window(number + 1)
        assert await acquired(first, target)
        target.says_ready(number + 1)
        waiting = asyncio.create_task(acquired(second, target))
        await asyncio.sleep(WINDOW_MS * 1.3 / 1000)
        assert not waiting.done()
        (partition,) = first._served.partitions
        partition.start, partition.acked = None, 42
        await first._leased.release(target)  # type: ignore[arg-type]
        assert await waiting
        assert second._served.partitions[0].position == 42

    asyncio.run(scene())


def test_an_unserved_window_is_a_gap_that_puts_positions_in_doubt():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        first, second, fourth = window(number), window(number + 1), window(number + 3)
        assert await acquired(first, target)
        assert first._lease.predecessor.has_gap, "who comes first knows of nobody before"
        target.says_ready(number + 1)
        await first._leased.release(target)  # type: ignore[arg-type]
        assert await acquired(second, target)
        assert not second._lease.predecessor.has_gap
        await second._leased.release(target)  # type: ignore[arg-type]
        assert await acquired(fourth, target)
        assert fourth._lease.predecessor.has_gap
        assert not fourth._lease.predecessor.outcome.is_unclean

    asyncio.run(scene())


def test_a_window_in_which_something_failed_releases_its_lease_as_unclean():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        first, second = window(number), window(number + 1)
        assert await acquired(first, target)
        first._warn("commit positions", OSError("no connection"))
        target.says_ready(number + 1)
        await first._leased.release(target)  # type: ignore[arg-type]
        assert await second._lease.acquire(seen_by(target).target, second._term, lambda: asyncio.sleep(0, True))
        assert second._lease.predecessor.outcome.is_unclean
        assert not second._lease.predecessor.has_gap

    asyncio.run(scene())


def test_a_lease_of_a_dead_holder_is_taken_over_at_once():
    now = int(time.time() * 1000 // WINDOW_MS)
    held, long_ago = LeaseState(now, 7, is_released=False), 0
    assert lease_of(now + 1)._may_take_over(held._replace(run_id=6), long_ago), "a run of this very state folder"
    assert lease_of(now)._may_take_over(held, long_ago), "our own claim, whose answer was lost"
    assert not lease_of(now + 1)._may_take_over(held, long_ago), "our predecessor, which writes"


def test_another_process_gets_the_time_to_release_its_lease():
    now, now_ms = int(time.time() * 1000 // WINDOW_MS), int(time.time() * 1000)
    held = LeaseState(now, 8, is_released=False)
    assert not lease_of(now + 1)._may_take_over(held, now_ms)
    assert not lease_of(now + 1)._may_take_over(held, now_ms - 6_000)
    assert lease_of(now + 1)._may_take_over(held, now_ms - 8_000)
    transactions = lease_of(now + 1, plan=replace(PLAN, transaction_ms=100))
    assert transactions._may_take_over(held, now_ms - 3_000), "opening the slot's producer fences the other one"
    assert not transactions._may_take_over(held, now_ms)


def test_a_position_is_committed_with_its_records_even_if_the_topic_is_unknown():
    (assigned,) = PLAN.partitions
    partition = Partition(assigned._replace(remote_topic="A.gone"), 5, 5)
    commits = PositionCommits(PLAN, served_by(1, run_id=7), [partition])
    target = seen_by(GroupOffsets()).target
    assert commits.pending(target).offsets == {}
    partition.has_arrived, partition.acked = True, 9
    assert commits.pending(target).offsets == {("A.gone", 0): (9, "")}


def test_a_slot_that_is_another_process_is_waited_for_and_not_touched():
    async def scene() -> None:
        target = GroupOffsets()
        target.gives_the_slot_to(8)
        number = await next_start()
        waiting = asyncio.create_task(lease_of(number + 1).wait_for_slot(seen_by(target).target))
        await asyncio.sleep(0.7)
        assert not waiting.done()
        assert target.lease(lane=0) is None
        target.gives_the_slot_to(7)
        assert await waiting

    asyncio.run(scene())


def test_a_claim_is_given_back_when_the_slot_went_to_another_process_meanwhile():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        served = window(number)
        commit = target.commit

        async def and_it_is_taken_away(group: str, offsets: dict[tuple[str, int], tuple[int, str]]) -> None:
            await commit(group, offsets)
            target.gives_the_slot_to(8)

        target.commit = and_it_is_taken_away  # type: ignore[method-assign]
        assert not await acquired(served, target)
        assert target.lease(lane=number % 2) == LeaseState(number, 7, is_released=True)
        assert not served._served.partitions

    asyncio.run(scene())


def test_a_retry_that_comes_too_late_releases_the_lease_as_unclean():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        dead = window(number - 1)
        assert await dead._begin(seen_by(target)), "and its process is killed"
        successor = window(number)
        matched = []

        async def match(connections: Connections, _: object) -> None:
            matched.append(connections)

        successor._find_outcomes = match  # type: ignore[method-assign]
        waiting = asyncio.create_task(acquired(successor, target))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await lease_of(number - 1).release_for_dead_attempt(seen_by(target).target)
        assert await waiting
        assert matched, "it looks at what the target has"
        assert target.lease(lane=(number - 1) % 2) == LeaseState(number - 1, 7, is_released=True, outcome=UNCLEAN)

    asyncio.run(scene())


def test_a_retry_leaves_the_leases_of_others_alone():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        assert await window(number, run_id=7)._begin(seen_by(target))
        await lease_of(number + 2).release_for_dead_attempt(seen_by(target).target)
        await lease_of(number, run_id=8).release_for_dead_attempt(seen_by(target).target)
        assert target.lease(lane=0) == LeaseState(number, 7, is_released=False)

    asyncio.run(scene())


def test_a_process_that_stops_waits_for_no_slot_and_others_do():
    async def scene() -> None:
        target = GroupOffsets()
        target.gives_the_slot_to(9)
        target.kept[PLAN.lease_topic, stop_key()] = with_stop(7, with_stop(3, None))
        number = await next_start()
        assert not await lease_of(number + 1).wait_for_slot(seen_by(target).target)
        target.gives_the_slot_to(8)
        assert await lease_of(number + 1, run_id=8).wait_for_slot(seen_by(target).target)

    asyncio.run(scene())


def test_runs_that_stop_at_the_same_time_are_all_recorded():
    stops = None
    for run in range(12):
        stops = with_stop(run, stops)
    assert [is_stopped(run, stops) for run in (11, 10, 4)] == [True] * 3
    assert not is_stopped(1, stops), "the oldest are forgotten"
    assert not is_stopped(1, None)


def test_a_lease_that_was_never_released_is_taken_over_after_a_bound():
    async def scene() -> None:
        long_ago = int(time.time() * 1000 // WINDOW_MS) - 15
        lease, held = lease_of(long_ago + 15), LeaseState(long_ago, 7, is_released=False)
        assert lease._may_take_over(held, 0)
        lease._log_takeovers([held])
        assert lease.takeovers == 1

    asyncio.run(scene())


HELD, RELEASED = False, True
SLOT = (PLAN.lease_topic, owner_key(0))


def leases(**lanes: tuple[int, int, bool]) -> dict[tuple[str, int], LeaseState]:
    """Return both lanes' leases, "even" and "odd": window, run, whether it is released."""
    keys = {lane: (PLAN.lease_topic, lease_key(0, at)) for at, lane in enumerate(("even", "odd"))}
    return {keys[lane]: LeaseState(*lease) for lane, lease in lanes.items()}


def found(*, owner: int = 7, **lanes: tuple[int, int, bool]) -> dict[tuple[str, int], tuple[int, str]]:
    """Return the same as the target keeps it, with the slot's owner."""
    return {SLOT: Owner(owner).encode()} | {key: lease.encode() for key, lease in leases(**lanes).items()}


@pytest.mark.parametrize(
    ("seen", "status", "has_stale_commit"),
    [
        pytest.param({"even": (10, 7, HELD), "odd": (9, 7, RELEASED)}, LeaseStatus.HOLDS, False, id="nothing happened"),
        pytest.param(
            {"even": (10, 7, HELD), "odd": (11, 7, HELD)}, LeaseStatus.OVERTAKEN, False, id="by the next window"
        ),
        pytest.param(
            {"even": (12, 7, HELD), "odd": (11, 7, RELEASED)}, LeaseStatus.OVERTAKEN, False, id="and by the one after"
        ),
        pytest.param(
            {"even": (10, 8, HELD), "odd": (9, 7, RELEASED)}, LeaseStatus.OVERTAKEN, False, id="by another process"
        ),
        pytest.param({"even": (10, 8, HELD), "owner": 8}, LeaseStatus.OVERTAKEN, False, id="by the slot's new owner"),
        pytest.param(
            {"even": (10, 7, HELD), "owner": 8}, LeaseStatus.LOST, False, id="the slot is another's, which waits"
        ),
        pytest.param(
            {"even": (4, 7, HELD), "odd": (9, 7, RELEASED)}, LeaseStatus.HOLDS, True, id="a sleeper of our lane woke"
        ),
        pytest.param(
            {"even": (10, 7, HELD), "odd": (3, 7, HELD)}, LeaseStatus.HOLDS, True, id="one of the other lane woke"
        ),
        pytest.param(
            {"even": (10, 7, HELD), "odd": (9, 7, HELD)},
            LeaseStatus.HOLDS,
            True,
            id="the predecessor, which had released",
        ),
    ],
)
def test_the_lease_of_a_window_has_the_status_of_what_it_finds(seen, status, has_stale_commit):
    lease = lease_of(10)
    lease._acquired_from = leases(even=(8, 7, RELEASED), odd=(9, 7, RELEASED))
    assert lease.status(found(**seen)) is status
    if status.may_write:
        assert lease.has_stale_commit(found(**seen)) is has_stale_commit


def test_a_stopping_window_may_write_until_it_has_released_its_lease():
    stopping = found(even=(10, 7, HELD)) | {(PLAN.lease_topic, stop_key()): with_stop(7, None)}
    assert lease_of(10).status(stopping) is LeaseStatus.STOPPING
    assert LeaseStatus.STOPPING.may_write


def test_a_predecessor_that_died_and_never_released_its_lease_is_no_sleeper():
    lease = lease_of(10)
    lease._acquired_from = leases(even=(8, 7, RELEASED), odd=(9, 7, HELD))
    assert not lease.has_stale_commit(found(even=(10, 7, HELD), odd=(9, 7, HELD)))


def test_a_lease_released_with_a_fast_clock_blocks_no_window():
    lease = lease_of(10)
    lease._acquired_from = leases(odd=(23, 6, RELEASED))
    assert lease.status(found(even=(10, 7, HELD), odd=(23, 6, RELEASED))) is LeaseStatus.HOLDS
    assert lease.status(found(even=(10, 7, HELD), odd=(25, 6, HELD))) is LeaseStatus.OVERTAKEN, "that process goes on"


CLEAN, UNCLEAN, IN_DOUBT = WindowOutcome(), WindowOutcome(is_unclean=True), WindowOutcome(in_doubt=True)
SPARE = WindowOutcome(spare=2, decided_at_ms=99)


@pytest.mark.parametrize(
    ("before", "outcome", "has_gap"),
    [
        pytest.param([], CLEAN, True, id="nobody"),
        pytest.param([(9, 7, RELEASED)], CLEAN, False, id="all went well"),
        pytest.param([(9, 6, RELEASED)], CLEAN, True, id="all went well in another process"),
        pytest.param([(9, 7, HELD)], UNCLEAN, False, id="its process died"),
        pytest.param([(9, 7, RELEASED), (8, 7, HELD)], UNCLEAN, False, id="that of the one before died"),
        pytest.param([(9, 7, RELEASED, UNCLEAN)], UNCLEAN, False, id="something failed"),
        pytest.param([(9, 7, RELEASED, IN_DOUBT)], IN_DOUBT, False, id="topics were not verified"),
        pytest.param([(7, 7, RELEASED)], CLEAN, True, id="a window was not served"),
        pytest.param([(9, 7, RELEASED, SPARE), (8, 7, RELEASED)], SPARE, False, id="the newest tells the id"),
        pytest.param([(9, 7, RELEASED), (8, 7, RELEASED, SPARE)], CLEAN, False, id="an older one does not"),
    ],
)
def test_a_window_finds_its_predecessor(before, outcome, has_gap):
    assert predecessor_of(10, [LeaseState(*lease) for lease in before], run_id=7) == Predecessor(outcome, has_gap)


outcomes = st.builds(
    WindowOutcome,
    is_unclean=st.booleans(),
    in_doubt=st.booleans(),
    spare=st.integers(0, 9),
    decided_at_ms=st.integers(0, 2**42),
    is_transactional=st.booleans(),
)


layouts = st.none() | st.builds(SlotLayout, *[st.integers(0, 2**20)] * 4)


@given(st.integers(0, 2**40), st.integers(0, 2**31), outcomes, layouts)
def test_a_released_lease_survives_its_offset_and_metadata(number, run_id, outcome, layout):
    lease = LeaseState(number, run_id, is_released=True, outcome=outcome, layout=layout)
    assert LeaseState.parse(lease.encode()) == lease


@given(st.integers(0, 2**40), st.integers(0, 2**31), outcomes)
def test_a_lease_that_is_held_does_not_tell_how_its_window_will_end(number, run_id, outcome):
    lease = LeaseState(number, run_id, is_released=False, outcome=outcome)
    expected = lease._replace(outcome=outcome._replace(is_unclean=False, in_doubt=False))
    assert LeaseState.parse(lease.encode()) == expected


async def one_at_42() -> tuple[GroupOffsets, FlowWindow]:
    """A window that holds its lease, with its topic-partition at 42, and what the target keeps."""
    target = GroupOffsets()
    first = window(await next_start())
    assert await acquired(first, target)
    (partition,) = first._served.partitions
    partition.start, partition.acked = None, 42
    return target, first


def test_overwritten_positions_are_committed_again_and_the_successor_compares():
    async def scene() -> None:
        target, first = await one_at_42()
        number = first._window.number
        await first._leased.commit(target)  # type: ignore[arg-type]
        old = LeaseState(number - 4, 7, is_released=False).encode()
        target.kept |= {("A.t", 0): (7, ""), (PLAN.lease_topic, lease_key(0, first._window.lane)): old}
        await first._look(target, Replicator())  # type: ignore[arg-type]
        await first._leased.commit(target)  # type: ignore[arg-type]
        assert target.kept["A.t", 0][0] == 42
        assert target.lease(lane=0) == LeaseState(number, 7, is_released=False)
        target.says_ready(number + 1)
        await first._leased.release(target)  # type: ignore[arg-type]
        second = window(number + 1)
        assert await second._lease.acquire(seen_by(target).target, second._term, lambda: asyncio.sleep(0, True))
        assert second._lease.predecessor.outcome.is_unclean

    asyncio.run(scene())


class Replicator:
    """One that takes down what was looked at."""

    def lease_confirmed(self) -> None: ...

    def follow(self, paused: object) -> None: ...


def test_a_window_that_counted_as_dead_writes_no_position_and_no_lease():
    async def scene() -> None:
        target, first = await one_at_42()
        number = first._window.number
        successors = {
            ("A.t", 0): (99, ""),
            (PLAN.lease_topic, lease_key(0, 1)): LeaseState(number + 1, 7, is_released=True).encode(),
        }
        target.kept |= successors
        first._term = LeaseTerm()  # it slept: the last confirmation is of long ago
        before = dict(target.kept)
        await first._hand_over(seen_by(target), Replicator())  # type: ignore[arg-type]
        assert target.kept == before

    asyncio.run(scene())


def test_a_claim_names_the_spare_id_that_the_slot_writes_by():
    """If the process dies, its successor fences that id."""

    async def scene() -> None:
        target, number = GroupOffsets(), await next_start()
        before = LeaseState(number - 1, 7, is_released=True, outcome=WindowOutcome(spare=2))
        target.kept[PLAN.lease_topic, lease_key(0, 1)] = before.encode()
        assert await acquired(window(number), target)
        assert target.lease(lane=0).outcome.spare == 2

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("late", "spare"),
    [
        pytest.param(None, 2, id="nobody claimed meanwhile"),
        pytest.param(LeaseState(-1, 7, is_released=False, outcome=WindowOutcome(spare=3)), 3, id="the predecessor did"),
        pytest.param(LeaseState(-3, 7, is_released=False, outcome=WindowOutcome(spare=4)), 2, id="an older window did"),
    ],
)
def test_a_window_opens_the_spare_id_that_its_predecessor_claimed_last(late, spare):
    async def scene() -> None:
        target, number = GroupOffsets(), await next_start()
        served = Window(number=number, window_ms=WINDOW_MS, lanes=3, slots=1, slot=0, run_id=7, gone=frozenset())
        tested = FlowWindow(PLAN, served, WorkerState())
        lane, older = (number - 1) % 3, (number - 3) % 3
        before = LeaseState(number - 1, 7, is_released=True, outcome=WindowOutcome(spare=2))
        target.kept[PLAN.lease_topic, lease_key(0, lane)] = before.encode()
        assert await acquired(tested, target)
        if late is not None:
            key = lease_key(0, lane if late.window == -1 else older)
            target.kept[PLAN.lease_topic, key] = late._replace(window=number + late.window).encode()
        found = await target.committed(PLAN.group, tested._lease.looks_at)
        assert tested._lease.newest_spare(found) == spare

    asyncio.run(scene())


def test_a_suspended_process_does_not_overwrite_a_lease_with_a_spare_id():
    async def scene() -> None:
        target, first = await one_at_42()
        key = PLAN.lease_topic, lease_key(0, first._window.lane)
        target.kept[key] = LeaseState(first._window.number + 2, 7, is_released=False).encode()
        before = dict(target.kept)
        with pytest.raises(KafkaError):
            await first._producer.write_by(target, 1)  # type: ignore[arg-type]
        assert target.kept == before

    asyncio.run(scene())


def test_a_window_that_gives_its_claim_back_passes_on_how_its_predecessor_ended():
    async def scene() -> None:
        target, number = GroupOffsets(), await next_start()
        outcome = WindowOutcome(is_unclean=True, in_doubt=True, spare=2, decided_at_ms=99)
        before = LeaseState(number - 2, 7, is_released=True, outcome=outcome)
        target.kept[PLAN.lease_topic, lease_key(0, 0)] = before.encode()
        late = GroupOffsets()
        late.kept = target.kept
        late.arrives.clear()
        tested = window(number)
        begun = asyncio.create_task(acquired(tested, late))
        await asyncio.sleep(0.1)
        target.gives_the_slot_to(8)
        late.arrives.set()
        assert await begun is False
        assert target.lease(lane=0) == LeaseState(number, 7, is_released=True, outcome=outcome)

    asyncio.run(scene())


def test_a_restarted_window_has_each_partition_once(monkeypatch):
    async def scene() -> None:
        target, tested = GroupOffsets(), window(await next_start())
        failures = [KafkaError("no coordinator")]

        async def find_outcomes(*_: object) -> None:
            if failures:
                raise failures.pop()

        monkeypatch.setattr(tested, "_find_outcomes", find_outcomes)
        assert await acquired(tested, target)
        assert len(tested._served.partitions) == 1

    asyncio.run(scene())
