"""Share the slots of a flow: the processes that run a flow are members of one consumer group.

The group's assignment distributes the slots. Each process commits an offset per slot that it owns (`owner_key`), which tasks
read on any machine. If a process is gone, it loses its slots when its session ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass
from functools import partial

import confluent_kafka
from confluent_kafka import Consumer, KafkaException

from mirror.config.clients import client_options
from mirror.config.secret_files import SecretFiles
from mirror.config.settings import Flow
from mirror.errors import ClusterUnavailable
from mirror.handover.lease import NETWORK
from mirror.kafka.clients import quiet_logger
from mirror.kafka.group_offsets import GroupOffsets, Offsets
from mirror.kafka.login_relay import librdkafka_options
from mirror.model.flow_plan import SLOTS_TOPIC, FlowPlan
from mirror.model.slot_ownership import (
    Owner,
    SlotLayout,
    is_stopped,
    layout_key,
    owner_key,
    stop_key,
    version_of,
    with_stop,
)
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import describe

log = logging.getLogger("mirror")

SESSION_MS = 6_000  # the minimum that brokers allow by default (group.min.session.timeout.ms)
LOOK_S = 0.5
RECONCILE_S = 1.0
STEP_S = 10.0
POLLED_MS = 15_000  # the longest time that the broker waits for a member that has just died
RENEW_MS = 5_000
SILENT_MS = 20_000  # an owner that has not renewed its claim for this long is gone
CLOSE_S = 2.0


@dataclass(kw_only=True, eq=False, repr=False)
class Membership:
    """The membership of this process in one flow.

    `owned`: the slots that it serves now, None before that is known. `since_s`: since when it serves exactly these slots (epoch).
    `processes`: how many processes share the flow. `has_conflict`: whether one of them has other settings.
    """

    flow: Flow  # the flow
    plan: InitVar[FlowPlan]  # has the names of its groups and topics
    layout: SlotLayout  # how processes divide the flow's partitions into slots
    run_id: int  # this run
    gone: Collection[int]  # earlier runs with the same state folder
    settings: str  # the version, and a digest of the settings that all processes must share
    is_ready: Callable[[], bool]  # returns whether this process has started to replicate
    hung: Callable[[], str]  # returns why this process no longer replicates, "" if it does replicate

    def __post_init__(self, plan: FlowPlan) -> None:
        self.name = self.flow.name
        self.owned: frozenset[int] | None = None
        self.since_s = 0.0
        self.has_conflict = False
        self.processes = 1
        self._group = plan.group
        self._members = plan.members_group(self.layout)
        self._lease_topic = plan.lease_topic
        self._topic = SLOTS_TOPIC.format(source=self.flow.source.alias, slots=self.layout.slots)
        self._assigned: set[int] = set()
        self._renewals: dict[int, tuple[int, float]] = {}  # by run: the last renewal, and when it was first seen
        self._logged: set[str] = set()
        self._target: GroupOffsets | None = None
        self._files = SecretFiles(self.flow.target_admin)

    @property
    def leads(self) -> bool:
        """True for the one process that does the tasks that a flow needs only once.

        These tasks are checkpoints, heartbeats, topic settings and ACLs.
        """
        return self.owned is not None and 0 in self.owned

    async def live(self, stop: asyncio.Event, end: asyncio.Event) -> None:
        """Take part until `stop` is set. Then commit that this run stops, and do so until `end` is set.

        The group's client has its own thread: librdkafka requests OAuth tokens when the client is created and when it is polled.
        """
        due_s = looked_s = time.monotonic()
        consumer: Consumer | None = None
        loop, group = asyncio.get_running_loop(), ThreadPoolExecutor(1, thread_name_prefix=f"group {self.name}")
        try:
            while not stop.is_set():
                hung = self.hung()
                step = partial(self._leave_group, hung=hung) if hung else self._poll_group
                consumer = await loop.run_in_executor(group, step, consumer)
                now_s = time.monotonic()
                if now_s - looked_s > SESSION_MS / 2000:
                    due_s = now_s + 2 * RECONCILE_S  # this process slept: first find out whether it is still a member
                looked_s = now_s
                if now_s >= due_s:
                    await self._with_target(self._reconcile)
                    due_s = now_s + RECONCILE_S
                await _wait(stop, LOOK_S)
            await self._with_target(self._leave)
            _close_consumer(consumer)
            while not end.is_set():
                await self._with_target(self._leave)
                await _wait(end, RECONCILE_S)
        finally:
            group.shutdown(wait=False, cancel_futures=True)
            await self._close()

    async def _with_target(self, step: Callable[[GroupOffsets], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(STEP_S):
                if self._target is None:
                    self._target = await GroupOffsets.connected(client_options(self.flow.target_admin))
                await step(self._target)
            self._logged.discard("target")
        except (*NETWORK, ClusterUnavailable) as error:
            self._warn_once("target", "the owners of the slots cannot be written: %s", describe(error))
            await self._close()

    async def _close(self) -> None:
        target, self._target = self._target, None
        if target is not None:
            with contextlib.suppress(*NETWORK):
                await target.close()

    def _warn_once(self, what: str, text: str, *args: object) -> None:
        if what not in self._logged:
            self._logged.add(what)
            log.warning("%s: " + text, self.name, *args)

    # --- the group ----------------------------------------------------------------------------------------------

    def _joined(self) -> Consumer | None:
        options = {
            **librdkafka_options(self.flow.target_admin),
            "group.id": self._members,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": SESSION_MS // 3,
            "max.poll.interval.ms": POLLED_MS,
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 5_000,  # to find a new topic soon
        }
        try:
            consumer = Consumer(options, logger=quiet_logger())
        except KafkaException as error:
            self._warn_once("group", "group %s cannot be joined: %s", self._members, error)
            return None
        consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)
        return consumer

    def _poll_group(self, consumer: Consumer | None) -> Consumer | None:
        """Serve the events of the group; the topic has no records."""
        self._logged.discard("hung")
        if self._files.changed() and consumer is not None:
            log.info("%s: a file with secrets has changed; the group %s is joined again", self.name, self._members)
            self._assigned.clear()
            _close_consumer(consumer)
            consumer = None
        consumer = consumer or self._joined()
        message = consumer.poll(0) if consumer is not None else None
        if message is not None and (error := message.error()) is not None:
            self._warn_once("group", "group %s: %s", self._members, error.str())
        return consumer

    def _leave_group(self, consumer: Consumer | None, *, hung: str) -> Consumer | None:
        """Leave the group until this process replicates again.

        The process keeps its slots until other processes claim them.
        """
        if "hung" not in self._logged:
            self._logged.add("hung")
            log.error("%s: %s; it gives its slots to other processes, if there are any", self.name, hung)
        self._assigned.clear()
        _close_consumer(consumer)
        return None

    def _on_assign(self, consumer: Consumer, places: list[confluent_kafka.TopicPartition]) -> None:
        consumer.incremental_assign(places)
        consumer.pause(places)  # the topic has no records: do not fetch it
        self._assigned |= {place.partition for place in places}
        self._logged.discard("group")

    def _on_revoke(self, consumer: Consumer, places: list[confluent_kafka.TopicPartition]) -> None:
        self._assigned -= {place.partition for place in places}

    # --- what is written to the target --------------------------------------------------------------------------------

    def _owner(self, slot: int) -> TopicPartition:
        return TopicPartition(self._lease_topic, owner_key(slot))

    async def _reconcile(self, target: GroupOffsets) -> None:
        layouts = TopicPartition(self._lease_topic, layout_key())
        known, found = await self._owners(target, layouts)
        if not await self._check_layout(target, found.get(layouts)):
            await self._give_up(target, known)
            return
        self._compare(known)
        await self._claim(target, known, found.get(layouts))

    async def _owners(self, target: GroupOffsets, *also: TopicPartition) -> tuple[dict[int, Owner], Offsets]:
        owners = [self._owner(slot) for slot in range(self.layout.slots)]
        found = await target.committed(self._group, [*also, *owners])
        known = {slot: Owner.parse(found[place]) for slot, place in enumerate(owners) if place in found}
        self._register_renewals(known.values())
        return known, found

    async def _claim(self, target: GroupOffsets, known: Mapping[int, Owner], layout: tuple[int, str] | None) -> None:
        """Commit this process as the owner of its slots, including slots of its earlier runs.

        While this process is not ready, it does not take slots from a working process: no process would serve them.
        """
        inherited = {slot for slot, owner in known.items() if owner.run_id in self.gone}
        wanted = {slot for slot in self._assigned if slot < self.layout.slots} | inherited
        kept = {slot for slot, owner in known.items() if owner.run_id == self.run_id}
        if not self.is_ready():
            wanted -= {slot for slot, owner in known.items() if self._works(owner)}
        now_ms = int(time.time() * 1000)
        fresh = {slot for slot in kept if now_ms < known[slot].renewed_ms + RENEW_MS}
        offsets: dict[TopicPartition, tuple[int, str]] = {}
        for slot in (wanted | kept) - fresh:
            since_ms = known[slot].since_ms if slot in kept else now_ms
            offsets[self._owner(slot)] = Owner(self.run_id, since_ms, now_ms, self.settings).encode()
        if offsets or layout is None or layout[1] != self.layout.text():
            offsets[TopicPartition(self._lease_topic, layout_key())] = (0, self.layout.text())
            await target.commit(self._group, offsets)
        self._now_owns(wanted | kept)

    def _now_owns(self, slots: Iterable[int]) -> None:
        owned = frozenset(slots)
        if owned != self.owned and (owned or self.owned):  # at the start, there are no slots for a moment
            log.info("%s: serves slots %s of %d", self.name, _listed(owned), self.layout.slots)
            self.since_s = time.time()
        self.owned = owned

    async def _give_up(self, target: GroupOffsets, known: Mapping[int, Owner]) -> None:
        ours = [slot for slot, owner in known.items() if owner.run_id == self.run_id]
        if ours:
            await target.commit(self._group, {self._owner(slot): Owner(0).encode() for slot in ours})
        self.owned = frozenset()

    async def _leave(self, target: GroupOffsets) -> None:
        """Stop this run's windows and free its slots; repeat this if another commit overwrote it."""
        stops = TopicPartition(self._lease_topic, stop_key())
        known, found = await self._owners(target, stops)
        if not is_stopped(self.run_id, found.get(stops)):
            await target.commit(self._group, {stops: with_stop(self.run_id, found.get(stops))})
        await self._give_up(target, known)

    # --- others -------------------------------------------------------------------------------------------------

    async def _check_layout(self, target: GroupOffsets, at: tuple[int, str] | None) -> bool:
        """Return False, and log it, while a live process uses another layout.

        Both processes would replicate the same partitions.
        """
        other = SlotLayout.parse(at[1]) if at is not None else None
        if other is None or other == self.layout:
            self._logged.discard("layout")
            return True
        places = [TopicPartition(self._lease_topic, owner_key(slot)) for slot in range(other.slots)]
        owners = [Owner.parse(at) for at in (await target.committed(self._group, places)).values()]
        self._register_renewals(owners)
        if any(map(self._works, owners)):
            self.has_conflict = True
            self._warn_once(
                "layout",
                "waiting for processes that run it with %s; this one has %s. Give all the same values; "
                "in a rolling restart the flow continues after the last of them has stopped",
                _described(other),
                _described(self.layout),
            )
            return False
        self.has_conflict = False
        return True

    def _works(self, owner: Owner) -> bool:
        """Return whether another process serves a slot: its claim was renewed recently.

        A renewal that this process first saw long ago is old, even if the other process' clock was ahead.
        """
        if owner.run_id in {0, self.run_id, *self.gone}:
            return False
        seen_s = self._renewals[owner.run_id][1]
        is_silent = (time.monotonic() - seen_s) * 1000 >= SILENT_MS
        return not is_silent and time.time() * 1000 < owner.renewed_ms + SILENT_MS

    def _register_renewals(self, owners: Iterable[Owner]) -> None:
        for owner in owners:
            if owner.run_id not in self._renewals or owner.renewed_ms > self._renewals[owner.run_id][0]:
                self._renewals[owner.run_id] = owner.renewed_ms, time.monotonic()

    def _compare(self, known: Mapping[int, Owner]) -> None:
        others = {owner.run_id: owner.settings for owner in known.values() if owner.run_id not in (0, self.run_id)}
        live = {run: settings for run, settings in others.items() if run not in self.gone}
        self.processes = len({*live, self.run_id})
        version = version_of(self.settings)
        others_versions = {version_of(settings) for settings in live.values()} - {version}
        same = {settings for settings in live.values() if version_of(settings) == version}
        self.has_conflict = bool(same - {self.settings})
        self._log_once(
            "settings",
            self.has_conflict,
            "another process runs it with other settings; compare the output of kafka-mirror explain on both machines",
        )
        self._log_once(
            "version",
            bool(others_versions),
            f"another process runs version {', '.join(sorted(others_versions))}, this one {version}; "
            "their settings are not compared",
        )

    def _log_once(self, what: str, is_so: bool, text: str) -> None:
        if is_so:
            self._warn_once(what, text)
        else:
            self._logged.discard(what)


def _close_consumer(consumer: Consumer | None) -> None:
    if consumer is not None:
        threading.Thread(target=consumer.close, daemon=True).start()  # a dead cluster may delay it


def _described(layout: SlotLayout) -> str:
    return (
        f"mirror.slots={layout.slots}, tasks.max={layout.tasks_max}, mirror.window.ms={layout.window_ms}, "
        f"mirror.lanes={layout.lanes}"
    )


def _listed(slots: Collection[int]) -> str:
    return ", ".join(map(str, sorted(slots))) or "none"


async def _wait(event: asyncio.Event, at_most_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), at_most_s)


class Memberships(threading.Thread):
    """The memberships of all flows, in one thread: none waits for the cluster of another flow."""

    def __init__(self) -> None:
        super().__init__(name="memberships", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._leaving = asyncio.Event()
        self._ending = asyncio.Event()

    def add(self, membership: Membership) -> None:
        """Join a flow; safe from any thread."""
        self._loop.call_soon_threadsafe(lambda: self._tasks.add(self._loop.create_task(self._kept(membership))))

    def run(self) -> None:
        """Take part in all flows until `leave` and `end`."""
        self._loop.run_until_complete(self._all())

    async def _all(self) -> None:
        await self._ending.wait()
        for task in self._tasks:
            task.cancel()  # the membership may wait for a dead cluster
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _kept(self, membership: Membership) -> None:
        while not self._ending.is_set():
            try:
                await membership.live(self._leaving, self._ending)
            except Exception:
                log.exception("%s: its slots cannot be shared", membership.name)
                await asyncio.sleep(RECONCILE_S)

    def leave(self) -> None:
        """Give the slots to other processes, and stop this run's windows; safe from any thread."""
        self._loop.call_soon_threadsafe(self._leaving.set)

    def end(self) -> None:
        """End all memberships."""
        if self.ident is not None:
            self._loop.call_soon_threadsafe(self._ending.set)
            self.join(CLOSE_S)
