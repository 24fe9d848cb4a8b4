"""Measure the cost of identical offsets: how fast logs advance, markers a second, and throughput.

`python -m tests.benchmarks.identical`
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import Producer

from mirror.config.clients import client_options
from mirror.embedded.broker import LARGE_HEAP, Broker
from mirror.kafka.cluster import Cluster
from mirror.kafka.remote_logs import RemoteLogs
from mirror.model.identical_offsets import Fill
from mirror.model.topic_partition import TopicPartition
from tests.integration.appliance import RunningAppliance
from tests.integration.records import create, end_offset
from tests.waiting import eventually

ADVANCE = 100_000_000
MARKERS = 500
PARTITIONS = 8
RECORDS = 10_000_000
_SETTINGS = """primary->backup.mirror.offsets = {}
primary.consumer.isolation.level = read_committed
mirror.window.ms = 10000
mirror.poll.interval.ms = 5000
"""
_BIG = {"linger.ms": 50, "batch.size": 262_144, "batch.num.messages": 10_000, "compression.type": "lz4"}


async def advance(broker: Broker) -> None:
    """Print how fast a log is advanced, and how many transactions a partition takes."""
    create(broker, "advanced")
    create(broker, "marked")
    logs = RemoteLogs(client_options({"bootstrap.servers": broker.bootstrap}), "benchmark.offsets")
    try:
        await logs.reader.open(["advanced", "marked"])
        await logs.settle([TopicPartition("advanced", 0), TopicPartition("marked", 0)], None)
        for goal, what in ((1_000_000, "warm-up"), (ADVANCE, "advance")):
            began, start = time.monotonic(), end_offset(broker, "advanced", 0)
            at = start
            while at < goal:
                at = await logs.fill(TopicPartition("advanced", 0), Fill(at, goal), 1000)
            print(f"{what}: {(goal - start) / (time.monotonic() - began):,.0f} offsets/s", flush=True)
        began = time.monotonic()
        for offset in range(MARKERS):
            await logs.fill(TopicPartition("marked", 0), Fill(offset, offset + 1), 1000)
        print(f"markers: {MARKERS / (time.monotonic() - began):,.0f} a second in one partition", flush=True)
    finally:
        await logs.close()


def throughput(source: Broker, target: Broker, folder: Path, topic: str, *, mode: str, turn: int) -> float:
    """Mirror a topic from its start; return records/s from the first record to the last."""
    alias = f"{mode}{turn}"
    folder.mkdir()
    appliance = RunningAppliance(
        folder,
        primary=source.bootstrap,
        backup=target.bootstrap,
        topics=topic,
        extra=_SETTINGS.format(mode),
    ).call_source(alias)
    places = [TopicPartition(f"{alias}.{topic}", number) for number in range(PARTITIONS)]

    def there() -> int:
        return sum(ends.end_offsets(places).values())

    with closing(Cluster("target", {"bootstrap.servers": target.bootstrap})) as ends, appliance:
        eventually(lambda: there() > 0, within_s=60, because="the first record arrives", every_s=0.02)
        began, before = time.monotonic(), there()
        eventually(lambda: there() >= RECORDS, within_s=300, because="all records arrive", every_s=0.05)
        return (RECORDS - before) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.identical", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each mode, in turns (default %(default)s)")
    rounds = parser.parse_args().rounds
    with (
        tempfile.TemporaryDirectory() as name,
        Broker.start("source", Path(name, "source"), heap=LARGE_HEAP) as source,
        Broker.start("target", Path(name, "target"), heap=LARGE_HEAP) as target,
    ):
        asyncio.run(advance(target))
        create(source, "plain", PARTITIONS)
        producer = Producer({"bootstrap.servers": source.bootstrap, **_BIG})
        for n in range(RECORDS):
            while len(producer) > 50_000:
                producer.poll(0.1)
            producer.produce("plain", b"x" * 200, partition=n % PARTITIONS)
        producer.flush()
        rates: dict[str, list[float]] = {"translated": [], "identical": []}
        throughput(source, target, Path(name, "warm-up"), "plain", mode="translated", turn=0)
        for turn in range(1, rounds + 1):
            for mode, found in rates.items():
                folder = Path(name, f"{mode}{turn}")
                found.append(throughput(source, target, folder, "plain", mode=mode, turn=turn))
                print(f"{mode}: {found[-1]:,.0f} records/s", flush=True)
        translated, identical = (statistics.median(found) for found in rates.values())
        print(f"identical / translated: {identical / translated:.2f} (medians of {rounds})")


if __name__ == "__main__":
    main()
