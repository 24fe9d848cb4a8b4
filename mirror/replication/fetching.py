"""Fetch ahead from the source: per broker, one fetcher for busy partitions and one for idle ones.

A partition is read from its leader, or from the replica in the mirror's rack that the leader names (KIP-392).

A: While a partition has room in its queue, one of the two fetchers always requests it. The idle fetcher requests a partition
   with new data until the busy fetcher does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import InitVar, dataclass

from mirror.config.clients import FetchOptions
from mirror.kafka.client import Purpose
from mirror.kafka.errors import ErrorCode, FetchError, KafkaError, fetch_error, name_of, source_error_kind
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Fetched, Source
from mirror.kafka.protocol import EARLIEST, LATEST
from mirror.model import record_batches
from mirror.model.gaps import Cause, Effect
from mirror.model.topic_partition import TopicPartition
from mirror.replication.partition import Partition
from mirror.replication.pauses import Pauses
from mirror.replication.producer_registry import NOBODY, ProducerRegistry
from mirror.replication.read_ahead import ReadAhead
from mirror.runtime.logs import describe, level_once

FREE = 20  # a fetch of up to this many partitions is followed by no further pause
EACH_S = 1e-4  # pause for each further partition
SMALL_BYTES = 64 << 10  # a fetch that returns more, as in a backlog, is worth its cost


def fetch_delay_s(topic_partitions: int, received_bytes: int, linger_s: float) -> float:
    """Return the pause (s) after a fetch, from its partition count and response size.

    During the pause, records gather at the source. No pause follows a fetch that returned nothing: it has waited at the broker.
    """
    return max(linger_s, (topic_partitions - FREE) * EACH_S) if 0 < received_bytes <= SMALL_BYTES else 0.0


log = logging.getLogger("mirror")

HOT_S = 3.0  # a partition quiet for longer joins the cold fetch, which many idle ones share
RETRY_S = 0.2
LONGEST_RETRY_S = 5.0
REFRESH_S = 5.0
LOOKS_S = 0.1  # how often a fetcher checks whether a pause has ended, besides its wake-ups
SILENT_S = 1.0  # how much longer than its longest allowed wait a fetch may take


@dataclass(slots=True)
class Polled:
    """Fetches that returned records, and how long they took."""

    fetches: int = 0
    spent_s: float = 0.0
    longest_s: float = 0.0

    def answered(self, seconds: float) -> None:
        """Count a fetch that returned records."""
        self.fetches += 1
        self.spent_s += seconds
        self.longest_s = max(self.longest_s, seconds)


@dataclass(kw_only=True, eq=False, repr=False)
class Fetching:
    """The fetchers of one flow in one window. `follow_leaders` starts and ends them."""

    name: str  # the flow, for the log
    source: Source  # reads the source
    partitions: Mapping[TopicPartition, Partition]  # by topic and partition on the source
    options: FetchOptions  # how to read
    linger_s: float  # how long a record may wait at the source for others
    read_ahead: ReadAhead  # queues what was read
    pauses: Pauses  # pause what cannot be read
    # partitions with data at the end of an earlier window; the others start as idle ones
    busy_before: InitVar[Collection[TopicPartition]]
    on_batches: Callable[[Partition], None]  # called with a partition that has batches to send
    on_doubt: Callable[[Partition], None]  # called with a partition whose topic may be another one
    # shows which records the reverse flow wrote, which are skipped; None: there is no reverse flow
    written_back: ProducerRegistry | None = None

    def __post_init__(self, busy_before: Collection[TopicPartition]) -> None:
        self._loop = asyncio.get_running_loop()
        self._by_node: dict[int, list[Partition]] = {}
        self._busy: dict[int, dict[Partition, None]] = {}  # by node: its partitions that had data lately
        # by node: the partitions of the fetch in flight
        self._asked_busy: dict[int, Mapping[TopicPartition, FetchPosition]] = {}
        self._has_work = asyncio.Event()  # a partition has data again
        self._fetchers: dict[tuple[int, bool], asyncio.Task[None]] = {}
        self._due_s: dict[tuple[int, bool], float] = {}  # by fetcher: when the response to its fetch is due
        self._logged: set[str] = set()
        self._limits = FetchLimits(
            self.options.max_wait_ms,
            self.options.min_bytes,
            self.options.max_bytes,
            self.options.isolation_level,
            self.options.rack,
        )
        self._is_stopping = False
        self.polled = Polled()
        for key, partition in self.partitions.items():
            partition.fetch.warm(self._loop.time())
            if key not in busy_before:
                partition.fetch.cool()

    @property
    def busy(self) -> frozenset[TopicPartition]:
        """The partitions that have had data lately."""
        return frozenset(key for key, partition in self.partitions.items() if partition.fetch.is_hot)

    def follow_leaders(self) -> None:
        """Start and end fetchers as leaders change in the metadata. If a fetcher has failed, raise its error."""
        by_node: dict[int, list[Partition]] = defaultdict(list)
        for (topic, number), partition in self.partitions.items():
            leader = self.source.leader(topic, number)
            if leader is not None:
                by_node[leader if partition.fetch.read_replica is None else partition.fetch.read_replica].append(
                    partition
                )
            elif self.source.knows(topic, number):
                self.source.learn()  # no fetch can fail for a partition without a leader
        self._by_node = by_node
        self._busy = {node: dict.fromkeys(p for p in everyone if p.fetch.is_hot) for node, everyone in by_node.items()}
        for node in by_node:
            for is_cold in (False, True):
                task = self._fetchers.get((node, is_cold))
                if task is None or task.done():
                    raise_failure(task)
                    self._fetchers[node, is_cold] = self._loop.create_task(self._fetch(node, is_cold=is_cold))

    async def refresh(self) -> None:
        """Request the source's metadata, and follow its leaders."""
        try:
            await asyncio.wait_for(self.source.refresh(), REFRESH_S)
        except (KafkaError, OSError, TimeoutError) as error:
            self.warn("no metadata from the source", error)
        if not self._is_stopping:
            self.follow_leaders()

    async def stop(self) -> None:
        """End all fetchers."""
        self._is_stopping = True
        for task in self._fetchers.values():
            task.cancel()
        await asyncio.gather(*self._fetchers.values(), return_exceptions=True)

    def is_silent(self) -> bool:
        """Return whether a fetch got no response in time: its connection may be half-open."""
        return any(self._loop.time() > due_s + SILENT_S for due_s in self._due_s.values())

    def warn(self, what: str, error: BaseException) -> None:
        """Log a failure once until a fetch succeeds: a dead cluster must not fill the log."""
        log.log(level_once(self._logged, what), "%s: %s (%s), retrying", self.name, what, describe(error))

    async def _fetch(self, node: int, *, is_cold: bool) -> None:
        failures = 0
        # The flag is checked too: asyncio.wait_for of Python 3.11 can swallow a cancellation (bpo-37658).
        while node in self._by_node and not self._is_stopping:
            share = self.read_ahead.share(len(self._fetchers))
            wanted = self._wanted(node, is_cold=is_cold) if share else {}
            if not wanted:
                # If there is something to fetch, wait for room in the buffer; otherwise wait for new data.
                is_short = not share or (not is_cold and bool(self._busy.get(node)))
                await _woken(self.read_ahead.room if is_short else self._has_work)
                continue
            if not is_cold:
                self._asked_busy[node] = wanted
            self.read_ahead.reserve(share)
            received = 0
            asked_s = self._loop.time()
            try:
                max_bytes, wait_ms = min(self._limits.max_bytes, share), self._wait_ms(node, wanted, is_cold=is_cold)
                limits = self._limits._replace(max_bytes=max_bytes, max_wait_ms=wait_ms)
                self._due_s[node, is_cold] = asked_s + wait_ms / 1000
                purpose = Purpose.IDLE_FETCH if is_cold else Purpose.DATA
                fetched = await self.source.fetch(node, wanted, limits, purpose)
                failures = 0
                self._logged.clear()
                if received := sum(len(part.records) for part in fetched):
                    self.polled.answered(self._loop.time() - asked_s)
                await self._take(node, fetched, wanted)
            except KafkaError as error:
                failures += 1
                self.warn(f"fetch from node {node} failed", error)
                self._read_from_leaders(node)
                await asyncio.sleep(min(RETRY_S * 2**failures, LONGEST_RETRY_S))
                await self.refresh()
            finally:
                if not is_cold:
                    self._asked_busy.pop(node, None)
                self._due_s.pop((node, is_cold), None)
                self.read_ahead.unreserve(share)
            if delay_s := fetch_delay_s(len(wanted), received, self.linger_s):
                await asyncio.sleep(delay_s)

    def _read_from_leaders(self, node: int) -> None:
        """Read from the leaders for the rest of the window, because a replica has failed."""
        for partition in self._by_node.get(node, ()):
            if partition.fetch.read_replica is not None:
                partition.fetch.follow_leader()
                self._limits = self._limits._replace(rack="")

    def _wanted(self, node: int, *, is_cold: bool) -> dict[TopicPartition, FetchPosition]:
        """Return the partitions to fetch from one broker now: the ones with room in their queues."""
        now = self._loop.time()
        most, missed = self.options.max_partition_bytes, frozenset[Partition]()
        everyone: Iterable[Partition] = self._busy.get(node, ())
        if is_cold:
            self._cool(node, now)
            everyone, missed = self._by_node.get(node, ()), self._missed(node)
        return {
            partition.on_source: partition.fetched_from(most)
            for partition in everyone
            if (partition.fetch.is_hot != is_cold or partition in missed) and partition.has_room(now)
        }

    def _wait_ms(self, node: int, wanted: Collection[TopicPartition], *, is_cold: bool) -> int:
        """Return how long a broker may wait for records: longer if the fetch requests all idle partitions, and no others.

        A partition that is not requested, because it is paused, waits for the next fetch.
        """
        idle = len(self._by_node.get(node, ())) - len(self._busy.get(node, ()))
        is_complete = is_cold and len(wanted) == idle and not self._missed(node)
        return self.options.idle_wait_ms if is_complete else self.options.max_wait_ms

    def _missed(self, node: int) -> frozenset[Partition]:
        """Return the partitions with new data that the busy fetch in flight does not request."""
        asked = self._asked_busy.get(node)
        if asked is None:
            return frozenset()
        return frozenset(partition for partition in self._busy.get(node, ()) if partition.on_source not in asked)

    def _cool(self, node: int, now: float) -> None:
        """Move partitions without recent data to the idle fetcher."""
        busy = self._busy.get(node, {})
        for partition in [p for p in busy if now - p.fetch.last_data_s > HOT_S and not p.backlog.held_bytes]:
            partition.fetch.cool()
            del busy[partition]

    def _on_data(self, node: int, partition: Partition, now: float) -> None:
        if partition.fetch.warm(now):
            self._busy.setdefault(node, {})[partition] = None
            self._has_work.set()

    async def _take(self, node: int, fetched: list[Fetched], asked: Mapping[TopicPartition, FetchPosition]) -> None:
        """Queue the batches of a fetch."""
        told = NOBODY
        if self.written_back is not None:
            told = await self.written_back.told(self.source, (part.records for part in fetched))
        now, has_moved = self._loop.time(), False
        for part in fetched:
            key = TopicPartition(part.topic, part.partition)
            partition = self.partitions.get(key)
            # Meanwhile another fetch (busy or idle) may have moved the position.
            if partition is None or partition.position != asked[key].offset or not partition.is_placed:
                continue
            if part.error is not ErrorCode.none:
                await self._refused(node, partition, part.error)
            elif part.read_replica is not None:
                partition.fetch.follow_replica(part.read_replica)
                has_moved = True
            elif part.diverged_at is not None:
                self._diverged(partition, part.diverged_at)
            elif part.high_watermark < partition.fetch.high_watermark:
                self.on_doubt(partition)  # the log is shorter, or a new leader responds for the first time
            else:
                partition.fetch.see(part.high_watermark)
                if part.records and told.unknown:
                    self.pauses.back_off(partition, told.unknown)
                elif part.records:
                    self._on_data(node, partition, now)
                    self._queue(partition, part, told.producers)
        if has_moved:
            self.follow_leaders()

    def _queue(self, partition: Partition, part: Fetched, back: frozenset[int]) -> None:
        found = record_batches.batches(part.records)
        if self.options.isolation_level:
            found = record_batches.committed(found, part.aborted)
        try:
            for batch in found:
                if batch.last_offset >= partition.position:
                    own = record_batches.without_records(batch) if batch.producer_id in back else batch
                    self.read_ahead.take_in(partition, own)
        except record_batches.CorruptBatch as error:
            self.pauses.refused(partition, f"{error}; the source must be repaired or the offset skipped")
        else:
            if not partition.in_flight:
                self.on_batches(partition)

    async def _refused(self, node: int, partition: Partition, code: ErrorCode) -> None:
        error = fetch_error(code)
        if partition.fetch.read_replica is not None:
            self._read_from_leaders(node)
            self.follow_leaders()
        elif error is FetchError.OUT_OF_RANGE:
            await self._out_of_range(partition)
        elif error is FetchError.UNKNOWN_TOPIC:
            self.on_doubt(partition)
        elif error is FetchError.PASSING and self._has_moved(node, partition):
            self.follow_leaders()
        elif error is FetchError.PASSING:
            partition.pause.retry(self._loop.time() + RETRY_S)
            await self.refresh()
        else:
            self.pauses.back_off(
                partition, f"the source refuses the fetch: {name_of(code)}", error=source_error_kind(code)
            )

    def _has_moved(self, node: int, partition: Partition) -> bool:
        """Return whether another leader is known: newer brokers name the new leader in their refusal."""
        return self.source.leader(*partition.on_source) not in (None, node)

    def _diverged(self, partition: Partition, offset: int) -> None:
        """Return to the last common offset: after it, a leader that lacked records has appended others."""
        if partition.has_arrived_whole:
            partition.fetch.truncate(min(offset, partition.position))
            self.on_doubt(partition)
        else:
            partition.pause.retry(self._loop.time() + RETRY_S)  # first, the records already read must be acknowledged

    async def _out_of_range(self, partition: Partition) -> None:
        """Resume at the log start if retention deleted the position.

        If the log ends before the position, doubt the topic.
        """
        if not partition.has_arrived_whole:
            partition.pause.retry(self._loop.time() + RETRY_S)  # first, the records already read must be acknowledged
            return
        key, asked = partition.on_source, partition.position
        try:
            earliest = (await self.source.offsets({key: EARLIEST}))[key]
            latest = (await self.source.offsets({key: LATEST}))[key]
        except KafkaError as error:
            self.pauses.back_off(
                partition, f"position {asked} is out of range, and the log's bounds are unknown: {error}"
            )
            return
        if not (isinstance(earliest, int) and isinstance(latest, int)):
            refused = latest if isinstance(earliest, int) else earliest
            self.pauses.back_off(
                partition, f"position {asked} is out of range, and the log's bounds are unknown: {refused}"
            )
            return
        if partition.position != asked or not partition.is_placed:
            return  # another fetch has moved the position meanwhile, or got the same response
        if earliest <= asked <= latest:
            # The log has grown, or retention has deleted all records of the epoch that the fetch named.
            partition.forget_epochs()
            return
        if asked < earliest:
            partition.tally.lost += earliest - asked
            said = (
                f"offsets {asked} to {earliest - 1} were deleted by the source's retention before they were replicated; "
                f"resuming at {earliest}"
            )
            log.error("%s: %s-%d: %s", self.name, *key, said)
            partition.record_gap(Effect.LOST, Cause.RETENTION, asked, earliest - 1, said)
            partition.moved(earliest)
            if partition.remote_log is not None:
                partition.remote_log.dispose(earliest)
            return
        partition.fetch.truncate(latest)
        self.on_doubt(partition)


async def _woken(event: asyncio.Event) -> None:
    """Wait until an event is set again, at most for some time."""
    event.clear()
    timer = asyncio.get_running_loop().call_later(LOOKS_S, event.set)
    await event.wait()
    timer.cancel()


def raise_failure(task: asyncio.Task[None] | None) -> None:
    """Raise the error that ended a task, if any."""
    if task is not None and task.done() and not task.cancelled() and (failure := task.exception()) is not None:
        raise failure
