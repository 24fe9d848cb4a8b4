"""Groups are read as they are, or not at all: a coordinator that loads or refuses is not one without offsets."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from mirror.checkpoints.reads import committed
from mirror.config.clients import aiokafka_options
from mirror.errors import ClusterUnavailable
from mirror.groups import HIDDEN, Groups, tell_hidden
from mirror.local.broker import Broker
from mirror.replication.group_offsets import GroupOffsets, patiently
from mirror.replication.wire import KafkaError
from tests.integration.acls import GUARDED, deny
from tests.integration.records import create
from tests.waiting import eventually

pytestmark = pytest.mark.kafka
PARTITIONS = 200
EXPECTED = {("t", partition): partition for partition in range(PARTITIONS)}
OFFSETS = {place: (offset, "m" * 2_000) for place, offset in EXPECTED.items()}


async def commit(client: dict[str, str], group: str, times: int) -> None:
    offsets = await GroupOffsets.connected(aiokafka_options(client))
    try:
        for _ in range(times):
            await patiently(lambda: offsets.commit(group, OFFSETS))
    finally:
        await offsets.close()


def test_a_group_whose_coordinator_loads_has_the_offsets_it_had(tmp_path, caplog):
    with Broker.start("guarded", tmp_path, overrides=GUARDED) as broker:
        client = {"bootstrap.servers": broker.bootstrap}
        create(broker, "t", PARTITIONS)
        asyncio.run(commit(client, "g", times=50))  # 20 MB that a new coordinator reads before it answers
        groups = Groups("primary", client)
        assert groups.one("g").offsets == EXPECTED
        broker.kill()
        again = threading.Thread(target=broker.restart)
        again.start()

        def first() -> tuple[object]:  # a tuple is true, no offsets are not
            try:
                return (asyncio.run(committed(aiokafka_options(client), "g")),)
            except (KafkaError, OSError) as error:
                raise AssertionError(repr(error)) from error

        try:
            assert eventually(first, within_s=60, because="the broker is there again") == (OFFSETS,)
        finally:
            again.join()
        assert groups.one("g").offsets == EXPECTED

        deny(broker, "g", AclOperation.DESCRIBE, ResourceType.GROUP)
        (group,) = eventually(
            lambda: [each for each in groups.read() if each.state == HIDDEN],
            within_s=30,
            because="it is listed, no more",
        )
        assert (group.name, group.offsets) == ("g", {})
        with pytest.raises(ClusterUnavailable, match=r"cluster primary: group g cannot be read: .* DESCRIBE"):
            groups.one("g")
        told: set[str] = set()
        with caplog.at_level(logging.WARNING, "mirror"):
            for _ in range(2):
                tell_hidden([group], "primary", told)
        assert [record.getMessage() for record in caplog.records if record.name == "mirror"] == [
            "cluster primary: group g is left out: this client may not DESCRIBE it"
        ]
