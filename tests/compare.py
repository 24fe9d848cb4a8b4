"""Compare topics on two clusters record by record, and say in sentences where they differ.

The tests' oracle: it reads both sides with librdkafka, and knows nothing of offset maps or of `mirror.verification`.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from mirror.errors import ClusterUnavailable

ANSWER_TIMEOUT_S = 30
CHUNK = 500  # records taken from a consumer at once
LOOK_AHEAD = 1_000  # records searched on each side to tell a missing record from a changed one
SHOWN_BYTES = 40  # of a key or value in a sentence

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What must arrive unchanged of one record, and the offset it has on its own cluster (not compared)."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]  # in order, repeated names kept
    timestamp_ms: int  # the value only: whether producer or broker set it may differ between the clusters
    offset: int = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a comparison found."""

    equal: bool
    records: int  # records on the source that were compared; of a compacted topic the live ones
    differences: list[str]  # sentences, the first ones in order of topic, partition and offset


def compare(
    source_bootstrap: str,
    target_bootstrap: str,
    topics: Mapping[str, str],
    *,
    is_live: bool = False,
    isolation: str = "read_committed",
    max_differences: int = 20,
    source_client: Mapping[str, str] | None = None,
    target_client: Mapping[str, str] | None = None,
) -> Verdict:
    """Read both sides partition by partition and compare order, key, value, headers and timestamp.

    Offsets are not compared: transaction markers and compaction leave gaps that a mirror cannot reproduce.
    A topic that is compacted on either side is compared by its live records (the last of each key, in order,
    tombstones left out), since the two sides compact at different times.
    Memory: two chunks and two look-aheads of records; for a compacted topic also 100 bytes or so per live key.

    Args:
        source_bootstrap: Addresses of the source cluster.
        target_bootstrap: Addresses of the target cluster.
        topics: Source topic to remote topic.
        is_live: The source is being written: records the target has beyond the source's end, as it was when the
            comparison reached that partition, are no difference.
        isolation: Transaction isolation level for the source; the target is always read committed.
        max_differences: Stop after so many.
        source_client: Further librdkafka options for the source, such as security.
        target_client: The same for the target.

    Raises:
        ClusterUnavailable: A cluster did not answer.
    """
    found = _Findings(limit=max_differences)
    with ExitStack() as stack:
        source = _Side("source", source_bootstrap, isolation, source_client, stack)
        target = _Side("target", target_bootstrap, "read_committed", target_client, stack)
        for topic, remote in topics.items():
            for partition in _shared_partitions(source, target, topic, remote, found):
                _compare_partition(source, target, (topic, remote, partition), is_live, found)
                if found.is_full:
                    break
    return Verdict(equal=not found.sentences, records=found.records, differences=found.sentences)


class _Findings:
    """Collects sentences up to a limit."""

    def __init__(self, *, limit: int) -> None:
        self.limit = limit
        self.sentences: list[str] = []
        self.records = 0

    @property
    def is_full(self) -> bool:
        return len(self.sentences) >= self.limit

    def add(self, sentence: str) -> None:
        if not self.is_full:
            self.sentences.append(sentence)


class _Side:
    """One cluster of a comparison."""

    def __init__(
        self, name: str, bootstrap: str, isolation: str, client: Mapping[str, str] | None, stack: ExitStack
    ) -> None:
        self.name = name
        self.bootstrap = bootstrap
        options: dict[str, Any] = {"bootstrap.servers": bootstrap, **(client or {})}
        self.admin = AdminClient(options)
        reading = {
            "group.id": "kafka-mirror-compare",  # asked for by the client; we neither join nor commit
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "queued.max.messages.kbytes": 16_384,
            "check.crcs": True,
            "fetch.wait.max.ms": 10,  # a fetch that waits at one partition's end holds up the next partition
        }
        self.consumer = stack.enter_context(closing(Consumer({**options, **reading})))

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions, None when there is no such topic."""
        try:
            # Not by the admin client, which would create it.
            known = self.consumer.list_topics(topic, timeout=ANSWER_TIMEOUT_S).topics[topic]
        except KafkaException as failure:
            raise ClusterUnavailable(f"the {self.name} cluster {self.bootstrap} did not answer: {failure}") from failure
        return len(known.partitions) if known.error is None else None

    def is_compacted(self, topic: str) -> bool:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            configs = self.admin.describe_configs([resource], request_timeout=ANSWER_TIMEOUT_S)[resource].result()
        except KafkaException as failure:
            raise ClusterUnavailable(
                f"the {self.name} cluster {self.bootstrap} did not tell cleanup.policy of {topic}: {failure}"
            ) from failure
        return "compact" in str(configs["cleanup.policy"].value)

    def read(self, topic: str, partition: int) -> Iterator[Record]:
        """Yield the partition's records from its beginning to its end as it is now."""
        at = TopicPartition(topic, partition, OFFSET_BEGINNING)
        try:
            low, end = self.consumer.get_watermark_offsets(at, timeout=ANSWER_TIMEOUT_S)
        except KafkaException as failure:
            raise ClusterUnavailable(
                f"the {self.name} cluster {self.bootstrap} did not tell the end of {topic}-{partition}: {failure}"
            ) from failure
        if low == end:
            return
        self.consumer.assign([at])
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            # consume() waits for a full chunk or its timeout, so the timeout of one call is short.
            messages = self.consumer.consume(CHUNK, timeout=0.1)
            if not messages and time.monotonic() > deadline:
                raise ClusterUnavailable(
                    f"the {self.name} cluster {self.bootstrap} sent nothing of {topic}-{partition} "
                    f"for {ANSWER_TIMEOUT_S} s, its end is {end}."
                )
            if messages:
                deadline = time.monotonic() + ANSWER_TIMEOUT_S
            for message in messages:
                if _is_end(message, end):
                    return
                yield _record(message)
                if (message.offset() or 0) + 1 >= end:
                    return


def _is_end(message: Message, end: int) -> bool:
    """Tell whether the reading is over here; raise for an error that is no end."""
    error = message.error()
    if error is None:
        return (message.offset() or 0) >= end
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise ClusterUnavailable(f"reading {message.topic()}-{message.partition()}: {error}")


def _record(message: Message) -> Record:
    return Record(
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),  # type: ignore[arg-type]
        timestamp_ms=message.timestamp()[1],
        offset=message.offset() or 0,
    )


def _shared_partitions(source: _Side, target: _Side, topic: str, remote: str, found: _Findings) -> range:
    """Return the partitions that both sides have; what only one side has is a difference."""
    here, there = source.partition_count(topic), target.partition_count(remote)
    if here is None:
        found.add(f"{topic} does not exist on the source.")
    if there is None:
        found.add(f"{remote} does not exist on the target.")
    if here is None or there is None:
        return range(0)
    if here != there:
        found.add(f"{topic} has {here} partitions on the source, {remote} has {there} on the target.")
    return range(min(here, there))


def _compare_partition(
    source: _Side, target: _Side, place: tuple[str, str, int], is_live: bool, found: _Findings
) -> None:
    topic, remote, partition = place
    if source.is_compacted(topic) or target.is_compacted(remote):
        _compare_compacted(source, target, place, is_live, found)
        return
    here = _Peekable(source.read(topic, partition))
    there = _Peekable(target.read(remote, partition))
    while not found.is_full:
        ours, theirs = here.peek(), there.peek()
        if ours is None and (theirs is None or is_live):
            break
        if ours is not None and ours == theirs:
            found.records += 1
            here.skip(1)
            there.skip(1)
            continue
        found.records += _report(here, there, place, found)
    here.close()
    there.close()


def _report(here: _Peekable, there: _Peekable, place: tuple[str, str, int], found: _Findings) -> int:
    """Describe the difference at the head of both sides, step over it, and return the source records passed."""
    topic, remote, partition = place
    ours, theirs = here.peek(), there.peek()
    missing = here.distance_to(theirs) if theirs is not None else here.count_ahead()
    extra = there.distance_to(ours) if ours is not None else there.count_ahead()
    if ours is not None and missing and (not extra or missing <= extra):
        more = "at least " if missing >= LOOK_AHEAD else ""
        found.add(
            f"{topic}-{partition} offset {ours.offset}: {more}{_records(missing)} missing on the target "
            f"({remote}-{partition} {_position(theirs)}): {_brief(ours)}."
        )
        here.skip(missing)
        return missing
    if theirs is not None and extra:
        more = "at least " if extra >= LOOK_AHEAD else ""
        found.add(
            f"{remote}-{partition} offset {theirs.offset}: {more}{_records(extra)} on the target that the source does "
            f"not have there ({topic}-{partition} {_position(ours)}): {_brief(theirs)}."
        )
        there.skip(extra)
        return 0
    if ours is None or theirs is None:  # cannot be: the side that goes on has records ahead
        raise AssertionError(place)
    found.add(
        f"{topic}-{partition} offset {ours.offset}, {remote}-{partition} offset {theirs.offset}: "
        f"{_changes(ours, theirs)}."
    )
    here.skip(1)
    there.skip(1)
    return 1


class _Peekable:
    """A stream of records with a bounded view ahead."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._ahead: deque[Record] = deque()

    def peek(self) -> Record | None:
        self._fill(1)
        return self._ahead[0] if self._ahead else None

    def distance_to(self, wanted: Record | None) -> int:
        """Return how many records come before one equal to `wanted`; 0 when there is none within the view."""
        self._fill(LOOK_AHEAD)
        return next((i for i, record in enumerate(self._ahead) if record == wanted), 0)

    def count_ahead(self) -> int:
        """Return how many records follow, at most the view's length."""
        self._fill(LOOK_AHEAD)
        return len(self._ahead)

    def skip(self, count: int) -> None:
        for _ in range(count):
            self._ahead.popleft()

    def close(self) -> None:
        self._ahead.clear()

    def _fill(self, count: int) -> None:
        while len(self._ahead) < count:
            record = next(self._records, None)
            if record is None:
                return
            self._ahead.append(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LiveRecord:
    """The last record of a key, as digests."""

    key: bytes
    content: bytes
    offset: int = field(compare=False)


def _compare_compacted(
    source: _Side, target: _Side, place: tuple[str, str, int], is_live: bool, found: _Findings
) -> None:
    """Compare the live records of a compacted partition; says the first difference only."""
    topic, remote, partition = place
    here = _live_records(source.read(topic, partition))
    stop_after = max((record.offset for record in here), default=-1)
    there = _live_records(target.read(remote, partition))
    found.records += len(here)
    if is_live:
        # A key changed since the source's end was taken is newer on the target and says nothing.
        here, there = _without_newer(here, there)
    for ours, theirs in zip_longest(here, there):
        if ours == theirs:
            continue
        where = f"{topic}-{partition} (compacted, {_records(len(here))} live, last offset {stop_after})"
        if ours is None:
            found.add(f"{where}: the target has a live record more, {remote}-{partition} offset {theirs.offset}.")
        elif theirs is None:
            found.add(f"{where}: offset {ours.offset} is missing on the target.")
        elif ours.key == theirs.key:
            found.add(
                f"{where}: offset {ours.offset} and {remote}-{partition} offset {theirs.offset} have the same key "
                "but another value, headers or timestamp."
            )
        else:
            found.add(
                f"{where}: offset {ours.offset} and {remote}-{partition} offset {theirs.offset} should be the same "
                "live record but have different keys."
            )
        return


def _live_records(records: Iterator[Record]) -> list[_LiveRecord]:
    last: dict[bytes, _LiveRecord] = {}
    for record in records:
        key = _digest(record.key)
        last.pop(key, None)  # so that the dictionary stays in order of the last change
        if record.value is not None:
            content = _digest(record.value, record.timestamp_ms, record.headers)
            last[key] = _LiveRecord(key=key, content=content, offset=record.offset)
    return list(last.values())


def _without_newer(here: list[_LiveRecord], there: list[_LiveRecord]) -> tuple[list[_LiveRecord], list[_LiveRecord]]:
    """Leave out, on both sides, the keys that are not equal: the comparison under load checks order and content."""
    equal = {(r.key, r.content) for r in here} & {(r.key, r.content) for r in there}
    return [r for r in here if (r.key, r.content) in equal], [r for r in there if (r.key, r.content) in equal]


def _digest(*parts: object) -> bytes:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def _changes(ours: Record, theirs: Record) -> str:
    """Name what differs between two records at the same place."""
    parts = []
    if ours.key != theirs.key:
        parts.append(f"the key is {_show(ours.key)} on the source, {_show(theirs.key)} on the target")
    if ours.value != theirs.value:
        parts.append(f"the value is {_show(ours.value)} on the source, {_show(theirs.value)} on the target")
    if ours.headers != theirs.headers:
        key = repr
        if sorted(ours.headers, key=key) == sorted(theirs.headers, key=key):
            parts.append(
                f"the headers have another order: {_names(ours)} on the source, {_names(theirs)} on the target"
            )
        else:
            parts.append(f"the headers are {ours.headers} on the source, {theirs.headers} on the target")
    if ours.timestamp_ms != theirs.timestamp_ms:
        parts.append(f"the timestamp is {ours.timestamp_ms} on the source, {theirs.timestamp_ms} on the target")
    return "; ".join(parts)


def _names(record: Record) -> str:
    return ", ".join(f"{name}={_show(value)}" for name, value in record.headers)


def _show(content: bytes | None) -> str:
    if content is None:
        return "null"
    if len(content) <= SHOWN_BYTES:
        return repr(content)
    return f"{content[:SHOWN_BYTES]!r}… ({len(content)} bytes)"


def _brief(record: Record) -> str:
    return f"key {_show(record.key)}, value {_show(record.value)}"


def _position(record: Record | None) -> str:
    return "has ended" if record is None else f"is at offset {record.offset}"


def _records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count} records are"
