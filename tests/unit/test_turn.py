"""The turn: whatever a cluster holds up, two windows of a slot never both replicate. The group's offsets are in memory here."""

from __future__ import annotations

import asyncio
import time

from mirror.replication.ledger import Ledger
from mirror.replication.partition import Partition
from mirror.replication.plan import Assigned, Baton, FlowPlan, Window, ready_key, turn_key
from mirror.replication.window import Connections, FlowWindow

WINDOW_MS = 1000
PLAN = FlowPlan(
    source="A", target="B", tasks_max=1, consumer={}, producer={},
    partitions=(Assigned("t", "A.t", 0, "id"),),
)  # fmt: skip


class GroupOffsets:
    """What the target keeps of the flow's group; `hold` keeps the first commit from arriving until `release`."""

    def __init__(self, *, hold: bool = False) -> None:
        self.offsets: dict[tuple[str, int], tuple[int, str]] = {}
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

    def says_ready(self, window: int) -> None:
        self.offsets[PLAN.baton_topic, ready_key(0)] = (window, "")


def window(number: int) -> FlowWindow:
    return FlowWindow(PLAN, Window(number=number, window_ms=WINDOW_MS, lanes=2, slot=0, run_id=7))


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
        first = asyncio.create_task(window(number)._take_turn(seen_by(late)))
        here.says_ready(number + 1)
        assert await window(number + 1)._take_turn(seen_by(here)), "nobody holds the turn as far as it can see"
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


def test_a_successor_waits_for_the_turn_and_gets_it_with_the_last_positions():
    async def scene() -> None:
        target = GroupOffsets()
        number = await next_start()
        first, second = window(number), window(number + 1)
        assert await first._take_turn(seen_by(target))
        target.says_ready(number + 1)
        waiting = asyncio.create_task(second._take_turn(seen_by(target)))
        await asyncio.sleep(WINDOW_MS * 1.3 / 1000)
        assert not waiting.done()
        (partition,) = first._served.partitions
        partition.begins, partition.acked = None, 42
        await first._commit(target, Baton(number, is_released=True))  # type: ignore[arg-type]
        assert await waiting
        assert second._served.partitions[0].position == 42

    asyncio.run(scene())


def test_a_turn_of_an_earlier_run_is_nobodys_that_of_a_later_one_is_not_ours():
    async def scene() -> None:
        now = int(time.time() * 1000 // WINDOW_MS)
        held = Baton(now, is_released=False).encode()
        assert window(now + 1)._is_free((held, "6"))
        assert not window(now + 1)._is_free((held, "7"))
        assert not window(now + 1)._is_free((held, "8"))
        assert not window(now)._is_free((held, "8"))

    asyncio.run(scene())


def test_a_position_goes_with_its_records_though_the_topic_is_not_known_for_a_moment():
    served = window(1)
    (assigned,) = PLAN.partitions
    partition = Partition(assigned._replace(remote_topic="A.gone"), 5, 5)
    ledger = Ledger(PLAN, served._window, [partition])
    target = seen_by(GroupOffsets()).target
    assert ledger.page(target).offsets == {}
    partition.has_arrived, partition.acked = True, 9
    assert ledger.page(target).offsets == {("A.gone", 0): (9, " ")}


def test_a_run_gives_way_to_a_later_one_for_as_long_as_that_shows_itself():
    async def scene() -> None:
        now = int(time.time() * 1000 // WINDOW_MS)
        for released in (False, True):
            assert window(now)._is_superseded([(Baton(now, is_released=released).encode(), "8")])
            assert not window(now)._is_superseded([(Baton(now, is_released=released).encode(), "7")])
            assert not window(now)._is_superseded([(Baton(now - 15, is_released=released).encode(), "8")])

    asyncio.run(scene())


def test_a_turn_that_was_never_given_back_is_free_after_a_bound():
    async def scene() -> None:
        long_ago = int(time.time() * 1000 // WINDOW_MS) - 15
        served = window(long_ago + 15)
        assert served._is_free((Baton(long_ago, is_released=False).encode(), "7"))
        assert served._served.takeovers == 1

    asyncio.run(scene())
