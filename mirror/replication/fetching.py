"""Fetch ahead from the source: two fetchers for each broker, one for topic-partitions with data and one for the idle ones.

A topic-partition is read from its leader, or from the replica in the mirror's rack that its leader names (KIP-392).

A: A topic-partition is always asked for by one of the two, while there is room for it: one that has data again leaves the fetch
   of the idle ones when the other one asks for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from mirror.config.clients import FetchOptions
from mirror.kafka.client import Purpose
from mirror.kafka.errors import ErrorCode, KafkaError, name_of
from mirror.kafka.fetch_errors import FetchError, fetch_error
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Fetched, Source
from mirror.kafka.protocol import EARLIEST, LATEST
from mirror.model import record_batches
from mirror.model.gaps import Cause, Effect
from mirror.model.leader_epochs import LeaderEpochs
from mirror.model.topic_partition import TopicPartition
from mirror.replication.fetch_pace import fetch_delay_s
from mirror.replication.partition import Partition
from mirror.replication.pauses import Pauses
from mirror.replication.producer_registry import NOBODY, ProducerRegistry
from mirror.replication.read_ahead import ReadAhead
from mirror.runtime.logs import in_words, once

log = logging.getLogger("mirror")

HOT_S = 3.0  # a topic-partition quiet for longer joins the cold fetch, which many idle ones share
RETRY_S = 0.2
LONGEST_RETRY_S = 5.0
REFRESH_S = 5.0
LOOKS_S = 0.1  # how often a fetcher looks whether a pause has ended, beside what wakes it
SILENT_S = 1.0  # behind the longest wait that a fetch asks for


@dataclass(slots=True)
class Polled:
    """Fetches that brought records, and how long they took."""

    fetches: int = 0
    spent_s: float = 0.0
    longest_s: float = 0.0

    def answered(self, seconds: float) -> None:
        """Count a fetch that brought records."""
        self.fetches += 1
        self.spent_s += seconds
        self.longest_s = max(self.longest_s, seconds)


class Fetching:
    """The fetchers of one flow in one window. `refresh` begins and ends them as leaders change."""

    def __init__(
        self,
        name: str,
        source: Source,
        partitions: Mapping[TopicPartition, Partition],
        *,
        options: FetchOptions,
        packing: ReadAhead,
        pauses: Pauses,
        busy_before: Collection[TopicPartition],
        on_batches: Callable[[Partition], None],
        on_doubt: Callable[[Partition], None],
        written_back: ProducerRegistry | None = None,
    ) -> None:
        """Take what is to be fetched.

        Args:
            name: The flow, for the log.
            source: Reads the source.
            partitions: By topic and partition of the source.
            options: How to read.
            packing: Takes in what was read.
            pauses: Pause what cannot be read.
            busy_before: What had data at the end of an earlier window; the others begin as idle ones.
            on_batches: Gets a topic-partition that has batches to send.
            on_doubt: Gets a topic-partition whose topic may be another one.
            written_back: Tells which records the flow back wrote, which do not go back; None: there are none.
        """
        self._name = name
        self._source = source
        self._partitions = partitions
        self._options = options
        self._packing = packing
        self._pauses = pauses
        self._on_batches = on_batches
        self._on_doubt = on_doubt
        self._written_back = written_back
        self._loop = asyncio.get_running_loop()
        self._by_node: dict[int, list[Partition]] = {}
        self._busy: dict[int, dict[Partition, None]] = {}  # by node, of these: those with data lately
        self._asked_busy: dict[
            int, Mapping[TopicPartition, FetchPosition]
        ] = {}  # by node: what a fetch under way asks of these
        self._has_work = asyncio.Event()  # a topic-partition has data again
        self._fetchers: dict[tuple[int, bool], asyncio.Task[None]] = {}
        self._asked_s: dict[tuple[int, bool], float] = {}  # by fetcher: when it asked what is not answered yet
        self._logged: set[str] = set()
        self._limits = FetchLimits(
            options.max_wait_ms, options.min_bytes, options.max_bytes, options.isolation_level, options.rack
        )
        self._is_stopping = False
        self.polled = Polled()
        for key, partition in partitions.items():
            partition.is_hot = key in busy_before
            partition.last_data_s = self._loop.time()

    @property
    def busy(self) -> frozenset[TopicPartition]:
        """What has had data lately."""
        return frozenset(key for key, partition in self._partitions.items() if partition.is_hot)

    def follow_leaders(self) -> None:
        """Have each broker asked for what is to be read from it, as the metadata say now; raises what ended a fetcher."""
        by_node: dict[int, list[Partition]] = defaultdict(list)
        for (topic, number), partition in self._partitions.items():
            leader = self._source.leader(topic, number)
            if leader is not None:
                by_node[leader if partition.read_replica is None else partition.read_replica].append(partition)
            elif self._source.knows(topic, number):
                self._source.learn()  # no fetch fails for a topic-partition without a leader
        self._by_node = by_node
        self._busy = {node: dict.fromkeys(p for p in everyone if p.is_hot) for node, everyone in by_node.items()}
        for node in by_node:
            for is_cold in (False, True):
                task = self._fetchers.get((node, is_cold))
                if task is None or task.done():
                    raise_failure(task)
                    self._fetchers[node, is_cold] = self._loop.create_task(self._fetch(node, is_cold=is_cold))

    async def refresh(self) -> None:
        """Ask the source for its metadata, and follow its leaders."""
        try:
            await asyncio.wait_for(self._source.refresh(), REFRESH_S)
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
        """Tell whether a fetch had no answer in time: its connection may be half-open."""
        patience_s = self._options.max_wait_ms / 1000 + SILENT_S
        return any(self._loop.time() > at + patience_s for at in self._asked_s.values())

    def warn(self, what: str, error: BaseException) -> None:
        """Log a failure, once until a fetch succeeds: a dead cluster must not fill the log."""
        log.log(once(self._logged, what), "%s: %s (%s), retrying", self._name, what, in_words(error))

    async def _fetch(self, node: int, *, is_cold: bool) -> None:
        failures = 0
        # The flag, not the cancellation alone: asyncio.wait_for of Python 3.11 can swallow one (bpo-37658).
        while node in self._by_node and not self._is_stopping:
            share = self._packing.share(len(self._fetchers))
            wanted = self._wanted(node, is_cold=is_cold) if share else {}
            if not wanted:
                # Who has something to ask for waits until there is room for it; acknowledgements are nothing to the others.
                is_short = not share or (not is_cold and bool(self._busy.get(node)))
                await _woken(self._packing.room if is_short else self._has_work)
                continue
            if not is_cold:
                self._asked_busy[node] = wanted
            self._packing.reserve(share)
            received = 0
            asked_s = self._asked_s[node, is_cold] = self._loop.time()
            try:
                limits = self._limits._replace(max_bytes=min(self._limits.max_bytes, share))
                purpose = Purpose.IDLE_FETCH if is_cold else Purpose.DATA
                fetched = await self._source.fetch(node, wanted, limits, purpose)
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
                self._asked_s.pop((node, is_cold), None)
                self._packing.unreserve(share)
            if left_s := fetch_delay_s(len(wanted), received):
                await asyncio.sleep(left_s)

    def _read_from_leaders(self, node: int) -> None:
        """Read from leaders what was read from a replica that fails, and for this window ask for no other one."""
        for partition in self._by_node.get(node, ()):
            if partition.read_replica is not None:
                partition.read_replica = None
                self._limits = self._limits._replace(rack="")

    def _wanted(self, node: int, *, is_cold: bool) -> dict[TopicPartition, FetchPosition]:
        """Return what to ask of one broker now: where to read each topic-partition from that has room to queue it."""
        now = self._loop.time()
        most, missed = self._options.max_partition_bytes, frozenset[Partition]()
        everyone: Iterable[Partition] = self._busy.get(node, ())
        if is_cold:
            self._cool(node, now)
            everyone, missed = self._by_node.get(node, ()), self._missed(node)
        return {
            partition.assigned.on_source: partition.fetched_from(most)
            for partition in everyone
            if (partition.is_hot != is_cold or partition in missed) and partition.has_room(now)
        }

    def _missed(self, node: int) -> frozenset[Partition]:
        """Return what has data again, and the fetch of the busy ones that is under way does not ask for."""
        asked = self._asked_busy.get(node)
        if asked is None:
            return frozenset()
        return frozenset(
            partition for partition in self._busy.get(node, ()) if partition.assigned.on_source not in asked
        )

    def _cool(self, node: int, now: float) -> None:
        """Let topic-partitions that have been quiet join the fetch of the idle ones."""
        busy = self._busy.get(node, {})
        for partition in [p for p in busy if now - p.last_data_s > HOT_S and not p.held_bytes]:
            partition.is_hot = False
            del busy[partition]

    def _on_data(self, node: int, partition: Partition, now: float) -> None:
        partition.last_data_s = now
        if not partition.is_hot:
            partition.is_hot = True
            self._busy.setdefault(node, {})[partition] = None
            self._has_work.set()

    async def _take(self, node: int, fetched: list[Fetched], asked: Mapping[TopicPartition, FetchPosition]) -> None:
        """Queue what a fetch brought."""
        told = NOBODY
        if self._written_back is not None:
            told = await self._written_back.told(self._source, (part.records for part in fetched))
        now, has_moved = self._loop.time(), False
        for part in fetched:
            key = TopicPartition(part.topic, part.partition)
            partition = self._partitions.get(key)
            # Another fetch (hot or cold) may have moved the position since this one was asked for.
            if partition is None or partition.position != asked[key].offset or not partition.is_placed:
                continue
            if part.error is not ErrorCode.none:
                await self._refused(node, partition, part.error)
            elif part.read_replica is not None:
                partition.read_replica, partition.high_watermark = part.read_replica, -1  # a replica's may be lower
                has_moved = True
            elif part.diverged_at is not None:
                self._diverged(partition, part.diverged_at)
            elif part.high_watermark < partition.high_watermark:
                self._on_doubt(partition)  # a log that has grown shorter, if it is not a new leader's first answer
            else:
                partition.high_watermark = part.high_watermark
                if part.records and told.unknown:
                    self._pauses.back_off(partition, told.unknown)
                elif part.records:
                    self._on_data(node, partition, now)
                    self._queue(partition, part, told.producers)
        if has_moved:
            self.follow_leaders()

    def _queue(self, partition: Partition, part: Fetched, back: frozenset[int]) -> None:
        found = record_batches.batches(part.records)
        if self._options.isolation_level:
            found = record_batches.committed(found, part.aborted)
        try:
            for batch in found:
                if batch.last_offset >= partition.position:
                    own = record_batches.without_records(batch) if batch.producer_id in back else batch
                    self._packing.take_in(partition, own)
        except record_batches.CorruptBatch as error:
            self._pauses.refused(partition, f"{error}; the source must be repaired or the offset skipped")
        else:
            if not partition.in_flight:
                self._on_batches(partition)

    async def _refused(self, node: int, partition: Partition, code: ErrorCode) -> None:
        error = fetch_error(code)
        if partition.read_replica is not None:
            self._read_from_leaders(node)
            self.follow_leaders()
        elif error is FetchError.OUT_OF_RANGE:
            await self._out_of_range(partition)
        elif error is FetchError.UNKNOWN_TOPIC:
            self._on_doubt(partition)
        elif error is FetchError.PASSING and self._has_moved(node, partition):
            self.follow_leaders()
        elif error is FetchError.PASSING:
            partition.retried(self._loop.time() + RETRY_S)
            await self.refresh()
        else:
            self._pauses.back_off(partition, f"the source refuses the fetch: {name_of(code)}")

    def _has_moved(self, node: int, partition: Partition) -> bool:
        """Tell whether another leader is known: a refusal names it, on newer brokers."""
        return self._source.leader(*partition.assigned.on_source) not in (None, node)

    def _diverged(self, partition: Partition, offset: int) -> None:
        """Go back to where the log has what was read: behind that, a leader that lacked records has appended others."""
        if partition.has_arrived_whole:
            partition.truncated_to = min(offset, partition.position)
            self._on_doubt(partition)
        else:
            partition.retried(self._loop.time() + RETRY_S)  # first let what was read arrive

    async def _out_of_range(self, partition: Partition) -> None:
        """Go on where the log begins, where retention deleted the position; doubt the topic, where the log ends before it."""
        if not partition.has_arrived_whole:
            partition.retried(self._loop.time() + RETRY_S)  # first let what was read arrive
            return
        key, asked = partition.assigned.on_source, partition.position
        try:
            earliest = (await self._source.offsets({key: EARLIEST}))[key]
            latest = (await self._source.offsets({key: LATEST}))[key]
        except KafkaError as error:
            self._pauses.back_off(partition, f"position {asked} is out of range and the log's bounds unknown: {error}")
            return
        if not (isinstance(earliest, int) and isinstance(latest, int)):
            refused = latest if isinstance(earliest, int) else earliest
            self._pauses.back_off(
                partition, f"position {asked} is out of range and the log's bounds unknown: {refused}"
            )
            return
        if partition.position != asked or not partition.is_placed:
            return  # another fetch has moved it meanwhile, or had the same answer
        if earliest <= asked <= latest:
            # The log has grown, or retention has deleted all records of the epoch that the fetch named.
            partition.epochs = LeaderEpochs()
            return
        if asked < earliest:
            partition.tally.lost += earliest - asked
            said = (
                f"offsets {asked} to {earliest - 1} were deleted by the source's retention before they were replicated; "
                f"going on at {earliest}"
            )
            log.error("%s: %s-%d: %s", self._name, *key, said)
            partition.record_gap(Effect.LOST, Cause.RETENTION, asked, earliest - 1, said)
            partition.moved(earliest)
            return
        partition.truncated_to = latest
        self._on_doubt(partition)


async def _woken(event: asyncio.Event) -> None:
    """Wait until an event is set from now on, or some time."""
    event.clear()
    timer = asyncio.get_running_loop().call_later(LOOKS_S, event.set)
    await event.wait()
    timer.cancel()


def raise_failure(task: asyncio.Task[None] | None) -> None:
    """Raise what ended a task, if something did."""
    if task is not None and task.done() and not task.cancelled() and (failure := task.exception()) is not None:
        raise failure
