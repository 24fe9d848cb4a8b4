"""Measure the time from a record's production to its arrival at a target consumer."""

from __future__ import annotations

import threading
import time
from typing import Self

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

PERCENTILES = (50, 95, 99)


class LatencyProbe:
    """Reads target topics from their ends, and keeps wall clock minus record timestamp (ms)."""

    def __init__(self, bootstrap: str, *, isolation: str = "read_uncommitted") -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "latency-probe",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "isolation.level": isolation,
            }
        )
        self._assigned: set[tuple[str, int]] = set()
        self._wanted: set[tuple[str, int]] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latency-probe", daemon=True)
        self._since_ms = float("inf")
        self._heard: set[tuple[str, int]] = set()  # partitions of which a record has arrived
        self.latencies_ms: list[float] = []
        self.failure: str = ""

    def begin(self) -> None:
        """Start counting: earlier records waited for the mirror's start, and do not count."""
        self._since_ms = min(self._since_ms, time.time() * 1000)

    def watch(self, partitions: set[tuple[str, int]]) -> None:
        """Read these partitions too."""
        self._wanted = self._wanted | partitions

    @property
    def has_heard_all(self) -> bool:
        """True if a record of each watched partition has arrived."""
        return self._wanted <= self._heard

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._consumer.close()

    def _run(self) -> None:
        try:
            self._read()
        except KafkaException as error:
            self.failure = str(error)

    def _read(self) -> None:
        while not self._stop.is_set():
            new = self._wanted - self._assigned
            if new:
                self._consumer.incremental_assign([TopicPartition(t, p, OFFSET_END) for t, p in sorted(new)])
                self._assigned |= new
            if not self._assigned:
                self._stop.wait(0.1)
                continue
            message = self._consumer.poll(0.05)  # not consume(): it waits for a full chunk
            if message is None or message.error():
                continue
            self._heard.add((str(message.topic()), message.partition() or 0))
            if message.timestamp()[1] >= self._since_ms:
                self.latencies_ms.append(time.time() * 1000 - message.timestamp()[1])


def percentiles(values: list[float]) -> dict[int, float]:
    """Return the nearest-rank percentiles; empty without values."""
    ranked = sorted(values)
    if not ranked:
        return {}
    return {p: ranked[max(0, -(-len(ranked) * p // 100) - 1)] for p in PERCENTILES}
