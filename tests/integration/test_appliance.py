"""The whole appliance between two real clusters: records compared, metrics compared, stop, kill and restart."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from mirror.runtime.java import cache_folder
from tests.compare import compare
from tests.integration.appliance import RunningAppliance, descendants
from tests.integration.records import Row, create, rows, write
from tests.processes import kafka_mirror
from tests.waiting import eventually

STOPS_WITHIN_S = 22.0 + 20.0  # mirror.appliance.STOP_WITHIN_S, and what a loaded machine takes

pytestmark = pytest.mark.kafka


def fresh(count: int) -> list[Row]:
    """Records of now: their age says what a metric must say."""
    now_ms = int(time.time() * 1000)
    return [(key, value, headers, now_ms) for key, value, headers, _ in rows(count)]


def equal(primary, backup, *topics):
    verdict = compare(primary.bootstrap, backup.bootstrap, {topic: f"primary.{topic}" for topic in topics})
    assert verdict.equal, verdict.differences
    return verdict.records


def lag_is_zero(appliance, topic, partition, *, end):
    def check():
        assert appliance.value("kafka_mirror_source_end_offset", topic=f"primary.{topic}", partition=partition) == end
        return appliance.value("kafka_mirror_lag_records", topic=f"primary.{topic}", partition=partition) == 0

    return check


@pytest.mark.spark
def test_records_metrics_growth_stop_and_kill(primary, backup, topic, tmp_path: Path):
    """One life of an appliance: backlog, live records, a grown and a new topic, SIGTERM, kill -9 under load."""
    other = f"{topic}-other"
    create(primary, topic, 2)
    create(primary, other)
    began_s = time.time()
    write(primary, topic, fresh(3000), **{"compression.type": "lz4", "linger.ms": 20})
    write(primary, topic, fresh(200), partition=1, **{"linger.ms": 0, "batch.num.messages": 1})
    write(primary, other, fresh(50))
    with RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=f"{topic}.*"
    ) as appliance:
        for name, partition, end in ((topic, 0, 3000), (topic, 1, 200), (other, 0, 50)):
            eventually(
                lag_is_zero(appliance, name, partition, end=end),
                within_s=60,
                because=f"{name}-{partition} is replicated",
            )
        assert equal(primary, backup, topic, other) == 3250
        for name, partition, count in ((topic, 0, 3000), (topic, 1, 200), (other, 0, 50)):
            eventually(
                lambda n=name, p=partition, c=count: (
                    appliance.value("kafka_mirror_record_count_total", topic=f"primary.{n}", partition=p) == c
                ),
                within_s=20,
                because="the window's report counts what was sent, no more",
            )
            age = appliance.value("kafka_mirror_record_age_ms", topic=f"primary.{name}", partition=partition)
            latency = appliance.value(
                "kafka_mirror_replication_latency_ms", topic=f"primary.{name}", partition=partition
            )
            assert 0 < age <= latency < 1000 * (time.time() - began_s)
        for phase in ("addBatch", "latestOffset", "walCommit"):
            assert sum(appliance.served("batch_duration_seconds_count", phase=phase)) > 0

        # A partition and a topic that appear while it runs.
        admin = AdminClient({"bootstrap.servers": primary.bootstrap})
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
        new = f"{topic}-new"
        create(primary, new)
        write(primary, topic, fresh(20), partition=2)
        write(primary, new, fresh(30))
        eventually(lag_is_zero(appliance, topic, 2, end=20), within_s=60, because="the grown partition is replicated")
        eventually(lag_is_zero(appliance, new, 0, end=30), within_s=60, because="the new topic is replicated")
        assert equal(primary, backup, topic, other, new) == 3300

        code, took_s = appliance.stop()
        assert code == 0, appliance.log.read_text()
        assert took_s < STOPS_WITHIN_S

        write(primary, topic, fresh(500))
        appliance.start()
        eventually(lag_is_zero(appliance, topic, 0, end=3500), within_s=60, because="it goes on where it stopped")
        assert equal(primary, backup, topic, other, new) == 3800  # no duplicate over a clean stop

        below = list(descendants(appliance.process.pid))
        appliance.kill()
        eventually(lambda: not alive(below), within_s=30, because="the JVM and its workers follow their dead driver")
        write(primary, topic, fresh(100), partition=1)
        appliance.start()
        eventually(lag_is_zero(appliance, topic, 1, end=300), within_s=60, because="nothing is lost after kill -9")
        assert equal(primary, backup, topic, other, new) == 3900
        assert "Traceback" not in appliance.logged()


def alive(pids: list[int]) -> list[int]:
    """Those that still run; a zombie does not."""
    running = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            continue
        if state != "Z":
            running.append(pid)
    return running


NAMELESS = ["unshare", "--user", "--map-user=10001", "--map-group=10001"]


@pytest.mark.nightly
@pytest.mark.spark
def test_a_user_without_a_passwd_entry_runs_it_in_a_folder_that_cannot_be_written(
    primary, backup, topic, tmp_path: Path
):
    """As a container with `runAsUser` and a read-only file system does. Hadoop's login refuses such a user."""
    if subprocess.run([*NAMELESS, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine allows no user namespaces")
    create(primary, topic)
    write(primary, topic, fresh(50))
    appliance = RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic)
    (tmp_path / "fixed").mkdir(mode=0o555)
    without = ("HOME", "USER", "LOGNAME")
    environment = {name: value for name, value in appliance.environment.items() if name not in without}
    with appliance.log.open("ab") as log:
        appliance.process = subprocess.Popen(
            [*NAMELESS, sys.executable, "-m", "mirror.cli", *appliance.arguments],
            stdout=log,
            stderr=log,
            cwd=tmp_path / "fixed",
            env={**environment, "XDG_CACHE_HOME": str(cache_folder().parent)},
        )
    try:
        eventually(appliance.is_ready, within_s=60, because="Spark starts")
        eventually(lag_is_zero(appliance, topic, 0, end=50), within_s=30, because="the records are replicated")
        assert appliance.stop()[0] == 0
    finally:
        appliance.process.kill()
        print(appliance.log.read_text())
    assert equal(primary, backup, topic) == 50


def test_both_ends_the_same_cluster_is_refused_in_one_line(primary, tmp_path: Path):
    file = tmp_path / "m.properties"
    host, _, port = primary.bootstrap.partition(":")
    assert host == "127.0.0.1"
    file.write_text(
        f"clusters=a,b\na.bootstrap.servers=127.0.0.1:{port}\nb.bootstrap.servers=127.1:{port}\na->b.enabled=true\n"
    )
    found = kafka_mirror("plan", str(file))
    assert found.returncode == 2
    assert len(found.stderr.strip().splitlines()) == 1
    assert "same cluster" in found.stderr


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
@pytest.mark.parametrize("taken", ["mm2-batons_{alias}_internal", "mm2-slots_{alias}_1_internal"])
def test_an_internal_topic_whose_name_collides_ends_it_with_one_line(
    primary, backup, topic, tmp_path: Path, mode, taken
):
    """Brokers take "." and "_" in names of topics for the same."""
    alias = f"p{time.time_ns()}"
    collides = taken.format(alias=alias)
    create(primary, topic)
    create(backup, collides)
    extra = f"backup.exactly.once.source.support = {mode}\nmirror.slots = 1"
    appliance = RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=extra
    ).call_source(alias)
    found = kafka_mirror(*appliance.arguments, within_s=60)
    assert found.returncode == 6
    (line,) = [line for line in found.stderr.splitlines() if line.startswith("kafka-mirror: ")]
    assert f"{alias}->backup: nothing is replicated without the internal topic mm2-" in line
    assert f"collides with existing topic: {collides}). Depending on the reason, delete a topic whose name" in line


def test_plan_prints_names_partitions_and_starts_and_creates_nothing(primary, backup, topic, tmp_path: Path):
    create(primary, topic, 3)
    write(primary, topic, rows(10))
    file = tmp_path / "m.properties"
    file.write_text(
        f"clusters=primary,backup\nprimary.bootstrap.servers={primary.bootstrap}\n"
        f"backup.bootstrap.servers={backup.bootstrap}\nprimary->backup.enabled=true\nprimary->backup.topics={topic}\n"
    )
    # MirrorMaker's default is two replicas, and the target has one broker.
    assert "(CANNOT be created: INVALID_REPLICATION_FACTOR" in kafka_mirror("plan", str(file)).stdout
    with file.open("a") as more:
        more.write("replication.factor=1\n")
    found = kafka_mirror("plan", str(file))
    assert found.returncode == 0, found.stderr
    assert f"{topic} -> primary.{topic} (is created with 3; partition@start 0@begin, 1@begin, 2@begin)" in found.stdout
    told = r"\n  space: [1-9]\S* \w?i?B on primary, 0 B on backup; its brokers have [\d.,]+ \w+ free\n"
    assert re.search(told, found.stdout), found.stdout
    assert f"primary.{topic}" not in AdminClient({"bootstrap.servers": backup.bootstrap}).list_topics(timeout=10).topics
