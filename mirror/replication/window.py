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
from mirror.logs import in_words, once
from mirror.replication.identities import Identities
from mirror.replication.ledger import Ledger, Page, is_there
from mirror.replication.partition import Partition
from mirror.replication.paused import Paused
from mirror.replication.placing import placed
from mirror.replication.plan import COMMIT_S, GRACE_S, Baton, FlowPlan, Key, Window, turn_of
from mirror.replication.runner import FlowRunner
from mirror.replication.tail_match import resume_behind_tails
from mirror.replication.transactions import TransactionalRunner
from mirror.replication.turn import NETWORK, Turn
from mirror.replication.wire import Source, Target, now_ms

log = logging.getLogger("mirror")

MATCH_S = 15.0
HOUR_MS = 3_600_000


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
    longest_s = (window.end_ms - now_ms()) / 1000 + 4 * GRACE_S
    try:
        if await _ended(running, within_s=longest_s):
            if running.exception() is not None:
                await _forget(plan.name)  # what it had in its hands must not be sent by the next window's loop
            return await running
        log.warning("%s: slot %d hung past its window and was given up", plan.name, window.slot)
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
        self._is_last = False
        self._paused = Paused()
        self._turn = Turn(plan, window, self._warn)

    async def run(self) -> Served:
        """Run all steps; what is returned is empty when the turn never came."""
        connections = await self._retried("connect", self._warm)
        if connections is not None and await self._turn.take(connections.target, lambda: self._begin(connections)):
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
        """Say what cannot be done, once a window: a dead cluster must not fill the log."""
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
        found = await target.committed(plan.group, [self._turn.ready, self._turn.owner, *places])
        is_over = now_ms() >= window.end_ms and found.get(self._turn.ready, (-1,))[0] > window.number
        if is_over or not self._turn.is_ours(found):
            await self._commit(target, Baton(window.number, is_released=True))
            return False
        if plan.is_exactly_once:
            await target.fence()  # which may have ended a transaction, and with it moved the positions
            found = await target.committed(plan.group, places)
        self._paused = Paused.parse(found.get(plan.paused_key, (0, ""))[1])
        from_earliest = self._fetch.from_earliest
        for assigned in plan.partitions:
            committed = found.get((assigned.remote_topic, assigned.partition))
            self._served.partitions.append(
                placed(plan, assigned, committed, from_earliest=from_earliest, in_doubt=self._turn.in_doubt)
            )
        if window.is_first_of(HOUR_MS):
            await self._keep_alive(target, found)
        if self._turn.is_unclean or self._turn.has_gap or self._told:
            await self._match_tails(connections)
        return True

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
        """Find out what a predecessor has written and not told; without an answer in time, some of it comes twice.

        In transactions it has told all that counts. But a position is only as good as the broker that keeps it.
        """
        plan, partitions = self._plan, self._in_question()
        if not partitions:
            return
        target = Source(aiokafka_options(plan.producer))
        try:
            async with asyncio.timeout(MATCH_S):
                await target.open({p.assigned.remote_topic for p in partitions})
                await resume_behind_tails(
                    plan.name, partitions, connections.source, target,
                    isolation_level=self._fetch.isolation_level, is_transactional=plan.is_exactly_once,
                )  # fmt: skip
        except NETWORK as error:
            log.warning("%s: slot %d: what was written since the last positions may be written twice: it cannot be read (%s)",
                        plan.name, self._window.slot, in_words(error))  # fmt: skip
        finally:
            await target.close()

    def _in_question(self) -> list[Partition]:
        """Return the topic-partitions whose targets may hold more; without an accident only where that can be told at a look."""
        return [p for p in self._served.partitions if self._turn.is_unclean or p.tail.runs.last is not None]

    async def _replicate(self, connections: Connections) -> None:
        plan, ledger = self._plan, self._ledger
        runner = self._runner(connections)
        runner.rest(self._paused)
        keeper = asyncio.create_task(self._keep(connections, runner))
        try:
            await runner.run(self._stop)
        finally:
            self._stop.set()
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        if runner.needs_new_producer:
            connections.is_dirty = True
            self._told.add("a producer of no more use")
        if runner.has_silent_source:
            # Windows may be shorter than a request's time-out: without this a half-open connection would stay for ever.
            await _close(connections.source, within_s=GRACE_S)
            connections.source = Source(aiokafka_options(plan.consumer))
        if self._is_last:
            ledger.map_is_due = True  # a mirror that rests leaves a map that is whole
        drained = await runner.drained(GRACE_S)
        if not drained:
            connections.is_dirty = True
            log.warning("%s: slot %d still had batches without an answer at the end of its window",
                        plan.name, self._window.slot)  # fmt: skip
        if self._is_last and not plan.is_exactly_once:
            await self._move_tails(connections)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            try:
                # An unacknowledged batch may still arrive: then the turn is not given away but runs out. A transaction's
                # does not count by then, for the successor opens the slot's producer.
                await self._commit(
                    connections.target, Baton(self._window.number, is_released=drained or plan.is_exactly_once)
                )
            except NETWORK as error:
                self._warn("commit positions", error)
                await asyncio.sleep(0.2)
            else:
                break
        else:
            connections.is_dirty = True
        if plan.is_exactly_once:
            await connections.target.close()  # the other lane fences it next; the next window of this one opens anew

    def _runner(self, connections: Connections) -> FlowRunner:
        plan = self._plan
        given: dict[str, Any] = {
            "fetch": self._fetch,
            "produce": self._produce,
            "identities": Identities(plan),
        }
        everybody = (plan.name, connections.source, connections.target, self._served.partitions)
        if not plan.is_exactly_once:
            return FlowRunner(*everybody, **given)
        return TransactionalRunner(
            *everybody, **given, ledger=self._ledger, group=plan.group, longest_s=plan.transaction_ms / 1000
        )

    async def _keep(self, connections: Connections, runner: FlowRunner) -> None:
        """Commit positions each second and end the window when its time has come and a successor is ready."""
        window, plan = self._window, self._plan
        last_ms = window.end_ms + (GRACE_S * 1000 if window.lanes > 1 else 0)
        while not self._stop.is_set():
            remaining_s = (window.end_ms - now_ms()) / 1000
            await asyncio.sleep(max(0.0, min(COMMIT_S, remaining_s)) if remaining_s > 0 else 0.02)
            try:
                if now_ms() < window.end_ms:
                    if not plan.is_exactly_once:
                        await self._move_tails(connections)
                        await self._commit(connections.target, None)
                    found = await connections.target.committed(plan.group, [*self._turn.whose, plan.paused_key])
                    runner.rest(Paused.parse(found.get(plan.paused_key, (0, ""))[1]))
                    if self._turn.is_lost(found):
                        self._is_last = True
                        self._stop.set()
                    continue
                found = await connections.target.committed(plan.group, [*self._turn.whose, self._turn.ready])
                has_successor = found.get(self._turn.ready, (-1, ""))[0] > window.number
                self._is_last = self._turn.is_lost(found)
            except NETWORK as error:
                self._warn("commit positions", error)
                await asyncio.sleep(0.2)
                has_successor = self._is_last = False
            if has_successor or self._is_last or now_ms() >= last_ms or window.lanes == 1:
                self._stop.set()

    async def _move_tails(self, connections: Connections) -> None:
        try:
            await self._ledger.move_tails(connections.target)
        except NETWORK as error:
            self._warn(f"write {self._plan.offset_map_topic}", error)
            connections.is_dirty = True  # its sequence numbers have a hole now

    async def _commit(self, target: Target, baton: Baton | None) -> None:
        """Commit what was acknowledged since the last commit, and the turn with it in the same write.

        Transactions have committed their own positions.
        """
        page = self._ledger.page(target) if not self._plan.is_exactly_once else Page({}, [])
        offsets = dict(page.offsets)
        if baton is not None:
            # Where something failed the positions may not be what they were: the successor looks what the target has.
            is_unclean = baton.is_released and bool(self._told)
            in_doubt = baton.is_released and any(
                p.in_doubt or p.begins is not None or p.is_another for p in self._served.partitions
            )
            said = turn_of(self._window.run_id, is_unclean=is_unclean, in_doubt=in_doubt)
            offsets[self._turn.own] = (baton.encode(), said)
        if offsets:
            await target.commit(self._plan.group, offsets)
        self._ledger.wrote(page)
