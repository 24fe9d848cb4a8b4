"""What is measured of records is compared with what the brokers themselves say: their clocks, their logs, their disks.

The remote topic has the time of append as its records' timestamps: the target's broker tells when each record arrived, and no
metric of ours is asked for it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.kafka.cluster import Cluster
from tests.fault_proxy import proxied
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, beside, commit, create, differences, messages, rows, write
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]
BEHIND_S, AHEAD_S = 5.0, 3.0  # how wrong a producer's clock is
ANSWER_S = (
    1.0  # from a broker's append to our note of its answer, on average of many, with a machine that does other things
)


class Written:
    """Records of one topic, each in a batch of its own, with the times that are known of them."""

    def __init__(self, cluster, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
        self._topic = topic
        self.timestamps_s: list[float] = []
        self.since_s: list[float] = []  # nobody can have read the record before

    def some(self, count: int, *, skew_s: float = 0.0) -> None:
        """Write records by a clock that is ahead by so much."""
        for number in range(count):
            now_ms = int(time.time() * 1000)
            stamp_ms = now_ms + int(skew_s * 1000)
            self._producer.produce(self._topic, b"v" * (number % 7 * 100), timestamp=stamp_ms, partition=0)
            assert self._producer.flush(30) == 0
            self.timestamps_s.append(stamp_ms / 1000)
            self.since_s.append(now_ms / 1000)


@pytest.fixture
def remote(topic, primary, backup) -> str:
    """A topic, and a remote one whose records have the time of their append."""
    create(primary, topic)
    wanted = NewTopic(f"primary.{topic}", 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    admin = AdminClient({"bootstrap.servers": backup.bootstrap})
    admin.create_topics([wanted])[wanted.topic].result(30)
    return wanted.topic


def sum_and_count(appliance: RunningAppliance, family: str, remote: str) -> tuple[float, int]:
    total, count = (
        appliance.value(f"kafka_mirror_{family}_seconds_{of}", topic=remote, partition=None) for of in ("sum", "count")
    )
    assert total is not None
    assert count is not None
    return total, int(count)


def measured(appliance: RunningAppliance, written: Written, backup, remote: str, *, first: int) -> None:
    """Compare what the appliance has measured since record `first` with what clocks and brokers say."""
    stamps, since = written.timestamps_s[first:], written.since_s[first:]
    arrived = [message.timestamp()[1] / 1000 for message in messages(backup, remote)][first:]
    count = len(stamps)
    assert len(arrived) == count
    eventually(
        lambda: sum_and_count(appliance, "replication_latency", remote)[1] == count,
        within_s=30,
        because="the windows have told of all records",
    )
    latency_s, _ = sum_and_count(appliance, "replication_latency", remote)
    age_s, ages = sum_and_count(appliance, "record_age", remote)
    at_least_s = sum(at - stamp for at, stamp in zip(arrived, stamps, strict=True))
    assert at_least_s - 0.005 * count <= latency_s <= at_least_s + ANSWER_S * count
    assert ages == count
    read_s = sum(at - stamp for at, stamp in zip(since, stamps, strict=True))
    assert read_s - 0.005 * count <= age_s <= latency_s


def test_ages_and_latencies_follow_the_clocks_after_restarts_and_backlogs(
    primary, backup, topic, remote, tmp_path: Path
):
    written = Written(primary, topic)
    appliance = RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic)
    with appliance:
        await_replicated(appliance, primary, topic, remote)
        written.some(60)
        written.some(40, skew_s=-BEHIND_S)
        await_replicated(appliance, primary, topic, remote)
        measured(appliance, written, backup, remote, first=0)
        latency_s, count = sum_and_count(appliance, "replication_latency", remote)
        assert latency_s / count >= 40 / 100 * BEHIND_S, "the producer's clock is part of it"
        before = appliance.exposition()
    assert f'topic="{remote}"' in before
    backlog = len(written.timestamps_s)
    written.some(30)
    time.sleep(3.0)  # they wait, and that is what is measured
    with appliance:
        await_replicated(appliance, primary, topic, remote)
        measured(appliance, written, backup, remote, first=backlog)
        latency_s, count = sum_and_count(appliance, "replication_latency", remote)
        assert count == 30, "a restart begins with counters of 0"
        assert latency_s / count > 3.0, "the backlog's wait is part of its latency"


def test_ages_of_records_from_a_clock_that_is_ahead_are_below_zero(primary, backup, topic, remote, tmp_path: Path):
    written = Written(primary, topic)
    with RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic) as appliance:
        await_replicated(appliance, primary, topic, remote)
        written.some(30, skew_s=AHEAD_S)
        await_replicated(appliance, primary, topic, remote)
        measured(appliance, written, backup, remote, first=0)
        assert sum_and_count(appliance, "record_age", remote)[0] < 0, (
            "they are read before their time, and nobody hides it"
        )


def test_counts_equal_the_targets_log_and_rates_its_growth(primary, backup, topic, remote, tmp_path: Path):
    def on_disk() -> int:
        return (
            Cluster("backup", {"bootstrap.servers": backup.bootstrap}).log_dirs([(remote, 0)]).sizes.get((remote, 0), 0)
        )

    names = "mirror.metrics.strimzi.names = true\n"
    with RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=names
    ) as appliance:
        await_replicated(appliance, primary, topic, remote)
        written, rates, polls = Written(primary, topic), [], []
        began_s, size = time.monotonic(), on_disk()
        while time.monotonic() < began_s + 15:
            written.some(10)
            time.sleep(0.1)
            rate = appliance.value("kafka_mirror_byte_rate", topic=remote, partition=0)
            if rate is not None and time.monotonic() > began_s + 5:  # windows that saw no record are over
                rates.append(rate)
                polls.append(appliance.total("kafka_connect_source_task_source_record_poll_rate"))
        grown = (on_disk() - size) / (time.monotonic() - began_s)
        await_replicated(appliance, primary, topic, remote)
        eventually(
            lambda: appliance.value("kafka_mirror_byte_count_total", topic=remote, partition=0) == on_disk(),
            within_s=30,
            because="the broker's disk holds the bytes that were counted",
        )
        task, count = "kafka_connect_source_task_source_record", len(written.timestamps_s)
        eventually(
            lambda: appliance.total(f"{task}_write_total") == count,
            within_s=30,
            because="one slot has the topic-partition",
        )
        assert count <= appliance.total(f"{task}_poll_total") < 1.1 * count, (
            "what a window's end left over is read again"
        )
        assert appliance.exposition().count('status="running"') == 1, "a slot without topic-partitions is no task"
    a_second = len(written.timestamps_s) / (written.since_s[-1] - written.since_s[0])
    assert 0.5 * a_second < sorted(polls)[len(polls) // 2] < 2 * a_second
    assert rates
    assert 0.5 * grown < sorted(rates)[len(rates) // 2] < 2 * grown


@contextmanager
def reading(cluster, group: str, topic: str) -> Iterator[None]:
    """Commit another offset ten times a second, so that each round has a checkpoint to write."""

    def run(stop: threading.Event) -> None:
        for offset in itertools.count(1):
            if stop.wait(0.1):
                return
            commit(cluster, group, topic, offset)

    with beside(run, "reading"):
        yield


def test_a_distant_target_loses_no_record_and_checkpoint_latency_is_the_rounds_duration(primary, topic, tmp_path: Path):
    """A round begins when the one before has ended, so the broker's times of append bound it from above."""
    remote, checkpoints, delay_s = f"primary.{topic}", "primary.checkpoints.internal", 0.25
    create(primary, topic)
    write(primary, topic, rows(3000))
    with proxied("far", tmp_path / "far") as (backup, link, address):
        create(backup, checkpoints, message_timestamp_type="LogAppendTime", cleanup_policy="compact")
        extra = f"emit.checkpoints.enabled = true\nemit.checkpoints.interval.seconds = 1\ngroups = {topic}\n"
        appliance = RunningAppliance(tmp_path, primary=primary.bootstrap, backup=address, topics=topic, extra=extra)

        def latency_s() -> float | None:
            found = appliance.served("checkpoint_latency_ms", topic=remote)
            return found[0] / 1000 if found else None

        def apart_s() -> list[float]:
            appended = [message.timestamp()[1] / 1000 for message in messages(backup, checkpoints)]
            return [after - before for before, after in itertools.pairwise(appended)][-5:]

        with appliance, reading(primary, topic, topic):
            await_replicated(appliance, primary, topic, remote)
            eventually(latency_s, within_s=60, because="a checkpoint was written")
            link.delay_s = (delay_s, 0.0)
            write(primary, topic, rows(200, start=3000))
            # A request and its answer are late by so much, and a round has several, one after the other.
            eventually(lambda: (latency_s() or 0) > 4 * delay_s, within_s=60, because="the way has become long")
            eventually(
                lambda: 4 * delay_s < (latency_s() or 0) < max(apart_s(), default=0) + 2 * delay_s + ANSWER_S,
                within_s=30,
                because="a round takes as long as its checkpoints are apart",
            )
            link.heal()
            eventually(lambda: (latency_s() or 9) < 4 * delay_s, within_s=60, because="the way is short again")
            await_replicated(appliance, primary, topic, remote)
        assert differences(primary, backup, topic, remote) == []
