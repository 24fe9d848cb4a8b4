"""Consumer groups move to the target and go on exactly where they stood: on real brokers, judged by Kafka's own classes."""

from __future__ import annotations

import contextlib
import struct
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from mirror.admin import Admin
from mirror.mm2_records import Checkpoint, NotThatRecord
from tests.integration.appliance import RunningAppliance
from tests.integration.kafka_java import kafka_java, translated
from tests.integration.records import await_replicated, create, end_offset, messages, rows, write
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
EXTRA = """\
emit.checkpoints.enabled = true
emit.checkpoints.interval.seconds = 1
sync.group.offsets.interval.seconds = 1
groups = {groups}.*
"""


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    with kafka_java() as view:
        yield view


@pytest.fixture
def group() -> str:
    return f"g{uuid.uuid4().hex[:8]}"


def stand(cluster, group: str, topic: str, offset: int, partition: int = 0) -> None:
    """Commit a group's offset."""
    Admin("test", {"bootstrap.servers": cluster.bootstrap}).commit(group, {(topic, partition): offset})


def stands(cluster, group: str, topic: str, partition: int = 0) -> int | None:
    return (
        Admin("test", {"bootstrap.servers": cluster.bootstrap})
        .committed(group, [(topic, partition)])
        .get((topic, partition))
    )


def checkpoints(cluster, remote: str) -> dict[str, Checkpoint]:
    """Return the last checkpoint of each group on a topic."""
    found = {}
    for message in messages(cluster, "primary.checkpoints.internal"):
        with contextlib.suppress(NotThatRecord):
            checkpoint = Checkpoint.decode(message.key(), message.value())
            if checkpoint.topic == remote:
                found[checkpoint.group] = checkpoint
    return found


def records(cluster, topic: str) -> list[tuple[int, bytes | None]]:
    return [(message.offset(), message.value()) for message in messages(cluster, topic)]


def write_transactions(cluster, topic: str, count: int) -> None:
    """Write transactions of three records, every third one aborted: each leaves a marker, and so a gap."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        for part in range(3):
            producer.produce(topic, f"transaction {number} {part}", "k", 0)
        producer.flush(30)
        (producer.abort_transaction if number % 3 == 2 else producer.commit_transaction)(30)


@pytest.fixture
def appliance(primary, backup, topic, group, tmp_path):
    """Not started; its file is."""

    def made(extra: str = "") -> RunningAppliance:
        return RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=f"{topic}.*",
                                extra=EXTRA.format(groups=group) + extra)  # fmt: skip

    return made


def test_a_group_that_fails_over_reads_on_exactly_where_it_stood(primary, backup, topic, group, java, appliance):
    """Across transaction markers and aborted transactions, from each offset there is, by Kafka's own translation."""
    remote = f"primary.{topic}"
    create(primary, topic)
    write(primary, topic, rows(200))
    write_transactions(primary, topic, 60)
    write(primary, topic, rows(100, start=200))
    end = end_offset(primary, topic, 0)
    offsets = [*range(0, end, 7), *range(200, 300), end]
    for offset in offsets:
        stand(primary, f"{group}-{offset}", topic, offset)
    with appliance("primary.consumer.isolation.level = read_committed") as running:
        await_replicated(running, primary, topic, remote)
        eventually(
            lambda: translated(java, backup.bootstrap, "primary", f"{group}-{end}").get((remote, 0))
            == end_offset(backup, remote, 0),
            within_s=60, because="a checkpoint says that the group that has read all has read all",
        )  # fmt: skip
        assert running.stop()[0] == 0
    found = checkpoints(backup, remote)
    for offset in offsets[::20]:
        theirs = translated(java, backup.bootstrap, "primary", f"{group}-{offset}")
        assert theirs == {(remote, 0): found[f"{group}-{offset}"].downstream}
    source, target = records(primary, topic), records(backup, remote)
    for offset in offsets:
        unread = [value for at, value in source if at >= offset]
        there = found[f"{group}-{offset}"].downstream
        assert [value for at, value in target if at >= there] == unread, (offset, there)


def test_idle_groups_of_the_target_are_moved_and_no_other(primary, backup, topic, group, appliance):
    remote = f"primary.{topic}"
    create(primary, topic)
    create(backup, remote)
    write(backup, remote, rows(5))  # somebody else's: offsets differ by 5
    write(primary, topic, rows(50))
    stand(primary, f"{group}-new", topic, 20)
    stand(primary, f"{group}-behind", topic, 20)
    stand(backup, f"{group}-behind", remote, 3)
    stand(primary, f"{group}-ahead", topic, 20)
    stand(backup, f"{group}-ahead", remote, 30)
    stand(primary, f"{group}-active", topic, 20)
    stand(primary, "not-followed", topic, 20)
    active = Consumer({"bootstrap.servers": backup.bootstrap, "group.id": f"{group}-active", "enable.auto.commit": False,
                       "auto.offset.reset": "earliest"})  # fmt: skip
    active.subscribe([remote])
    try:
        eventually(lambda: active.poll(1), within_s=60, because="the target's group reads")
        with appliance("sync.group.offsets.enabled = true") as running:
            eventually(
                lambda: stands(backup, f"{group}-new", remote) == stands(backup, f"{group}-behind", remote) == 25,
                within_s=60, because="groups that nobody reads with are moved",
            )  # fmt: skip
            stand(primary, f"{group}-new", topic, 31)
            eventually(lambda: stands(backup, f"{group}-new", remote) == 36, within_s=30, because="and follow")
            assert stands(backup, f"{group}-ahead", remote) == 30
            assert stands(backup, f"{group}-active", remote) is None
            assert stands(backup, "not-followed", remote) is None
            exposed = running.exposition()
            for name, state in {"new": "synced", "ahead": "target_ahead", "active": "active"}.items():
                labels = f'{{group="{group}-{name}",source="primary",state="{state}",target="backup"}} 1'
                assert f"kafka_mirror_group_partitions{labels}" in exposed
            assert f'kafka_mirror_checkpoint_latency_ms{{group="{group}-new",partition="0",source="primary"' in exposed
            assert f'kafka_mirror_last_checkpoint_timestamp_seconds{{group="{group}-new"' in exposed
            assert 'kafka_mirror_checkpoint_errors_total{source="primary",target="backup"} 0' in exposed
    finally:
        active.close()


def test_nothing_is_said_before_something_is_replicated_and_nothing_foreign_stops_it(
    primary, backup, topic, group, java, appliance
):
    remote = f"primary.{topic}"
    create(primary, topic)
    stand(primary, group, topic, 0)
    checkpoints = "primary.checkpoints.internal"
    if not Admin("test", {"bootstrap.servers": backup.bootstrap}).topics().get(checkpoints):
        create(backup, checkpoints, cleanup_policy="compact")
    for name in (checkpoints, "mm2-offset-map.primary.internal"):
        if name in Admin("test", {"bootstrap.servers": backup.bootstrap}).topics():
            write(
                backup,
                name,
                [(b"", b"", (), 1), (b"\0\5", b"x", (), 1), (b"[1]", struct.pack(">hqq", 99, 1, 1), (), 1)],
            )
    with appliance() as running:
        eventually(lambda: f'state="no_map"' in running.exposition(), within_s=60, because="the group is seen")  # noqa: F541
        assert (remote, 0) not in translated(java, backup.bootstrap, "primary", group)
        write(primary, topic, rows(3))
        eventually(
            lambda: translated(java, backup.bootstrap, "primary", group).get((remote, 0)) == 0,
            within_s=30, because="the first records are there",
        )  # fmt: skip
        stand(primary, group, topic, 2)
        eventually(
            lambda: translated(java, backup.bootstrap, "primary", group).get((remote, 0)) == 2,
            within_s=30, because="the group has read on",
        )  # fmt: skip
        stand(primary, group, topic, 1)
        eventually(
            lambda: translated(java, backup.bootstrap, "primary", group).get((remote, 0)) == 1,
            within_s=30, because="a group that was set back is set back",
        )  # fmt: skip
    assert f"a record in {checkpoints} is no checkpoint" in running.log.read_text()
