"""Manage a slot's lease for one window: who owns the slot, and which window may write."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum
from itertools import count, takewhile
from typing import TYPE_CHECKING, NamedTuple

from mirror.kafka.errors import KafkaError
from mirror.kafka.group_offsets import GroupOffsets, Offsets
from mirror.model.flow_plan import FlowPlan, Window
from mirror.model.slot_lease import GRACE_S, LeaseState, Predecessor, predecessor_of
from mirror.model.slot_ownership import (
    COMMIT_S,
    Owner,
    SlotLayout,
    is_lease_key,
    is_stopped,
    layout_key,
    lease_key,
    owner_key,
    ready_key,
    slot_of_lease_key,
    stop_key,
)
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.clock import now_ms

if TYPE_CHECKING:
    from mirror.kafka.target import Target

log = logging.getLogger("mirror")

POLL_S = 0.002
VALID_S = 4.0  # less than another process needs to take over the slot
STANDBY_S = 0.5
NETWORK = (KafkaError, OSError, TimeoutError)


class LeaseTerm:
    """The time for which a window may write: VALID_S after the request that last confirmed its lease.

    A: The term starts with the request, not with its response.
    B: Two clocks measure it: the monotonic one may stop while a machine sleeps, the other one may be set back.
    C: VALID_S is shorter than a successor's wait before a takeover, so no two windows write with valid leases.
    """

    def __init__(self) -> None:
        self._asked = (float("-inf"), float("-inf"))

    @staticmethod
    def now() -> tuple[float, float]:
        """Return the current times for `confirm`. Call it before the request to the cluster."""
        return time.monotonic(), time.time()

    def confirm(self, asked: tuple[float, float]) -> None:
        """Extend the term: the slot and the lease belonged to this window at some moment after `asked`."""
        self._asked = max(self._asked, asked)

    @property
    def is_valid(self) -> bool:
        """True while no other window can have taken over the slot."""
        (monotonic, wall), (asked_monotonic, asked_wall) = self.now(), self._asked
        return 0 <= monotonic - asked_monotonic < VALID_S and 0 <= wall - asked_wall < VALID_S


class LeaseStatus(Enum):
    """The state of the lease, for a window that has acquired the slot."""

    HOLDS = "slot and lease are this window's"
    STOPPING = "slot and lease are this window's, but this process must stop"
    LOST = "the slot was given to another process"
    # The data of this window is outdated.
    OVERTAKEN = "another window has taken over the lease, or processes of another layout work"

    @property
    def may_write(self) -> bool:
        """True while slot and lease are this window's."""
        return self in (LeaseStatus.HOLDS, LeaseStatus.STOPPING)


class OtherLease(NamedTuple):
    """The lease of a lane of another slot."""

    slot: int
    lease: LeaseState


class Lease:
    """Waits for a slot and acquires its lease for one window.

    Attributes:
        predecessor: How the earlier windows ended; known when the lease is acquired.
        others: Leases of slots of another layout that ran after this slot; known at the same time.
        is_of_new_flow: No window of any slot ran before this one; known at the same time.
        wait_ms: Time until the lease was acquired, from the window's start or, if later, from when this process could own the
        slot. takeovers: 1 when a predecessor counted as dead, otherwise 0.
        is_claimed_again: The lease was claimed again for a spare transactional id, which may have overwritten a successor's
            claim.
    """

    def __init__(self, plan: FlowPlan, window: Window, warn: Callable[[str, BaseException], None]) -> None:
        self._plan = plan
        self._window = window
        self._warn = warn
        self._stops = TopicPartition(plan.lease_topic, stop_key())
        self._lanes = [TopicPartition(plan.lease_topic, lease_key(window.slot, lane)) for lane in range(window.lanes)]
        self.owner = TopicPartition(plan.lease_topic, owner_key(window.slot))
        self.ready = TopicPartition(plan.lease_topic, ready_key(window.slot))
        self.own = self._lanes[window.lane]
        self._layout = TopicPartition(plan.lease_topic, layout_key())
        self._own_layout = plan.layout(window)
        self.whose = (self._stops, self.owner, self._layout)
        self.looks_at = (*self.whose, *self._lanes, self.ready)
        self.predecessor = Predecessor()
        self.others: list[OtherLease] = []
        self.is_of_new_flow = False
        self.wait_ms = 0.0
        self.takeovers = 0
        self.is_claimed_again = False
        self._acquired_from: dict[TopicPartition, LeaseState] = {}  # leases of the lanes when ours was acquired

    # --- what was found on the target ----------------------------------------------------------------------------

    def status(self, found: Offsets) -> LeaseStatus:
        """Return the state of this window's lease; `found` has the offsets of `looks_at`."""
        if self._is_of_old_layout(found) or self._is_overtaken(self._leases(found)):
            return LeaseStatus.OVERTAKEN
        if not self.owns_slot(found):
            return LeaseStatus.LOST
        return LeaseStatus.STOPPING if self._is_stopped(found) else LeaseStatus.HOLDS

    def may_commit(self, found: Offsets) -> bool:
        """Return whether this window may commit a transaction that began before `found` was read.

        It may even commit if its slot has another owner: the new owner claims the lease before it opens its producer.
        """
        status = self.status(found)
        return status.may_write if self.is_claimed_again else status is not LeaseStatus.OVERTAKEN

    def newest_spare(self, found: Offsets) -> int:
        """Return the number of the slot's transactional id; `found` was read after this window's claim.

        A predecessor may have claimed the lease for a spare id after `acquire` read it: `found` shows that claim.
        """
        window, leases = self._window, dict(self._acquired_from)
        for key, lease in self._leases(found).items():
            if (lease.window, lease.run_id) != (window.number, window.run_id):
                leases[key] = lease
        return predecessor_of(window.number, leases.values(), run_id=window.run_id).outcome.spare

    def owns_slot(self, found: Offsets) -> bool:
        """Return whether this process owns the slot; `found` has the offsets of `whose`."""
        return self.owner in found and found[self.owner][0] == self._window.run_id and not self._is_of_old_layout(found)

    def _is_of_old_layout(self, found: Offsets) -> bool:
        """Return whether processes of another layout work.

        The owner does not show it: if only this layout has the slot, no process of the other layout commits another owner.
        """
        return self._layout in found and SlotLayout.parse(found[self._layout][1]) != self._own_layout

    def has_successor(self, found: Offsets) -> bool:
        """Return whether a later window is ready; `found` has the offset of `ready`."""
        return self._newest_ready(found) > self._window.number

    def has_stale_commit(self, found: Offsets) -> bool:
        """Return whether a suspended process has committed old positions over newer ones.

        Such a commit also restores the old leases, which reveals it.
        """
        leases, number = self._leases(found), self._window.number
        own = leases.pop(self.own, None)
        if own is not None and own.window < number:
            return True
        return any(lease != self._acquired_from.get(key) and lease.window < number for key, lease in leases.items())

    def _is_overtaken(self, leases: Mapping[TopicPartition, LeaseState]) -> bool:
        """Return whether a later window has acquired the lease since.

        A later window that released the lease earlier belongs to a process whose clock was ahead. It is no successor.
        """
        window = self._window
        return any(
            lease.window > window.number or (lease.window == window.number and lease.run_id != window.run_id)
            for key, lease in leases.items()
            if lease != self._acquired_from.get(key)
        )

    def _is_stopped(self, found: Offsets) -> bool:
        return is_stopped(self._window.run_id, found.get(self._stops))

    def _leases(self, found: Offsets) -> dict[TopicPartition, LeaseState]:
        return {key: LeaseState.parse(found[key]) for key in self._lanes if key in found}

    def _newest_ready(self, found: Offsets) -> int:
        return found[self.ready][0] if self.ready in found else -1

    # --- waiting and acquiring -----------------------------------------------------------------------------------

    async def wait_for_slot(self, target: GroupOffsets) -> bool:
        """Wait until this process owns the slot. Return False if it stops or the window has passed.

        Raises KafkaError.
        """
        while now_ms() < self._window.end_ms:
            found = await target.committed(self._plan.group, self.whose)
            if self._is_stopped(found):
                return False
            if self.owns_slot(found):
                return True
            await asyncio.sleep(STANDBY_S)
        return False

    async def announce_ready(self, target: GroupOffsets) -> None:
        """Announce to the holder of the lease that a successor is ready. Raises KafkaError."""
        await target.commit(self._plan.group, {self.ready: (self._window.number, "")})

    async def acquire(self, target: Target, term: LeaseTerm, begin: Callable[[], Awaitable[bool]]) -> bool:
        """Wait until the predecessor has released the lease or counts as dead, then begin.

        Args:
            target: Stores the leases.
            term: Confirmed before `begin` is called.
            begin: Writes the lease; returns False if another window has it.

        Returns:
            The result of `begin`; False if the slot was lost or the window has passed.
        """
        window, plan = self._window, self._plan
        give_up_ms = window.end_ms - window.window_ms * 0.1
        while now_ms() < window.start_ms:
            await asyncio.sleep(max(0.0, min(0.5, (window.start_ms - now_ms()) / 1000)))
            if now_ms() < window.start_ms - 100 and await self._must_stop(target):
                return False
        started, asked_ms, waited = time.monotonic(), now_ms(), False
        while now_ms() < give_up_ms:
            try:
                asked = LeaseTerm.now()
                found = await target.committed(plan.group, self.looks_at)
                if self._is_stopped(found) or not self.owns_slot(found):
                    return False
                if self._newest_ready(found) < window.number:
                    await self.announce_ready(target)  # the late predecessor announced itself after us
                since_ms, leases = Owner.parse(found[self.owner]).since_ms, self._leases(found)
                if self._are_free(leases.values(), since_ms) and await self._knows_predecessor(
                    target, leases, since_ms
                ):
                    self._acquired_from = leases
                    self._log_takeovers((*leases.values(), *(other.lease for other in self.others)))
                    term.confirm(asked)
                    if not term.is_valid:
                        continue  # this process was suspended, so `found` may be outdated
                    has_begun = await begin()
                    possible_ms = max(window.start_ms, since_ms)
                    self.wait_ms = now_ms() - (possible_ms if waited else max(asked_ms, possible_ms))
                    return has_begun
                waited = True
            except NETWORK as error:
                self._warn("read its lease", error)
                await asyncio.sleep(0.2)
            await asyncio.sleep(POLL_S if time.monotonic() - started < 0.5 else 0.05)
        return False

    def _are_free(self, leases: Iterable[LeaseState], since_ms: float) -> bool:
        """Return whether all leases are released or may be taken over.

        This process has owned the slot since `since_ms`.
        """
        return all(lease.is_released or self._may_take_over(lease, since_ms) for lease in leases)

    def _log_takeovers(self, leases: Iterable[LeaseState]) -> None:
        for lease in leases:
            if not (lease.is_released or self._is_own_or_ended(lease)):
                self.takeovers = 1
                log.warning(
                    "%s: window %d of slot %d never released its lease, taking over",
                    self._plan.name,
                    lease.window,
                    self._window.slot,
                )

    async def _knows_predecessor(
        self, target: Target, leases: Mapping[TopicPartition, LeaseState], since_ms: float
    ) -> bool:
        """Set the predecessor from the lanes' leases.

        Returns False while a slot of another layout holds a lease. That is only checked if the previous window was not of this
        slot and run: otherwise no other layout can have run since. Raises KafkaError.
        """
        window = self._window
        self.others, before = [], predecessor_of(window.number, leases.values(), run_id=window.run_id)
        if before.has_gap:
            self.others = await self._of_other_layouts(target, leases)
            others = [other.lease for other in self.others]
            before = predecessor_of(window.number, leases.values(), run_id=window.run_id, others=others)
            if not self._are_free(others, since_ms):
                return False
        self.predecessor = before
        return True

    async def _of_other_layouts(self, target: Target, leases: Mapping[TopicPartition, LeaseState]) -> list[OtherLease]:
        """Return the leases of slots of another layout that ran after this slot did.

        Any of them may have had this slot's partitions. A lease from an earlier version does not name its layout. Raises
        KafkaError.
        """
        topic, window_ms = self._plan.lease_topic, self._window.window_ms
        known = takewhile(lambda key: target.knows(topic, key), count(owner_key(0)))
        found = await target.committed(
            self._plan.group, [TopicPartition(topic, key) for key in known if is_lease_key(key)]
        )
        all_leases = {key: LeaseState.parse(at) for key, at in found.items()}
        self.is_of_new_flow = all(each.began_ms(window_ms) >= self._window.start_ms for each in all_leases.values())
        since_ms = max((lease.began_ms(window_ms) for lease in leases.values()), default=0)
        return [
            OtherLease(slot_of_lease_key(key), lease)
            for (_, key), lease in all_leases.items()
            if (topic, key) not in leases
            and lease.layout not in (None, self._own_layout)
            and lease.began_ms(window_ms) >= since_ms
        ]

    async def release_for_dead_attempt(self, target: GroupOffsets) -> None:
        """Release the lease of a dead attempt at this window, for the successor."""
        found = await target.committed(self._plan.group, [self.own])
        if self.own not in found:
            return
        held = LeaseState.parse(found[self.own])
        if (held.window, held.run_id, held.is_released) == (self._window.number, self._window.run_id, False):
            released = held._replace(is_released=True, outcome=held.outcome._replace(is_unclean=True))
            await target.commit(self._plan.group, {self.own: released.encode()})

    async def _must_stop(self, target: GroupOffsets) -> bool:
        try:
            found = await target.committed(self._plan.group, self.whose)
        except NETWORK:
            return False  # the commit or the next check will show it
        return self._is_stopped(found) or not self.owns_slot(found)

    def _may_take_over(self, held: LeaseState, since_ms: float) -> bool:
        """Return whether a held lease may be taken over. This process has owned the slot since `since_ms`."""
        window = self._window
        if self._is_own_or_ended(held):
            return True
        dead_ms = held.dead_ms(window.window_ms)
        if held.run_id != window.run_id:
            # The earlier owner checks its ownership each second, and then drains its batches. Transactions need no wait.
            drains_s = 0.0 if self._plan.is_exactly_once else GRACE_S
            dead_ms = min(dead_ms, since_ms + (2 * COMMIT_S + drains_s) * 1000)
        return now_ms() > dead_ms

    def _is_own_or_ended(self, held: LeaseState) -> bool:
        """Return whether an ended run, or this window itself, holds a lease.

        This window may hold it if the response to its claim was lost.
        """
        window = self._window
        return held.run_id in window.gone or (held.run_id, held.window) == (window.run_id, window.number)
