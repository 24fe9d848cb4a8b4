"""Write and read a drill's load: numbered records, and a consumer group with one member."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import cycle

from mirror.errors import MirrorError
from mirror.kafka.cluster import Cluster
from mirror.kafka.group_reader import read_in_group
from mirror.lag.text import pluralized

PARTITIONS = 2
LOOK_S = 0.1
ENDS_S = 30.0  # time limit for records in flight, and for leaving a group


class Canary:
    """A producer and a consumer group on one of two clusters. The context manager ends both.

    Attributes:
        acked: Values that a cluster has acknowledged, by cluster.
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
        """Start to write to a cluster; `options` are producer settings under their Java names."""
        acked = self.acked.setdefault(cluster, [])
        self._writer = _InThread(
            lambda stop: self._write(Cluster(cluster, options), acked, stop), f"canary writes on {cluster}"
        )

    def stop_writing(self) -> None:
        """Wait for records in flight, and stop writing. Raises MirrorError if a record was refused."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.end()
            writer.raise_failure()

    def read_on(self, cluster: str, options: Mapping[str, str], topics: Sequence[str]) -> None:
        """Join the group on a cluster and read topics; `options` are Java consumer settings."""
        self._reader = _InThread(lambda stop: self._read(options, topics, stop), f"canary reads on {cluster}")

    def stop_reading(self) -> None:
        """Commit and leave the group; raises MirrorError if reading failed."""
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.end()
            reader.raise_failure()

    def await_read(self, cluster: str, *, count: int = 1, within_s: float) -> None:
        """Wait until the group has read `count` of a cluster's records.

        Raises:
            MirrorError: the time is over, or the group or the producer ended.
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
        """Wait until the group has read everything; raises the same errors as `await_read`."""
        for cluster, acked in self.acked.items():
            self.await_read(cluster, count=len(acked), within_s=within_s)

    @property
    def records(self) -> int:
        """Number of acknowledged records."""
        return sum(map(len, self.acked.values()))

    @property
    def lost(self) -> int:
        """Number of acknowledged records that the group has not read."""
        return sum(value not in self.read for acked in self.acked.values() for value in acked)

    @property
    def repeated(self) -> int:
        """Number of times that the group read a record again."""
        return self.read.total() - len(self.read)

    def _write(self, cluster: Cluster, acked: list[str], stop: threading.Event) -> None:
        """Append the records that are due, to each partition in turn."""
        began_s, before = time.monotonic(), self._written
        with closing(cluster):
            for partition in cycle(range(PARTITIONS)):
                if stop.wait(1 / self._rate):
                    return
                due = before + int((time.monotonic() - began_s) * self._rate)
                values = [f"{self._run_id}/{number}" for number in range(self._written, due)]
                self._written = due
                records = [(str(partition).encode(), value.encode()) for value in values]
                cluster.append(self._name, records, partition=partition, within_s=ENDS_S)
                acked += values

    def _read(self, options: Mapping[str, str], topics: Sequence[str], stop: threading.Event) -> None:
        for messages in read_in_group(options, self._name, topics, stop):
            values = [(message.value() or b"").decode() for message in messages]
            self.read.update(value for value in values if value.startswith(f"{self._run_id}/"))


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
        except MirrorError as error:
            self._failure = MirrorError(f"{self._thread.name}: {error}")

    def end(self) -> None:
        """Stop the thread, and wait for its end."""
        self._stop.set()
        self._thread.join(ENDS_S)

    def raise_failure(self) -> None:
        """Raise the error that ended the thread."""
        if self._failure is not None:
            raise self._failure
