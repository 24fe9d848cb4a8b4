"""One window of one slot and flow: warm up, take the turn, replicate, hand the turn over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mirror.config.clients import aiokafka_options, fetch_options, produce_options
from mirror.handover.lease import NETWORK, Lease, Turn
from mirror.kafka.fetcher import Source
from mirror.kafka.producer import DECIDES_S
from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, Key, Window
from mirror.model.paused_topics import Paused
from mirror.model.reports import AWAITS
from mirror.model.slot_ownership import COMMIT_S, GRACE_S, Baton, turn_of
from mirror.replication import told
from mirror.replication.identities import Identities, placed
from mirror.replication.partition import Partition
from mirror.replication.positions import Ledger, Page, is_there
from mirror.replication.recovery import REPLICATED_WITHIN_S, resume_behind_tails
from mirror.replication.replicator import ARRIVES_S, FlowRunner
from mirror.replication.transactions import TransactionalRunner
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import in_words, once, some

log = logging.getLogger("mirror")

MATCH_S = 15.0
DRAINS_LOST_S = 2.0  # how long a runner may wait for answers whose slot is another process' by now
GIVEN_UP_S = 2 * GRACE_S + 1.0  # behind a window's end, when a runner that hangs is ended: before it counts as dead
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


@dataclass(slots=True)
class Connections:
    """The clients of one flow in one worker process, kept open from window to window."""

    source: Source
    target: Target
    is_dirty: bool = False  # something was left unacknowledged: the producer must not live on


_open: dict[str, Connections] = {}


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
        if await _ended(running, within_s=longest_s):
            if running.exception() is not None:
                await _forget(plan.name)  # what it had in its hands must not be sent by the next window's loop
            return await running
        log.warning("%s: slot %d hung past its window and was given up", plan.name, window.slot)
        if (connections := _open.get(plan.name)) is not None:
            connections.target.abort()
        running.cancel()
        await _ended(running, within_s=GRACE_S)
        await _forget(plan.name)
        return Served()
    finally:
        connections = _open.get(plan.name)
        if connections is not None and connections.is_dirty:
            await _forget(plan.name)


async def _forget(name: str) -> None:
    connections = _open.pop(name, None)
    if connections is None:
        return
    for client in (connections.target, connections.source):
        await _close(client, within_s=2 * GRACE_S)


async def _close(client: Source | Target, *, within_s: float) -> None:
    async def closed() -> None:
        with contextlib.suppress(*NETWORK):
            await client.close()

    await _ended(asyncio.create_task(closed()), within_s=within_s)


async def _ended(task: asyncio.Task[Any], *, within_s: float) -> bool:
    """Wait for a task; unlike asyncio.timeout, no longer even where what it waits for swallows its cancellation."""
    await asyncio.wait({task}, timeout=within_s)
    return task.done()


class FlowWindow:
    """The steps of one window, in order: warm, take the turn, replicate, hand over."""

    def __init__(self, plan: FlowPlan, window: Window) -> None:
        self._plan = plan
        self._window = window
        self._fetch = fetch_options(plan.consumer)
        self._produce = produce_options(plan.producer)
        self._stop = asyncio.Event()
        self._served = Served()
        self._ledger = Ledger(plan, window, self._served.partitions)
        self._told: set[str] = set()
        self._had_failure = False  # positions may not be what they were: the successor looks what the target has
        self._is_last = False
        self._spare = 0  # number of the transactional id that is written by
        self._decides_ms = 0  # until when the target may not know what became of our last transaction
        self._is_lost = False  # the slot is another process' by now
        self._is_overtaken = False  # somebody took us for dead: what we know is of long ago
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
        target = self._connections().target
        try:
            await target.open({self._plan.baton_topic})
            await self._turn.give_back_for_the_dead(target)
        except NETWORK as error:
            self._warn("give its turn back", error)  # it runs out by itself

    def _warn(self, what: str, error: BaseException) -> None:
        """Note a failure, and say what cannot be done, once a window: a dead cluster must not fill the log."""
        self._had_failure = True
        log.log(once(self._told, what), "%s: slot %d cannot %s (%s), retrying",
                self._plan.name, self._window.slot, what, in_words(error))  # fmt: skip

    async def _retried(self, what: str, step):  # type: ignore[no-untyped-def]
        delay = 0.2
        while now_ms() < self._window.end_ms:
            try:
                return await step()
            except NETWORK as error:
                self._warn(what, error)
                await _forget(self._plan.name)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)
        return None

    async def _warm(self) -> Connections | None:
        """Connect to the target, wait until the slot is this process', connect to the source, say that we are ready."""
        plan = self._plan
        connections = self._connections()
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

    def _connections(self) -> Connections:
        connections = _open.get(self._plan.name)
        if connections is None:
            connections = Connections(Source(aiokafka_options(self._plan.consumer)), self._new_target())
            _open[self._plan.name] = connections
        elif connections.target.is_closed:
            connections.target = self._new_target()
        return connections

    def _new_target(self) -> Target:
        plan, produce = self._plan, self._produce
        return Target(
            aiokafka_options(plan.producer),
            request_bytes=produce.max_request_size,
            transactional_id=plan.transactional_id(self._window.slot) if plan.is_exactly_once else None,
            transaction_timeout_ms=produce.transaction_timeout_ms,
        )

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
                placed(plan, assigned, committed, from_earliest=from_earliest, in_doubt=self._turn.in_doubt)
            )
        if window.is_first_of(HOUR_MS):
            self._ledger.write_all()
            await self._keep_alive(target, found)
        await self._match_tails(connections)
        return True

    async def _writes_by(self, target: Target, spare: int) -> None:
        """Let everybody know by which id the slot's next transactions are written, before the first one; raises KafkaError."""
        self._spare = spare
        await self._commit(target, Baton(self._window.number, is_released=False))
        log.warning("%s: slot %d: a transaction does not end: one of its topic-partitions takes no writes; going on beside it",
                    self._plan.name, self._window.slot)  # fmt: skip

    async def _keep_alive(self, target: Target, found: Mapping[Key, tuple[int, str]]) -> None:
        """Commit again what nobody else does, lest it expires one day; at once, not to undo what an operator sets meanwhile."""
        keys = [(p.assigned.remote_topic, p.assigned.partition) for p in self._served.partitions if p.reason]
        if self._paused.patterns:
            keys.append(self._plan.paused_key)
        kept = {key: found[key] for key in keys if key in found}
        if kept:
            await target.commit(self._plan.group, kept)

    # --- replicating and handing over -------------------------------------------------------------------------

    async def _match_tails(self, connections: Connections) -> None:
        """Find out what a predecessor has written and not told; of what cannot be told yet nothing is written in this window.

        In transactions it has told all that counts. But a position is only as good as the broker that keeps it.
        """
        plan = self._plan
        for partition in self._served.partitions:
            if partition.until_ms > now_ms():
                partition.reason, partition.resume_s = AWAITS, float("inf")
        partitions = self._in_question()
        if not partitions:
            return
        target, unsettled = Source(aiokafka_options(plan.producer)), set(partitions)
        try:
            async with asyncio.timeout(MATCH_S):
                await target.open({p.assigned.remote_topic for p in partitions})
                await resume_behind_tails(
                    plan.name, unsettled, connections.source, target,
                    isolation_level=self._fetch.isolation_level, is_transactional=plan.is_exactly_once,
                    patience_s=REPLICATED_WITHIN_S if self._is_odd else 0.0,
                )  # fmt: skip
        except NETWORK as error:
            self._warn("read what was written last", error)
        finally:
            await target.close()
        for partition in set(partitions) - unsettled:
            if partition.until_ms:
                partition.until_ms, partition.committed = 0, None
        # Those without a position have no note that would tell the next window.
        self._had_failure |= any(p.begins is not None for p in unsettled)
        news = [p for p in unsettled if told.is_news(plan.name, p.assigned, AWAITS)]
        if news:
            names = [f"{p.assigned.topic}-{p.assigned.partition}" for p in news]
            log.warning(
                "%s: %d topic-partitions paused (%s): what was written to them last cannot be seen on the target yet",
                plan.name, len(names), some(names),
            )  # fmt: skip
        for partition in unsettled:
            partition.reason, partition.resume_s = AWAITS, float("inf")
            if not partition.until_ms:  # the next window is to look again
                partition.until_ms, partition.committed = int(now_ms()), None

    def _in_question(self) -> list[Partition]:
        """Return the topic-partitions whose targets may hold more; without an accident only where that can be told at a look."""
        return [
            p for p in self._served.partitions
            if not p.reason and (p.until_ms or (self._is_odd and (self._turn.is_unclean or p.tail.runs.last is not None)))
        ]  # fmt: skip

    @property
    def _is_odd(self) -> bool:
        """True when positions may not be what they should be."""
        return self._turn.is_unclean or self._turn.has_gap or self._had_failure

    async def _replicate(self, connections: Connections) -> None:
        plan, ledger = self._plan, self._ledger
        runner = self._runner(connections)
        runner.rest(self._paused)
        keeper = asyncio.create_task(self._keep(connections, runner))
        # A timer of its own: no answer that does not come may keep a window going for longer than others wait for its end.
        ending = asyncio.get_running_loop().call_later((self._last_ms - now_ms()) / 1000, self._stop.set)
        try:
            await runner.run(self._stop)
        finally:
            self._stop.set()
            ending.cancel()
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        if runner.needs_new_producer:
            connections.is_dirty = self._had_failure = True
        if runner.has_silent_source:
            # Windows may be shorter than a request's time-out: without this a half-open connection would stay for ever.
            await _close(connections.source, within_s=GRACE_S)
            connections.source = Source(aiokafka_options(plan.consumer))
        if self._is_last:
            ledger.map_is_due = True  # a mirror that rests leaves a map that is whole
        drained = await runner.drained(DRAINS_LOST_S if self._is_lost else GRACE_S)
        if not drained:
            connections.is_dirty = True
            connections.target.abort()  # at once: what no broker has received by now never arrives
            self._note_uncertain()
        elif self._is_last and not plan.is_exactly_once:
            await self._move_tails(connections)
        await self._hand_over(connections, runner)
        if plan.is_exactly_once:
            await connections.target.close()  # the other lane fences it next; the next window of this one opens anew

    def _note_uncertain(self) -> None:
        """Have nobody write to a topic-partition while its last batch may still come into the log; the others go on.

        That of a transaction does not count by then, for the successor opens the slot's producer; not before the target knows
        which of its brokers are alive.
        """
        if self._plan.is_exactly_once:
            if any(partition.in_flight for partition in self._served.partitions):
                self._decides_ms = int(now_ms() + (DECIDES_S - GRACE_S) * 1000)
            log.warning("%s: slot %d: the target has not answered about the last transaction, which is taken back",
                        self._plan.name, self._window.slot)  # fmt: skip
            return
        names = []
        for partition in self._served.partitions:
            if partition.in_flight:
                partition.until_ms = int(now_ms() + ARRIVES_S * 1000)
                partition.committed = None
                names.append(f"{partition.assigned.topic}-{partition.assigned.partition}")
        log.warning(
            "%s: slot %d: no answer about the last batches of %d topic-partitions (%s): nothing is written to them for %.0f s",
            self._plan.name, self._window.slot, len(names), some(names), ARRIVES_S,
        )  # fmt: skip

    async def _hand_over(self, connections: Connections, runner: FlowRunner) -> None:
        """Commit the last positions and the turn; not when somebody else has it by now, who knows more."""
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            try:
                if not self._lease.is_valid:
                    await self._look(connections.target, runner)
                if self._is_overtaken:
                    log.warning("%s: slot %d was taken over while this process stood still: positions are left to the successor",
                                self._plan.name, self._window.slot)  # fmt: skip
                    connections.is_dirty = True
                    return
                await self._commit(connections.target, Baton(self._window.number, is_released=True))
            except NETWORK as error:
                self._warn("commit positions", error)
                await asyncio.sleep(0.2)
            else:
                return
        connections.is_dirty = True

    def _runner(self, connections: Connections) -> FlowRunner:
        plan = self._plan
        given: dict[str, Any] = {
            "fetch": self._fetch,
            "produce": self._produce,
            "identities": Identities(plan),
            "tries_all": self._window.is_first_of(MINUTE_MS),
        }
        everybody = (plan.name, connections.source, connections.target, self._served.partitions)
        if not plan.is_exactly_once:
            return FlowRunner(*everybody, **given, lease=self._lease)
        return TransactionalRunner(
            *everybody, **given, ledger=self._ledger, group=plan.group, longest_s=plan.transaction_ms / 1000
        )

    @property
    def _last_ms(self) -> float:
        """When the window ends in any case, epoch ms."""
        return self._window.end_ms + (GRACE_S * 1000 if self._window.lanes > 1 else 0)

    async def _keep(self, connections: Connections, runner: FlowRunner) -> None:
        """Confirm each second that we may write, and commit positions; end the window when it is over and a successor ready."""
        window = self._window
        while not self._stop.is_set():
            remaining_s = (window.end_ms - now_ms()) / 1000
            if self._lease.is_valid:
                await asyncio.sleep(max(0.0, min(COMMIT_S, remaining_s)) if remaining_s > 0 else 0.02)
            has_successor, is_over = False, now_ms() >= window.end_ms
            try:
                has_successor = await self._look(connections.target, runner)
                if not (is_over or self._is_last or self._plan.is_exactly_once):
                    await self._move_tails(connections)
                    await self._commit(connections.target, None)
            except NETWORK as error:
                self._warn("commit positions", error)
                await asyncio.sleep(0.2)
            if self._is_last or (is_over and (has_successor or window.lanes == 1)):
                self._stop.set()

    async def _look(self, target: Target, runner: FlowRunner) -> bool:
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
            runner.go_on()
        runner.rest(Paused.parse(found.get(self._plan.paused_key, (0, ""))[1]))
        return found.get(self._turn.ready, (-1, ""))[0] > self._window.number

    def _warn_of_sleeper(self) -> None:
        """Write again what a process has covered that stood still for long, and have the successor look at the target."""
        self._had_failure = True
        self._ledger.write_all()
        log.log(once(self._told, "covered"), "%s: slot %d: a process that stood still for long has committed old positions over "
                "newer ones; they are written again", self._plan.name, self._window.slot)  # fmt: skip

    async def _move_tails(self, connections: Connections) -> None:
        try:
            await self._ledger.move_tails(connections.target)
        except NETWORK as error:
            self._warn(f"write {self._plan.offset_map_topic}", error)

    async def _commit(self, target: Target, baton: Baton | None) -> None:
        """Commit what was acknowledged since the last commit, and the turn with it in the same write.

        The turn goes with every commit: whoever reads positions of a process that slept reads its old turn with them, and looks
        what the target has. Transactions have committed their own positions.
        """
        page = self._ledger.page(target) if not self._plan.is_exactly_once else Page({}, [])
        offsets = dict(page.offsets)
        if baton is None and offsets:
            baton = Baton(self._window.number, is_released=False)
        if baton is not None:
            is_unclean = baton.is_released and self._had_failure
            in_doubt = baton.is_released and any(
                p.in_doubt or p.begins is not None or p.is_another for p in self._served.partitions
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
        self._ledger.wrote(page)
