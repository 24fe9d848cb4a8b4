"""The local clusters hold what they promise: they keep data, and the comparison finds what differs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.embedded import clusters
from mirror.embedded.broker import Broker
from mirror.embedded.load import TOPICS, Load, demo_record
from mirror.errors import ClusterUnavailable
from tests.compare import Verdict, compare
from tests.waiting import eventually

pytestmark = pytest.mark.kafka

START_MS = 1_700_000_000_000
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


def rows(count: int) -> list[Row]:
    """Records with every kind of content: repeated and null headers, null and empty values, a timestamp each."""
    made: list[Row] = []
    for n in range(count):
        value = {0: None, 1: b""}.get(n % 10, f"value {n}".encode())
        headers = [("a", b"1"), ("a", b"2"), ("b", None), ("c", b"")] if n % 2 else []
        made.append((f"key {n}".encode() if n % 3 else None, value, headers, START_MS + n))
    return made


def create_topic(bootstrap: str, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(
        topic, num_partitions=2, replication_factor=1, config={k.replace("_", "."): v for k, v in config.items()}
    )
    admin.create_topics([new], operation_timeout=30)[topic].result(30)


def write(bootstrap: str, topic: str, records: list[Row], partition: int = 1) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for key, value, headers, timestamp in records:
        producer.produce(topic, value, key, partition=partition, headers=headers, timestamp=timestamp)
    assert producer.flush(30) == 0


@pytest.fixture
def differ(primary: Broker, backup: Broker, topic: str) -> Callable[[list[Row], list[Row]], Verdict]:
    """Compare one partition with these records on the source to one with those on the target."""
    remote = f"primary.{topic}"

    def run(source: list[Row], target: list[Row]) -> Verdict:
        for bootstrap, name, records in ((primary.bootstrap, topic, source), (backup.bootstrap, remote, target)):
            create_topic(bootstrap, name)
            write(bootstrap, name, records)
        return compare(primary.bootstrap, backup.bootstrap, {topic: remote})

    return run


def test_broker_restarts_on_its_port_with_its_data(tmp_path, topic):
    """After a stop, a kill and a new start from the folder, port, cluster id and records are the same."""
    with Broker.start("primary", tmp_path / "one") as broker, Broker.start("backup", tmp_path / "two") as other:
        for bootstrap in (broker.bootstrap, other.bootstrap):
            create_topic(bootstrap, topic)
            write(bootstrap, topic, rows(100))
        before = (broker.bootstrap, broker.cluster_id)
        assert broker.cluster_id != other.cluster_id

        broker.restart()
        broker.kill()
        assert not broker.is_running
        broker.restart()
        assert (broker.bootstrap, broker.cluster_id) == before
        assert AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).cluster_id == before[1]
        assert compare(broker.bootstrap, other.bootstrap, {topic: topic}) == Verdict(
            equal=True, records=100, differences=[]
        )

        broker.stop()
        with Broker.start("primary", tmp_path / "one") as again:
            assert (again.bootstrap, again.cluster_id) == before
            assert topic in AdminClient({"bootstrap.servers": again.bootstrap}).list_topics(timeout=30).topics


def test_broker_that_cannot_start_shows_its_log(tmp_path):
    """A wrong setting ends the broker, at formatting or at its start; the error has the broker's own words."""
    with pytest.raises(
        ClusterUnavailable,
        match=r"(?s)primary( ended while starting|: its storage could not).*many for configuration log\.segm",
    ):
        Broker.start("primary", tmp_path / "one", overrides={"log.segment.bytes": "many"})
    with pytest.raises(ClusterUnavailable, match=r"(?s)primary ended while starting.*no\.such\.Authorizer"):
        Broker.start("primary", tmp_path / "two", overrides={"authorizer.class.name": "no.such.Authorizer"})


def test_clusters_outlive_a_command_and_end_by_name(tmp_path):
    """`up` twice gives the same pair, `down` ends it, and a later `up` has the same addresses."""
    said: list[str] = []
    first = clusters.up(tmp_path, said.append)
    try:
        assert clusters.up(tmp_path, said.append) == first
        assert f"primary is at {first.primary.bootstrap} (pid {first.primary.pid})" in said
        assert f"backup.bootstrap.servers = {first.backup.bootstrap}\n" in first.properties.read_text()
    finally:
        clusters.down(tmp_path, said.append)
    for cluster in (first.primary, first.backup):
        with pytest.raises(ProcessLookupError):
            os.kill(cluster.pid, 0)
    clusters.down(tmp_path, said.append)
    assert said[-1] == f"no cluster runs from {tmp_path}"


def test_equal_topics_are_equal(differ):
    """Every kind of content, and more records than one chunk and one look-ahead, compare as equal."""
    assert differ(rows(2_500), rows(2_500)) == Verdict(equal=True, records=2_500, differences=[])


def test_timestamps_near_the_epoch_are_values(differ):
    """A timestamp at the epoch is one like others (librdkafka writes "now" for 0, so 1 ms is the earliest here)."""
    assert differ([(b"k", b"v", [], 1)], [(b"k", b"v", [], 1)]).equal


def test_changed_value_is_named(differ):
    """A null value is not an empty one, and the sentence shows both."""
    source, target = rows(20), rows(20)
    target[10] = (target[10][0], b"", *target[10][2:])
    verdict = differ(source, target)
    assert (verdict.equal, verdict.records, len(verdict.differences)) == (False, 20, 1)
    assert "the value is null on the source, b'' on the target" in verdict.differences[0]
    assert "offset 10" in verdict.differences[0]


def test_changed_key_is_named(differ):
    """A key that is lost is named."""
    source, target = rows(5), rows(5)
    target[4] = (None, *target[4][1:])
    assert "the key is b'key 4' on the source, null on the target" in differ(source, target).differences[0]


def test_header_order_is_named(differ):
    """Two values of one header name the other way round are a difference."""
    source, target = rows(5), rows(5)
    target[3] = (*target[3][:2], [("a", b"2"), ("a", b"1"), ("b", None), ("c", b"")], target[3][3])
    differences = differ(source, target).differences
    assert len(differences) == 1
    assert "the headers have another order: a=b'1', a=b'2'" in differences[0]


def test_changed_header_is_named(differ):
    """A null header value is not an empty one."""
    source, target = rows(5), rows(5)
    target[3] = (*target[3][:2], [("a", b"1"), ("a", b"2"), ("b", b""), ("c", b"")], target[3][3])
    assert "the headers are (('a', b'1')" in differ(source, target).differences[0]


def test_changed_timestamp_is_named(differ):
    """One millisecond off is a difference."""
    source, target = rows(5), rows(5)
    target[2] = (*target[2][:3], START_MS + 3)
    assert (
        f"the timestamp is {START_MS + 2} on the source, {START_MS + 3} on the target"
        in differ(source, target).differences[0]
    )


def test_missing_and_repeated_records_are_named_once(differ):
    """A gap, a repeat and a lost end are three sentences; the records between are compared as they are."""
    source = rows(100)
    target = source[:10] + source[13:50] + source[48:50] + source[50:95]
    differences = differ(source, target).differences
    assert len(differences) == 3
    assert "offset 10: 3 records are missing on the target" in differences[0]
    assert "2 records are on the target that the source does not have there" in differences[1]
    assert "offset 95: 5 records are missing on the target" in differences[2]
    assert "has ended" in differences[2]


def test_swapped_records_are_a_difference(differ):
    """Order within the partition counts."""
    source, target = rows(10), rows(10)
    target[4], target[5] = target[5], target[4]
    assert not differ(source, target).equal


def test_missing_topic_and_partition_count_are_named(primary, backup, topic):
    """A topic without a counterpart is said, the others are compared all the same."""
    create_topic(primary.bootstrap, topic)
    verdict = compare(primary.bootstrap, backup.bootstrap, {topic: f"primary.{topic}"})
    assert verdict.differences == [f"primary.{topic} does not exist on the target."]


def test_compacted_topic_is_compared_by_live_records(primary, backup, topic):
    """A superseded record may be gone on one side; a live one may not."""
    create_topic(primary.bootstrap, topic, cleanup_policy="compact")
    create_topic(backup.bootstrap, topic)
    records: list[Row] = [(f"k{n % 5}".encode(), f"{n}".encode(), [], START_MS + n) for n in range(20)]
    removed: Row = (b"k1", None, [], START_MS + 20)
    write(primary.bootstrap, topic, [*records, removed])
    write(backup.bootstrap, topic, [record for record in records[14:] if record[0] != b"k1"])
    verdict = compare(primary.bootstrap, backup.bootstrap, {topic: topic})
    assert verdict == Verdict(equal=True, records=4, differences=[])

    write(backup.bootstrap, topic, [(b"k2", b"other", [], START_MS + 30)])
    assert not compare(primary.bootstrap, backup.bootstrap, {topic: topic}).equal


def test_records_a_live_source_has_not_shown_yet_are_no_difference(primary, backup, topic):
    """While the source is written, the target may be ahead of the end we took of the source."""
    for bootstrap, count in ((primary.bootstrap, 10), (backup.bootstrap, 12)):
        create_topic(bootstrap, topic)
        write(bootstrap, topic, rows(count))
    assert compare(primary.bootstrap, backup.bootstrap, {topic: topic}, is_live=True).equal
    assert not compare(primary.bootstrap, backup.bootstrap, {topic: topic}).equal


def test_load_writes_what_it_promises(tmp_path):
    """The load keeps its rate, creates its late topic while running, and its content is the same every time."""
    with Broker.start("primary", tmp_path / "one") as broker:
        began = time.monotonic()
        with Load(broker.bootstrap, records_per_s=200, late_after_s=1) as load:
            assert "demo.late" not in load.topics
            eventually(lambda: "demo.late" in load.topics, within_s=20, because="demo.late is created after 1 s")
            eventually(lambda: load.acknowledged >= 500, within_s=20, because="500 records are written")
        took_s = time.monotonic() - began
        assert load.failed == 0
        assert load.acknowledged <= 200 * took_s + 200
        assert load.topics == sorted(topic.name for topic in TOPICS)
        known = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics
        assert {t.name: t.partitions for t in TOPICS} == {t.name: len(known[t.name].partitions) for t in TOPICS}
        same = compare(broker.bootstrap, broker.bootstrap, {topic.name: topic.name for topic in TOPICS})
        assert same.equal
    payments = TOPICS[1]
    assert demo_record(payments, 7) == demo_record(payments, 7)
    names = [name for name, _ in demo_record(payments, 7).headers]
    assert names.count("tag") == 2
    assert ("note", None) in demo_record(payments, 7).headers


def test_eventually_tells_what_it_saw():
    """The failure repeats the reason and the last answer."""
    with pytest.raises(AssertionError, match=r"because never true; last seen: 0"):
        eventually(lambda: 0, within_s=0.2, because="never true")


def test_jars_are_cached_below_the_cache_home(monkeypatch, tmp_path):
    """XDG_CACHE_HOME is honoured."""
    from mirror.runtime import java

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert java.cache_folder() == Path(tmp_path) / "kafka-mirror"
