"""The turn: whatever a cluster holds up, two windows of a slot never both replicate. The group's offsets are in memory here."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from mirror.handover.lease import Lease
from mirror.model.flow_plan import Assigned, FlowPlan, Window
from mirror.model.slot_ownership import Baton, Owner, is_stopped, owner_key, ready_key, stop_key, turn_key, with_stop
from mirror.replication.partition import Partition
from mirror.replication.positions import PositionCommits
from mirror.replication.window import Connections, FlowWindow

WINDOW_MS = 1000
PLAN = FlowPlan(
    source="A", target="B", tasks_max=1, consumer={}, producer={},
    partitions=(Assigned("t", "A.t", 0, "id"),),
)  # fmt: skip


class GroupOffsets:
    """What the target keeps of the flow's group; `hold` keeps the first commit from arriving until `release`."""

    def __init__(self, *, hold: bool = False) -> None:
        self.offsets = {(PLAN.baton_topic, owner_key(0)): Owner(7).encode()}
        self.release = asyncio.Event()
        if not hold:
            self.release.set()

    async def commit(self, group: str, offsets: dict[tuple[str, int], tuple[int, str]]) -> None:
        assert group == PLAN.group
        await self.release.wait()
        self.offsets |= offsets

    async def committed(self, group: str, wanted: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, str]]:
        assert group == PLAN.group
        return {key: self.offsets[key] for key in wanted if key in self.offsets}

    def knows(self, topic: str, partition: int) -> bool:
        return (topic, partition) == ("A.t", 0)

    def turn(self, lane: int) -> Baton | None:
        at = self.offsets.get((PLAN.baton_topic, turn_key(0, lane)))
        return Baton.decode(at[0]) if at is not None else None

    def gives_the_slot_to(self, run_id: int) -> None:
        self.offsets[PLAN.baton_topic, owner_key(0)] = Owner(run_id, int(time.time() * 1000)).encode()

    def says_ready(self, window: int) -> None:
        self.offsets[PLAN.baton_topic, ready_key(0)] = (window, "")


def window(number: int, *, run_id: int = 7, plan: FlowPlan = PLAN) -> FlowWindow:
    return FlowWindow(
        plan, Window(number=number, window_ms=WINDOW_MS, lanes=2, slot=0, run_id=run_id, gone=frozenset({5, 6}))
    )


async def took_turn(served: FlowWindow, target: GroupOffsets) -> bool:
    connections = seen_by(target)
    return await served._turn.take(connections.target, served._lease, lambda: served._begin(connections))


def seen_by(target: GroupOffsets) -> Connections:
    return Connections(source=None, target=target)  # type: ignore[arg-type]


async def next_start() -> int:
    """Wait for the begin of an even window and return its number."""
    number = int(time.time() * 1000 // WINDOW_MS) // 2 * 2 + 2
    await asyncio.sleep(number * WINDOW_MS / 1000 - time.time() + 0.01)
    return number


def test_a_window_whose_claim_came_late_gives_way_to_its_successor():
    async def scene() -> None:
        here = GroupOffsets()
        late = GroupOffsets(hold=True)
        late.offsets = here.offsets  # the same group, by a connection that hangs
        number = await next_start()
        first = asyncio.create_task(took_turn(window(number), late))
        here.says_ready(number + 1)
        assert await took_turn(window(number + 1), here), "nobody holds the turn as far as it can see"
        late.release.set()
        assert await first is False
        assert here.turn(lane=1) == Baton(number + 1, is_released=False)
        assert here.turn(lane=0) == Baton(number, is_released=True)

    asyncio.run(scene())


def test_a_late_claim_holds_where_no_successor_has_looked_yet():
    async def scene() -> None:
        target = GroupOffsets()
        passed = await next_start() - 4
        target.says_ready(passed)
        assert await window(passed)._begin(seen_by(target))
        assert target.turn(lane=0) == Baton(passed, is_released=False)

    asyncio.run(scene())


def test_a_successor_that_was_ready_first_says_so_again():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        first, second = window(number), window(number + 1)
        target.says_ready(number + 1)
        target.says_ready(number)  # the first one begins late: its own word covers that of its successor
        assert await took_turn(first, target)
        waiting = asyncio.create_task(took_turn(second, target))
        while (number + 1) * WINDOW_MS / 1000 + 0.1 > time.time():
            await asyncio.sleep(0.01)
        assert target.offsets[PLAN.baton_topic, ready_key(0)][0] == number + 1
        await first._commit(target, Baton(number, is_released=True))  # type: ignore[arg-type]
        assert await waiting

    asyncio.run(scene())


def test_a_successor_waits_for_the_turn_and_gets_it_with_the_last_positions():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        first, second = window(number), window(number + 1)
        assert await took_turn(first, target)
        target.says_ready(number + 1)
        waiting = asyncio.create_task(took_turn(second, target))
        await asyncio.sleep(WINDOW_MS * 1.3 / 1000)
        assert not waiting.done()
        (partition,) = first._served.partitions
        partition.start, partition.acked = None, 42
        await first._commit(target, Baton(number, is_released=True))  # type: ignore[arg-type]
        assert await waiting
        assert second._served.partitions[0].position == 42

    asyncio.run(scene())


def test_a_window_that_nobody_served_is_a_gap_after_which_positions_are_doubted():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        first, second, fourth = window(number), window(number + 1), window(number + 3)
        assert await took_turn(first, target)
        assert first._turn.has_gap, "who comes first knows of nobody before"
        target.says_ready(number + 1)
        await first._commit(target, Baton(number, is_released=True))  # type: ignore[arg-type]
        assert await took_turn(second, target)
        assert not second._turn.has_gap
        await second._commit(target, Baton(number + 1, is_released=True))  # type: ignore[arg-type]
        assert await took_turn(fourth, target)
        assert fourth._turn.has_gap
        assert not fourth._turn.is_unclean

    asyncio.run(scene())


def test_a_window_in_which_something_failed_gives_its_turn_back_with_a_doubt():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        first, second = window(number), window(number + 1)
        assert await took_turn(first, target)
        first._warn("commit positions", OSError("no connection"))
        target.says_ready(number + 1)
        await first._commit(target, Baton(number, is_released=True))  # type: ignore[arg-type]
        assert await second._turn.take(seen_by(target).target, second._lease, lambda: asyncio.sleep(0, True))
        assert second._turn.is_unclean
        assert not second._turn.has_gap

    asyncio.run(scene())


def test_a_turn_is_free_at_once_where_whoever_held_it_is_known_to_be_gone():
    now = int(time.time() * 1000 // WINDOW_MS)
    held, long_ago = Baton(now, is_released=False).encode(), 0
    assert window(now + 1)._turn._is_free((held, "6"), long_ago), "a run of this very state folder"
    assert window(now)._turn._is_free((held, "7"), long_ago), "our own claim, whose answer was lost"
    assert not window(now + 1)._turn._is_free((held, "7"), long_ago), "our predecessor, which writes"


def test_another_process_gets_the_time_to_give_a_turn_back():
    now, now_ms = int(time.time() * 1000 // WINDOW_MS), int(time.time() * 1000)
    held = (Baton(now, is_released=False).encode(), "8")
    assert not window(now + 1)._turn._is_free(held, now_ms)
    assert not window(now + 1)._turn._is_free(held, now_ms - 6_000)
    assert window(now + 1)._turn._is_free(held, now_ms - 8_000)
    transactions = window(now + 1, plan=replace(PLAN, transaction_ms=100))._turn
    assert transactions._is_free(held, now_ms - 3_000), "opening the slot's producer fences the other one"
    assert not transactions._is_free(held, now_ms)


def test_a_position_goes_with_its_records_though_the_topic_is_not_known_for_a_moment():
    served = window(1)
    (assigned,) = PLAN.partitions
    partition = Partition(assigned._replace(remote_topic="A.gone"), 5, 5)
    commits = PositionCommits(PLAN, served._window, [partition])
    target = seen_by(GroupOffsets()).target
    assert commits.pending(target).offsets == {}
    partition.has_arrived, partition.acked = True, 9
    assert commits.pending(target).offsets == {("A.gone", 0): (9, "")}


def test_a_slot_that_is_another_process_is_waited_for_and_not_touched():
    async def scene() -> None:
        target = GroupOffsets()
        target.gives_the_slot_to(8)
        number = await next_start()
        waiting = asyncio.create_task(window(number + 1)._turn.until_ours(seen_by(target).target))
        await asyncio.sleep(0.7)
        assert not waiting.done()
        assert target.turn(lane=0) is None
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
        assert not await took_turn(served, target)
        assert target.turn(lane=number % 2) == Baton(number, is_released=True)
        assert not served._served.partitions

    asyncio.run(scene())


def test_a_retry_that_comes_too_late_gives_the_turn_back_and_says_that_nobody_told_what_was_written():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        dead = window(number - 1)
        assert await dead._begin(seen_by(target)), "and its process is killed"
        successor = window(number)
        matched = []

        async def match(connections: Connections) -> None:
            matched.append(connections)

        successor._find_outcomes = match  # type: ignore[method-assign]
        waiting = asyncio.create_task(took_turn(successor, target))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await window(number - 1)._turn.give_back_for_the_dead(seen_by(target).target)
        assert await waiting
        assert matched, "it looks at what the target has"
        assert target.turn(lane=(number - 1) % 2) == Baton(number - 1, is_released=True)

    asyncio.run(scene())


def test_a_retry_leaves_the_turn_of_others_alone():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        assert await window(number, run_id=7)._begin(seen_by(target))
        await window(number + 2)._turn.give_back_for_the_dead(seen_by(target).target)
        await window(number, run_id=8)._turn.give_back_for_the_dead(seen_by(target).target)
        assert target.turn(lane=0) == Baton(number, is_released=False)

    asyncio.run(scene())


def test_a_process_that_stops_waits_for_no_slot_and_others_do():
    async def scene() -> None:
        target = GroupOffsets()
        target.gives_the_slot_to(9)
        target.offsets[PLAN.baton_topic, stop_key()] = with_stop(7, with_stop(3, None))
        number = await next_start()
        assert not await window(number + 1)._turn.until_ours(seen_by(target).target)
        target.gives_the_slot_to(8)
        assert await window(number + 1, run_id=8)._turn.until_ours(seen_by(target).target)

    asyncio.run(scene())


def test_runs_that_stop_at_the_same_time_are_all_told():
    stops = None
    for run in range(12):
        stops = with_stop(run, stops)
    assert [is_stopped(run, stops) for run in (11, 10, 4)] == [True] * 3
    assert not is_stopped(1, stops), "the oldest are forgotten"
    assert not is_stopped(1, None)


def test_a_turn_that_was_never_given_back_is_free_after_a_bound():
    async def scene() -> None:
        long_ago = int(time.time() * 1000 // WINDOW_MS) - 15
        turn = window(long_ago + 15)._turn
        assert turn._is_free((Baton(long_ago, is_released=False).encode(), "7"), 0)
        assert turn.takeovers == 1

    asyncio.run(scene())


def seen(**turns: tuple[int, int, bool]) -> dict[tuple[str, int], tuple[int, str]]:
    """Offsets of both lanes' turns, "even" and "odd": window, run, is it released."""
    return {
        (PLAN.baton_topic, turn_key(0, ("even", "odd").index(lane))): (
            Baton(number, is_released=is_released).encode(), str(run_id),
        )
        for lane, (number, run_id, is_released) in turns.items()
    }  # fmt: skip


HELD, GIVEN_BACK = False, True


@pytest.mark.parametrize(
    ("found", "is_overtaken", "is_covered"),
    [
        pytest.param({"even": (10, 7, HELD), "odd": (9, 7, GIVEN_BACK)}, False, False, id="nothing happened"),
        pytest.param({"even": (10, 7, HELD), "odd": (11, 7, HELD)}, True, False, id="the next window has taken ours for dead"),
        pytest.param({"even": (12, 7, HELD), "odd": (11, 7, GIVEN_BACK)}, True, False, id="and the one after it"),
        pytest.param({"even": (10, 8, HELD), "odd": (9, 7, GIVEN_BACK)}, True, False, id="another process has"),
        pytest.param({"even": (4, 7, HELD), "odd": (9, 7, GIVEN_BACK)}, False, True, id="a sleeper of our lane has woken"),
        pytest.param({"even": (10, 7, HELD), "odd": (3, 7, HELD)}, False, True, id="a sleeper of the other lane has"),
        pytest.param({"even": (10, 7, HELD), "odd": (9, 7, HELD)}, False, True, id="the predecessor has, which had given back"),
    ],
)  # fmt: skip
def test_what_a_window_that_holds_the_turn_sees_of_others(found, is_overtaken, is_covered):
    turn = window(10)._turn
    turn._seen = seen(even=(8, 7, GIVEN_BACK), odd=(9, 7, GIVEN_BACK))
    assert turn.is_overtaken(seen(**found)) is is_overtaken
    if not is_overtaken:
        assert turn.is_covered(seen(**found)) is is_covered


def test_a_predecessor_that_died_and_never_gave_its_turn_back_is_no_sleeper():
    turn = window(10)._turn
    turn._seen = seen(even=(8, 7, GIVEN_BACK), odd=(9, 7, HELD))
    assert not turn.is_covered(seen(even=(10, 7, HELD), odd=(9, 7, HELD)))


async def one_at_42() -> tuple[GroupOffsets, FlowWindow]:
    """A window that holds its turn, with its topic-partition at 42, and what the target keeps."""
    target = GroupOffsets()
    first = window(await next_start())
    assert await took_turn(first, target)
    (partition,) = first._served.partitions
    partition.start, partition.acked = None, 42
    return target, first


def test_positions_that_a_sleeper_has_covered_are_written_again_and_the_successor_looks_at_the_target():
    async def scene() -> None:
        target, first = await one_at_42()
        number = first._window.number
        await first._commit(target, None)  # type: ignore[arg-type]
        old = Baton(number - 4, is_released=False).encode()
        target.offsets |= {("A.t", 0): (7, ""), (PLAN.baton_topic, turn_key(0, first._window.lane)): (old, "7")}
        await first._look(target, Replicator())  # type: ignore[arg-type]
        await first._commit(target, None)  # type: ignore[arg-type]
        assert target.offsets["A.t", 0][0] == 42
        assert target.turn(lane=0) == Baton(number, is_released=False)
        target.says_ready(number + 1)
        await first._commit(target, Baton(number, is_released=True))  # type: ignore[arg-type]
        second = window(number + 1)
        assert await second._turn.take(seen_by(target).target, second._lease, lambda: asyncio.sleep(0, True))
        assert second._turn.is_unclean

    asyncio.run(scene())


class Replicator:
    """One that is told of what was looked at."""

    def lease_confirmed(self) -> None: ...

    def follow(self, paused: object) -> None: ...


def test_a_window_that_was_taken_for_dead_writes_no_position_and_no_turn():
    async def scene() -> None:
        target, first = await one_at_42()
        number = first._window.number
        successors = {
            ("A.t", 0): (99, ""),
            (PLAN.baton_topic, turn_key(0, 1)): (Baton(number + 1, is_released=True).encode(), "7"),
        }
        target.offsets |= successors
        first._lease = Lease()  # it slept: the last confirmation is of long ago
        before = dict(target.offsets)
        await first._hand_over(seen_by(target), Replicator())  # type: ignore[arg-type]
        assert target.offsets == before

    asyncio.run(scene())
