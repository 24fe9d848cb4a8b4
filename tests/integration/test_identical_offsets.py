"""Records keep their offsets: every offset of the source has the same record on the target, or none on either side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from mirror.kafka.cluster import Cluster
from tests.integration.appliance import RunningAppliance
from tests.integration.kafka_java import kafka_java
from tests.integration.records import commit, create, end_offset, messages, rows, write
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = pytest.mark.kafka

IDENTICAL = "primary->backup.mirror.offsets = identical\nprimary.consumer.isolation.level = {}\n"


@pytest.fixture(scope="module", params=["read_committed", pytest.param("read_uncommitted", marks=pytest.mark.nightly)])
def isolation(request) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def mirror(primary, backup, tmp_path_factory, isolation) -> Iterator[RunningAppliance]:
    with RunningAppliance(
        tmp_path_factory.mktemp("identical"),
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics=f"same-{isolation}-.*",
        extra=IDENTICAL.format(isolation),
    ) as appliance:
        yield appliance
    assert "Traceback" not in appliance.logged()


@pytest.fixture
def topic(topic: str, isolation: str) -> str:
    return f"same-{isolation}-{topic}"


def records(
    cluster: Any, topic: str, partition: int, isolation: str, *, start: int = OFFSET_BEGINNING
) -> dict[int, tuple[Any, ...]]:
    """Return what a consumer sees of a partition, by offset."""
    return {
        message.offset(): (message.key(), message.value(), message.headers(), message.timestamp()[1])
        for message in messages(cluster, topic, partition, isolation=isolation, start=start)
    }


def own_mirror(
    folder: Path,
    primary: Any,
    backup: Any,
    topic: str,
    alias: str,
    *,
    isolation: str = "read_committed",
    extra: str = "",
) -> RunningAppliance:
    """Return a mirror of one topic with identical offsets, whose flow is that of one test."""
    return RunningAppliance(
        folder,
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics=topic,
        extra=IDENTICAL.format(isolation) + extra,
    ).call_source(alias)


def start_offset(cluster: Any, topic: str, partition: int) -> int:
    with closing(Cluster("test", {"bootstrap.servers": cluster.bootstrap})) as admin:
        return admin.start_offsets([(topic, partition)])[topic, partition]


def await_end(primary, backup, topic: str, partition: int = 0, *, alias: str = "primary") -> None:
    """Wait until both logs end at the same offset. The source's may still get a transaction's marker."""
    remote = f"{alias}.{topic}"
    eventually(
        lambda: (
            exists(backup, remote) and end_offset(backup, remote, partition) == end_offset(primary, topic, partition)
        ),
        within_s=60,
        because=f"the remote log of {topic}-{partition} ends where the source's does",
    )


def assert_identical(
    primary, backup, topic: str, isolation: str, partition: int = 0, *, alias: str = "primary"
) -> None:
    """Both logs end at the same offset, and a committed reader sees the source's records at their offsets."""
    await_end(primary, backup, topic, partition, alias=alias)
    expected = records(primary, topic, partition, isolation)
    assert records(backup, f"{alias}.{topic}", partition, "read_committed") == expected


def delete_before(cluster, topic: str, offset: int, partition: int = 0) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_records([TopicPartition(topic, partition, offset)])[TopicPartition(topic, partition)].result(30)


def transactions(cluster, topic: str, *, turns: int = 20) -> None:
    """Write committed, aborted and plain records by turns, of two producers whose transactions overlap."""
    first, second = (
        Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"{topic}-{n}", "log_level": 0})
        for n in (1, 2)
    )
    first.init_transactions(30)
    second.init_transactions(30)
    for turn in range(turns):
        first.begin_transaction()
        second.begin_transaction()
        for n in range(4):
            first.produce(topic, f"{turn}:{n}", "first", 0)
            second.produce(topic, f"{turn}:{n}", "second", 0)
            assert first.flush(30) == 0
            assert second.flush(30) == 0
        (first.abort_transaction if turn % 3 == 1 else first.commit_transaction)(30)
        write(cluster, topic, rows(3, start=turn))
        (second.abort_transaction if turn % 4 == 2 else second.commit_transaction)(30)


def test_a_plain_topic(mirror, primary, backup, topic, isolation):
    create(primary, topic, 2)
    for partition in (0, 1):
        write(primary, topic, rows(500, start=partition), partition)
    for partition in (0, 1):
        assert_identical(primary, backup, topic, isolation, partition)
    write(primary, topic, rows(200, start=7))
    assert_identical(primary, backup, topic, isolation)


def test_a_topic_whose_first_records_were_deleted(mirror, primary, backup, topic, isolation):
    create(primary, topic, 2)
    write(primary, topic, rows(1000))
    delete_before(primary, topic, 700)
    write(primary, topic, rows(500), 1)
    assert_identical(primary, backup, topic, isolation)
    assert_identical(primary, backup, topic, isolation, 1)


def test_transactions_and_their_markers(mirror, primary, backup, topic, isolation):
    create(primary, topic)
    transactions(primary, topic)
    assert_identical(primary, backup, topic, isolation)


def test_an_empty_topic_whose_log_begins_later(mirror, primary, backup, topic, isolation):
    with mirror.frozen():  # it must not see the records
        create(primary, topic)
        write(primary, topic, rows(300))
        delete_before(primary, topic, 300)
    await_end(primary, backup, topic)
    eventually(lambda: start_offset(backup, f"primary.{topic}", 0) == 300, within_s=30, because="the filler is deleted")
    write(primary, topic, rows(20))
    assert_identical(primary, backup, topic, isolation)


def test_batches_that_are_packed_again_keep_their_offsets(mirror, primary, backup, topic, isolation):
    create(primary, topic, 2, message_timestamp_type="LogAppendTime")
    write(primary, topic, rows(400), **{"linger.ms": 50})
    write(primary, topic, rows(400), 1, **{"linger.ms": 0, "batch.num.messages": 1})
    assert_identical(primary, backup, topic, isolation)
    assert_identical(primary, backup, topic, isolation, 1)


def test_partitions_that_are_added_later(mirror, primary, backup, topic, isolation):
    create(primary, topic)
    write(primary, topic, rows(50))
    assert_identical(primary, backup, topic, isolation)
    admin = AdminClient({"bootstrap.servers": primary.bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    eventually(lambda: len(partitions(primary, topic)) == 3, within_s=30, because="the topic has grown")
    for partition in (1, 2):
        write(primary, topic, rows(70, start=partition), partition)
    eventually(
        lambda: len(partitions(backup, f"primary.{topic}")) == 3, within_s=30, because="and so has the remote one"
    )
    for partition in range(3):
        assert_identical(primary, backup, topic, isolation, partition)


def test_a_compacted_topic_with_gaps_and_tombstones(mirror, primary, backup, topic, isolation):
    settings = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.001",
        "min_compaction_lag_ms": "0",
        "max_compaction_lag_ms": "100",
    }
    create(primary, topic, **settings)

    def turn(number: int) -> None:
        values = [b"%d:%d" % (number, n) if (n + number) % 11 else None for n in range(200)]
        write(
            primary,
            topic,
            [(b"k%d" % (n % (7 + n // 9)), value, [], 1000 * number + n + 1) for n, value in enumerate(values)],
            **{"linger.ms": 50},
        )

    written = iter(range(1000))

    def has_gaps() -> bool:
        """Write on, which rolls the segment: the cleaner leaves the active one alone."""
        turn(number := next(written))
        return 0 < len(records(primary, topic, 0, isolation)) < 200 * (number + 1)

    eventually(has_gaps, within_s=60, every_s=1, because="the source's cleaner has left gaps")
    await_end(primary, backup, topic)
    assert newest(backup, f"primary.{topic}") == newest(primary, topic)


def test_a_foreign_record_stops_the_partition_and_no_other(mirror, primary, backup, topic, isolation):
    create(primary, topic, 2)
    write(primary, topic, rows(50))
    write(primary, topic, rows(50), 1)
    assert_identical(primary, backup, topic, isolation)
    assert_identical(primary, backup, topic, isolation, 1)
    remote = f"primary.{topic}"
    write(backup, remote, [(b"foreign", b"record", [], 1)])
    write(primary, topic, rows(30, start=50))
    write(primary, topic, rows(30, start=50), 1)
    eventually(
        lambda: mirror.value("kafka_mirror_partition_paused", topic=remote, partition=0) == 1,
        within_s=30,
        because="the partition is paused",
    )
    assert_identical(primary, backup, topic, isolation, 1)
    # 0 if a window has begun since the foreign record: it compares both logs before its first write.
    assert end_offset(backup, remote, 0) - 51 in (0, 30), "at most the batch in flight was written at a wrong offset"
    assert f"{topic}-0 paused: offsets are no longer identical: " in mirror.log.read_text()


def test_an_existing_topic_is_adopted_if_its_records_are_the_sources(mirror, primary, backup, topic, isolation):
    same, other = f"{topic}-same", f"{topic}-other"
    create(backup, f"primary.{same}")
    create(backup, f"primary.{other}")
    write(backup, f"primary.{same}", rows(80))
    write(backup, f"primary.{other}", rows(80, start=1))
    for name in (same, other):
        create(primary, name)
        write(primary, name, rows(100))
    assert_identical(primary, backup, same, isolation)
    eventually(
        lambda: f"{other}-0 paused: offsets are no longer identical: " in mirror.log.read_text(),
        within_s=30,
        because="the other one is refused",
    )
    assert end_offset(backup, f"primary.{other}", 0) == 80


@pytest.mark.separate
def test_killed_processes_and_lost_retention_shift_nothing(primary, backup, topic, tmp_path, isolation):
    topic = topic.removeprefix("same-")  # the other mirror does not match it
    remote = f"killed.{topic}"
    create(primary, topic)
    running = own_mirror(tmp_path, primary, backup, topic, "killed", isolation=isolation)
    with running:
        for _ in range(3):
            transactions(primary, topic, turns=4)
            eventually(
                lambda: exists(backup, remote) and end_offset(backup, remote, 0) > 0,
                within_s=60,
                because="the load flows",
            )
            running.kill_all()
            transactions(primary, topic, turns=2)
            running.start()
        assert_identical(primary, backup, topic, isolation, alias="killed")
        assert running.stop()[0] == 0
        transactions(primary, topic, turns=3)
        first = end_offset(primary, topic, 0) - 20
        delete_before(primary, topic, first)
        running.start()
        await_end(primary, backup, topic, alias="killed")
        eventually(
            lambda: start_offset(backup, remote, 0) == first,
            within_s=30,
            because="the target's log begins where the source's does",
        )
        assert_identical(primary, backup, topic, isolation, alias="killed")
        assert "were deleted by the source's retention" in running.log.read_text()


@pytest.mark.separate
def test_offsets_of_groups_are_the_sources(primary, backup, topic, tmp_path):
    """Also behind the marker at the end of the log, where a committed reader of the source stands."""
    topic, remote = f"groups-{topic}", f"groups.groups-{topic}"
    create(primary, topic)
    transactions(primary, topic)
    end = end_offset(primary, topic, 0)
    offsets = {f"{topic}-at-{at}": at for at in (0, 1, 17, end // 2, end - 1, end)}
    for group, at in offsets.items():
        commit(primary, group, topic, at)
    appliance = own_mirror(
        tmp_path,
        primary,
        backup,
        topic,
        "groups",
        extra=f"""groups = {topic}-at-.*
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.enabled = true
emit.checkpoints.interval.seconds = 1
""",
    )
    with appliance:
        assert_identical(primary, backup, topic, "read_committed", alias="groups")
        eventually(
            lambda: {group: committed(backup, group, remote) for group in offsets} == offsets,
            within_s=60,
            because="the groups of the target are moved to the same offsets",
        )
        for group, at in offsets.items():
            told = kafka_mirror("translate", appliance.file, "groups->backup", "--group", group, "--json", check=True)
            assert [each["to"]["offset"] for each in json.loads(told.stdout)] == [at]


@pytest.mark.separate
def test_a_topic_that_differs_is_created_again_by_a_command(primary, backup, topic, tmp_path):
    topic = f"again-{topic}"
    remote = f"again.{topic}"
    create(primary, topic, 2)
    transactions(primary, topic, turns=3)
    create(backup, remote, 2)
    write(backup, remote, rows(5))
    appliance = own_mirror(tmp_path, primary, backup, topic, "again")
    with appliance:
        eventually(
            lambda: "positions reset --recreate" in appliance.log.read_text(),
            within_s=60,
            because="the log names the command",
        )
        assert appliance.stop()[0] == 0
        arguments = ("positions", "reset", appliance.file, "again->backup", "--topic", topic, "--recreate")
        kafka_mirror(*arguments, check=True)
        appliance.start()
        assert_identical(primary, backup, topic, "read_committed", alias="again")


@pytest.mark.nightly
def test_consumers_continue_with_the_sources_offsets(mirror, primary, backup, topic, isolation, tmp_path):
    """A Java consumer, one of librdkafka, and one that keeps its offsets outside of Kafka: all copied verbatim."""
    remote = f"primary.{topic}"
    create(primary, topic)
    transactions(primary, topic)
    assert_identical(primary, backup, topic, isolation)
    everything = records(primary, topic, 0, isolation)  # what the flow copies
    offsets = sorted(everything)
    stopped = offsets[len(offsets) // 2]
    expected = [offset for offset in offsets if offset >= stopped]
    commit(backup, f"{topic}-rd", remote, stopped)
    assert read_on(backup, f"{topic}-rd", remote, len(expected)) == expected
    outside = json.loads(json.dumps({remote: stopped}))  # as a stream processor keeps offsets in its checkpoints
    assert sorted(records(backup, remote, 0, "read_committed", start=outside[remote])) == expected
    with kafka_java() as java:
        place = java.org.apache.kafka.common.TopicPartition
        consumer = java.org.apache.kafka.clients.consumer.KafkaConsumer(
            {
                "bootstrap.servers": backup.bootstrap,
                "group.id": f"{topic}-java",
                "isolation.level": "read_committed",
                "enable.auto.commit": "false",
                "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
                "value.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
            }
        )
        theirs = place(remote, 0)
        consumer.assign([theirs])
        consumer.commitSync({theirs: java.org.apache.kafka.clients.consumer.OffsetAndMetadata(stopped)})
        consumer.seek(theirs, consumer.committed({theirs}).get(theirs).offset())
        found: list[int] = []
        while len(found) < len(expected):
            polled = consumer.poll(java.java.time.Duration.ofSeconds(20))
            assert polled.count(), "the consumer reads on"
            found += [record.offset() for record in polled.records(theirs)]
        consumer.close()
    assert found == expected


def read_on(cluster, group: str, topic: str, count: int) -> list[int]:
    """Return the offsets that a member of a group reads from its committed offset on."""
    options = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "isolation.level": "read_committed"}
    with closing(Consumer({**options, "enable.auto.commit": False})) as consumer:
        consumer.subscribe([topic])
        found: list[int] = []
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None, "the group reads on"
            assert message.error() is None
            found.append(message.offset())
        return found


def committed(cluster, group: str, topic: str) -> int:
    with closing(Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})) as consumer:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=20)
        return int(found.offset)


def exists(cluster, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics


def partitions(cluster, topic: str) -> list[int]:
    found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(topic, timeout=10).topics[topic]
    return sorted(found.partitions)


def newest(cluster, topic: str) -> dict[bytes, tuple[Any, ...]]:
    """Return each key's newest record with its offset: what compaction keeps on either cluster."""
    found = records(cluster, topic, 0, "read_committed")
    return {record[0]: (offset, *record) for offset, record in sorted(found.items())}
