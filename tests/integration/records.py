"""Write topics as the tests need them, and say when a running appliance has replicated them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import product
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.errors import ClusterUnavailable
from mirror.kafka.cluster import Cluster
from tests.compare import compare
from tests.integration.appliance import RunningAppliance
from tests.waiting import PATIENCE, eventually

Row = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]  # key, value, headers, timestamp ms
START_MS = 1_700_000_000_000

COORDINATOR_MOVES = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def rows(count: int, *, start: int = 0) -> list[Row]:
    """Records of every kind: repeated and null headers, null and empty keys and values, a timestamp each."""
    made: list[Row] = []
    for n in range(start, start + count):
        key = {0: None, 1: b""}.get(n % 7, f"key {n}".encode())
        value = {0: None, 1: b""}.get(n % 10, f"value {n} ".encode() * 3)
        headers = [("a", b"1"), ("a", b"2"), ("b", None), ("c", b"")] if n % 2 else []
        made.append((key, value, headers, START_MS + n))
    return made


def create(cluster: Any, topic: str, partitions: int = 1, *, replicas: int = 1, **config: str) -> None:
    """Create a topic, and wait until the broker shows it; config keys with `_` for `.`.

    A producer discards a record if the broker does not show its topic.

    Once in thousands of times a new client of librdkafka asks its broker nothing, and gives no answer. Another one does.
    """
    configs = {key.replace("_", "."): value for key, value in config.items()}
    for attempt in range(PATIENCE):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})  # kept: a collected client cancels its calls
        try:
            admin.create_topics([NewTopic(topic, partitions, replicas, config=configs)])[topic].result(30)
        except TimeoutError:
            continue
        except KafkaException as error:
            if not attempt or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        eventually(partial(_is_shown, admin, topic), within_s=10, because=f"the broker shows {topic}")
        return
    raise AssertionError(f"{topic} was not created on {cluster.name} by {PATIENCE} clients, for 30 s each")


def _is_shown(admin: AdminClient, topic: str) -> bool:
    with suppress(KafkaException):
        return topic in admin.list_topics(timeout=10).topics
    return False


def await_created(cluster: Any, topics: Collection[str]) -> None:
    """Wait until a cluster shows all topics."""
    admin = Cluster(cluster.name, {"bootstrap.servers": cluster.bootstrap})
    eventually(
        lambda: set(topics) <= admin.topics().keys(),
        within_s=60,
        because=f"{cluster.name} shows all topics",
        every_s=0.5,
    )


def commit(cluster: Any, group: str, topic: str, offset: int, partition: int = 0) -> None:
    """Commit a group's offset, again while its coordinator moves: librdkafka gives up then, also on a cluster's first group."""
    with closing(
        Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False})
    ) as consumer:
        for attempt in range(PATIENCE * 5):
            try:
                consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() not in COORDINATOR_MOVES:
                    raise
                time.sleep(0.2 * attempt)
            else:
                return
    raise AssertionError(f"the coordinator of {group} on {cluster.name} was never found")


def write(cluster: Any, topic: str, records: Sequence[Row], partition: int | range = 0, **options: Any) -> None:
    """Produce records to a partition, or to each of several, every one acknowledged."""
    partitions = range(partition, partition + 1) if isinstance(partition, int) else partition
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "enable.idempotence": True, **options})
    for one, (key, value, headers, timestamp) in product(partitions, records):
        while len(producer) > 50_000:
            producer.poll(0.1)
        producer.produce(
            topic,
            value,
            key,
            one,
            headers=list(headers),
            timestamp=timestamp,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failures, failures[0]


def differences(source: Any, target: Any, topic: str, remote: str, *, isolation: str = "read_committed") -> list[str]:
    """Compare a topic with its remote topic record by record."""
    return compare(source.bootstrap, target.bootstrap, {topic: remote}, isolation=isolation).differences


_kept: dict[str, Cluster] = {}  # by bootstrap servers: a test may ask for log ends ten times a second


def close_kept() -> None:
    """Close the connections that `end_offset` keeps open. Their thread draws random numbers, which seeded tests need."""
    while _kept:
        _kept.popitem()[1].close()


def end_offset(cluster: Any, topic: str, partition: int, *, read_committed: bool = False) -> int:
    """Log-end offset, or the last stable one."""
    if (admin := _kept.get(cluster.bootstrap)) is None:
        admin = _kept[cluster.bootstrap] = Cluster("test", {"bootstrap.servers": cluster.bootstrap})

    def asked() -> tuple[int]:
        try:
            found = admin.end_offsets([(topic, partition)], read_committed=read_committed)
        except ClusterUnavailable as error:  # a leader that has just changed is refused for a moment
            raise AssertionError(str(error)) from error
        return (found[topic, partition],)  # a tuple is true, an end of 0 is not

    # A broker that was frozen for longer than its session is fenced, and leads nothing until it has registered again.
    return eventually(asked, within_s=60, because=f"the leader of {topic}-{partition} tells its end")[0]


def messages(
    cluster, topic: str, partition: int = 0, *, isolation: str = "read_committed", start: int = OFFSET_BEGINNING
) -> list[Message]:
    """Return all records of a topic-partition from an offset on, by default the committed ones."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reads-on",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, partition, start)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None, f"{topic} cannot be read"
        if message.error() is not None:
            break
        found.append(message)
    consumer.close()
    return found


def await_replicated(
    appliance: RunningAppliance, cluster: Any, topic: str, remote: str, partition: int = 0, within_s: float = 60
) -> None:
    """Wait until the position has reached the source's end.

    A position beyond the end shows that the end has moved: a transaction's marker may be written after its commit has returned.
    """
    end = end_offset(cluster, topic, partition)

    def is_replicated() -> bool:
        nonlocal end
        position = appliance.value("kafka_mirror_replicated_offset", topic=remote, partition=partition)
        if position is not None and position > end:
            end = end_offset(cluster, topic, partition)
        return position == end

    eventually(
        is_replicated,
        within_s=within_s,
        because=f"{topic}-{partition} is replicated to its end",
    )


def flows(
    cluster: Any,
    remote: str,
    *,
    more: int = 100,
    partitions: int = 1,
    within_s: float = 90,
    because: str = "the load flows",
) -> None:
    """Wait until each of the first partitions of a remote topic has grown by more than so many offsets."""
    before = [end_offset(cluster, remote, partition) for partition in range(partitions)]
    eventually(
        lambda: all(end_offset(cluster, remote, partition) > end + more for partition, end in enumerate(before)),
        within_s=within_s,
        because=because,
    )


@contextmanager
def beside(run: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """Run a function in a thread all the while; the event tells it to end."""
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,), name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(120)


@contextmanager
def load(cluster, topic: str, *, partitions: int = 2, rate: int = 300, every_s: float = 0.2) -> Iterator[None]:
    """Write numbered records all the while; they outlast a broker's restart, none twice.

    A broker's CPU time depends on how often records come (`every_s`), hardly on how many (`rate`, per second).
    """
    failures: list[object] = []

    def run(stop: threading.Event) -> None:
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "log_level": 0,
                "message.timeout.ms": 120_000,
            },
            error_cb=lambda _: None,
        )
        n = 0
        while not stop.wait(every_s):
            for _ in range(round(rate * every_s)):
                producer.produce(
                    topic,
                    str(n).encode(),
                    f"k{n % 50}",
                    n % partitions,
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
                n += 1
            producer.poll(0)
        if producer.flush(90):
            failures.append("records left")

    with beside(run, "load"):
        yield
    assert not failures, failures[0]


def big(count: int, size: int) -> list:
    """Records that do not compress."""
    source = random.Random(1)
    return [(f"k{n}".encode(), source.randbytes(size), [], START_MS + n) for n in range(count)]
