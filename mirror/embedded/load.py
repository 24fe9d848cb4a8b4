"""Write a steady, repeatable load to a cluster: several topics, keys, headers and codecs."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.errors import ClusterUnavailable

COMMIT_S = 0.5  # between two commits if the load is written in transactions
TICK_S = 0.05  # how often the thread writes records; short enough for smooth charts
ANSWER_TIMEOUT_S = 30
USERS = 200  # number of keys of the compacted topic, few enough for compaction to find duplicates
TOMBSTONE_EVERY = 50  # after this many changes of users, one user is removed

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTopic:
    """One topic of the load."""

    name: str
    partitions: int
    codec: str  # as Kafka's compression.type
    share: int  # number of its records in each round
    config: Mapping[str, str] = field(default_factory=dict)
    is_late: bool = False  # created only while the load runs


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRecord:
    """The content of the n-th record of a topic; the same on every run."""

    partition: int
    key: bytes | None
    value: bytes | None  # None for a tombstone
    headers: list[Header]


TOPICS = (
    DemoTopic(name="demo.orders", partitions=4, codec="lz4", share=4),
    DemoTopic(name="demo.payments", partitions=3, codec="none", share=3),
    DemoTopic(name="demo.clicks", partitions=2, codec="zstd", share=3),
    DemoTopic(name="demo.users", partitions=2, codec="lz4", share=1, config={"cleanup.policy": "compact"}),
    DemoTopic(name="demo.audit", partitions=1, codec="gzip", share=1),
    DemoTopic(name="demo.late", partitions=2, codec="snappy", share=2, is_late=True),
)


class Load:
    """Writes to the demo topics in a thread until stopped. As a context manager it runs inside the block.

    The content of every record depends only on its topic and number. Its timestamp is the time of its production.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        records_per_s: float = 200.0,
        late_after_s: float = 10.0,
        in_transactions: bool = False,
    ) -> None:
        """Prepare a load; nothing is sent yet.

        Args:
            bootstrap: The cluster to write to.
            records_per_s: Upper limit over all topics. If the cluster is slow, it gets fewer records, and no burst later.
            late_after_s: When to create demo.late, after `start`.
            in_transactions: Write in transactions, and commit them twice a second.
        """
        self._client: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
        }  # failures are reported by stop(), not on stderr
        self._records_per_s = records_per_s
        self._late_after_s = late_after_s
        self._in_transactions = in_transactions
        self._commit_due_s = 0.0
        self._producers: dict[str, Producer] = {}
        self._next: dict[str, int] = {topic.name: 0 for topic in TOPICS}
        self._round: list[DemoTopic] = []
        self._turn = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self.acknowledged = 0  # records that the cluster acknowledged
        self.failed = 0  # records that the cluster refused or did not acknowledge in time

    @property
    def topics(self) -> list[str]:
        """The topics created so far."""
        return sorted({topic.name for topic in self._round})

    def start(self) -> None:
        """Create the topics that are not late, and start to write."""
        self._open([topic for topic in TOPICS if not topic.is_late])
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait until the cluster has acknowledged the sent records.

        Raises:
            ClusterUnavailable: The load ended by itself, or some records were not acknowledged.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._flush()
        if self._failure is not None:
            raise ClusterUnavailable(f"the load ended early: {self._failure}") from self._failure

    def write(self, count: int) -> None:
        """Write `count` records at full speed to all topics, and wait for their acknowledgements."""
        self._open(list(TOPICS))
        for _ in range(count):
            self._send()
        self._flush()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._write_until_stopped()
        except Exception as failure:  # noqa: BLE001 - kept for stop(), which the owner of the load calls
            self._failure = failure

    def _write_until_stopped(self) -> None:
        began = last = time.monotonic()
        owed = 0.0
        while not self._stopping.wait(TICK_S):
            now = time.monotonic()
            owed += min(now - last, 1.0) * self._records_per_s  # after a pause, only one second is caught up
            last = now
            while owed >= 1 and not self._stopping.is_set():
                self._send()
                owed -= 1
            if now - began >= self._late_after_s and len(self.topics) < len(TOPICS):
                self._open(list(TOPICS))
            for producer in self._producers.values():
                producer.poll(0)
            if self._in_transactions and now >= self._commit_due_s:
                self._commit_due_s = now + COMMIT_S
                self._commit(begins=True)

    def _open(self, topics: list[DemoTopic]) -> None:
        """Create the topics and include them in the rounds of writing."""
        create(self._client, topics)
        for topic in topics:
            if topic.codec not in self._producers:
                self._producers[topic.codec] = self._producer(topic.codec)
        # Interleaved, so that every topic has records in each round, even with a small share.
        self._round = [topic for turn in range(max(t.share for t in topics)) for topic in topics if turn < topic.share]

    def _producer(self, codec: str) -> Producer:
        options = {**self._client, "compression.type": codec, "enable.idempotence": True, "linger.ms": 20}
        if not self._in_transactions:
            return Producer(options)
        producer = Producer({**options, "transactional.id": f"demo-{codec}"})
        producer.init_transactions(ANSWER_TIMEOUT_S)
        producer.begin_transaction()
        return producer

    def _commit(self, *, begins: bool) -> None:
        for producer in self._producers.values():
            producer.commit_transaction(ANSWER_TIMEOUT_S)
            if begins:
                producer.begin_transaction()

    def _send(self) -> None:
        topic = self._round[self._turn % len(self._round)]
        self._turn += 1
        record = demo_record(topic, self._next[topic.name])
        self._next[topic.name] += 1
        producer = self._producers[topic.codec]
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            try:
                producer.produce(
                    topic.name,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                    on_delivery=self._count,
                )
            except BufferError:  # the queue is full: wait for acknowledgements
                if time.monotonic() > deadline or self._stopping.is_set():
                    self.failed += 1
                    return
                producer.poll(0.1)
            else:
                return

    def _count(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1

    def _flush(self) -> None:
        waiting = sum(producer.flush(ANSWER_TIMEOUT_S) for producer in self._producers.values())
        if self._in_transactions:
            self._commit(begins=False)
        if waiting:
            raise ClusterUnavailable(f"{waiting} records of the load were not confirmed within {ANSWER_TIMEOUT_S} s.")


def demo_record(topic: DemoTopic, number: int) -> DemoRecord:
    """Return the record with this number (from 0) of a topic; equal for equal arguments."""
    short = topic.name.rpartition(".")[2]
    body: dict[str, Any] = {"id": number, "kind": short, "text": _filler(short, number)}
    value: bytes | None = json.dumps(body, separators=(",", ":")).encode()
    key: bytes | None = None
    headers: list[Header] = []
    if short == "orders":
        key = f"order-{number % 1000}".encode()
    elif short == "payments":
        key = f"account-{number % 97}".encode()
        headers = [("trace", f"{number:08x}".encode()), ("tag", b"a"), ("tag", b"b"), ("note", None), ("empty", b"")]
    elif short == "users":
        key = f"user-{zlib.crc32(str(number).encode()) % USERS}".encode()
        value = None if number % TOMBSTONE_EVERY == TOMBSTONE_EVERY - 1 else value
    elif short == "audit":
        headers = [("source", b"demo")]
    placed_by = number if key is None else zlib.crc32(key)
    return DemoRecord(partition=placed_by % topic.partitions, key=key, value=value, headers=headers)


def create(client: Mapping[str, Any], topics: list[DemoTopic]) -> None:
    """Create the topics that do not exist yet, and wait until brokers list them.

    Raises:
        ClusterUnavailable: The cluster did not respond, or refused.
    """
    admin = AdminClient(dict(client))
    wanted = [
        NewTopic(topic.name, num_partitions=topic.partitions, replication_factor=1, config=dict(topic.config))
        for topic in topics
    ]
    for name, done in admin.create_topics(wanted, operation_timeout=ANSWER_TIMEOUT_S).items():
        try:
            done.result(timeout=ANSWER_TIMEOUT_S)
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ClusterUnavailable(f"topic {name} could not be created: {refused}") from refused


def _filler(short: str, number: int) -> str:
    """Return some text that compresses like real data: a few words, of varying length."""
    words = ("blue", "swift", "paper", "stone", "river", "glass", "north", "quiet")
    return " ".join(words[(number * 7 + i * i) % len(words)] for i in range(3 + (number + len(short)) % 9))
