"""One window of one slot and flow: warm up, take the turn, replicate, hand the turn over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from mirror.config.clients import aiokafka_options, fetch_options, produce_options
from mirror.replication import told
from mirror.replication.ledger import Ledger, Page, is_there
from mirror.replication.partition import Partition
from mirror.replication.paused import Paused
from mirror.replication.plan import (
    GRACE_S,
    Assigned,
    Baton,
    FlowPlan,
    Window,
    ready_key,
    stop_key,
    turn_key,
)
from mirror.replication.recreated import OnRecreated, TopicIds
from mirror.replication.reports import Tally
from mirror.replication.runner import FlowRunner
from mirror.replication.tail import Tail
from mirror.replication.tail_match import resume_behind_tails
from mirror.replication.transactions import TransactionalRunner
from mirror.replication.wire import EARLIEST, LATEST, KafkaError, Source, Target, now_ms

log = logging.getLogger("mirror")

COMMIT_S = 1.0
MATCH_S = 15.0
HOUR_MS = 3_600_000
POLL_S = 0.002
NETWORK = (KafkaError, OSError, TimeoutError)


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
    slot = FlowWindow(plan, window)
    longest_s = (window.end_ms - now_ms()) / 1000 + 4 * GRACE_S
    try:
        async with asyncio.timeout(longest_s):
            return await slot.run()
    except TimeoutError:
        log.warning("%s: slot %d hung past its window and was given up", plan.name, window.slot)
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
        with contextlib.suppress(*NETWORK):
            await client.close()


def is_held(turn: tuple[int, str]) -> bool:
    """Tell whether a turn was taken and not given back."""
    return not Baton.decode(turn[0]).is_released


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
        self._is_unclean = False  # a predecessor never told what it has written last

    async def run(self) -> Served:
        """Run all steps; what is returned is empty when the turn never came."""
        connections = await self._retried("connect", self._warm)
        if connections is not None and await self._take_turn(connections):
            await self._replicate(connections)
        return self._served

    def _warn(self, what: str, error: BaseException) -> None:
        """Say what cannot be done, once a window: a dead cluster must not fill the log."""
        say = log.debug if what in self._told else log.warning
        self._told.add(what)
        say("%s: slot %d cannot %s (%s), retrying", self._plan.name, self._window.slot, what, error or repr(error))

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

    async def _warm(self) -> Connections:
        plan = self._plan
        connections = _open.get(plan.name)
        if connections is None:
            connections = Connections(Source(aiokafka_options(plan.consumer)), self._new_target())
            _open[plan.name] = connections
        elif connections.target.is_closed:
            connections.target = self._new_target()
        topics = {p.topic for p in plan.partitions}
        await connections.source.open(topics)
        await connections.source.warm(
            {n for p in plan.partitions if (n := connections.source.leader(p.topic, p.partition)) is not None}
        )
        own = {plan.baton_topic, plan.offset_map_topic}
        await connections.target.open({p.remote_topic for p in plan.partitions} | own)
        if not all(is_there(connections.target, assigned) for assigned in plan.partitions):
            await connections.target.refresh()  # it knows of a topic that was gone, or had fewer partitions
        key = (plan.baton_topic, ready_key(self._window.slot))
        await connections.target.commit(plan.group, {key: (self._window.number, "")})
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

    async def _take_turn(self, connections: Connections) -> bool:
        """Wait until the predecessor has released the turn or is dead; False when our window passed meanwhile."""
        window, plan = self._window, self._plan
        stop = (plan.baton_topic, stop_key())
        turns = [(plan.baton_topic, turn_key(window.slot, lane)) for lane in range(window.lanes)]
        give_up_ms = window.end_ms - window.window_ms * 0.1
        while now_ms() < window.start_ms:
            await asyncio.sleep(max(0.0, min(0.5, (window.start_ms - now_ms()) / 1000)))
            if now_ms() < window.start_ms - 100 and await self._is_stopped(connections):
                return False
        started, asked_ms, waited = time.monotonic(), now_ms(), False
        while now_ms() < give_up_ms:
            try:
                offsets = await connections.target.committed(plan.group, [stop, *turns])
                if offsets.get(stop, (None,))[0] == window.run_id:
                    return False
                known = [offsets[turn] for turn in turns if turn in offsets]
                held = [turn for turn in known if is_held(turn)]
                if not self._is_superseded(known) and all(self._is_free(turn) for turn in held):
                    self._is_unclean = bool(held)
                    taken = await self._begin(connections)
                    self._served.turn_wait_ms = now_ms() - (
                        window.start_ms if waited else max(asked_ms, window.start_ms)
                    )
                    return taken
                waited = True
            except NETWORK as error:
                self._warn("read its turn", error)
                await asyncio.sleep(0.2)
            await asyncio.sleep(POLL_S if time.monotonic() - started < 0.5 else 0.05)
        return False

    def _is_free(self, turn: tuple[int, str]) -> bool:
        offset, metadata = turn
        baton = Baton.decode(offset)
        # A turn held by an earlier run belongs to a process that is gone, or that is to give way to this one.
        if int(metadata or 0) < self._window.run_id:
            return True
        if baton.window == self._window.number and metadata == str(self._window.run_id):
            return True  # our own commit, whose answer was lost
        if now_ms() > baton.dead_ms(self._window.window_ms):
            log.warning("%s: window %d of slot %d never released its turn, taking over",
                        self._plan.name, baton.window, self._window.slot)  # fmt: skip
            self._served.takeovers = 1
            return True
        return False

    def _is_superseded(self, turns: Iterable[tuple[int, str]]) -> bool:
        """Tell whether a later run of the appliance replicates the flow now: this one woke up late, or is one too many."""
        later = [Baton.decode(offset) for offset, metadata in turns if int(metadata or 0) > self._window.run_id]
        is_superseded = any(now_ms() <= baton.dead_ms(self._window.window_ms) for baton in later)
        if is_superseded and "later" not in self._told:
            self._told.add("later")
            log.warning("%s: slot %d: an appliance that was started later replicates this flow; this one waits",
                        self._plan.name, self._window.slot)  # fmt: skip
        return is_superseded

    async def _begin(self, connections: Connections) -> bool:
        """Hold the turn, then read the positions; False, and the turn given back, when a successor may not have seen us.

        A successor says that it is ready before it looks at our turn, and we hold our turn before we look whether it is
        ready: one of the two sees the other, however long a cluster made either wait in between.
        """
        plan, target, window = self._plan, connections.target, self._window
        await self._commit(target, Baton(window.number, is_released=False))
        ready = (plan.baton_topic, ready_key(window.slot))
        places = [plan.paused_key, *((p.remote_topic, p.partition) for p in plan.partitions)]
        found = await target.committed(plan.group, [ready, *places])
        if now_ms() >= window.end_ms and found.get(ready, (-1,))[0] > window.number:
            await self._commit(target, Baton(window.number, is_released=True))
            return False
        if plan.is_exactly_once:
            await target.fence()  # which may have ended a transaction, and with it moved the positions
            found = await target.committed(plan.group, places)
        self._paused = Paused.parse(found.get(plan.paused_key, (0, ""))[1])
        if self._paused.patterns and window.is_first_of(HOUR_MS):
            await target.commit(plan.group, {plan.paused_key: found[plan.paused_key]})  # or it would expire one day
        self._served.partitions.extend(
            self._placed(assigned, found.get((assigned.remote_topic, assigned.partition)))
            for assigned in plan.partitions
        )
        if self._is_unclean and not plan.is_exactly_once:
            await self._match_tails(connections)
        return True

    def _placed(self, assigned: Assigned, committed: tuple[int, str] | None) -> Partition:
        now = TopicIds(assigned.topic_id, assigned.remote_id)
        committed = committed or self._ledger.remembered(assigned.remote_topic, assigned.partition)
        if committed is None:
            begins = EARLIEST if self._fetch.from_earliest or assigned.is_late else LATEST
            # Which topic it is on the target, the next window says: this plan may be older than the topic.
            return Partition(assigned, begins=begins, ids=assigned.topic_id)
        offset, metadata = committed
        text, _, tail = metadata.partition(" ")
        known = TopicIds.parse(text)
        side = known.other_than(now)
        if not side:
            return Partition(assigned, offset, offset, ids=str(known.updated(now)), tail=Tail(tail))
        return self._recreated(assigned, offset, tail, known, side)

    def _recreated(self, assigned: Assigned, offset: int, tail: str, known: TopicIds, side: str) -> Partition:
        """Do what the flow's policy says about a topic that was deleted and created anew."""
        policy, now = self._plan.on_recreated, TopicIds(assigned.topic_id, assigned.remote_id)
        topic = assigned.topic if side == "source" else assigned.remote_topic
        what = f"{topic} was deleted and created anew on the {side} (topic id {getattr(now, side)}, was {getattr(known, side)})"
        where = f"{self._plan.name}: {assigned.topic}-{assigned.partition}"
        if policy is OnRecreated.STOP:
            reason = f"{what}; it rests until its position is set (kafka-mirror positions)"
            if told.is_news(self._plan.name, assigned, reason):
                log.error("%s: %s", where, reason)
            # Written again once an hour, lest it expires; more often would undo what an operator sets.
            return Partition(
                assigned, offset, offset, ids=str(known), tail=Tail(tail), reason=reason, resume_s=float("inf"),
                committed=None if self._window.is_first_of(HOUR_MS) else offset,
            )  # fmt: skip
        ids = str(known.updated(now))
        if policy is OnRecreated.CONTINUE:
            log.error("%s: %s; going on at offset %d", where, what, offset)
            return Partition(assigned, offset, offset, ids=ids, tail=Tail(begins_at=offset), tally=Tally(rewinds=1))
        log.error("%s: %s; replicating it from its start, the last position was %d", where, what, offset)
        return Partition(assigned, begins=EARLIEST, ids=ids, tally=Tally(rewinds=1))

    async def _is_stopped(self, connections: Connections) -> bool:
        key = (self._plan.baton_topic, stop_key())
        try:
            offsets = await connections.target.committed(self._plan.group, [key])
        except NETWORK:
            return False  # the commit or the next look will say more
        return offsets.get(key, (None,))[0] == self._window.run_id

    # --- replicating and handing over -------------------------------------------------------------------------

    async def _match_tails(self, connections: Connections) -> None:
        """Find out what a predecessor has written and not told; without an answer in time, some of it comes twice."""
        plan = self._plan
        target = Source(aiokafka_options(plan.producer))
        try:
            async with asyncio.timeout(MATCH_S):
                await target.open({p.remote_topic for p in plan.partitions})
                await resume_behind_tails(
                    plan.name, self._served.partitions, connections.source, target,
                    isolation_level=self._fetch.isolation_level,
                )  # fmt: skip
        except NETWORK as error:
            log.warning("%s: slot %d: what was written since the last positions may be written twice: it cannot be read (%s)",
                        plan.name, self._window.slot, error or repr(error))  # fmt: skip
        finally:
            await target.close()

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
        connections.is_dirty |= runner.needs_new_producer
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
        plan, clients = self._plan, (connections.source, connections.target)
        if not plan.is_exactly_once:
            return FlowRunner(plan.name, *clients, self._served.partitions, fetch=self._fetch, produce=self._produce)
        return TransactionalRunner(
            plan.name, *clients, self._served.partitions, fetch=self._fetch, produce=self._produce,
            ledger=self._ledger, group=plan.group, longest_s=plan.transaction_ms / 1000,
        )  # fmt: skip

    async def _keep(self, connections: Connections, runner: FlowRunner) -> None:
        """Commit positions each second and end the window when its time has come and a successor is ready."""
        window, plan = self._window, self._plan
        last_ms = window.end_ms + (GRACE_S * 1000 if window.lanes > 1 else 0)
        ready, stop = (plan.baton_topic, ready_key(window.slot)), (plan.baton_topic, stop_key())
        while not self._stop.is_set():
            remaining_s = (window.end_ms - now_ms()) / 1000
            await asyncio.sleep(max(0.0, min(COMMIT_S, remaining_s)) if remaining_s > 0 else 0.02)
            try:
                if now_ms() < window.end_ms:
                    if not plan.is_exactly_once:
                        await self._move_tails(connections)
                        await self._commit(connections.target, None)
                    offsets = await connections.target.committed(plan.group, [stop, plan.paused_key])
                    runner.rest(Paused.parse(offsets.get(plan.paused_key, (0, ""))[1]))
                    if offsets.get(stop, (None,))[0] == window.run_id:
                        self._is_last = True
                        self._stop.set()
                    continue
                offsets = await connections.target.committed(plan.group, [ready, stop])
                has_successor = offsets.get(ready, (-1, ""))[0] > window.number
                is_stopped = self._is_last = offsets.get(stop, (None,))[0] == window.run_id
            except NETWORK as error:
                self._warn("commit positions", error)
                await asyncio.sleep(0.2)
                has_successor = is_stopped = False
            if has_successor or is_stopped or now_ms() >= last_ms or window.lanes == 1:
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
            key = (self._plan.baton_topic, turn_key(self._window.slot, self._window.lane))
            offsets[key] = (baton.encode(), str(self._window.run_id))
        if offsets:
            await target.commit(self._plan.group, offsets)
        self._ledger.wrote(page)
