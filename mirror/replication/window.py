"""One window of one slot and flow: warm up, take the turn, replicate, hand the turn over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mirror.config.clients import fetch_options, produce_options
from mirror.handover.lease import NETWORK, Lease, Turn
from mirror.kafka.producer import DECIDES_S
from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, Window
from mirror.model.paused_topics import Paused
from mirror.model.slot_ownership import COMMIT_S, GRACE_S, Baton, turn_of
from mirror.replication.connections import Connections, connected, ended, forget, kept
from mirror.replication.identities import Identities, placed
from mirror.replication.outcomes import find_outcomes, in_question, note_unknown_outcomes
from mirror.replication.partition import Identity, Partition
from mirror.replication.pauses import Pauses
from mirror.replication.positions import PendingCommit, PositionCommits, is_there, keep_alive
from mirror.replication.read_ahead import Packing
from mirror.replication.replicator import Replicator
from mirror.replication.settlement import AtOnce, Settlement
from mirror.replication.transactions import InTransactions
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import in_words, once

log = logging.getLogger("mirror")

DRAINS_LOST_S = 2.0  # how long a window may wait for answers when its slot has another owner
GIVEN_UP_S = 2 * GRACE_S + 1.0  # behind a window's end, when one that hangs is ended: before it counts as dead
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


@dataclass(slots=True)
class Served:
    """What a window did for a flow: nothing when its turn never came."""

    partitions: list[Partition] = field(default_factory=list)
    turn_wait_ms: float = 0.0  # from the window's start, or ours where we began later with no predecessor to wait for
    takeovers: int = 0  # 1 when the predecessor was taken for dead


async def serve(plan: FlowPlan, window: Window) -> Served:
    """Serve one window of one flow.

    A network failure ends nothing: it is retried until the window is over, and what could not be done is left
    to the next window, which finds the positions on the target.
    """
    running = asyncio.create_task(FlowWindow(plan, window).run())
    longest_s = (window.end_ms - now_ms()) / 1000 + GIVEN_UP_S
    try:
        if await ended(running, within_s=longest_s):
            if running.exception() is not None:
                await forget(plan.name)  # what it had in its hands must not be sent by the next window's loop
            return await running
        log.warning("%s: slot %d hung past its window and was given up", plan.name, window.slot)
        if (connections := kept(plan.name)) is not None:
            connections.target.abort()
        running.cancel()
        await ended(running, within_s=GRACE_S)
        await forget(plan.name)
        return Served()
    finally:
        connections = kept(plan.name)
        if connections is not None and connections.is_dirty:
            await forget(plan.name)


class FlowWindow:
    """The steps of one window, in order: warm, take the turn, replicate, hand over."""

    def __init__(self, plan: FlowPlan, window: Window) -> None:
        self._plan = plan
        self._window = window
        self._fetch = fetch_options(plan.consumer)
        self._stop = asyncio.Event()
        self._served = Served()
        self._commits = PositionCommits(plan, window, self._served.partitions)
        self._told: set[str] = set()
        self._had_failure = False  # positions may not be what they were: the successor looks what the target has
        self._is_last = False
        self._spare = 0  # number of the transactional id that is written by
        self._decides_ms = 0  # until when the target may not know what became of our last transaction
        self._is_lost = False  # the slot has another owner
        self._is_overtaken = False  # another process counted this one as dead: what this one knows is old
        self._lease = Lease()
        self._paused = Paused()
        self._turn = Turn(plan, window, self._warn)

    async def run(self) -> Served:
        """Run all steps; what is returned is empty when the turn never came."""
        connections = await self._retried("connect", self._warm)
        if connections is not None and await self._turn.take(
            connections.target, self._lease, lambda: self._begin(connections)
        ):
            self._served.turn_wait_ms, self._served.takeovers = self._turn.wait_ms, self._turn.takeovers
            await self._replicate(connections)
        elif self._window.is_retry:
            await self._give_back_for_the_dead()
        return self._served

    async def _give_back_for_the_dead(self) -> None:
        """Where an earlier attempt died too late in the window for this one to take over."""
        target = connected(self._plan, self._window).target
        try:
            await target.open({self._plan.baton_topic})
            await self._turn.give_back_for_the_dead(target)
        except NETWORK as error:
            self._warn("give its turn back", error)  # it runs out by itself

    def _warn(self, what: str, error: BaseException) -> None:
        """Note a failure, and say what cannot be done, once a window: a dead cluster must not fill the log."""
        self._had_failure = True
        log.log(
            once(self._told, what),
            "%s: slot %d cannot %s (%s), retrying",
            self._plan.name,
            self._window.slot,
            what,
            in_words(error),
        )

    async def _retried(self, what: str, step):  # type: ignore[no-untyped-def]
        delay = 0.2
        while now_ms() < self._window.end_ms:
            try:
                return await step()
            except NETWORK as error:
                self._warn(what, error)
                await forget(self._plan.name)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)
        return None

    async def _warm(self) -> Connections | None:
        """Connect to the target, wait until the slot is this process', connect to the source, say that we are ready."""
        plan = self._plan
        connections = connected(self._plan, self._window)
        own = {plan.baton_topic, plan.offset_map_topic}
        await connections.target.open({p.remote_topic for p in plan.partitions} | own)
        if not await self._turn.until_ours(connections.target):
            return None
        await connections.source.open({p.topic for p in plan.partitions})
        await connections.source.warm(
            {n for p in plan.partitions if (n := connections.source.leader(p.topic, p.partition)) is not None}
        )
        if not all(is_there(connections.target, assigned) for assigned in plan.partitions):
            await connections.target.refresh()  # it knows of a topic that was gone, or had fewer partitions
        await self._turn.say_ready(connections.target)
        return connections

    # --- the turn -------------------------------------------------------------------------------------------

    async def _begin(self, connections: Connections) -> bool:
        """Hold the turn, then read the positions; False, and the turn given back, when a successor may not have seen us.

        A successor says that it is ready before it looks at our turn, and we hold our turn before we look whether it is
        ready: one of the two sees the other, however long a cluster made either wait in between. The same goes for another
        process that was given the slot.
        """
        plan, target, window = self._plan, connections.target, self._window
        await self._commit(target, Baton(window.number, is_released=False))
        places = [plan.paused_key, *((p.remote_topic, p.partition) for p in plan.partitions)]
        before = [] if plan.is_exactly_once else places
        found = await target.committed(plan.group, [self._turn.ready, self._turn.owner, *before])
        is_over = now_ms() >= window.end_ms and found.get(self._turn.ready, (-1,))[0] > window.number
        if is_over or not self._turn.is_ours(found):
            await self._commit(target, Baton(window.number, is_released=True))
            return False
        if plan.is_exactly_once:
            self._spare = self._turn.spare
            await asyncio.sleep(max(0.0, min(DECIDES_S, (self._turn.decides_ms - now_ms()) / 1000)))
            # Which may end a transaction, and with it move the positions.
            await target.fence(self._spare, lambda spare: self._writes_by(target, spare))
            found = await target.committed(plan.group, places, is_stable=True)
        self._paused = Paused.parse(found.get(plan.paused_key, (0, ""))[1])
        from_earliest = self._fetch.from_earliest
        for assigned in plan.partitions:
            committed = found.get((assigned.remote_topic, assigned.partition))
            self._served.partitions.append(
                placed(plan, assigned, committed, from_earliest=from_earliest, is_uncertain=self._turn.in_doubt)
            )
        if window.is_first_of(HOUR_MS):
            self._commits.write_all()
            await keep_alive(target, plan, self._served.partitions, found, is_paused=bool(self._paused.patterns))
        await self._find_outcomes(connections)
        return True

    async def _writes_by(self, target: Target, spare: int) -> None:
        """Let everybody know by which id the slot's next transactions are written, before the first one; raises KafkaError."""
        self._spare = spare
        await self._commit(target, Baton(self._window.number, is_released=False))
        log.warning(
            "%s: slot %d: a transaction does not end: one of its topic-partitions takes no writes; going on beside it",
            self._plan.name,
            self._window.slot,
        )

    # --- replicating and handing over -------------------------------------------------------------------------

    async def _find_outcomes(self, connections: Connections) -> None:
        has_gap = self._turn.has_gap or self._had_failure or self._turn.is_unclean
        partitions = in_question(self._served.partitions, is_unclean=self._turn.is_unclean, has_gap=has_gap)
        self._had_failure |= not await find_outcomes(
            self._plan,
            partitions,
            connections.source,
            isolation_level=self._fetch.isolation_level,
            is_patient=has_gap,
            warn=self._warn,
        )

    async def _replicate(self, connections: Connections) -> None:
        plan, commits = self._plan, self._commits
        replicator = replicator_of(
            plan,
            connections,
            self._served.partitions,
            self._commits,
            self._lease,
            tries_all=self._window.is_first_of(MINUTE_MS),
        )
        replicator.follow(self._paused)
        keeper = asyncio.create_task(self._keep(connections, replicator))
        # A timer of its own: no answer that does not come may keep a window going for longer than others wait for its end.
        ending = asyncio.get_running_loop().call_later((self._last_ms - now_ms()) / 1000, self._stop.set)
        try:
            await replicator.run(self._stop)
        finally:
            self._stop.set()
            ending.cancel()
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        if replicator.needs_new_producer:
            connections.is_dirty = self._had_failure = True
        if replicator.has_silent_source:
            # Windows may be shorter than a request's time-out: without this a half-open connection would stay.
            await connections.renew_source(plan)
        if self._is_last:
            commits.map_is_due = True  # a mirror that is stopped leaves a complete map
        drained = await replicator.drained(DRAINS_LOST_S if self._is_lost else GRACE_S)
        if not drained:
            connections.is_dirty = True
            connections.target.abort()  # at once: what no broker has received yet never arrives
            self._decides_ms = note_unknown_outcomes(plan, self._window.slot, self._served.partitions)
        elif self._is_last and not plan.is_exactly_once:
            await self._move_tails(connections)
        await self._hand_over(connections, replicator)
        if plan.is_exactly_once:
            await connections.target.close()  # the other lane fences it next; the next window of this one opens another

    async def _hand_over(self, connections: Connections, replicator: Replicator) -> None:
        """Commit the last positions and release the turn; not when a successor has taken it over, which knows more."""
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            try:
                if not self._lease.is_valid:
                    await self._look(connections.target, replicator)
                if self._is_overtaken:
                    log.warning(
                        "%s: slot %d was taken over while this process stood still: positions are left to the successor",
                        self._plan.name,
                        self._window.slot,
                    )
                    connections.is_dirty = True
                    return
                await self._commit(connections.target, Baton(self._window.number, is_released=True))
            except NETWORK as error:
                self._warn("commit positions", error)
                await asyncio.sleep(0.2)
            else:
                return
        connections.is_dirty = True

    @property
    def _last_ms(self) -> float:
        """When the window ends in any case, epoch ms."""
        return self._window.end_ms + (GRACE_S * 1000 if self._window.lanes > 1 else 0)

    async def _keep(self, connections: Connections, replicator: Replicator) -> None:
        """Confirm each second that we may write, and commit positions; end the window when it is over and a successor ready."""
        window = self._window
        while not self._stop.is_set():
            remaining_s = (window.end_ms - now_ms()) / 1000
            if self._lease.is_valid:
                await asyncio.sleep(max(0.0, min(COMMIT_S, remaining_s)) if remaining_s > 0 else 0.02)
            has_successor, is_over = False, now_ms() >= window.end_ms
            try:
                has_successor = await self._look(connections.target, replicator)
                if not (is_over or self._is_last or self._plan.is_exactly_once):
                    await self._move_tails(connections)
                    await self._commit(connections.target, None)
            except NETWORK as error:
                self._warn("commit positions", error)
                await asyncio.sleep(0.2)
            if self._is_last or (is_over and (has_successor or window.lanes == 1)):
                self._stop.set()

    async def _look(self, target: Target, replicator: Replicator) -> bool:
        """Look whether slot and turn are still ours, which the lease is confirmed by, and who shall rest.

        Returns:
            True when a successor is ready.

        Raises:
            KafkaError: the target does not tell.
        """
        asked = Lease.now()
        found = await target.committed(self._plan.group, [*self._turn.looks_at, self._plan.paused_key])
        self._is_lost = not self._turn.is_ours(found)
        self._is_overtaken = self._turn.is_overtaken(found)
        self._is_last = self._turn.is_lost(found) or self._is_overtaken
        if not (self._is_lost or self._is_overtaken):
            if self._turn.is_covered(found):
                self._warn_of_sleeper()
            self._lease.confirm(asked)
            replicator.lease_confirmed()
        replicator.follow(Paused.parse(found.get(self._plan.paused_key, (0, ""))[1]))
        return found.get(self._turn.ready, (-1, ""))[0] > self._window.number

    def _warn_of_sleeper(self) -> None:
        """Write again what a process has covered that stood still for long, and have the successor look at the target."""
        self._had_failure = True
        self._commits.write_all()
        log.log(
            once(self._told, "covered"),
            "%s: slot %d: a process that stood still for long has committed old positions over "
            "newer ones; they are written again",
            self._plan.name,
            self._window.slot,
        )

    async def _move_tails(self, connections: Connections) -> None:
        try:
            await self._commits.move_tails(connections.target)
        except NETWORK as error:
            self._warn(f"write {self._plan.offset_map_topic}", error)

    async def _commit(self, target: Target, baton: Baton | None) -> None:
        """Commit what was acknowledged since the last commit, and the turn with it in the same write.

        The turn goes with every commit: a reader of positions that a process committed late reads its old turn with them, and
        looks what the target has. Transactions have committed their own positions.
        """
        pending = self._commits.pending(target) if not self._plan.is_exactly_once else PendingCommit({}, [])
        offsets = dict(pending.offsets)
        if baton is None and offsets:
            baton = Baton(self._window.number, is_released=False)
        if baton is not None:
            is_unclean = baton.is_released and self._had_failure
            in_doubt = baton.is_released and any(
                p.start is not None or p.identity in (Identity.UNVERIFIED, Identity.REPLACED)
                for p in self._served.partitions
            )
            said = turn_of(
                self._window.run_id,
                is_unclean=is_unclean,
                in_doubt=in_doubt,
                spare=self._spare,
                decides_ms=self._decides_ms,
            )
            offsets[self._turn.own] = (baton.encode(), said)
        if offsets:
            await target.commit(self._plan.group, offsets)
        self._commits.completed(pending)


def replicator_of(
    plan: FlowPlan,
    connections: Connections,
    partitions: Sequence[Partition],
    commits: PositionCommits,
    lease: Lease,
    *,
    tries_all: bool,
) -> Replicator:
    """Make a window's replicator. Exactly once needs no lease: the target refuses who was fenced.

    Args:
        plan: The flow.
        connections: Its clients.
        partitions: Those of the window, as they were placed.
        commits: Has their positions.
        lease: Says whether the slot is ours.
        tries_all: Also try what the target appended nothing to, and of which its metadata show no change.
    """
    target, fetch, packing = connections.target, fetch_options(plan.consumer), Packing(produce_options(plan.producer))
    pauses = Pauses(plan.name, target, partitions, packing, tries_all=tries_all)
    settlement: Settlement = AtOnce()
    if plan.is_exactly_once:
        settlement = InTransactions(
            plan.name,
            target,
            partitions,
            packing=packing,
            pauses=pauses,
            commits=commits,
            group=plan.group,
            longest_s=plan.transaction_ms / 1000,
        )
    return Replicator(
        plan.name,
        connections.source,
        target,
        partitions,
        fetch=fetch,
        packing=packing,
        pauses=pauses,
        settlement=settlement,
        identities=Identities(plan),
        lease=None if plan.is_exactly_once else lease,
    )
