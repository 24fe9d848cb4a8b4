"""One window of one slot and flow: warm up, take the turn, replicate, hand the turn over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field

from mirror.config.clients import aiokafka_options, fetch_options, produce_options
from mirror.replication.batches import of_values
from mirror.replication.plan import (
    Assigned,
    Baton,
    FlowPlan,
    Window,
    ready_key,
    stop_key,
    turn_key,
)
from mirror.replication.reports import Tally
from mirror.replication.runner import FlowRunner, Partition
from mirror.replication.tail import MapRecord, Tail
from mirror.replication.wire import EARLIEST, LATEST, KafkaError, Source, Target, now_ms

log = logging.getLogger("mirror")

GRACE_S = 5.0  # how long a runner goes on past its window while no successor is ready, and may drain
DEAD_S = 3.0  # margin behind the grace after which a runner that never released its turn is taken for dead
COMMIT_S = 1.0
MAP_EVERY_MS = 60_000  # the map's topic is written in the first window of each such time
MAP_WRITE_S = 2.0
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


class FlowWindow:
    """The steps of one window, in order: warm, take the turn, replicate, hand over."""

    def __init__(self, plan: FlowPlan, window: Window) -> None:
        self._plan = plan
        self._window = window
        self._fetch = fetch_options(plan.consumer)
        self._produce = produce_options(plan.producer)
        self._stop = asyncio.Event()
        self._served = Served()
        self._told: set[str] = set()
        self._is_last = False
        self._map_is_due = window.start_ms // MAP_EVERY_MS != (window.start_ms - window.window_ms) // MAP_EVERY_MS

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
            target = Target(aiokafka_options(plan.producer), request_bytes=self._produce.max_request_size)
            connections = Connections(Source(aiokafka_options(plan.consumer)), target)
            _open[plan.name] = connections
        topics = {p.topic for p in plan.partitions}
        await connections.source.open(topics)
        await connections.source.warm(
            {n for p in plan.partitions if (n := connections.source.leader(p.topic, p.partition)) is not None}
        )
        own = {plan.baton_topic, plan.offset_map_topic}
        await connections.target.open({p.remote_topic for p in plan.partitions} | own)
        key = (plan.baton_topic, ready_key(self._window.slot))
        await connections.target.commit(plan.group, {key: (self._window.number, "")})
        return connections

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
                if all(self._is_free(offsets[turn]) for turn in turns if turn in offsets):
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
        # A turn held by an earlier run belongs to a process that is gone: one process runs a file at a time.
        if baton.is_released or metadata != str(self._window.run_id):
            return True
        if baton.window == self._window.number:
            return True  # our own commit, whose answer was lost
        dead_ms = (baton.window + 1) * self._window.window_ms + (2 * GRACE_S + DEAD_S) * 1000
        if now_ms() > dead_ms:
            log.warning("%s: window %d of slot %d never released its turn, taking over",
                        self._plan.name, baton.window, self._window.slot)  # fmt: skip
            self._served.takeovers = 1
            return True
        return False

    async def _begin(self, connections: Connections) -> bool:
        """Hold the turn, then read the positions; False, and the turn given back, when a successor may not have seen us.

        A successor says that it is ready before it looks at our turn, and we hold our turn before we look whether it is
        ready: one of the two sees the other, however long a cluster made either wait in between.
        """
        plan, target, window = self._plan, connections.target, self._window
        await self._commit(target, Baton(window.number, is_released=False))
        ready = (plan.baton_topic, ready_key(window.slot))
        found = await target.committed(plan.group, [ready, *((p.remote_topic, p.partition) for p in plan.partitions)])
        if now_ms() >= window.end_ms and found.get(ready, (-1,))[0] > window.number:
            await self._commit(target, Baton(window.number, is_released=True))
            return False
        self._served.partitions = [
            self._placed(assigned, found.get((assigned.remote_topic, assigned.partition)))
            for assigned in plan.partitions
        ]
        return True

    def _placed(self, assigned: Assigned, committed: tuple[int, str] | None) -> Partition:
        if committed is not None:
            offset, metadata = committed
            known_id, _, tail = metadata.partition(" ")
            if not known_id or not assigned.topic_id or known_id == assigned.topic_id:
                return Partition(assigned, offset, offset, tail=Tail(tail))
            log.error("%s: %s was deleted and created anew on the source (topic id %s, was %s); replicating it from its start",
                      self._plan.name, assigned.topic, assigned.topic_id, known_id)  # fmt: skip
            return Partition(assigned, begins=EARLIEST, tally=Tally(rewinds=1))
        return Partition(assigned, begins=EARLIEST if self._fetch.from_earliest or assigned.is_late else LATEST)

    async def _is_stopped(self, connections: Connections) -> bool:
        key = (self._plan.baton_topic, stop_key())
        try:
            offsets = await connections.target.committed(self._plan.group, [key])
        except NETWORK:
            return False  # the commit or the next look will say more
        return offsets.get(key, (None,))[0] == self._window.run_id

    # --- replicating and handing over -------------------------------------------------------------------------

    async def _replicate(self, connections: Connections) -> None:
        runner = FlowRunner(self._plan.name, connections.source, connections.target, self._served.partitions,
                            fetch=self._fetch, produce=self._produce)  # fmt: skip
        keeper = asyncio.create_task(self._keep(connections))
        try:
            await runner.run(self._stop)
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        connections.is_dirty |= runner.needs_new_producer
        drained = await runner.drained(GRACE_S)
        if not drained:
            connections.is_dirty = True
            log.warning("%s: slot %d still had batches without an answer at the end of its window",
                        self._plan.name, self._window.slot)  # fmt: skip
        if self._is_last:
            self._map_is_due = True  # a mirror that rests leaves a map that is whole
            await self._move_tails(connections)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            try:
                # An unacknowledged batch may still arrive: then the turn is not given away but runs out.
                await self._commit(connections.target, Baton(self._window.number, is_released=drained))
            except NETWORK as error:
                self._warn("commit positions", error)
                await asyncio.sleep(0.2)
            else:
                return
        connections.is_dirty = True

    async def _keep(self, connections: Connections) -> None:
        """Commit positions each second and end the window when its time has come and a successor is ready."""
        window, plan = self._window, self._plan
        last_ms = window.end_ms + (GRACE_S * 1000 if window.lanes > 1 else 0)
        ready, stop = (plan.baton_topic, ready_key(window.slot)), (plan.baton_topic, stop_key())
        while not self._stop.is_set():
            remaining_s = (window.end_ms - now_ms()) / 1000
            await asyncio.sleep(max(0.0, min(COMMIT_S, remaining_s)) if remaining_s > 0 else 0.02)
            try:
                if now_ms() < window.end_ms:
                    await self._move_tails(connections)
                    await self._commit(connections.target, None)
                    offsets = await connections.target.committed(plan.group, [stop])
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
        """Write the tails to the map's topic that have grown long, and once a minute all that have grown."""
        target = connections.target
        is_due, self._map_is_due = self._map_is_due, False
        growing = [
            (p, last)
            for p in self._served.partitions
            if (last := p.tail.runs.last) is not None and (p.tail.is_long or (is_due and p.tail.is_unsaved))
        ]
        topic = self._plan.offset_map_topic
        if not growing or not target.knows(topic, 0):
            return
        records = (MapRecord(p.assigned.topic, p.assigned.partition, p.tail.runs).encode() for p, _ in growing)
        try:
            sent = [target.send(batch, topic, 0) for batch in of_values(records, timestamp_ms=int(now_ms()))]
            await asyncio.wait_for(asyncio.gather(*sent), MAP_WRITE_S)
        except TimeoutError:
            return  # the producer goes on trying; the tails stay with the positions
        except NETWORK as error:
            self._warn(f"write {topic}", error)
            connections.is_dirty = True  # its sequence numbers have a hole now
            return
        for partition, last in growing:
            partition.tail.moved(last)

    async def _commit(self, target: Target, baton: Baton | None) -> None:
        """Commit what was acknowledged since the last commit, and the turn with it in the same write."""
        offsets: dict[tuple[str, int], tuple[int, str]] = {}
        written = []
        for partition in self._served.partitions:
            # Every window's first and last commit writes all: a quiet position must not expire.
            if partition.begins is None and partition.acked != partition.committed:
                assigned = partition.assigned
                metadata = f"{assigned.topic_id} {partition.tail.text()}"
                offsets[assigned.remote_topic, assigned.partition] = (partition.acked, metadata)
                written.append((partition, partition.acked))
        if baton is not None:
            key = (self._plan.baton_topic, turn_key(self._window.slot, self._window.lane))
            offsets[key] = (baton.encode(), str(self._window.run_id))
        if not offsets:
            return
        await target.commit(self._plan.group, offsets)
        for partition, acked in written:
            partition.committed = acked
