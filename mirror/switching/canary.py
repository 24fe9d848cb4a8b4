"""Write and read a drill's load: numbered records, and a consumer group with one member."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from mirror.errors import MirrorError
from mirror.kafka.clients import quiet_logger
from mirror.kafka.login_relay import librdkafka_options
from mirror.lag.text import pluralized

PARTITIONS = 2
LOOK_S = 0.1
SESSION_MS = 10_000  # a drill that was killed leaves the group by then
ENDS_S = 30.0  # to flush what is in flight, or to leave a group


class Canary:
    """A producer and a consumer group on one cluster or the other. The context manager ends both.

    Attributes:
        acked: Values that a cluster has acknowledged, by the name given to their place.
        read: How often each value was read.
    """

    def __init__(self, name: str, run_id: str, *, rate: int) -> None:
        """Prepare a drill's load.

        Args:
            name: The topic to write, and the group.
            run_id: The prefix of each value; it distinguishes this drill's records from earlier ones.
            rate: Records per second.
        """
        self._name = name
        self._run_id = run_id
        self._rate = rate
        self._written = 0
        self._writer: _InThread | None = None
        self._reader: _InThread | None = None
        self.acked: dict[str, list[str]] = {}
        self.read: Counter[str] = Counter()

    def __enter__(self) -> Canary:
        return self

    def __exit__(self, *_: object) -> None:
        for thread in (self._writer, self._reader):
            if thread is not None:
                thread.end()

    def write_on(self, cluster: str, options: Mapping[str, str]) -> None:
        """Begin to write on a cluster; `options` are a producer's, as Java writes them."""
        acked = self.acked.setdefault(cluster, [])
        self._writer = _InThread(lambda stop: self._write(options, acked, stop), f"canary writes on {cluster}")

    def stop_writing(self) -> None:
        """Wait for records in flight, and write no more. Raise MirrorError if a record was refused."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.end()
            writer.raise_failure()

    def read_on(self, cluster: str, options: Mapping[str, str], topics: Sequence[str]) -> None:
        """Join the group on a cluster, and read topics; `options` are a Java consumer's."""
        self._reader = _InThread(lambda stop: self._read(options, topics, stop), f"canary reads on {cluster}")

    def stop_reading(self) -> None:
        """Commit and leave the group; raises MirrorError where reading failed."""
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.end()
            reader.raise_failure()

    def await_read(self, cluster: str, *, count: int = 1, within_s: float) -> None:
        """Wait until the group has read `count` of a cluster's records.

        Raises:
            MirrorError: not within the time, or the group or the producer ended.
        """
        deadline = time.monotonic() + within_s
        while (have := sum(value in self.read for value in list(self.acked[cluster]))) < count:
            for thread in (self._writer, self._reader):
                if thread is not None:
                    thread.raise_failure()
            if time.monotonic() > deadline:
                written = pluralized(len(self.acked[cluster]), "record")
                raise MirrorError(
                    f"of {written} written on {cluster} the canary group has read {have:,} after {within_s:.0f} s"
                )
            time.sleep(LOOK_S)

    def await_all_read(self, *, within_s: float) -> None:
        """Wait until the group has read everything; raises as `await_read` does."""
        for cluster, acked in self.acked.items():
            self.await_read(cluster, count=len(acked), within_s=within_s)

    @property
    def records(self) -> int:
        """How many records were acknowledged."""
        return sum(map(len, self.acked.values()))

    @property
    def lost(self) -> int:
        """How many of the acknowledged records the group has not read."""
        return sum(value not in self.read for acked in self.acked.values() for value in acked)

    @property
    def repeated(self) -> int:
        """How often it has read one again."""
        return self.read.total() - len(self.read)

    def _write(self, options: Mapping[str, str], acked: list[str], stop: threading.Event) -> None:
        refused: list[KafkaError] = []

        def taken(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refused.append(error)
            else:
                acked.append((message.value() or b"").decode())

        producer = Producer({**librdkafka_options(options), "enable.idempotence": True}, logger=quiet_logger())
        while not stop.wait(1 / self._rate) and not refused:
            value = f"{self._run_id}/{self._written}"
            partition = self._written % PARTITIONS
            producer.produce(self._name, value.encode(), str(partition).encode(), partition, on_delivery=taken)
            self._written += 1
            producer.poll(0)
        producer.flush(ENDS_S)
        if refused:
            raise MirrorError(f"the canary's producer was refused: {refused[0].str()}")

    def _read(self, options: Mapping[str, str], topics: Sequence[str], stop: threading.Event) -> None:
        own = {
            "group.id": self._name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        consumer = Consumer({**librdkafka_options(options), **own}, logger=quiet_logger())
        consumer.subscribe(list(topics))
        try:
            while not stop.is_set():
                messages = [message for message in consumer.consume(1000, LOOK_S) if message.error() is None]
                values = [(message.value() or b"").decode() for message in messages]
                self.read.update(value for value in values if value.startswith(f"{self._run_id}/"))
                if messages:
                    consumer.commit(asynchronous=False)
        finally:
            consumer.close()


class _InThread:
    """Runs a function in a thread until it is stopped."""

    def __init__(self, do: Callable[[threading.Event], None], name: str) -> None:
        self._do = do
        self._stop = threading.Event()
        self._failure: MirrorError | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._do(self._stop)
        except KafkaException as error:
            self._failure = MirrorError(f"{self._thread.name}: {error.args[0].str()}")
        except MirrorError as error:
            self._failure = error

    def end(self) -> None:
        """Stop the thread, and wait for its end."""
        self._stop.set()
        self._thread.join(ENDS_S)

    def raise_failure(self) -> None:
        """Raise what ended it."""
        if self._failure is not None:
            raise self._failure
