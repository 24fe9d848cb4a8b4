"""Replicate one slot's share of one flow: fetch ahead, send one batch per topic-partition at a time, count acks."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

from aiokafka import errors as kafka_errors

from mirror.config.clients import FetchOptions, ProduceOptions
from mirror.errors import ClusterUnavailable
from mirror.handover.lease import Lease
from mirror.kafka.fetcher import Fetched, Source
from mirror.kafka.produce_errors import may_be_of_one_record, refusal, standstill
from mirror.kafka.producer import NotAppendedError, ProducerClosedError, UncertainError
from mirror.kafka.protocol import EARLIEST, LATEST, KafkaError
from mirror.kafka.target import Target
from mirror.model import record_batches
from mirror.model.paused_topics import REASON, Paused
from mirror.model.record_batches import Outgoing
from mirror.model.reports import ABSENT, AWAITS
from mirror.replication import told
from mirror.replication.identities import Identities
from mirror.replication.partition import FIRST_BACK_OFF_S, Partition
from mirror.replication.read_ahead import Packing
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import in_words, once, some

log = logging.getLogger("mirror")

SILENT_S = 1.0  # behind the longest wait that a fetch asks for
HOT_S = 3.0  # a topic-partition quiet for longer joins the cold fetch, which many idle ones share
LAST_BACK_OFF_S = 60.0
STANDSTILL_S = 2.0  # how often the target is asked about topic-partitions that it appends nothing to
RETRY_S = 0.2
ARRIVES_S = 8.0  # how long a broker that has received a batch may take to append it, and be held up meanwhile
TELL_S = 0.5  # what comes to a halt within this time is told in one line
TOO_LARGE = "the target's producer.max.request.size in the settings: raise that"
STANDS_STILL = "the target takes no writes for it"
IDENTIFY_EVERY_S = 1.0
NO_OFFSET = -1
_FEW_REPLICAS = (kafka_errors.NotEnoughReplicasError, kafka_errors.NotEnoughReplicasAfterAppendError)
_SILENCE = (kafka_errors.KafkaConnectionError, kafka_errors.RequestTimedOutError, kafka_errors.NodeNotReadyError)
_STRANGERS = (
    kafka_errors.OutOfOrderSequenceNumber,
    kafka_errors.ProducerFenced,
    kafka_errors.InvalidProducerEpoch,
    kafka_errors.InvalidProducerIdMapping,
    kafka_errors.UnknownProducerId,
    UncertainError,
)


class FlowRunner:
    """Runs until told to stop; then `acked` of each partition says exactly what the target holds."""

    def __init__(
        self,
        name: str,
        source: Source,
        target: Target,
        partitions: list[Partition],
        *,
        fetch: FetchOptions,
        produce: ProduceOptions,
        identities: Identities,
        lease: Lease | None = None,
        tries_all: bool = False,
    ) -> None:
        """Take what a window has opened and placed.

        Args:
            name: The flow, for the log.
            source: Reads the source.
            target: Writes the target.
            partitions: What to replicate, each at its position.
            fetch: How to read.
            produce: How to write.
            identities: Tells which topics they are.
            lease: Nothing is sent while it is not valid; None where the target itself refuses who may not write.
            tries_all: Also try what the target appended nothing to, and of which its metadata show no change.
        """
        self.name = name
        self.partitions = {(p.assigned.topic, p.assigned.partition): p for p in partitions}
        self._source = source
        self._target = target
        self._fetch = fetch
        self._packing = Packing(produce)
        self._identities = identities
        self._lease = lease
        self._tries_all = tries_all
        self._held: set[Partition] = set()  # have something to send when the lease is valid again
        self._by_leader: dict[int, list[Partition]] = {}
        self._in_flight = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._stopping = False
        self.needs_new_producer = False  # the target no longer takes what this one sends
        self.has_silent_source = False  # a fetch had no answer in time: its connection may be half-open
        self._asked_s: dict[tuple[int, bool], float] = {}  # by fetcher: when it asked what is not answered yet
        self._told: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._fetchers: dict[tuple[int, bool], asyncio.Task[None]] = {}
        self._turns: dict[int, int] = defaultdict(int)  # by leader: whose turn it is to be asked for first
        self._at_standstill: set[Partition] = set()
        self._learns_s = 0.0
        self._halted: dict[str, list[str]] = {}  # by reason: topic-partitions that the next line of the log is about
        self._beside: list[asyncio.Task[None]] = []  # what else runs until the end
        self._has_asked_in_vain = False
        self._odd = asyncio.Event()  # a topic-partition is in doubt, or has no position

    async def run(self, stop: asyncio.Event) -> None:
        """Replicate until `stop` is set, then wait for nothing but the running requests."""
        for partition in self.partitions.values():
            if partition.in_sync is not None and not partition.reason:
                partition.reason, partition.resume_s = STANDS_STILL, float("inf")
                self._at_standstill.add(partition)
        self._beside.append(self._loop.create_task(self._place()))
        try:
            while not stop.is_set():
                self._follow_leaders()
                self._end_standstills()
                for task in self._beside:
                    _raise_failure(task)
                try:
                    await asyncio.wait_for(stop.wait(), 1.0)
                except TimeoutError:
                    continue
        finally:
            self._stopping = True
            patience_s = self._fetch.max_wait_ms / 1000 + SILENT_S
            self.has_silent_source = any(self._loop.time() > at + patience_s for at in self._asked_s.values())
            tasks = [*self._beside, *self._fetchers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def rest(self, paused: Paused) -> None:
        """Let the topics rest that are to, and wake up those that are no longer to; what is under way arrives."""
        pattern = paused.pattern()
        for partition in self.partitions.values():
            wanted = pattern is not None and pattern.fullmatch(partition.assigned.topic) is not None
            rests = partition.reason == REASON
            if wanted and not rests:
                partition.reason, partition.resume_s = REASON, float("inf")
            elif rests and not wanted:
                is_awaited = partition.until_ms > 0  # only a window's begin looks whether it has come
                partition.reason, partition.resume_s = (AWAITS, float("inf")) if is_awaited else ("", 0.0)

    def go_on(self) -> None:
        """Send what was held back while it was not known whether the slot is still ours."""
        held, self._held = self._held, set()
        for partition in held:
            if not partition.in_flight:
                self._send_next(partition)

    async def drained(self, within_s: float) -> bool:
        """Wait until every sent batch is acknowledged or refused; False when that took too long."""
        try:
            await asyncio.wait_for(self._quiet.wait(), within_s)
        except TimeoutError:
            return False
        return True

    def _follow_leaders(self) -> None:
        by_leader: dict[int, list[Partition]] = defaultdict(list)
        for partition in self.partitions.values():
            leader = self._source.leader(partition.assigned.topic, partition.assigned.partition)
            if leader is not None:
                by_leader[leader].append(partition)
        self._by_leader = by_leader
        for leader in by_leader:
            for cold in (False, True):
                task = self._fetchers.get((leader, cold))
                if task is None or task.done():
                    _raise_failure(task)
                    self._fetchers[leader, cold] = self._loop.create_task(self._fetch_loop(leader, cold=cold))

    async def _place(self) -> None:
        """Find which topics those in doubt are, and where those without a position begin; the others flow meanwhile."""
        while not self._stopping:
            self._odd.clear()
            await self._identify()
            await self._find_begins()
            if any(p.in_doubt or p.begins is not None for p in self.partitions.values()):
                await asyncio.sleep(RETRY_S)
            else:
                await self._odd.wait()

    def _doubt(self, partition: Partition) -> None:
        """Read no more of a topic-partition until its cluster has said that it is the topic it was; what was read arrives."""
        partition.in_doubt = True
        self._odd.set()

    async def _identify(self) -> None:
        now = self._loop.time()
        doubted = [p for p in self.partitions.values() if p.in_doubt and now >= p.resume_s and self._has_settled(p)]
        if not doubted:
            return
        try:
            unclear = await self._identities.identify(doubted)
        except ClusterUnavailable as error:
            say = logging.DEBUG if self._has_asked_in_vain else logging.WARNING
            log.log(say, "%s: which topics some are by now cannot be read (%s), retrying", self.name, error)
            self._has_asked_in_vain = True
            await asyncio.sleep(IDENTIFY_EVERY_S)
            return
        self._has_asked_in_vain = False
        for partition in doubted:
            if partition in unclear:
                self._pause(partition, unclear[partition])
            else:
                self._identified(partition)
        await self._refresh_source()  # a topic that was created anew has other leaders
        self._follow_leaders()

    def _identified(self, partition: Partition) -> None:
        """Go on with a topic-partition whose topic is the same, or was treated as the flow says."""
        if partition.ends_at is not None:
            partition.tally.rewinds += 1
            log.error("%s: %s-%d: the log was truncated: going on at its end, %d; the position was %d", self.name,
                      partition.assigned.topic, partition.assigned.partition, partition.ends_at, partition.position)  # fmt: skip
            partition.position = partition.acked = partition.ends_at
            partition.ends_at = None
        partition.high_watermark = -1

    def _has_settled(self, partition: Partition) -> bool:
        """Tell whether what was read of a topic-partition is on the target, and counted."""
        return partition.has_arrived_whole

    async def _find_begins(self) -> None:
        now = self._loop.time()
        wanted = {
            (p.assigned.topic, p.assigned.partition): p.begins
            for p in self.partitions.values()
            if p.begins is not None and not p.in_doubt and now >= p.resume_s
        }
        if not wanted:
            return
        found = await self._source.offsets(wanted)
        silent = {answer for answer in found.values() if not isinstance(answer, int) and issubclass(answer, _SILENCE)}
        for silence in silent:
            self._warn("where topics begin cannot be read", silence())
        for key, answer in found.items():
            if answer not in silent:
                self._begin(self.partitions[key], answer)
        if sum(isinstance(answer, int) for answer in found.values()) < len(wanted):
            await self._refresh_source()

    def _begin(self, partition: Partition, answer: int | type[KafkaError]) -> None:
        if not isinstance(answer, int):
            self._pause(partition, f"the source does not tell where it begins: {answer.__name__}")
            partition.in_doubt = True  # what has no leader yet may have been created since the plan was made
            return
        partition.place(answer)
        self._flows(partition)

    # --- fetching -------------------------------------------------------------------------------------------

    async def _fetch_loop(self, node: int, *, cold: bool) -> None:
        failures = 0
        # The flag, not the cancellation alone: asyncio.wait_for of Python 3.11 can swallow one (bpo-37658).
        while node in self._by_leader and not self._stopping:
            share = self._packing.share(len(self._fetchers))
            wanted = self._wanted(node, cold=cold) if share else {}
            if not wanted:
                await self._wait_for_room()
                continue
            self._packing.reserve(share)
            self._asked_s[node, cold] = self._loop.time()
            try:
                fetched = await self._source.fetch(
                    node,
                    wanted,
                    max_wait_ms=self._fetch.max_wait_ms,
                    min_bytes=self._fetch.min_bytes,
                    max_bytes=min(self._fetch.max_bytes, share),
                    isolation_level=self._fetch.isolation_level,
                    cold=cold,
                )
                failures = 0
                self._told.clear()
                asked = {(topic, part): offset for topic, parts in wanted.items() for part, offset, _ in parts}
                await self._take(fetched, asked)
                self._turns[node] += sum(1 for part in fetched if part.records)
            except (KafkaError, OSError, TimeoutError) as error:
                failures += 1
                self._warn(f"fetch from node {node} failed", error)
                await asyncio.sleep(min(RETRY_S * 2**failures, 5.0))
                await self._refresh_source()
                continue
            finally:
                self._asked_s.pop((node, cold), None)
                self._packing.unreserve(share)

    async def _wait_for_room(self) -> None:
        self._packing.room.clear()
        try:
            await asyncio.wait_for(self._packing.room.wait(), 0.1)
        except TimeoutError:
            return

    def _wanted(self, node: int, *, cold: bool) -> dict[str, list[tuple[int, int, int]]]:
        """Return what to ask of one broker now: (partition, offset, max bytes) per topic, with room to queue it."""
        wanted: dict[str, list[tuple[int, int, int]]] = {}
        now = self._loop.time()
        everyone = self._by_leader.get(node, [])
        # A broker fills its answer in the order of the request: another one is the first each time.
        first = self._turns[node] % max(1, len(everyone))
        for partition in chain(islice(everyone, first, None), islice(everyone, first)):
            if cold and partition.is_hot and now - partition.last_data_s > HOT_S and not partition.held_bytes:
                partition.is_hot = False
            if partition.is_hot == cold or not partition.has_room(now):
                continue
            assigned = partition.assigned
            wanted.setdefault(assigned.topic, []).append(
                (assigned.partition, partition.position, self._fetch.max_partition_bytes)
            )
        return wanted

    async def _refresh_source(self) -> None:
        try:
            await asyncio.wait_for(self._source.refresh(), 5.0)
        except (KafkaError, OSError, TimeoutError) as error:
            self._warn("no metadata from the source", error)

    def _warn(self, what: str, error: BaseException) -> None:
        """Say what goes wrong, once until a fetch succeeds: a dead cluster must not fill the log."""
        log.log(once(self._told, what), "%s: %s (%s), retrying", self.name, what, in_words(error))

    async def _take(self, fetched: list[Fetched], asked: dict[tuple[str, int], int]) -> None:
        """Queue what a fetch brought."""
        now = self._loop.time()
        for part in fetched:
            partition = self.partitions.get((part.topic, part.partition))
            # Another fetch (hot or cold) may have moved the position since this one was asked for.
            if partition is None or partition.position != asked.get((part.topic, part.partition)):
                continue
            if partition.in_doubt:
                continue
            if part.error:
                await self._fetch_error(partition, part.error)
                continue
            if part.high_watermark < partition.high_watermark:
                self._doubt(partition)  # a log that has grown shorter, if it is not a new leader's first answer
                continue
            partition.high_watermark = part.high_watermark
            if part.records:
                partition.is_hot = True
                partition.last_data_s = now
                self._queue(partition, part)

    def _queue(self, partition: Partition, part: Fetched) -> None:
        found = record_batches.batches(part.records)
        if self._fetch.isolation_level:
            found = record_batches.committed(found, part.aborted)
        try:
            for batch in found:
                if batch.last_offset < partition.position:
                    continue
                self._packing.take_in(partition, batch)
        except record_batches.CorruptBatch as error:
            self._pause(partition, f"{error}; the source must be repaired or the offset skipped")
            return
        if not partition.in_flight:
            self._send_next(partition)

    async def _fetch_error(self, partition: Partition, code: int) -> None:
        error = kafka_errors.for_code(code)
        if error is kafka_errors.OffsetOutOfRangeError:
            await self._out_of_range(partition)
        elif error is kafka_errors.UnknownTopicOrPartitionError:
            self._doubt(partition)
        elif getattr(error, "invalid_metadata", False) or error.retriable:
            partition.resume_s = self._loop.time() + RETRY_S
            await self._refresh_source()
            self._follow_leaders()
        else:
            self._pause(partition, f"the source refuses the fetch: {error.__name__}")

    async def _out_of_range(self, partition: Partition) -> None:
        """Retention passed us, or the log was truncated: say exactly what is gone and go on where data is."""
        if not partition.has_arrived_whole:
            partition.resume_s = self._loop.time() + RETRY_S  # first let what was read arrive
            return
        assigned, asked = partition.assigned, partition.position
        key = assigned.topic, assigned.partition
        try:
            earliest = (await self._source.offsets({key: EARLIEST}))[key]
            latest = (await self._source.offsets({key: LATEST}))[key]
        except (KafkaError, OSError, TimeoutError) as error:
            self._pause(partition, f"position {asked} is out of range and the log's bounds unknown: {error!r}")
            return
        if not (isinstance(earliest, int) and isinstance(latest, int)):
            error_class = latest if isinstance(earliest, int) else earliest
            self._pause(partition, f"position {asked} is out of range and the log's bounds unknown: {error_class}")
            return
        if partition.position != asked or partition.in_doubt or earliest <= asked <= latest:
            return  # another fetch has moved it meanwhile or was told the same, or the log has grown
        where = f"{self.name}: {assigned.topic}-{assigned.partition}"
        if partition.position < earliest:
            partition.tally.lost += earliest - partition.position
            log.error(
                "%s: offsets %d to %d were deleted by the source's retention before they were replicated; going on at %d",
                where, partition.position, earliest - 1, earliest,
            )  # fmt: skip
            partition.position = partition.acked = earliest
            return
        partition.ends_at = latest
        self._doubt(partition)  # the log was truncated, or the topic is another one by now

    # --- sending --------------------------------------------------------------------------------------------

    def _send_next(self, partition: Partition) -> None:
        """Send the next batch of a topic-partition; at most one is under way, which keeps its order."""
        if self._stopping:
            return
        if self._lease is not None and not self._lease.is_valid:
            self._held.add(partition)
            return
        assigned = partition.assigned
        try:
            batches = self._packing.next_batches(partition)
        except Exception as error:  # noqa: BLE001 - whatever a hostile batch does, only its partition stops
            self._pause(partition, f"a batch at source offset {partition.acked} cannot be read: {error!r}")
            return
        if not batches:
            return
        if not all(self._target.knows(assigned.remote_topic, where) for where in batches):
            self._is_absent(partition)
            return
        if any(map(self._packing.is_too_large, batches.values())):
            self._pause(partition, f"the record at source offset {partition.acked} is larger than {TOO_LARGE}")
            return
        try:
            sent = {self._target.send(batch, assigned.remote_topic, where): batch for where, batch in batches.items()}
        except KafkaError as error:
            self._broke(partition, error)
            return
        partition.in_flight = True
        self._in_flight += 1
        self._quiet.clear()
        read_ms, waiting = now_ms(), set(sent)

        def answered(done: asyncio.Future[Any]) -> None:
            waiting.discard(done)
            if not waiting:
                self._on_answers(partition, sent, read_ms)

        for future in sent:
            future.add_done_callback(answered)

    def _is_absent(self, partition: Partition) -> None:
        """Pause a topic-partition that is not there on the target."""
        assigned = partition.assigned
        wanted = (
            f"with {assigned.spread_over} partitions" if assigned.spread_over else f"partition {assigned.partition}"
        )
        self._pause(partition, f"{assigned.remote_topic} {wanted} {ABSENT}")
        if partition.tail.runs:
            # It was there: the next window asks whether it is the same one again.
            partition.resume_s, partition.in_doubt = float("inf"), True

    def _broke(self, partition: Partition, error: KafkaError) -> None:
        self.needs_new_producer = True
        self._pause(partition, f"the producer failed: {error.__cause__ or error!r}")

    def _on_answers(self, partition: Partition, sent: dict[asyncio.Future[Any], Outgoing], read_ms: float) -> None:
        """Take in the answers to what was under way of a topic-partition; then send what is next."""
        partition.in_flight = False
        self._in_flight -= 1
        if self._in_flight == 0:
            self._quiet.set()
        failed = [done for done in sent if done.cancelled() or done.exception() is not None]
        is_over = any(done.cancelled() or isinstance(done.exception(), ProducerClosedError) for done in failed)
        taken = [(batch, done.result()) for done, batch in sent.items() if done not in failed]
        if partition.assigned.spread_over:
            taken = [(batch, NO_OFFSET) for batch, _ in taken]  # a spread topic has no offset map
        partition.has_arrived |= bool(taken)
        goes_to = partition.goes_to
        stray = next((base for _, base in taken if NO_OFFSET < base < goes_to), None)
        self._settle(partition, taken, read_ms)
        if not failed:
            self._acknowledged(partition, sent)
            if stray is not None:
                self._strayed(partition, stray, goes_to)
        elif is_over and self._stopping:
            return  # the window was given up with this under way: the next one finds out whether it arrived
        elif is_over:
            self._broke(partition, ProducerClosedError())
        elif partition.assigned.spread_over:
            # What the other partitions took comes again; of the sequences of this producer one has a hole now.
            self.needs_new_producer = True
            why = repr(failed[0].exception())
            self._pause(partition, f"the target refuses a batch from source offset {partition.acked} on: {why}")
        else:
            self._refused(partition, sent[failed[0]], failed[0].exception())
        self._send_next(partition)

    def _acknowledged(self, partition: Partition, sent: dict[asyncio.Future[Any], Outgoing]) -> None:
        if partition.assigned.spread_over:
            if not partition.rounds:
                partition.passed(partition.rounds_end)
        else:
            (outgoing,) = sent.values()
            partition.passed(outgoing.next_offset)
        self._packing.let_go(partition)
        self._flows(partition)

    def _strayed(self, partition: Partition, base: int, goes_to: int) -> None:
        """Send no more of a topic-partition whose last batch came to lie before others, until the clusters have said why."""
        assigned = partition.assigned
        log.error("%s: %s-%d was written up to offset %d, and now at %d: its log was cut, or it is another topic",
                  self.name, assigned.remote_topic, assigned.partition, goes_to, base)  # fmt: skip
        partition.goes_to = base
        self._packing.clear(partition)
        partition.position = partition.acked
        self._doubt(partition)

    def _settle(self, partition: Partition, taken: Iterable[tuple[Outgoing, int]], read_ms: float) -> None:
        """Take in batches that the target has, with their base offsets there."""
        for outgoing, base in taken:
            partition.landed(outgoing, base)
            self._count(partition, outgoing, read_ms)

    def _count(self, partition: Partition, outgoing: Outgoing, read_ms: float) -> None:
        tally, acked_ms = partition.tally, now_ms()
        tally.records += outgoing.count
        tally.bytes += len(outgoing.data)
        low, high, total = outgoing.min_timestamp, outgoing.max_timestamp, outgoing.sum_timestamp
        tally.last_timestamp_ms = float(high)  # Arrow refuses integers above 2^53 for a double
        tally.age.add(read_ms - high, read_ms - low, read_ms * outgoing.count - total, outgoing.count)
        tally.latency.add(acked_ms - high, acked_ms - low, acked_ms * outgoing.count - total, outgoing.count)

    def _refused(self, partition: Partition, outgoing: Outgoing, error: BaseException | None) -> None:
        if isinstance(error, _STRANGERS):
            # The next window writes through another producer, and this process opens a new one for its next.
            self.needs_new_producer = True
            self._pause(partition, f"the target no longer knows our producer ({type(error).__name__})")
            partition.resume_s = float("inf")
            return
        if isinstance(error, NotAppendedError):
            self._stands_still(partition, error)
            return
        if outgoing.count > 1 and may_be_of_one_record(error):
            partition.ready.extendleft(reversed(record_batches.halves(outgoing)))
            return
        self._pause(partition, f"the target refuses source offset {partition.acked} and on: {refusal(error)}")

    def _stands_still(self, partition: Partition, error: NotAppendedError | UncertainError) -> None:
        """Pause a topic-partition that the target does not write to for now, however many there are in one line of the log."""
        if isinstance(error.why, kafka_errors.UnknownTopicOrPartitionError):
            self._is_absent(partition)
            return
        assigned = partition.assigned
        reason = f"{STANDS_STILL}: {standstill(error.why)}"
        has_leader = isinstance(error.why, _FEW_REPLICAS)
        partition.in_sync = self._target.in_sync(assigned.remote_topic, assigned.partition) if has_leader else 0
        partition.committed = None  # the next window is to know
        if told.is_news(self.name, partition.assigned, reason):
            if not self._halted:
                self._loop.call_later(TELL_S, self._tell_halted)
            self._halted.setdefault(reason, []).append(f"{partition.assigned.topic}-{partition.assigned.partition}")
        self._pause(partition, reason)
        self._at_standstill.add(partition)
        partition.resume_s = float("inf")

    def _end_standstills(self) -> None:
        """Try those again of which the target says that something has changed."""
        if self._at_standstill and self._loop.time() > self._learns_s:
            self._learns_s = self._loop.time() + STANDSTILL_S
            self._target.learn()
        for partition in tuple(self._at_standstill):
            place = (partition.assigned.remote_topic, partition.assigned.partition)
            in_sync = self._target.in_sync(*place) if self._target.leader(*place) is not None else 0
            if partition.in_sync is None or in_sync > partition.in_sync or (in_sync and self._tries_all):
                self._at_standstill.discard(partition)
                if partition.reason != REASON and not partition.until_ms:
                    partition.resume_s = 0.0

    def _tell_halted(self) -> None:
        halted, self._halted = self._halted, {}
        for reason, who in halted.items():
            log.warning("%s: %d topic-partitions paused (%s): %s", self.name, len(who), some(who), reason)

    def _flows(self, partition: Partition) -> None:
        if partition.in_sync is not None:
            partition.in_sync = partition.committed = None
        if partition.reason == REASON:
            return  # the last batches before it rests
        partition.back_off_s = FIRST_BACK_OFF_S
        partition.reason = ""
        told.flows_again(self.name, partition.assigned)

    def _pause(self, partition: Partition, reason: str) -> None:
        """Let this topic-partition rest, from its last acknowledged offset on; the others flow."""
        self._packing.clear(partition)
        partition.position = partition.acked
        partition.resume_s = self._loop.time() + partition.back_off_s
        partition.back_off_s = min(partition.back_off_s * 2, LAST_BACK_OFF_S)
        if told.is_news(self.name, partition.assigned, reason):
            log.error("%s: %s-%d paused: %s", self.name, partition.assigned.topic, partition.assigned.partition, reason)
        partition.reason = reason


def _raise_failure(task: asyncio.Task[None] | None) -> None:
    """Raise what ended a task, if something did."""
    if task is not None and task.done() and not task.cancelled() and (failure := task.exception()) is not None:
        raise failure
