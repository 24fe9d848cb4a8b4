"""Groups that are no consumer groups are named and have a status: those of Kafka Streams (KIP-1071), and share groups."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from mirror.config.clients import client_options
from mirror.embedded.broker import Broker
from mirror.errors import SettingsError
from mirror.kafka.client import Client, CoordinatorType, Purpose
from mirror.kafka.cluster import Cluster
from mirror.kafka.errors import ErrorCode
from mirror.kafka.group_offsets import patiently
from mirror.kafka.groups import UNSUPPORTED
from mirror.kafka.messages import Request
from tests.integration.appliance import RunningAppliance
from tests.integration.records import commit, create, rows, write
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = pytest.mark.kafka


async def join(broker: Broker, topic: str) -> list[ErrorCode]:
    """Join a group of Kafka Streams (KIP-1071) and a share group (KIP-932), by raw heartbeats; return their error codes."""

    def streams(module: ModuleType, _: int) -> Any:
        part = module.Subtopology(
            subtopology_id="0",
            source_topics=(topic,),
            state_changelog_topics=(),
            repartition_source_topics=(),
            copartition_groups=(),
        )
        return module.StreamsGroupHeartbeatRequest(
            group_id="of-streams",
            member_id=str(uuid.uuid4()),
            member_epoch=0,
            endpoint_information_epoch=0,
            rebalance_timeout=timedelta(seconds=60),
            topology=module.Topology(epoch=0, subtopologies=(part,)),
            active_tasks=(),
            standby_tasks=(),
            warmup_tasks=(),
            process_id="p",
            client_tags=(),
            task_offsets=None,
            task_end_offsets=None,
        )

    def share(module: ModuleType, _: int) -> Any:
        return module.ShareGroupHeartbeatRequest(
            group_id="shared", member_id=str(uuid.uuid4()), member_epoch=0, subscribed_topic_names=(topic,)
        )

    client = await Client.opened(client_options({"bootstrap.servers": broker.bootstrap}))
    try:
        codes = []
        for name, request in (("of-streams", Request(88, 0, 0, streams)), ("shared", Request(76, 1, 1, share))):
            node = await patiently(lambda name=name: client.coordinator(CoordinatorType.GROUP, name))
            codes.append((await client.ask(node, request, Purpose.COORDINATION)).error_code)
        return codes
    finally:
        await client.close()


def test_groups_of_kafka_streams_and_share_groups_are_named_and_have_a_status(tmp_path, backup, topic):
    with Broker.start("newest", tmp_path / "newest", version="4.4.0") as source:
        create(source, topic)
        write(source, topic, rows(1))
        commit(source, "of-consumers", topic, 1)
        eventually(
            lambda: set(asyncio.run(join(source, topic))) == {ErrorCode.none},
            within_s=60,
            because="both groups are there",
        )
        groups = Cluster("newest", {"bootstrap.servers": source.bootstrap})
        found = {group.name: (group.state, group.kind) for group in groups.groups()}
        assert found["of-streams"] == (UNSUPPORTED, "streams")
        assert found["shared"] == (UNSUPPORTED, "share")
        assert found["of-consumers"] == ("Empty", "")
        with pytest.raises(SettingsError, match="group shared is a share group"):
            groups.group("shared")
        extra = "emit.checkpoints.enabled = true\nemit.checkpoints.interval.seconds = 1\n"
        with RunningAppliance(
            tmp_path, primary=source.bootstrap, backup=backup.bootstrap, topics=topic, extra=extra
        ) as running:
            for group, state in (
                ("of-streams", "unsupported"),
                ("shared", "unsupported"),
                ("of-consumers", "translated"),
            ):
                line = f'kafka_mirror_group_partitions{{group="{group}",source="primary",state="{state}",target="backup"}} 1'
                eventually(lambda line=line: line in running.exposition(), within_s=60, because=f"{group} is {state}")
            assert 'last_checkpoint_timestamp_seconds{group="shared"' not in running.exposition()
            shown = kafka_mirror("lag", running.file, check=True)
        for said in (shown.stderr, running.log.read_text()):
            assert "group of-streams is left out: it is a streams group" in said
            assert "group shared is left out: it is a share group" in said
        assert "of-consumers" in shown.stdout
