"""Records are masked, marked and left out on their way; no kill makes one cross twice, or as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, beside, create, flows, messages, write
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]
RATE = 300
EXACTLY_ONCE = "backup.exactly.once.source.support = enabled"
PACKAGE = "org.apache.kafka.connect.transforms"
TRANSFORMS = f"""primary->backup.transforms = mask, tests, mark
primary->backup.transforms.mask.type = {PACKAGE}.MaskField$Value
primary->backup.transforms.mask.fields = card
primary->backup.transforms.mask.replacement = ***
primary->backup.transforms.mask.predicate = payments
primary->backup.transforms.tests.type = {PACKAGE}.Filter
primary->backup.transforms.tests.predicate = marked
primary->backup.transforms.mark.type = {PACKAGE}.InsertHeader
primary->backup.transforms.mark.header = from
primary->backup.transforms.mark.value.literal = primary
primary->backup.transforms.mark.predicate = payments
primary->backup.predicates = payments, marked
primary->backup.predicates.payments.type = {PACKAGE}.predicates.TopicNameMatches
primary->backup.predicates.payments.pattern = .*-payments
primary->backup.predicates.marked.type = {PACKAGE}.predicates.HasHeaderKey
primary->backup.predicates.marked.name = test
"""


def payment(n: int) -> bytes | None:
    """A payment, with a number that would not survive being read and written; each ninth is deleted again."""
    return None if n % 9 == 0 else b'{"id": %d, "card": "4111 %d", "amount": 1.50}' % (n, n)


def masked(n: int) -> bytes | None:
    return None if n % 9 == 0 else b'{"id": %d, "card": "***", "amount": 1.50}' % n


def is_test(n: int) -> bool:
    return n % 5 == 0


@contextmanager
def paying(cluster, topic: str) -> Iterator[list[int]]:
    """Write payments all the while; yields their numbers."""
    written: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})

    def run(stop: threading.Event) -> None:
        while not stop.wait(0.05):
            for _ in range(RATE // 20):
                n = len(written)
                written.append(n)
                headers = [("test", b"1")] if is_test(n) else [("other", None)]
                producer.produce(topic, payment(n), b"%d" % n, 0, headers=headers)
            producer.poll(0)
        assert producer.flush(60) == 0

    with beside(run, "paying"):
        yield written


@pytest.mark.parametrize("mode", ["", EXACTLY_ONCE], ids=["at least once", "exactly once"])
def test_records_are_changed_on_their_way_and_none_is_lost_or_repeated_by_a_kill(
    primary, backup, topic, tmp_path, mode
):
    payments, remote = f"{topic}-payments", f"primary.{topic}-payments"
    create(primary, payments)
    create(primary, topic)
    write(primary, topic, [(b"k", b"as it is", [("other", b"1")], 5), (b"k", b"a test", [("test", b"1")], 6)])
    appliance = RunningAppliance(
        tmp_path,
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics=f"{topic}.*",
        extra=f"{TRANSFORMS}{mode}",
    )
    told = kafka_mirror("plan", appliance.file, check=True).stdout
    assert [line.strip() for line in told.splitlines() if "transforms:" in line] == [
        "transforms: tests",
        "transforms: mask, tests, mark",
    ]
    with appliance:
        with paying(primary, payments) as written:
            flows(backup, remote, more=2 * RATE)
            appliance.kill_all()
            appliance.start()
            flows(backup, remote, more=2 * RATE)
        await_replicated(appliance, primary, payments, remote)
        found = [(one.key(), one.value(), one.headers()) for one in messages(backup, remote)]
        kept = [n for n in written if not is_test(n)]
        assert found == [(b"%d" % n, masked(n), [("other", None), ("from", b"primary")]) for n in kept]
        assert [one.value() for one in messages(backup, f"primary.{topic}")] == [b"as it is"]


def test_a_record_that_cannot_be_masked_pauses_its_partition_unmirrored(primary, backup, topic, tmp_path):
    payments, remote = f"{topic}-payments", f"primary.{topic}-payments"
    create(primary, payments, 2)
    good = [(b"k", payment(n), [], n) for n in range(1, 4)]
    write(primary, payments, [*good, (b"k", b"no object", [], 9), *good])
    write(primary, payments, good, 1)
    appliance = RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=f"{topic}.*", extra=TRANSFORMS
    )
    with appliance:
        await_replicated(appliance, primary, payments, remote, 1)
        eventually(
            lambda: (
                "the record at source offset 3 stays: transform mask: it works on JSON objects"
                in appliance.log.read_text()
            ),
            within_s=30,
            because="the reason is said",
        )
        assert [one.value() for one in messages(backup, remote)] == [masked(n) for n in range(1, 4)]
        eventually(
            lambda: appliance.value("kafka_mirror_partition_paused", topic=remote, partition=0) == 1,
            within_s=30,
            because="the metric comes with a window's report",
        )
