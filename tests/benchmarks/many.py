"""One appliance with thousands of topic-partitions on real brokers: start, memory, CPU, a new topic, plan file, scrape.

`python -m tests.benchmarks.many` prints a table with a column for each size. tests.benchmarks.sizing has what needs no broker.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.embedded.broker import LARGE_HEAP, Broker
from mirror.embedded.ports import free_port
from mirror.errors import ClusterUnavailable
from mirror.kafka.cluster import Cluster
from tests.benchmarks import peers
from tests.benchmarks.processes import Meter
from tests.integration.records import await_created

SIZES = (100, 2_000, 10_000)
PER_TOPIC = 20
BUSY, RATE = 10, 500  # topic-partitions with records, records/s together
MEASURED_S = 40.0
SETTLES_S = 30.0
CREATED_AT_ONCE = 25  # topics
WITHIN_S = 600.0
WINDOW_MS = 10_000
REFRESH_S = 2


class Many:
    """An appliance beside two clusters that hold so many topic-partitions."""

    def __init__(self, stack: ExitStack, folder: Path, partitions: int) -> None:
        """Start the clusters, and create the topics on the source."""
        self._folder = folder
        self._stack = stack
        self.source = stack.enter_context(Broker.start("source", folder / "source", heap=LARGE_HEAP))
        self.target = stack.enter_context(Broker.start("target", folder / "target", heap=LARGE_HEAP))
        self._admin = AdminClient({"bootstrap.servers": self.source.bootstrap})
        self._port = free_port()
        self._partitions = partitions
        names = [f"many-{n:05d}" for n in range(partitions // PER_TOPIC)]
        for at in range(0, len(names), CREATED_AT_ONCE):
            self._create(names[at : at + CREATED_AT_ONCE])
        await_created(self.source, names)  # topics that appear later would be new ones to the process

    def _create(self, names: list[str]) -> None:
        for done in self._admin.create_topics([NewTopic(name, PER_TOPIC) for name in names]).values():
            done.result(60)

    def figures(self) -> dict[str, float]:
        """Return what was measured, by name and unit."""
        job = peers.Job(
            source="a",
            source_servers=self.source.bootstrap,
            target_servers=self.target.bootstrap,
            topics="many-.*",
        )
        extra = (
            f"mirror.metrics.listen = 127.0.0.1:{self._port}\nmirror.window.ms = {WINDOW_MS}\n"
            f"refresh.topics.interval.seconds = {REFRESH_S}\n"
        )
        began = time.monotonic()
        process = peers.start("ours", job, self._folder / "ours", extra=extra)
        self._stack.callback(peers.stop, process)
        found: dict[str, float] = {}
        self._write("many-00000", 1)
        self._await_records("a.many-00000", 1)
        found["start to the first record, s"] = time.monotonic() - began
        self._await_ready()
        found["start until all are replicated, s"] = time.monotonic() - began
        time.sleep(SETTLES_S)
        meter = Meter(process.pid, beside=(self.source.pid, self.target.pid))
        meter.sample_memory()
        found["PSS, MiB"] = meter.peak_pss_mib
        for what, rate in (("idle, CPU s/min", 0), (f"{BUSY} busy at {RATE} records/s, CPU s/min", RATE)):
            cpu, brokers = meter.cpu_s(), meter.beside_s()
            self._load(rate)
            found[what] = (meter.cpu_s() - cpu) * 60 / MEASURED_S
            found[what.replace("CPU", "brokers' CPU")] = (meter.beside_s() - brokers) * 60 / MEASURED_S
        found["a new topic's first record, s"] = self._new_topic()
        found |= self._scrape()
        found["plan file, MB"] = (self._folder / "ours" / "state" / "plan").stat().st_size / 1e6
        return found

    def _write(self, topic: str, records: int) -> None:
        producer = Producer({"bootstrap.servers": self.source.bootstrap, "log_level": 0})
        for _ in range(records):
            producer.produce(topic, b"x" * 200, partition=0)
        producer.flush(30)

    def _await_records(self, remote: str, records: int) -> None:
        admin = Cluster("target", {"bootstrap.servers": self.target.bootstrap})
        deadline = time.monotonic() + WITHIN_S
        while remote not in admin.topics() or self._end(admin, remote) < records:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{remote} has not {records} records after {WITHIN_S:.0f} s")
            time.sleep(0.1)

    @staticmethod
    def _end(admin: Cluster, topic: str) -> int:
        try:
            return admin.end_offsets([(topic, 0)], read_committed=False).get((topic, 0), 0)
        except ClusterUnavailable:
            return 0  # it was created just now, and has no leader yet

    def _exposition(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    def _await_ready(self) -> None:
        deadline = time.monotonic() + WITHIN_S
        while True:
            count = len(re.findall(r"^kafka_mirror_record_count_total\{", self._exposition(), re.MULTILINE))
            if count >= self._partitions:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{count} of {self._partitions} topic-partitions have reported")
            time.sleep(1.0)

    def _load(self, rate: int) -> None:
        producer = Producer({"bootstrap.servers": self.source.bootstrap, "log_level": 0, "linger.ms": 0})
        began = time.monotonic()
        for n in range(int(rate * MEASURED_S)):
            while (left := began + n / rate - time.monotonic()) > 0:
                producer.poll(min(left, 0.01))
            producer.produce("many-00000", b"x" * 200, partition=n % BUSY)
        producer.flush(30)
        time.sleep(max(0.0, began + MEASURED_S - time.monotonic()))

    def _new_topic(self) -> float:
        self._create(["many-new"])
        began = time.monotonic()
        self._write("many-new", 1)
        self._await_records("a.many-new", 1)
        return time.monotonic() - began

    def _scrape(self) -> dict[str, float]:
        began = time.monotonic()
        text = self._exposition()
        took_s = time.monotonic() - began
        return {"scrape, MB": len(text) / 1e6, "scrape, s": took_s}


def main() -> int:
    """Measure each size on clusters of its own, and print a table."""
    parser = argparse.ArgumentParser(prog="many", description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="topic-partitions (default %(default)s)")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    found: dict[int, dict[str, float]] = {}
    for size in sizes:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-mirror-many-")))
            print(f"{size:,} topic-partitions ...", file=sys.stderr, flush=True)
            found[size] = Many(stack, folder, size).figures()
            print(found[size], file=sys.stderr, flush=True)
    print(f"| topic-partitions | {' | '.join(f'{size:,}' for size in sizes)} |\n|---|{'---|' * len(sizes)}")
    for what in found[sizes[0]]:
        print(f"| {what} | {' | '.join(f'{found[size][what]:,.1f}' for size in sizes)} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
