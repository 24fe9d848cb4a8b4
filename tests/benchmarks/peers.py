"""Start the two sides of the benchmark on the same source and target: this project, and MirrorMaker 2."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mirror.embedded import jars
from mirror.embedded.ports import free_port
from mirror.runtime.java import java

# The options of Kafka's own connect-mirror-maker.sh and kafka-run-class.sh
MM2_JVM = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
COMMON = """\
clusters = {source}, {target}
{source}.bootstrap.servers = {source_servers}
{target}.bootstrap.servers = {target_servers}
{source}->{target}.enabled = true
{source}->{target}.topics = {topics}
tasks.max = 2
replication.factor = 1
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
{target}.producer.compression.type = {compression}
{target}.producer.batch.size = 262144
{target}.producer.linger.ms = {linger}
{source}.consumer.max.poll.records = 5000
"""
# Fair to MirrorMaker: nothing it does not need; above, large requests and lz4, as its tuning guides advise.
MM2_EXTRA = """\
{target}->{source}.enabled = false
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
sync.topic.acls.enabled = false
sync.topic.configs.enabled = false
"""
EXACTLY_ONCE = """\
{target}.exactly.once.source.support = enabled
{source}.consumer.isolation.level = read_committed
"""
MM2_EXACTLY_ONCE = """\
dedicated.mode.enable.internal.rest = true
listeners = http://127.0.0.1:{rest_port}
"""
OUR_EXTRA = """\
mirror.metrics.listen = 127.0.0.1:0
mirror.state.dir = {state}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of one side. The alias of the source is unique, so that every run writes topics of its own."""

    source: str
    source_servers: str
    target_servers: str
    topics: str
    compression: str = "lz4"
    linger_ms: int = 0
    is_exactly_once: bool = False


def start(side: str, job: Job, folder: Path, *, extra: str = "") -> subprocess.Popen[bytes]:
    """Start `ours` or `mm2` with `extra` lines in its file and return its process; stop it by `stop`."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {
        "source": job.source,
        "target": "sink",
        "source_servers": job.source_servers,
        "target_servers": job.target_servers,
        "topics": job.topics,
        "compression": job.compression,
        "linger": job.linger_ms,
        "state": folder / "state",
        "rest_port": free_port(),
    }
    file = folder / f"{side}.properties"
    wanted = [COMMON, MM2_EXTRA if side == "mm2" else OUR_EXTRA]
    if job.is_exactly_once:
        wanted += [EXACTLY_ONCE, MM2_EXACTLY_ONCE] if side == "mm2" else [EXACTLY_ONCE]
    file.write_text("".join(wanted).format(**names) + extra)
    environment: Mapping[str, str] = os.environ
    if side == "mm2":
        classpath = jars.classpath(jars.resolve(lambda _: None))
        command = [java(), *MM2_JVM, "-cp", classpath, "org.apache.kafka.connect.mirror.MirrorMaker", str(file)]
    else:
        command = [sys.executable, "-m", "mirror.cli", "run", str(file)]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with (folder / f"{side}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)


def start_producer(bootstrap: str, topic: str, *, rate: int, size: int) -> subprocess.Popen[bytes]:
    """Start kafka-producer-perf-test: `rate` records/s, each transaction committed as soon as it holds one; stop it by `stop`."""
    command = [
        *(java(), "-cp", jars.classpath(jars.resolve(lambda _: None)), "org.apache.kafka.tools.ProducerPerformance"),
        *("--topic", topic, "--num-records", str(rate * 600), "--record-size", str(size), "--throughput", str(rate)),
        *("--transactional-id", topic, "--transaction-duration-ms", "1"),
        *("--producer-props", f"bootstrap.servers={bootstrap}", "linger.ms=0"),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a side and wait for it."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
