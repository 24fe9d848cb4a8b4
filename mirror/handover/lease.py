"""A slot's turn, as one window sees it: whether the slot is this process', who may write, and since when."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from mirror.kafka.group_offsets import GroupOffsets
from mirror.kafka.protocol import KafkaError
from mirror.model.flow_plan import FlowPlan, Key, Window
from mirror.model.slot_ownership import (
    COMMIT_S,
    GRACE_S,
    IN_DOUBT,
    UNCLEAN,
    Baton,
    Owner,
    decides_ms_of,
    is_stopped,
    owner_key,
    ready_key,
    run_of,
    spare_of,
    stop_key,
    turn_key,
    turn_of,
)
from mirror.runtime.clock import now_ms

log = logging.getLogger("mirror")

POLL_S = 0.002
VALID_S = 4.0  # less than it takes others to take the slot over
STANDBY_S = 0.5
NETWORK = (KafkaError, OSError, TimeoutError)

Offsets = Mapping[Key, tuple[int, str]]


class Lease:
    """Valid for VALID_S after what was read when it was asked for; a process that was frozen meanwhile finds it invalid.

    A: It is valid for VALID_S after the question, not after its answer.
    B: It is valid by two clocks: the monotonic one may stand still while a machine sleeps, the other one may be set back.
    C: VALID_S is less than a successor waits before it takes a slot over, so no two windows write by valid leases.
    """

    def __init__(self) -> None:
        self._asked = (float("-inf"), float("-inf"))

    @staticmethod
    def now() -> tuple[float, float]:
        """Return the moment to hand to `confirm`: to be taken before the cluster is asked."""
        return time.monotonic(), time.time()

    def confirm(self, asked: tuple[float, float]) -> None:
        """Note that the slot and the turn were this window's at some moment behind `asked`."""
        self._asked = max(self._asked, asked)

    @property
    def is_valid(self) -> bool:
        """True while nobody else can have taken the slot over."""
        return all(0 <= now - asked < VALID_S for now, asked in zip(self.now(), self._asked, strict=True))


class Turn:
    """Waits for the turn and takes it. `wait_ms`: from the window's start, or from when it could be ours, to the taking.

    `takeovers` is 1 when the predecessor was taken for dead; `is_unclean`, when it did not commit all that it had written.
    `has_gap`: the last turn that is known was not that of the window before, so positions may be older than they should be (a
    broker that was killed has been seen to come back with a group's offsets of minutes ago). `in_doubt`: for some positions it is
    not known which topics they are of.
    """

    def __init__(self, plan: FlowPlan, window: Window, warn: Callable[[str, BaseException], None]) -> None:
        self._plan = plan
        self._window = window
        self._warn = warn
        self._stops = (plan.baton_topic, stop_key())
        self._turns = [(plan.baton_topic, turn_key(window.slot, lane)) for lane in range(window.lanes)]
        self.owner = (plan.baton_topic, owner_key(window.slot))
        self.ready = (plan.baton_topic, ready_key(window.slot))
        self.own = self._turns[window.lane]
        self.whose = (self._stops, self.owner)
        self.looks_at = (*self.whose, *self._turns, self.ready)
        self.wait_ms = 0.0
        self.takeovers = 0
        self.is_unclean = False
        self.has_gap = False
        self.in_doubt = False
        self.spare = 0  # the transactional id by which the slot was written last
        self.decides_ms = 0  # until when its last transaction is better not aborted
        self._seen: dict[Key, tuple[int, str]] = {}  # the lanes' turns when ours was taken
        self._told_dead: set[int] = set()

    def is_ours(self, found: Offsets) -> bool:
        """Tell whether the slot is this process'; `found` has the offset of `owner`."""
        return self.owner in found and found[self.owner][0] == self._window.run_id

    def is_lost(self, found: Offsets) -> bool:
        """Tell whether this process stops, or the slot is another's; `found` has the offsets of `whose`."""
        return is_stopped(self._window.run_id, found.get(self._stops)) or not self.is_ours(found)

    def is_overtaken(self, found: Offsets) -> bool:
        """Tell whether somebody has taken our turn for dead and its own since; `found` has the offsets of `looks_at`."""
        window = self._window
        batons = {turn: (Baton.decode(found[turn][0]), run_of(found[turn][1])) for turn in self._turns if turn in found}
        return any(
            baton.window > window.number or (baton.window == window.number and run_id != window.run_id)
            for baton, run_id in batons.values()
        )

    def is_covered(self, found: Offsets) -> bool:
        """Tell whether a process that slept has committed what it knew long ago, over what was committed since."""
        own = found.get(self.own)
        if own is not None and Baton.decode(own[0]).window < self._window.number:
            return True
        others = [turn for turn in self._turns if turn != self.own and turn in found]
        return any(
            found[turn] != self._seen.get(turn) and Baton.decode(found[turn][0]).window < self._window.number
            for turn in others
        )

    async def until_ours(self, target: GroupOffsets) -> bool:
        """Wait until the slot is this process'; False when it stops, or the window passed meanwhile. Raises KafkaError."""
        while now_ms() < self._window.end_ms:
            found = await target.committed(self._plan.group, self.whose)
            if is_stopped(self._window.run_id, found.get(self._stops)):
                return False
            if self.is_ours(found):
                return True
            await asyncio.sleep(STANDBY_S)
        return False

    async def say_ready(self, target: GroupOffsets) -> None:
        """Announce to the turn's holder that a successor is ready. Raises KafkaError."""
        await target.commit(self._plan.group, {self.ready: (self._window.number, "")})

    async def take(self, target: GroupOffsets, lease: Lease, begin: Callable[[], Awaitable[bool]]) -> bool:
        """Wait until the predecessor has released the turn or is dead, and begin; False when our window passed meanwhile."""
        window, plan = self._window, self._plan
        give_up_ms = window.end_ms - window.window_ms * 0.1
        while now_ms() < window.start_ms:
            await asyncio.sleep(max(0.0, min(0.5, (window.start_ms - now_ms()) / 1000)))
            if now_ms() < window.start_ms - 100 and await self._must_stop(target):
                return False
        started, asked_ms, waited = time.monotonic(), now_ms(), False
        while now_ms() < give_up_ms:
            try:
                asked = Lease.now()
                found = await target.committed(plan.group, self.looks_at)
                if self.is_lost(found):
                    return False
                if found.get(self.ready, (-1, ""))[0] < window.number:
                    await self.say_ready(target)  # the predecessor has begun late and said so after us
                since_ms = Owner.parse(found[self.owner]).since_ms
                held = [found[turn] for turn in self._turns if turn in found and is_held(found[turn])]
                if all(self._is_free(turn, since_ms) for turn in held):
                    said = {mark for turn in self._turns if turn in found for mark in found[turn][1].split()[1:]}
                    self.is_unclean = bool(held) or UNCLEAN in said
                    self.in_doubt = IN_DOUBT in said
                    windows = [Baton.decode(found[turn][0]).window for turn in self._turns if turn in found]
                    newest = max((found[turn] for turn in self._turns if turn in found), default=(0, ""))
                    self.spare, self.decides_ms = spare_of(newest[1]), decides_ms_of(newest[1])
                    self.has_gap = window.number - 1 not in windows
                    self._seen = {turn: found[turn] for turn in self._turns if turn in found}
                    lease.confirm(asked)
                    if not lease.is_valid:
                        continue  # we slept: what was found may be of long ago
                    taken = await begin()
                    came_ms = max(window.start_ms, since_ms)
                    self.wait_ms = now_ms() - (came_ms if waited else max(asked_ms, came_ms))
                    return taken
                waited = True
            except NETWORK as error:
                self._warn("read its turn", error)
                await asyncio.sleep(0.2)
            await asyncio.sleep(POLL_S if time.monotonic() - started < 0.5 else 0.05)
        return False

    async def give_back_for_the_dead(self, target: GroupOffsets) -> None:
        """Give back the turn that an earlier attempt at this window took and died with, so that no successor waits for it."""
        held = (await target.committed(self._plan.group, [self.own])).get(self.own)
        mine = (Baton(self._window.number, is_released=False).encode(), turn_of(self._window.run_id))
        if held == mine:
            released = Baton(self._window.number, is_released=True).encode()
            await target.commit(self._plan.group, {self.own: (released, turn_of(self._window.run_id, is_unclean=True))})

    async def _must_stop(self, target: GroupOffsets) -> bool:
        try:
            return self.is_lost(await target.committed(self._plan.group, self.whose))
        except NETWORK:
            return False  # the commit or the next look will say more

    def _is_free(self, turn: tuple[int, str], since_ms: float) -> bool:
        """Tell whether a turn that is held may be taken all the same; the slot is this process' since `since_ms`."""
        window, baton, run_id = self._window, Baton.decode(turn[0]), run_of(turn[1])
        if run_id in window.gone:
            return True
        if run_id == window.run_id and baton.window == window.number:
            return True  # our own commit, whose answer was lost
        dead_ms = baton.dead_ms(window.window_ms)
        if run_id != window.run_id:
            # Whoever had the slot looks each second whether it still has, and then drains; transactions need not wait for that.
            drains_s = 0.0 if self._plan.is_exactly_once else GRACE_S
            dead_ms = min(dead_ms, since_ms + (2 * COMMIT_S + drains_s) * 1000)
        if now_ms() <= dead_ms:
            return False
        self.takeovers = 1
        if baton.window not in self._told_dead:
            self._told_dead.add(baton.window)
            log.warning(
                "%s: window %d of slot %d never released its turn, taking over",
                self._plan.name,
                baton.window,
                window.slot,
            )
        return True


def is_held(turn: tuple[int, str]) -> bool:
    """Tell whether a turn was taken and not given back."""
    return not Baton.decode(turn[0]).is_released
