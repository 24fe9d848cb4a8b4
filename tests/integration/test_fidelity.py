"""Every kind of record crosses unchanged: one appliance, two flows in opposite directions, compared record by record."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from metrics.partition_status import Status
from mirror.config.clients import client_options
from mirror.embedded import jars
from mirror.kafka.errors import ErrorCode
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Source
from mirror.model.record_batches import CODECS, Batch, batches
from mirror.runtime.java import java
from tests.integration.appliance import RunningAppliance
from tests.integration.records import (
    START_MS,
    await_replicated,
    big,
    create,
    differences,
    end_offset,
    messages,
    rows,
    write,
)
from tests.waiting import eventually

pytestmark = pytest.mark.kafka

BIG = {"linger.ms": 50, "batch.num.messages": 1000}
BACK = """\
backup->primary.enabled = true
backup->primary.topics = fid-.*
backup.consumer.isolation.level = read_committed
primary.exactly.once.source.support = enabled
"""


@pytest.fixture(scope="module")
def mirror(primary, backup, tmp_path_factory) -> Iterator[RunningAppliance]:
    """primary->backup reads uncommitted, backup->primary committed, and in transactions; both mirror `fid-...` only."""
    with RunningAppliance(
        tmp_path_factory.mktemp("fidelity"),
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics="fid-.*",
        extra=BACK,
    ) as appliance:
        yield appliance
    assert "Traceback" not in appliance.logged()


@pytest.fixture
def topic(topic: str) -> str:
    return f"fid-{topic}"


def stored(cluster, topic: str, partition: int = 0) -> list[Batch]:
    """Read a topic-partition's batches as the broker keeps them."""

    async def read() -> list[Batch]:
        source = Source(client_options({"bootstrap.servers": cluster.bootstrap}))
        try:
            await source.open([topic])
            node, at, found = source.leader(topic, partition), 0, []
            end = end_offset(cluster, topic, partition)
            while at < end:
                wanted = {(topic, partition): FetchPosition(at, 1 << 20)}
                (part,) = await source.read(node, wanted, FetchLimits(500, 1, 1 << 22, 0))
                assert part.error is ErrorCode.none
                found += list(batches(part.records))
                at = found[-1].last_offset + 1
            return found
        finally:
            await source.close()

    return asyncio.run(read())


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_every_codec_is_mirrored_and_kept(mirror, primary, backup, topic, codec):
    create(primary, topic)
    write(primary, topic, rows(700), **BIG, **{"compression.type": codec})
    await_replicated(mirror, primary, topic, f"primary.{topic}")
    assert differences(primary, backup, topic, f"primary.{topic}") == []
    assert {batch.codec for batch in stored(backup, f"primary.{topic}")} == {CODECS[codec]}


def test_whole_batches_stay_whole_and_tiny_ones_are_packed_together(mirror, primary, backup, topic):
    create(primary, topic, 2)
    write(primary, topic, rows(4000), partition=0, **{**BIG, "batch.size": 65536})
    write(primary, topic, rows(600), partition=1, **{"linger.ms": 0, "batch.num.messages": 1})
    for partition in (0, 1):
        await_replicated(mirror, primary, topic, f"primary.{topic}", partition)
    assert differences(primary, backup, topic, f"primary.{topic}") == []
    sizes = [batch.count for batch in stored(primary, topic)]
    assert max(sizes) > 1
    assert [batch.count for batch in stored(backup, f"primary.{topic}")] == sizes
    assert len(stored(primary, topic, 1)) == 600
    assert len(stored(backup, f"primary.{topic}", 1)) < 600


def test_timestamps_at_both_ends_of_time(mirror, primary, backup, topic):
    create(primary, topic, message_timestamp_after_max_ms=str(2**63 - 1))
    times = [0, 1, START_MS, 253_402_300_800_000, 9_999_999_999_999_999, 2**53 + 1]  # the fourth is the year 10000
    write(primary, topic, [(b"k", str(at).encode(), [], at) for at in times])
    await_replicated(mirror, primary, topic, f"primary.{topic}")
    assert differences(primary, backup, topic, f"primary.{topic}") == []


def test_the_times_that_the_source_broker_set_become_the_records_times(mirror, primary, backup, topic):
    """LogAppendTime: the batch's header holds the time and the records do not, so it cannot cross whole."""
    create(primary, topic, message_timestamp_type="LogAppendTime")
    write(primary, topic, rows(300), **BIG)
    await_replicated(mirror, primary, topic, f"primary.{topic}")
    assert differences(primary, backup, topic, f"primary.{topic}") == []
    assert all(batch.max_timestamp > START_MS + 300 for batch in stored(backup, f"primary.{topic}"))


def transactions(cluster, topic: str) -> None:
    """Committed, aborted and plain records in turn, the aborted ones 7 in 20."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for turn in range(20):
        producer.begin_transaction()
        for n in range(10):
            producer.produce(topic, f"{turn}:{n}", "k", 0)
        producer.flush(30)
        (producer.abort_transaction if turn % 3 == 1 else producer.commit_transaction)(30)
    write(cluster, topic, rows(20))


def test_read_committed_leaves_out_what_was_aborted(mirror, primary, backup, topic):
    create(backup, topic)
    transactions(backup, topic)
    await_replicated(mirror, backup, topic, f"backup.{topic}")
    assert differences(backup, primary, topic, f"backup.{topic}") == []
    records = [batch for batch in stored(primary, f"backup.{topic}") if not batch.is_control]
    assert sum(batch.count for batch in records) == 13 * 10 + 20


def test_read_uncommitted_takes_aborted_records_too_as_mirrormaker_does(mirror, primary, backup, topic):
    create(primary, topic)
    transactions(primary, topic)
    await_replicated(mirror, primary, topic, f"primary.{topic}")
    assert differences(primary, backup, topic, f"primary.{topic}", isolation="read_uncommitted") == []
    assert sum(batch.count for batch in stored(backup, f"primary.{topic}")) == 20 * 10 + 20


def test_an_open_transaction_holds_only_its_own_partition(mirror, primary, backup, topic):
    create(backup, topic, 2)
    producer = Producer({"bootstrap.servers": backup.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(30) == 0
    write(backup, topic, rows(10), partition=0)
    write(backup, topic, rows(10), partition=1)
    await_replicated(mirror, backup, topic, f"backup.{topic}", 1)
    assert end_offset(primary, f"backup.{topic}", 0) == 0
    producer.commit_transaction(30)
    await_replicated(mirror, backup, topic, f"backup.{topic}", 0)
    assert differences(backup, primary, topic, f"backup.{topic}") == []


def test_mirrored_records_do_not_return_to_their_source(mirror, primary, backup, topic):
    """Both directions match this topic on both clusters; neither mirrors the other's remote topic."""
    create(primary, topic)
    create(backup, topic)
    write(primary, topic, rows(30))
    write(backup, topic, rows(40))
    await_replicated(mirror, primary, topic, f"primary.{topic}")
    await_replicated(mirror, backup, topic, f"backup.{topic}")
    assert differences(primary, backup, topic, f"primary.{topic}") == []
    assert differences(backup, primary, topic, f"backup.{topic}") == []
    for cluster in (primary, backup):
        names = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics
        assert not [name for name in names if topic in name and name.count(".") > 1]


def alter(cluster, topic: str, **config: str) -> None:
    """Set config keys of a topic, with `_` for `.`."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_records_near_the_size_limit_are_mirrored(mirror, primary, backup, topic):
    create(primary, topic, max_message_bytes="4000000")
    write(primary, topic, big(5, 3_900_000), **{"message.max.bytes": 4_000_000})
    await_replicated(mirror, primary, topic, f"primary.{topic}")
    assert differences(primary, backup, topic, f"primary.{topic}") == []


def test_a_batch_too_large_for_the_target_is_split_until_it_fits(mirror, primary, backup, topic):
    create(backup, f"primary.{topic}", max_message_bytes="120000")
    create(primary, topic)
    write(primary, topic, big(60, 10_000), **{**BIG, "batch.size": 600_000})
    assert max(len(batch.data) for batch in stored(primary, topic)) > 120_000
    await_replicated(mirror, primary, topic, f"primary.{topic}")
    assert differences(primary, backup, topic, f"primary.{topic}") == []


def test_a_too_large_record_pauses_only_its_partition_until_the_limit_is_raised(mirror, primary, backup, topic):
    remote = f"primary.{topic}"
    create(backup, remote, 2, max_message_bytes="50000")
    kept_s = 100 * 365 * 86400
    create(primary, topic, 2, retention_ms=str(kept_s * 1000))
    write(primary, topic, [*rows(5), *big(1, 200_000), *rows(5, start=5)], partition=0)
    write(primary, topic, rows(50), partition=1)
    await_replicated(mirror, primary, topic, remote, 1)
    eventually(
        lambda: mirror.value("kafka_mirror_partition_paused", topic=remote, partition=0) == 1,
        within_s=30,
        because="the partition with the large record is paused",
    )
    assert end_offset(backup, remote, 0) == 5
    assert f"{topic}-0 paused: the target refuses source offset 5 and on: MESSAGE_TOO_LARGE" in mirror.log.read_text()
    write(primary, topic, rows(20, start=50), partition=1)
    await_replicated(mirror, primary, topic, remote, 1)
    eventually(
        lambda: mirror.value("kafka_mirror_partition_status", topic=remote, partition=0) == Status.STALL,
        within_s=30,
        because="a window of polls has seen it stand still",
    )
    assert mirror.value("kafka_mirror_partition_status", topic=remote, partition=1) == Status.OK
    written_s = big(1, 200_000)[0][3] / 1000
    waits_s = mirror.value("kafka_mirror_lag_seconds", topic=remote, partition=0)
    assert waits_s == pytest.approx(time.time() - written_s, abs=5)
    assert mirror.value("kafka_mirror_lag_seconds", topic=remote, partition=1) == 0
    left = re.search(
        rf'^kafka_mirror_retention_headroom_seconds{{.*"{remote}"}} (\S+)$', mirror.exposition(), re.MULTILINE
    )
    assert float(left[1]) == pytest.approx(kept_s - waits_s, abs=5)
    alter(backup, remote, max_message_bytes="1000000")
    await_replicated(mirror, primary, topic, remote, 0, within_s=90)
    assert differences(primary, backup, topic, remote) == []
    eventually(
        lambda: mirror.value("kafka_mirror_partition_paused", topic=remote, partition=0) == 0,
        within_s=30,
        because="the partition flows again",
    )
    eventually(
        lambda: mirror.value("kafka_mirror_partition_status", topic=remote, partition=0) == Status.OK,
        within_s=30,
        because="the next poll judges it",
    )


@pytest.mark.parametrize(
    ("flow", "refused", "theirs", "mended", "said"),
    [
        (
            "primary->backup",
            (b"k", b"of 2100", [], 4_102_444_800_000),
            {},
            {"message_timestamp_after_max_ms": str(2**63 - 1)},
            "INVALID_TIMESTAMP. Widen its message.timestamp.before.max.ms and message.timestamp.after.max.ms.",
        ),
        (
            "backup->primary",
            (None, b"no key", [], START_MS),
            {"cleanup_policy": "compact"},
            {"cleanup_policy": "delete"},
            "INVALID_RECORD. A compacted topic accepts no record without a key: change its cleanup.policy.",
        ),
    ],
    ids=["a time beyond the target's limits", "no key for a compacted topic, in transactions"],
)
def test_a_refused_record_is_named_within_its_batch_and_sent_after_the_fix(
    request, mirror, topic, flow, refused, theirs, mended, said
):
    """Both sides of it are in its batch: what is before it crosses, and what is behind it waits.

    Each record has a key of its own: a cleaner that comes by leaves them all.
    """
    source, target = map(request.getfixturevalue, flow.split("->"))
    remote = f"{flow.partition('->')[0]}.{topic}"
    create(target, remote, 2, **theirs)
    create(source, topic, 2, message_timestamp_after_max_ms=str(2**63 - 1))
    fine = [(b"k %d" % n, str(n).encode(), [], START_MS + n) for n in range(100)]
    write(source, topic, [*fine[:61], refused, *fine[61:]], **BIG)
    write(source, topic, fine, partition=1)
    assert [batch.count for batch in stored(source, topic)] == [101]
    await_replicated(mirror, source, topic, remote, 1)
    eventually(
        lambda: mirror.value("kafka_mirror_partition_paused", topic=remote, partition=0) == 1,
        within_s=30,
        because="the partition with the refused record is paused",
    )
    assert len(messages(target, remote, 0)) == 61
    assert f"{topic}-0 paused: the target refuses source offset 61 and on: {said}" in mirror.log.read_text()
    alter(target, remote, **mended)
    await_replicated(mirror, source, topic, remote, 0, within_s=90)
    assert differences(source, target, topic, remote) == []


def test_kafkas_own_tool_shows_the_mirrors_lag_on_the_source(mirror, primary, backup, topic):
    """`kafka-consumer-groups --describe` on the source: our group, source topics, lag 0 where all is copied."""
    create(primary, topic, 2)
    write(primary, topic, rows(30), partition=1)
    await_replicated(mirror, primary, topic, f"primary.{topic}", 1)

    def shown() -> dict[int, list[str]]:
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        command = [java(), "-cp", jars.classpath(jars.resolve()), tool, "--bootstrap-server", primary.bootstrap]
        command += ["--describe", "--group", "mirror.primary->backup"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        fields = [line.split() for line in printed.splitlines() if topic in line]
        return {int(field[2]): field[3:6] for field in fields}

    eventually(
        lambda: shown() == {0: ["0", "0", "0"], 1: ["30", "30", "0"]},
        within_s=30,
        because="positions reach the source with the next poll",
    )
