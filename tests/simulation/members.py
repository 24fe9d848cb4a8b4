"""The consumer group by which processes share slots, in memory: a stand-in for librdkafka's consumer and its coordinator.

librdkafka sends heartbeats from its own threads: they end when the process is frozen or cut off, and the session a while later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import TopicPartition

from mirror.handover.membership import SESSION_MS
from tests.simulation.clock import ProcessLoop, World

HEARTBEAT_S = SESSION_MS / 3000
JOIN_S = (0.05, 0.5)


class Consumer:
    """A member of the group."""

    def __init__(self, members: Members, loop: ProcessLoop) -> None:
        self.loop = loop
        self.number = members.next_number()
        self.wanted: set[int] = set()  # what the coordinator has given it, and it has not heard of
        self.has: set[int] = set()
        self.is_joining = False
        self.heard_s = 0.0
        self._members = members
        self._on_assign: Callable[..., None]
        self._on_revoke: Callable[..., None]

    def subscribe(self, _: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self._on_assign, self._on_revoke = on_assign, on_revoke
        self._members.joins(self)

    def poll(self, _: float) -> None:
        """Take up what the coordinator decided."""
        if not self._members.hears(self):
            return
        gone, new = sorted(self.has - self.wanted), sorted(self.wanted - self.has)
        self.has = set(self.wanted)
        if gone:
            self._on_revoke(self, [TopicPartition("slots", slot) for slot in gone])
            self._members.balance()
        if new:
            self._on_assign(self, [TopicPartition("slots", slot) for slot in new])

    def incremental_assign(self, places: Any) -> None:
        """Do nothing: there are no records."""

    def pause(self, places: Any) -> None:
        """Do nothing: there are no records."""

    def close(self) -> None:
        self._members.leaves(self)


class Members:
    """The group's coordinator. `is_cut_off` tells whether a process reaches it."""

    def __init__(self, world: World, slots: int, is_cut_off: Callable[[ProcessLoop], bool]) -> None:
        self._world = world
        self._slots = slots
        self._is_cut_off = is_cut_off
        self._members: list[Consumer] = []
        self._numbers = 0
        world.after(HEARTBEAT_S, self._beat)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def joins(self, member: Consumer) -> None:
        member.is_joining = True

        def join() -> None:
            member.is_joining = False
            if not member.loop.is_dead:
                member.heard_s = self._world.now_s
                self._members.append(member)
                self.balance()

        self._world.after(self._world.dice.uniform(*JOIN_S), join)

    def leaves(self, member: Consumer) -> None:
        if member in self._members:
            self._members.remove(member)
            self.balance()

    def hears(self, member: Consumer) -> bool:
        """Tell whether a member reaches the coordinator; one whose session ended joins again."""
        if self._is_cut_off(member.loop):
            return False
        if member not in self._members and not member.is_joining:
            self.joins(member)  # its session has ended: what it has is taken from it
        return True

    def _beat(self) -> None:
        now_s = self._world.now_s
        for member in tuple(self._members):
            loop = member.loop
            if not (loop.is_dead or loop.is_frozen or self._is_cut_off(loop)):
                member.heard_s = now_s
            elif now_s - member.heard_s > SESSION_MS / 1000:
                self._world.note(f"the session of {loop.name} ends")
                self._members.remove(member)
                member.wanted = set()
                self.balance()
        self._world.after(HEARTBEAT_S / 4, self._beat)

    def balance(self) -> None:
        """Give each member its share; a slot passes on when the member before it has heard that it lost the slot."""
        if not self._members:
            return
        share = -(-self._slots // len(self._members))
        held: set[int] = set()
        for member in self._members:
            member.wanted = set(sorted(member.wanted | member.has)[:share]) - held
            held |= member.wanted | member.has
        for slot in range(self._slots):
            if slot not in held:
                least = min(self._members, key=lambda one: (len(one.wanted), one.number))
                least.wanted.add(slot)
