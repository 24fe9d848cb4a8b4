"""What faults ask for beside equal logs, which are test_fault_matrix.py's: a leader followed, a reason given, a bound."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic

from metrics.partition_status import Status
from mirror.embedded.broker import Broker
from tests.fault_proxy import proxied
from tests.integration.acls import GUARDED, deny
from tests.integration.appliance import Engine, RunningAppliance
from tests.integration.records import (
    START_MS,
    await_replicated,
    create,
    differences,
    end_offset,
    flows,
    load,
    rows,
    write,
)
from tests.integration.values import values
from tests.processes import kafka_mirror
from tests.waiting import eventually

STOPS_WITHIN_S = 22.0 + 20.0  # mirror.appliance.STOP_WITHIN_S, and what a loaded machine takes

pytestmark = [pytest.mark.kafka, pytest.mark.separate]


def arrived(cluster, topic: str) -> int:
    return end_offset(cluster, topic, 0)


def equal_after(appliance, primary, backup, topic, *, within_s: float = 90) -> None:
    for partition in (0, 1):
        await_replicated(appliance, primary, topic, f"primary.{topic}", partition, within_s=within_s)
    assert differences(primary, backup, topic, f"primary.{topic}") == []


@pytest.fixture
def appliance(primary, backup, topic, tmp_path: Path) -> Iterator[RunningAppliance]:
    """Mirrors one topic of two partitions."""
    create(primary, topic, 2)
    with RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic) as running:
        yield running


def test_a_moved_leader_is_followed(tmp_path: Path, backup, topic):
    """Two brokers, two replicas; the one that leads dies, the other takes over while records flow."""
    with (
        Broker.start("one", tmp_path / "one") as one,
        Broker.start("two", tmp_path / "two", joins=one) as two,
    ):
        admin = AdminClient({"bootstrap.servers": one.bootstrap})
        new = NewTopic(topic, num_partitions=2, replica_assignment=[[2, 1], [2, 1]])
        admin.create_topics([new])[topic].result(30)
        folder = tmp_path / "mirror"
        folder.mkdir()
        with RunningAppliance(folder, primary=one.bootstrap, backup=backup.bootstrap, topics=topic) as running:
            with load(one, topic):
                eventually(lambda: arrived(backup, f"primary.{topic}") > 100, within_s=30, because="the load flows")
                two.kill()
                eventually(
                    lambda: (
                        {p.leader for p in admin.list_topics(topic, timeout=10).topics[topic].partitions.values()}
                        == {1}
                    ),
                    within_s=60,
                    because="the replica on the other broker leads",
                )
                before = arrived(backup, f"primary.{topic}")
                eventually(
                    lambda: arrived(backup, f"primary.{topic}") > before + 300,
                    within_s=60,
                    because="the new leader is read",
                )
            equal_after(running, one, backup, topic)


@pytest.mark.parametrize(("side", "denied"), [("source", AclOperation.READ), ("target", AclOperation.WRITE)])
def test_an_unauthorized_topic_is_paused_alone_until_access_is_granted(tmp_path, primary, backup, topic, side, denied):
    other = f"{topic}-other"
    with Broker.start("guarded", tmp_path / "guarded", overrides=GUARDED) as guarded:
        source, target = (guarded, backup) if side == "source" else (primary, guarded)
        name = topic if side == "source" else f"primary.{topic}"
        for each in (topic, other):
            create(source, each)
            write(source, each, rows(20))
        grant = deny(guarded, name, denied)
        folder = tmp_path / "mirror"
        folder.mkdir()
        with RunningAppliance(
            folder, primary=source.bootstrap, backup=target.bootstrap, topics=f"{topic}.*"
        ) as running:
            await_replicated(running, source, other, f"primary.{other}")
            eventually(
                lambda: running.value("kafka_mirror_partition_paused", topic=f"primary.{topic}", partition=0) == 1,
                within_s=30,
                because="the denied topic is paused",
            )
            assert "TOPIC_AUTHORIZATION_FAILED" in running.log.read_text()
            grant()
            await_replicated(running, source, topic, f"primary.{topic}", within_s=90)
            for each in (topic, other):
                assert differences(source, target, each, f"primary.{each}") == []


def test_a_hidden_source_topic_stays_in_the_flow_with_unknown_status(tmp_path, backup, topic):
    other = f"{topic}-other"
    with Broker.start("guarded", tmp_path / "guarded", overrides=GUARDED) as guarded:
        for each in (topic, other):
            create(guarded, each)
            write(guarded, each, rows(20))
        folder = tmp_path / "mirror"
        folder.mkdir()
        extra = "backup->primary.enabled = true\nbackup->primary.topics = nothing-matches\n"
        with RunningAppliance(
            folder, primary=guarded.bootstrap, backup=backup.bootstrap, topics=f"{topic}.*", extra=extra
        ) as running:

            def status(name: str) -> float | None:
                return running.value("kafka_mirror_partition_status", topic=f"primary.{name}", partition=0)

            for each in (topic, other):
                await_replicated(running, guarded, each, f"primary.{each}")
            write(guarded, topic, rows(20))
            grant = deny(guarded, topic, AclOperation.DESCRIBE)
            hidden = f"primary does not show {topic} to this client"
            eventually(lambda: hidden in running.log.read_text(), within_s=30, because="the next refresh finds out")
            eventually(
                lambda: status(topic) == Status.UNKNOWN, within_s=30, because="nobody knows what is written to it"
            )
            assert (
                "the lag of 1 of 2 partitions is unknown"
                in kafka_mirror("failover-check", running.file, "primary->backup").stdout
            )
            switch = kafka_mirror("switch", running.file, "primary->backup", "--dry-run", "--fence", "none")
            assert switch.returncode == 5
            assert f"primary hides 1 topic of the flow from this client: {topic}" in switch.stdout
            write(guarded, other, rows(20))
            await_replicated(running, guarded, other, f"primary.{other}")
            assert running.gauge("kafka_mirror_cluster_up") == 1
            assert running.stop()[0] == 0
            running.start()
            eventually(
                lambda: status(topic) == Status.UNKNOWN, within_s=30, because="its remote topic tells that it was there"
            )
            grant()
            await_replicated(running, guarded, topic, f"primary.{topic}", within_s=90)
            eventually(lambda: status(topic) == Status.OK, within_s=30, because="it is shown again")
            assert differences(guarded, backup, topic, f"primary.{topic}") == []


def test_records_lost_by_retention_are_counted_with_their_range(appliance, primary, backup, topic):
    remote = f"primary.{topic}"
    write(primary, topic, rows(40))
    await_replicated(appliance, primary, topic, remote)
    assert appliance.stop()[0] == 0
    write(primary, topic, rows(100, start=40))
    admin = AdminClient({"bootstrap.servers": primary.bootstrap})
    where = TopicPartition(topic, 0, 75)
    admin.delete_records([where])[where].result(30)
    appliance.start()
    await_replicated(appliance, primary, topic, remote)
    eventually(
        lambda: appliance.value("kafka_mirror_records_lost_total", topic=remote, partition=0) == 35,
        within_s=20,
        because="offsets 40 to 74 are counted as lost",
    )
    assert f"{topic}-0: offsets 40 to 74 were deleted by the source's retention" in appliance.log.read_text()
    assert values(backup, remote, 0) == [row[1] for row in [*rows(40), *rows(65, start=75)]]


def test_compacted_batches_with_gaps_are_mirrored(primary, backup, topic, tmp_path: Path):
    create(
        primary,
        topic,
        2,
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        min_compaction_lag_ms="0",
        max_compaction_lag_ms="100",
    )
    for turn in range(4):
        write(
            primary,
            topic,
            [(f"k{n % (7 + n // 9)}".encode(), f"{turn}:{n}".encode(), [], turn * 1000 + n) for n in range(200)],
            **{"linger.ms": 50},
        )
    time.sleep(0.5)
    write(primary, topic, [(b"last", b"x", [], 0)])  # rolls the segment: the cleaner leaves the active one alone

    def live() -> int:
        return len(values(primary, topic, 0))

    eventually(lambda: 0 < live() < 600, within_s=60, every_s=1, because="the cleaner has left gaps")
    with RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic) as running:
        write(primary, topic, [(b"k", b"v", [], 1)], partition=1)
        await_replicated(running, primary, topic, f"primary.{topic}", 0)
        await_replicated(running, primary, topic, f"primary.{topic}", 1)
        assert differences(primary, backup, topic, f"primary.{topic}") == []


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Broker]:
    """A target of the test's own: groups of a broker that was killed may be lost to tests that follow."""
    with Broker.start("mortal", tmp_path / "mortal") as broker:
        yield broker


@pytest.mark.parametrize("fault", ["freeze", "kill"])
def test_it_stops_in_time_while_the_target_does_not_answer(primary, mortal, topic, tmp_path, fault):
    """With everything that a mirror does besides records switched on."""
    create(primary, topic, 2)
    write(primary, topic, rows(20))
    everything = "".join(
        f"{what}.enabled = true\n{what}.interval.seconds = 1\n"
        for what in (
            "emit.checkpoints",
            "emit.heartbeats",
            "sync.group.offsets",
            "sync.topic.configs",
            "sync.topic.acls",
        )
    )
    with RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=mortal.bootstrap, topics=topic, extra=everything
    ) as appliance:
        await_replicated(appliance, primary, topic, f"primary.{topic}")
        if fault == "freeze":
            mortal.pause()
        else:
            mortal.kill()
        try:
            time.sleep(5)  # into the attempts to reach it
            code, took_s = appliance.stop()
        finally:
            if fault == "freeze":
                mortal.resume()
    assert code == 0, appliance.log.read_text()
    assert took_s < STOPS_WITHIN_S
    assert "Traceback" not in appliance.logged()
    assert "every position is committed" not in appliance.log.read_text()  # nobody can know


@pytest.mark.nightly
def test_restarts_of_a_target_with_expired_producers_duplicate_no_record(primary, mortal, topic, tmp_path):
    """A broker that restarts forgets the producer of records older than a day, and appends a batch of theirs again."""
    create(primary, topic, 32)
    write(primary, topic, [(b"", b"%d" % n + b"x" * 2000, [], START_MS) for n in range(5_000)], range(32))
    with RunningAppliance(tmp_path, primary=primary.bootstrap, backup=mortal.bootstrap, topics=topic) as running:
        for _ in range(4):
            flows(mortal, f"primary.{topic}", more=300, within_s=120)
            mortal.restart()
        for partition in range(32):
            await_replicated(running, primary, topic, f"primary.{topic}", partition)
    assert differences(primary, mortal, topic, f"primary.{topic}") == []
    assert "may be written twice" not in running.log.read_text()


def resident_mib(pids: list[int]) -> float:
    pages = 0
    for pid in pids:
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.nightly
def test_memory_stays_bounded_for_any_backlog(appliance, primary, backup, topic):
    """300 MB wait on the source, the target is frozen for a while: what is read ahead is not more than the budget."""
    value = os.urandom(1000)
    eventually(lambda: appliance.workers(), within_s=30, because="the workers are up")
    backup.pause()
    try:
        for partition in (0, 1):
            write(primary, topic, [(None, value, [], n) for n in range(150_000)], partition, **{"linger.ms": 50})
        peak = 0.0
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            peak = max([peak, *(resident_mib([pid]) for pid in appliance.workers())])
            time.sleep(0.1)
    finally:
        backup.resume()
    for partition in (0, 1):
        await_replicated(appliance, primary, topic, f"primary.{topic}", partition, within_s=120)
    assert 0 < peak < 400
    assert [end_offset(backup, f"primary.{topic}", p) for p in (0, 1)] == [150_000, 150_000]


@pytest.mark.nightly
def test_partitions_with_a_backlog_share_the_memory_of_their_slot(tmp_path: Path, primary, backup, topic):
    """300 topic-partitions of one slot with 1 MB each: no request, and no process, holds them all."""
    value = os.urandom(100_000)
    create(primary, topic, 300)
    options = {"queue.buffering.max.kbytes": 400_000}
    write(primary, topic, [(None, value, [], n) for n in range(10)], range(300), **options)
    running = RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic)
    running.file.write_text(running.file.read_text().replace("tasks.max = 2", "tasks.max = 1"))
    peak = 0.0
    with running:

        def has_arrived() -> bool:
            nonlocal peak
            peak = max([peak, *(resident_mib([pid]) for pid in running.workers())])
            return running.total("kafka_mirror_record_count_total") >= 3_000

        eventually(has_arrived, within_s=120, because="all of it arrives")
        assert "paused" not in running.log.read_text()
    assert 0 < peak < 450
    assert sum(end_offset(backup, f"primary.{topic}", partition) for partition in (0, 150, 299)) == 30


def test_a_source_down_at_start_joins_later_and_delays_no_other_flow(primary, backup, topic, tmp_path: Path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    with proxied("far", tmp_path / "far") as (far, proxy, address):
        for cluster, records in ((primary, 50), (far, 70)):
            create(cluster, topic)
            write(cluster, topic, rows(records))
        proxy.is_down = True
        with RunningAppliance(
            folder,
            primary=primary.bootstrap,
            backup=backup.bootstrap,
            topics=topic,
            extra=f"clusters = primary, backup, far\nfar.bootstrap.servers = {address}\nfar->backup.enabled = true\n"
            f"far->backup.topics = {topic}\n",
        ) as running:
            await_replicated(running, primary, topic, f"primary.{topic}")
            assert 'kafka_mirror_cluster_up{cluster="far",source="far",target="backup"} 0' in running.exposition()
            assert 'kafka_mirror_flow_begun{source="far",target="backup"} 0' in running.exposition()
            assert "Its flows are tried again" in running.log.read_text()
            proxy.heal()
            await_replicated(running, far, topic, f"far.{topic}")
            assert differences(far, backup, topic, f"far.{topic}") == []
            for told in ('cluster_up{cluster="far",', "flow_begun{"):
                eventually(
                    lambda told=told: f'kafka_mirror_{told}source="far",target="backup"}} 1' in running.exposition(),
                    within_s=30,
                    because="the next poll tells it",
                )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.spark(always=True)  # the full disk is that of Spark's checkpoint
def test_a_full_disk_ends_the_process_with_one_line_and_no_loss(small_disk, primary, backup, topic, tmp_path: Path):
    create(primary, topic, 2)
    filler = small_disk / "filler"
    running = RunningAppliance(
        tmp_path,
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics=topic,
        extra=f"mirror.state.dir = {small_disk}\n",
    )
    with running:
        with load(primary, topic):
            flows(backup, f"primary.{topic}")
            logged = len(running.log.read_text())  # if the machine is slow, Spark logs at the start what it tries again
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(4096))
            assert running.process.wait(180) == 4
            log = running.log.read_text()[logged:]
            assert re.fullmatch(r"kafka-mirror: .*No space left on device.*", log.rstrip().rpartition("\n")[2])
            assert str(small_disk) in log
            assert "Traceback" not in log
            filler.unlink()
            running.start()
            flows(backup, f"primary.{topic}")
        equal_after(running, primary, backup, topic)


def test_an_hour_that_local_time_skips_and_one_that_it_repeats_change_nothing(tmp_path, primary, backup, topic):
    """A time zone whose daylight saving begins while the mirror starts, and ends when it runs."""
    later = f"{topic}-later"
    create(primary, topic, 2)
    running = RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=f"{topic}.*")
    begins = datetime.now(UTC) + timedelta(seconds=5)
    on_spark = running.engine is Engine.SPARK
    ends = begins + timedelta(seconds=180 if on_spark else 30)  # in which the mirror starts
    # POSIX: "begins" is said in standard time, "ends" in that which is an hour ahead.
    rules = (begins, ends + timedelta(hours=1))
    running.environment["TZ"] = ",".join(
        ["STD0DST", *(f"{each.timetuple().tm_yday - 1}/{each:%H:%M:%S}" for each in rules)]
    )
    with running:
        with load(primary, topic):
            flows(backup, f"primary.{topic}")
            assert datetime.now(UTC) < ends, "it started before the hour was repeated"
            time.sleep(max(0.0, (begins - datetime.now(UTC)).total_seconds()))
            created = datetime.now(UTC)
            create(primary, later)
            time.sleep(max(0.0, (ends - datetime.now(UTC)).total_seconds()))
            flows(backup, f"primary.{topic}", because="records flow when both are over")
        equal_after(running, primary, backup, topic)
    log = running.log.read_text()
    shown = re.search(rf"^(\S+ \S+),\d+ INFO .*{later} created", log, re.MULTILINE)
    assert shown is not None
    ahead = datetime.fromisoformat(shown[1]).replace(tzinfo=UTC) - created
    assert timedelta(minutes=59) < ahead < timedelta(minutes=61), "it named the other topic in summer"
    assert "clock" not in log
