"""One window of one slot and flow: warm up, acquire the lease, replicate, release the lease."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from metrics.reports import SlotReport
from mirror.config.clients import fetch_options, produce_options
from mirror.handover.lease import NETWORK, Lease, LeaseStatus, LeaseTerm
from mirror.kafka.forgotten_positions import recalled
from mirror.kafka.group_offsets import Offsets
from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, Window
from mirror.model.paused_topics import Paused
from mirror.model.slot_lease import GRACE_S, WindowOutcome
from mirror.model.slot_ownership import COMMIT_S
from mirror.model.topic_partition import TopicPartition
from mirror.replication.alignment import LogComparison
from mirror.replication.connections import Connections, ended
from mirror.replication.cut_logs import go_back_to_cuts
from mirror.replication.delivery import AtLeastOnce, Delivery
from mirror.replication.exactly_once import ExactlyOnce
from mirror.replication.identities import Identities, placed
from mirror.replication.ledger import Ledger
from mirror.replication.outcomes import find_outcomes, in_question
from mirror.replication.partition import Identity, Partition
from mirror.replication.pauses import LoggedReasons, Pauses
from mirror.replication.positions import LeasedCommits, PositionCommits, is_there, keep_alive
from mirror.replication.read_ahead import ReadAhead
from mirror.replication.repacking import Repacking
from mirror.replication.replicator import Replicator
from mirror.replication.slot_producer import SlotProducer
from mirror.replication.worker_state import WorkerState
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import describe, level_once

log = logging.getLogger("mirror")

DRAINS_LOST_S = 2.0  # how long a window waits for responses when its slot has another owner
GIVEN_UP_S = 2 * GRACE_S + 1.0  # after a window's end: then a window that hangs is ended, before it counts as dead
END_LOOKS_S = 0.02  # how often a window after its end time checks for its successor
COVERED = (
    "%s: slot %d: a process that was suspended has committed old positions over newer ones; they are written again"
)
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


@dataclass(slots=True)
class Served:
    """The result of a window for a flow; empty if it never acquired the lease."""

    partitions: list[Partition] = field(default_factory=list)
    slot: SlotReport | None = None


async def serve(plan: FlowPlan, window: Window, state: WorkerState) -> Served:
    """Serve one window of one flow.

    A network failure does not end the window: requests are retried until its end. The next window handles the rest, from the
    positions on the target.
    """
    running = asyncio.create_task(FlowWindow(plan, window, state).run())
    connections = state.connections
    longest_s = (window.end_ms - now_ms()) / 1000 + GIVEN_UP_S
    try:
        if await ended(running, within_s=longest_s):
            if running.exception() is not None:
                # The loop of the next window must not send batches of this one.
                await connections.forget(plan.name)
            return await running
        log.warning("%s: slot %d hung past its window and was given up", plan.name, window.slot)
        if (found := connections.find(plan.name)) is not None:
            found.abort()
        running.cancel()
        await ended(running, within_s=GRACE_S)
        await connections.forget(plan.name)
        return Served()
    finally:
        found = connections.find(plan.name)
        if found is not None and found.is_dirty:
            await connections.forget(plan.name)


class FlowWindow:
    """The steps of one window, in order: warm up, acquire the lease, replicate, hand over."""

    def __init__(self, plan: FlowPlan, window: Window, state: WorkerState) -> None:
        self._plan = plan
        self._window = window
        self._state = state
        self._fetch = fetch_options(plan.consumer)
        self._stop = asyncio.Event()
        self._has_numbers = asyncio.Event()  # sequence numbers wait for their commit before use
        self._served = Served()
        self._commits = PositionCommits(plan, window, self._served.partitions)
        self._logged: set[str] = set()
        self._had_failure = False  # positions may differ from the target's records: the successor compares them
        self._has_begun = False  # until then, the predecessor's outcome is still the outcome of the slot
        self._decides_ms = 0  # before this time the target may not have decided our last transaction
        self._paused = Paused()
        self._lease = Lease(plan, window, self._warn)
        self._term = LeaseTerm()
        self._status = LeaseStatus.HOLDS
        self._delivery = self._delivery_of(Ledger(plan, self._served.partitions, state.newest_gaps))
        self._leased = LeasedCommits(
            plan=plan,
            window=window,
            own=self._lease.own,
            positions=self._commits,
            pending=self._delivery.pending,
            outcome=self._outcome,
        )
        self._producer = SlotProducer(plan, window, self._lease, self._leased.claim)

    def _delivery_of(self, ledger: Ledger) -> Delivery:
        if self._plan.is_exactly_once:
            return ExactlyOnce(
                plan=self._plan,
                window=self._window,
                partitions=self._served.partitions,
                positions=self._commits,
                ledger=ledger,
                lease=self._lease,
            )
        return AtLeastOnce(
            plan=self._plan,
            window=self._window,
            partitions=self._served.partitions,
            positions=self._commits,
            ledger=ledger,
            lease_term=self._term,
            commit_soon=self._has_numbers.set,
            warn=self._warn,
        )

    async def run(self) -> Served:
        """Run all steps; return an empty result if the lease was never acquired."""
        connections = await self._retried("connect", self._warm)
        if connections is not None and await self._lease.acquire(
            connections.target, self._term, lambda: self._begin(connections)
        ):
            await self._replicate(connections)
        elif self._window.is_retry:
            target = (await self._state.connections.connect(self._plan, self._window)).target
            await release_for_dead_attempt(self._plan, target, self._lease, self._warn)
        return self._served

    def _warn(self, what: str, error: BaseException) -> None:
        """Record a failure, and log it once a window: a dead cluster must not fill the log."""
        self._had_failure = True
        name, slot, level = self._plan.name, self._window.slot, level_once(self._logged, what)
        log.log(level, "%s: slot %d cannot %s (%s), retrying", name, slot, what, describe(error))

    async def _retried(self, what: str, step):  # type: ignore[no-untyped-def]
        delay = 0.2
        while now_ms() < self._window.end_ms:
            try:
                return await step()
            except NETWORK as error:
                self._warn(what, error)
                await self._state.connections.forget_unless_connecting(self._plan.name)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)
        return None

    async def _warm(self) -> Connections | None:
        """Connect to the target, wait for the slot, connect to the source, announce readiness."""
        plan = self._plan
        connections = await self._state.connections.connect(plan, self._window)
        own = {plan.lease_topic, plan.offset_map_topic, plan.gaps_topic}
        await connections.target.open({p.remote_topic for p in plan.partitions} | own)
        if not await self._lease.wait_for_slot(connections.target):
            return None
        await connections.source.open(plan.topics_read)
        await connections.source.warm(
            {n for p in plan.partitions if (n := connections.source.leader(p.topic, p.partition)) is not None}
        )
        if not all(is_there(connections.target, assigned) for assigned in plan.partitions):
            await connections.target.refresh()  # the metadata may show a deleted topic, or too few partitions
        await self._lease.announce_ready(connections.target)
        return connections

    # --- the lease ------------------------------------------------------------------------------------------

    async def _begin(self, connections: Connections) -> bool:
        """Claim the lease, then read positions; if in doubt, release the lease and return False.

        A claim is in doubt if a successor may have missed it. A successor announces its readiness before it reads our lease, and
        we claim our lease before we read whether a successor is ready. So one of the two sees the other, however long a cluster
        delays a request. The same applies to another process that owns the slot now.
        """
        plan, target, window = self._plan, connections.target, self._window
        await self._producer.claim(target)
        places = [plan.paused_key, *(p.on_target for p in plan.partitions)]
        read_now = [] if self._delivery.is_transactional else places  # else `open` reads them after its fence
        found: Offsets = await target.committed(plan.group, [*self._lease.looks_at, *read_now])
        is_over = now_ms() >= window.end_ms and self._lease.has_successor(found)
        if is_over or not self._lease.owns_slot(found):
            await self._leased.release(target)
            return False
        found = await self._delivery.open(self._producer, target, found, places)
        self._status = self._lease.status(found)
        if self._status is LeaseStatus.LOST:
            await self._leased.release(target)
        if not self._status.may_write:
            return False
        found, forgotten = await _with_forgotten(plan, target, found, self._lease)
        if forgotten and self._lease.is_of_new_flow:
            # The group was deleted, with the lease of a window that may still write. The next window begins after its end.
            self._had_failure = True
            await self._leased.release(target)
            return False
        self._paused = Paused.parse(found.get(plan.paused_key, (0, ""))[1])
        self._place(found, forgotten)
        if connections.both_ways is not None:
            await connections.both_ways.begin_window(plan, self._served.partitions)
        if window.is_first_of(HOUR_MS):
            self._commits.write_all()
            await keep_alive(target, plan, self._served.partitions, found, is_paused=bool(self._paused.patterns))
        if window.is_first_of(MINUTE_MS) or self._must_compare:
            may_have_aborted = self._must_compare and self._outcome().is_transactional
            await go_back_to_cuts(plan, self._served.partitions, self._warn, may_have_aborted=may_have_aborted)
        await self._find_outcomes(connections, forgotten)
        self._has_begun = True
        return True

    def _place(self, found: Offsets, forgotten: Collection[TopicPartition]) -> None:
        is_early, in_doubt = self._fetch.from_earliest, self._lease.predecessor.outcome.in_doubt
        self._served.partitions.clear()  # partitions of a failed attempt
        for assigned in self._plan.partitions:
            at, reasons = found.get(assigned.on_target), self._state.logged_reasons
            partition = placed(self._plan, assigned, at, reasons, from_earliest=is_early, is_uncertain=in_doubt)
            if assigned.on_source in forgotten:
                partition.rewrite_position()  # if the position came from the map, it must be written again
            self._served.partitions.append(partition)

    # --- replicating and handing over -------------------------------------------------------------------------

    @property
    def _must_compare(self) -> bool:
        """True if the positions may differ from the target's records."""
        outcome, has_gap = self._lease.predecessor
        return has_gap or self._had_failure or outcome.is_unclean

    async def _find_outcomes(self, connections: Connections, forgotten: Collection[TopicPartition]) -> None:
        outcome, has_gap = self._lease.predecessor.outcome, self._must_compare
        found = in_question(self._served.partitions, forgotten, is_unclean=outcome.is_unclean, has_gap=has_gap)
        self._had_failure |= not await find_outcomes(
            self._plan,
            found,
            connections.source,
            connections.written_back,
            isolation_level=self._fetch.isolation_level,
            is_transactional=self._delivery.is_transactional,
            was_transactional=outcome.is_transactional,
            is_patient=has_gap,
            logged_reasons=self._state.logged_reasons,
            warn=self._warn,
        )

    async def _replicate(self, connections: Connections) -> None:
        plan, window = self._plan, self._window
        replicator = replicator_of(
            plan,
            connections,
            self._served.partitions,
            self._delivery,
            tries_all=window.is_first_of(MINUTE_MS),
            logged_reasons=self._state.logged_reasons,
            comparison=await compared_logs(plan, window, connections, self._lease, is_clean=not self._must_compare),
        )
        replicator.follow(self._paused)
        throttled_s = connections.throttled_s
        keeper = asyncio.create_task(self._keep(connections, replicator))
        # A separate timer: a missing response must not extend a window beyond the end that other windows wait for.
        last_ms = window.end_ms + (GRACE_S * 1000 if window.lanes > 1 else 0)
        ending = asyncio.get_running_loop().call_later((last_ms - now_ms()) / 1000, self._stop.set)
        try:
            await replicator.run(self._stop)
        finally:
            self._stop.set()
            ending.cancel()
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        throttled_s, connections.busy = connections.throttled_s.since(throttled_s), replicator.busy
        if replicator.needs_new_producer:
            connections.is_dirty = self._had_failure = True
        if replicator.has_silent_source:
            # Windows may be shorter than a request timeout: otherwise a half-open connection would stay.
            await connections.renew_source(plan)
        drained = await replicator.drained(GRACE_S if self._status.may_write else DRAINS_LOST_S)
        slot = SlotReport(self._lease.wait_ms, self._lease.takeovers, *throttled_s)
        self._served.slot = replicator.report(slot)
        if not drained:
            connections.is_dirty = True
            connections.abort()  # at once: batches that no broker has received yet never arrive
            self._decides_ms = self._delivery.abandon()
        else:
            await self._delivery.finish(connections.target, is_last=self._status is not LeaseStatus.HOLDS)
        await self._hand_over(connections, replicator)
        await self._delivery.leave(connections.target)

    async def _hand_over(self, connections: Connections, replicator: Replicator) -> None:
        """Commit the last positions and release the lease, unless a successor has taken it over."""
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            try:
                if not self._term.is_valid:
                    await self._look(connections.target, replicator)
                if self._status is LeaseStatus.OVERTAKEN:
                    overtaken = (
                        "%s: slot %d was taken over while this process was suspended: its successor has the positions"
                    )
                    log.warning(overtaken, self._plan.name, self._window.slot)
                    connections.is_dirty = True
                    return
                await self._leased.release(connections.target)
            except NETWORK as error:
                self._warn("commit positions", error)
                await asyncio.sleep(0.2)
            else:
                return
        connections.is_dirty = True

    async def _keep(self, connections: Connections, replicator: Replicator) -> None:
        """Confirm the lease and commit positions each second. End an overdue window if a successor is ready."""
        window = self._window
        while not self._stop.is_set():
            remaining_s = (window.end_ms - now_ms()) / 1000
            if self._term.is_valid:
                await next_commit(self._has_numbers, min(COMMIT_S, remaining_s) if remaining_s > 0 else END_LOOKS_S)
            has_successor, is_over = False, now_ms() >= window.end_ms
            try:
                has_successor = await self._look(connections.target, replicator)
                if self._status is LeaseStatus.HOLDS and not is_over:
                    await self._delivery.commit(connections.target, self._leased)
            except NETWORK as error:
                self._warn("commit positions", error)
                await asyncio.sleep(0.2)
            if self._status is not LeaseStatus.HOLDS or (is_over and (has_successor or window.lanes == 1)):
                self._stop.set()

    async def _look(self, target: Target, replicator: Replicator) -> bool:
        """Read the lease, extend it if this window may write, and apply operators' pauses.

        Returns:
            True when a successor is ready.

        Raises:
            KafkaError: the target does not respond.
        """
        asked = LeaseTerm.now()
        found = await target.committed(self._plan.group, [*self._lease.looks_at, self._plan.paused_key])
        self._status = self._lease.status(found)
        if self._status.may_write:
            if self._lease.has_stale_commit(found):
                self._warn_of_sleeper()
                await self._leased.claim(target)
            self._term.confirm(asked)
            replicator.lease_confirmed()
        if self._plan.paused_key in found:  # otherwise the group was deleted just now
            replicator.follow(Paused.parse(found[self._plan.paused_key][1]))
        return self._lease.has_successor(found)

    def _warn_of_sleeper(self) -> None:
        """Log that a suspended process overwrote positions; write and check them again."""
        self._had_failure = True
        self._commits.write_all()
        log.log(level_once(self._logged, "covered"), COVERED, self._plan.name, self._window.slot)

    def _outcome(self) -> WindowOutcome:
        before = WindowOutcome() if self._has_begun else self._lease.predecessor.outcome
        return WindowOutcome(
            is_unclean=self._had_failure or before.is_unclean,
            in_doubt=before.in_doubt
            or any(
                p.start is not None or p.identity in (Identity.UNVERIFIED, Identity.REPLACED)
                for p in self._served.partitions
            ),
            spare=self._producer.spare,
            decided_at_ms=self._decides_ms or before.decided_at_ms,
            is_transactional=self._delivery.is_transactional or before.is_transactional,
        )


async def compared_logs(
    plan: FlowPlan, window: Window, connections: Connections, lease: Lease, *, is_clean: bool
) -> LogComparison | None:
    """Return how a window compares logs; None if no partition has identical offsets.

    `is_clean`: the previous window left no transaction open.
    """
    if not any(p.is_identical for p in plan.partitions):
        return None
    is_first = connections.remote_logs is None
    others = [plan.filler_id(slot) for slot, _ in lease.others if slot != window.slot]
    return LogComparison(
        logs=await connections.logs_of(plan, window),
        open_elsewhere=None if is_clean else others,
        is_complete=is_first or not is_clean or window.is_first_of(MINUTE_MS),
    )


async def release_for_dead_attempt(
    plan: FlowPlan, target: Target, lease: Lease, warn: Callable[[str, BaseException], None]
) -> None:
    """Release the lease of an attempt that died too late for a takeover."""
    try:
        await target.open({plan.lease_topic})
        await lease.release_for_dead_attempt(target)
    except NETWORK as error:
        warn("release its lease", error)  # it expires by itself


async def next_commit(has_numbers: asyncio.Event, at_most_s: float) -> None:
    """Wait until the next commit is due: after `at_most_s`, or when partitions have new sequence numbers."""
    try:
        await asyncio.wait_for(has_numbers.wait(), max(0.0, at_most_s))
    except TimeoutError:
        return
    await asyncio.sleep(END_LOOKS_S)  # many partitions get theirs at the same time
    has_numbers.clear()


async def _with_forgotten(
    plan: FlowPlan, target: Target, found: Offsets, lease: Lease
) -> tuple[Offsets, set[TopicPartition]]:
    """Return offsets, completed from the offset map, and the partitions whose offsets were missing.

    If the flow has never run, no partition counts as missing: the records on its target are not its own.
    """
    places = {p.on_target: p for p in plan.partitions if p.keeps_partition and not p.is_loop}
    lacking = [p for place, p in places.items() if place not in found]
    if not lacking and plan.paused_key in found:
        return found, set()
    known, has_run = await recalled(plan, lacking, knows_paused=plan.paused_key in found)
    if plan.paused_key in known:  # the next window need not search for it
        await target.commit(plan.group, {plan.paused_key: known[plan.paused_key]})
    is_new = lease.is_of_new_flow and not has_run
    return {**found, **known}, set() if is_new else {p.on_source for p in lacking}


def replicator_of(
    plan: FlowPlan,
    connections: Connections,
    partitions: Sequence[Partition],
    delivery: Delivery,
    *,
    tries_all: bool,
    logged_reasons: LoggedReasons,
    comparison: LogComparison | None = None,
) -> Replicator:
    """Return a window's replicator.

    Args:
        plan: The flow.
        connections: Its clients.
        partitions: Partitions of the window, as they were placed.
        delivery: The delivery of the window.
        tries_all: Also retry partitions to which the target appended nothing, although its metadata show no change.
        logged_reasons: The reasons that this process has logged for paused partitions.
        comparison: How logs are compared, if some partitions have identical offsets.
    """
    target, read_ahead, produce = connections.target, ReadAhead(), produce_options(plan.producer)
    pauses = Pauses(
        name=plan.name,
        target=target,
        partitions=partitions,
        read_ahead=read_ahead,
        tries_all=tries_all,
        logged_reasons=logged_reasons,
    )
    return Replicator(
        name=plan.name,
        source=connections.source,
        target=target,
        partitions=partitions,
        fetch=fetch_options(plan.consumer),
        linger_s=produce.linger_s,
        read_ahead=read_ahead,
        repacking=Repacking(produce, read_ahead),
        pauses=pauses,
        delivery=delivery,
        identities=Identities(plan, connections.source, target, logged_reasons),
        busy_before=connections.busy,
        written_back=connections.written_back,
        comparison=comparison,
    )
