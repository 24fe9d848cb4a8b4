"""Groups are read as they are, or not at all: a coordinator that loads or refuses is not one without offsets."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import closing

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AclOperation, ResourceType

from mirror.config.clients import client_options
from mirror.embedded.broker import Broker
from mirror.errors import ClusterRefuses
from mirror.kafka.cluster import Cluster
from mirror.kafka.errors import KafkaError
from mirror.kafka.group_offsets import GroupOffsets, patiently
from mirror.kafka.groups import HIDDEN, UNKNOWN, is_idle, warn_of_left_out
from mirror.kafka.internal_topics import answered, committed
from mirror.kafka.target import Target
from mirror.model.record_batches import of_values
from tests.integration.acls import GUARDED, deny
from tests.integration.records import create, write
from tests.waiting import eventually

pytestmark = pytest.mark.kafka
PARTITIONS = 200
ROW = (b"key", b"value", (), 1)
EXPECTED = {("t", partition): partition for partition in range(PARTITIONS)}
OFFSETS = {place: (offset, "m" * 2_000) for place, offset in EXPECTED.items()}


async def commit(client: dict[str, str], group: str, times: int) -> None:
    offsets = await GroupOffsets.connected(client_options(client))
    try:
        for _ in range(times):
            await patiently(lambda: offsets.commit(group, OFFSETS), within_s=60)  # the first creates the offsets topic
    finally:
        await offsets.close()


def test_a_group_whose_coordinator_loads_has_the_offsets_it_had(tmp_path, caplog):
    with Broker.start("guarded", tmp_path, overrides=GUARDED) as broker:
        client = {"bootstrap.servers": broker.bootstrap}
        create(broker, "t", PARTITIONS)
        asyncio.run(commit(client, "g", times=50))  # 20 MB that a new coordinator reads before it answers
        groups = Cluster("primary", client)
        assert groups.group("g").offsets == EXPECTED
        broker.kill()
        again = threading.Thread(target=broker.restart)
        again.start()

        def first() -> tuple[object]:  # a tuple is true, no offsets are not
            try:
                return (asyncio.run(committed(client_options(client), "g")),)
            except (KafkaError, OSError) as error:
                raise AssertionError(repr(error)) from error

        try:
            assert eventually(first, within_s=60, because="the broker is there again") == (OFFSETS,)
        finally:
            again.join()
        assert groups.group("g").offsets == EXPECTED

        grant = deny(broker, "g", AclOperation.DESCRIBE, ResourceType.GROUP)
        (group,) = eventually(
            lambda: [each for each in groups.groups() if each.state == HIDDEN],
            within_s=30,
            because="it is listed, no more",
        )
        assert (group.name, group.offsets) == ("g", {})
        with pytest.raises(ClusterRefuses, match=r"cluster primary: group g cannot be read\. .* DESCRIBE"):
            groups.group("g")
        with pytest.raises(
            ClusterRefuses, match=r"no positions: not authorized .* Grant this client READ and DESCRIBE"
        ):
            answered(committed(client_options(client), "g"), cluster="primary", what="no positions")
        shown: set[str] = set()
        with caplog.at_level(logging.WARNING, "mirror"):
            for _ in range(2):
                warn_of_left_out([group], "primary", shown)
        assert [record.getMessage() for record in caplog.records if record.name == "mirror"] == [
            "cluster primary: group g is left out: this client may not DESCRIBE it"
        ]

        with closing(Cluster("primary", client)) as admin:
            for _ in range(2):  # librdkafka reports a time-out, and the refusal once
                with pytest.raises(ClusterRefuses, match=r"Grant this client DESCRIBE on the group g\."):
                    admin.committed("g", [("t", 7)])
            grant()
            asked = [("t", 7)]
            assert eventually(lambda: admin.committed("g", asked), within_s=60, because="it is granted") == {
                ("t", 7): 7
            }


def reading(cluster, topic: str, group: str, protocol: str) -> Consumer:
    """Return a reader of a topic that has read its first record, and committed that."""
    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe([topic])
    try:
        message = eventually(lambda: reader.poll(1), within_s=60, because="the group reads")
        reader.commit(message, asynchronous=False)
    except BaseException:
        reader.close()
        raise
    return reader


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_either_protocol_has_its_state_its_owners_and_its_offsets(primary, topic, protocol):
    create(primary, topic, 2)
    write(primary, topic, [ROW])
    groups, name = Cluster("primary", {"bootstrap.servers": primary.bootstrap}), f"{topic}.{protocol}"

    def shown() -> tuple[object, ...]:
        group = groups.group(name)
        assert group is not None
        return group.state, dict(group.offsets), dict(group.owners)

    reader = reading(primary, topic, name, protocol)
    try:
        owner = "reader/127.0.0.1"
        assert shown() == ("Stable", {(topic, 0): 1}, {(topic, 0): owner, (topic, 1): owner})
    finally:
        reader.close()
    nobody = ("Empty", {(topic, 0): 1}, {})
    eventually(lambda: shown() == nobody, within_s=30, because="the reader has left")


def test_a_new_protocol_group_with_hidden_topics_counts_as_in_use(tmp_path):
    with Broker.start("guarded", tmp_path, overrides=GUARDED) as broker:
        create(broker, "t")
        write(broker, "t", [ROW])
        reader = reading(broker, "t", "g", "consumer")
        try:
            deny(broker, "t", AclOperation.DESCRIBE, ResourceType.TOPIC)
            groups = Cluster("guarded", {"bootstrap.servers": broker.bootstrap})
            group = eventually(
                lambda: (found := groups.group("g")) and found.state == UNKNOWN and found,
                within_s=30,
                because="its members are not shown",
            )
            assert not is_idle(group.state)
            assert group.owners == {}
        finally:
            reader.close()


def test_positions_that_a_transaction_is_about_to_change_are_waited_for(backup, topic):
    """Without that a broker tells those of the transaction before, and a window that begins there repeats its records."""
    create(backup, topic, 2)
    group, place, other = f"g-{topic}", (topic, 0), (topic, 1)
    client = client_options({"bootstrap.servers": backup.bootstrap})

    async def scene() -> None:
        writes = Target(client, request_bytes=1 << 20, transactional_id=f"id-{topic}")
        reads = await GroupOffsets.connected(client)
        await writes.open({topic})
        await writes.fence()
        (batch,) = of_values([(b"", b"1")], timestamp_ms=0)
        try:
            writes.begin_transaction()
            await writes.send(batch, *place)
            await writes.commit_transaction(group, {place: (5, "m"), other: (6, "")})
            assert await reads.committed(group, [place, other], is_stable=True) == {place: (5, "m"), other: (6, "")}
            writes.begin_transaction()
            await writes.send(batch, *place)
            await writes._transactions._commit_offsets(group, {place: (9, "n")})
            waiting = asyncio.create_task(reads.committed(group, [place], is_stable=True))
            assert await reads.committed(group, [other], is_stable=True) == {other: (6, "")}
            assert await reads.committed(group) == {place: (5, "m"), other: (6, "")}, (
                "who need not be sure does not wait"
            )
            await asyncio.sleep(0.5)
            assert not waiting.done()
            await writes.commit_transaction(group, {})
            assert await waiting == {place: (9, "n")}
        finally:
            await reads.close()
            await writes.close()

    asyncio.run(scene())
