"""A source of several replicas: its log is truncated by a leader that lacks records, and a replica nearby is read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvloop
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.config.clients import client_options
from mirror.embedded.broker import Broker
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Source
from mirror.kafka.metadata import id_of
from mirror.model.record_batches import batches, records
from tests.integration.appliance import RunningAppliance
from tests.integration.ledger import ledger
from tests.integration.records import differences, end_offset, messages, rows, write
from tests.waiting import eventually

pytestmark = pytest.mark.kafka

LIMITS = FetchLimits(500, 1, 1 << 20, 0)
LEADER, FOLLOWER = 2, 3


class Racks:
    """Three brokers in racks of their own; the first has the controller, the others the topics."""

    def __init__(self, brokers: list[Broker]) -> None:
        self.brokers = brokers

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def node(self, number: int) -> Broker:
        return self.brokers[number - 1]

    def create(self, topic: str, **config: str) -> None:
        """Create a topic of one topic-partition, led by LEADER."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        made = NewTopic(topic, 1, replica_assignment=[[LEADER, FOLLOWER]], config=config)
        admin.create_topics([made])[topic].result(30)
        eventually(lambda: self.state(topic)[1] == [LEADER, FOLLOWER], within_s=30, because="both are in sync")

    def state(self, topic: str) -> tuple[int, list[int]]:
        """Return the leader, and who is in sync."""
        found = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(topic, timeout=10).topics[topic]
        assert 0 in found.partitions, f"the broker that answered has not heard of {topic} yet"
        part = found.partitions[0]
        return part.leader, sorted(part.isrs)


@pytest.fixture(scope="module")
def racks(tmp_path_factory) -> Iterator[Racks]:
    folder: Path = tmp_path_factory.mktemp("racks")

    def overrides(node: int) -> dict[str, str]:
        return {
            "broker.rack": f"rack-{node}",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        }

    with ExitStack() as stack:
        first = stack.enter_context(Broker.start("racks-1", folder / "1", overrides=overrides(1)))
        others = [
            stack.enter_context(
                Broker.start(f"racks-{n}", folder / str(n), overrides=overrides(n), joins=first, node=n)
            )
            for n in (LEADER, FOLLOWER)
        ]
        yield Racks([first, *others])


def test_the_replica_in_the_mirrors_rack_is_read(racks, topic):
    racks.create(topic)
    written = rows(20)
    write(racks, topic, written)
    found: list[bytes | None] = []

    async def run() -> None:
        source = Source(client_options({"bootstrap.servers": racks.bootstrap}))
        try:
            await source.open({topic})
            wanted = {(topic, 0): FetchPosition(0, 1 << 20, id_of(source.topic_id(topic)))}
            (elsewhere,) = await source.fetch(LEADER, wanted, LIMITS._replace(rack="rack-9"))
            assert elsewhere.read_replica is None
            assert elsewhere.records, "no replica is there: the leader is read"
            (named,) = await source.fetch(LEADER, wanted, LIMITS._replace(rack=f"rack-{FOLLOWER}"))
            assert (named.read_replica, bytes(named.records)) == (FOLLOWER, b"")
            while not found:
                for part in await source.fetch(FOLLOWER, wanted, LIMITS._replace(rack=f"rack-{FOLLOWER}")):
                    found.extend(record.value for batch in batches(part.records) for record in records(batch.data))
        finally:
            await source.close()

    uvloop.run(asyncio.wait_for(run(), 60))
    assert found == [value for _, value, *_ in written]


def test_a_mirror_in_another_rack_copies_every_record(racks, backup, topic, tmp_path):
    racks.create(topic)
    write(racks, topic, rows(500))
    with RunningAppliance(
        tmp_path,
        primary=racks.bootstrap,
        backup=backup.bootstrap,
        topics=topic,
        extra=f"primary.consumer.client.rack = rack-{FOLLOWER}\n",
    ):
        eventually(lambda: end_offset(backup, f"primary.{topic}", 0) == 500, within_s=60, because="all is copied")
        write(racks, topic, rows(500, start=500))
        eventually(lambda: end_offset(backup, f"primary.{topic}", 0) == 1000, within_s=60, because="it goes on")
    assert differences(racks, backup, topic, f"primary.{topic}") == []


def test_a_truncated_log_is_read_from_its_first_different_offset(racks, backup, topic, tmp_path):
    """An unclean election while the mirror is down: without leader epochs, 50 records would be skipped without a word."""
    racks.create(topic, **{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    write(racks, topic, rows(100))
    remote = f"primary.{topic}"
    with RunningAppliance(tmp_path, primary=racks.bootstrap, backup=backup.bootstrap, topics=topic) as running:
        racks.node(FOLLOWER).kill()
        eventually(lambda: racks.state(topic) == (LEADER, [LEADER]), within_s=60, because="the follower is out of sync")
        write(racks, topic, rows(50, start=100))
        eventually(lambda: end_offset(backup, remote, 0) == 150, within_s=60, because="the leader's records are copied")
        running.stop()
        racks.node(LEADER).kill()
        racks.node(FOLLOWER).restart()
        eventually(lambda: racks.state(topic)[0] == FOLLOWER, within_s=60, because="the other one leads, uncleanly")
        write(racks, topic, rows(100, start=1000))
        assert end_offset(racks, topic, 0) == 200
        running.start()
        eventually(
            lambda: end_offset(backup, remote, 0) >= 250, within_s=60, because="all that the new leader has comes"
        )
        eventually(
            lambda: running.value("kafka_mirror_offset_rewinds_total", topic=remote, partition=0) == 1,
            within_s=30,
            because="it is counted",
        )
        told = running.log.read_text()
        eventually(
            lambda: ledger(running, topic) == [("kept", topic, 0, 100, 149)], within_s=30, because="the ledger has it"
        )
    racks.node(LEADER).restart()
    expected = [value for _, value, *_ in rows(150) + rows(100, start=1000)]
    assert [message.value() for message in messages(backup, remote)] == expected
    assert f"{topic}-0: the source's log was truncated: the target keeps offsets 100 to 149" in told
