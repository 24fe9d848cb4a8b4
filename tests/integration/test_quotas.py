"""A target whose quota has the mirror wait for longer than a window lasts (KIP-13, KIP-219)."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Producer

from metrics.partition_status import Status
from mirror.config.clients import client_options
from mirror.embedded.broker import Broker
from mirror.kafka.client import Client
from mirror.kafka.messages import Request, make
from tests.compare import compare
from tests.integration.appliance import RunningAppliance
from tests.integration.records import beside, create, write
from tests.waiting import eventually

pytestmark = pytest.mark.kafka
RATE = 30_000  # bytes/s
ALTER_CLIENT_QUOTAS = 49
ONE_BATCH = {"batch.size": 1_000_000, "linger.ms": 1_000}
UNKNOWN = ("no answer about the last batches", "the last transaction is taken back")


async def limit(broker: Broker, rate: float | None) -> None:
    """Set or remove the quota of every client for produced bytes."""

    def build(module: ModuleType, _: int) -> Any:
        entity = (module.EntityData(entity_type="client-id", entity_name=None),)
        op = module.OpData(key="producer_byte_rate", value=rate or 0.0, remove=rate is None)
        return make(
            module.AlterClientQuotasRequest, entries=(module.EntryData(entity=entity, ops=(op,)),), validate_only=False
        )

    client = await Client.opened(client_options({"bootstrap.servers": broker.bootstrap}))
    try:
        answer = await client.ask_any(Request(ALTER_CLIENT_QUOTAS, 0, 1, build))
        assert [entry.error_code for entry in answer.entries] == [0]
    finally:
        await client.close()


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_quota_longer_than_a_window_leaves_no_unknown_outcome(primary, topic, tmp_path: Path, mode):
    """What was not sent when the window ends is read again by the next one. No partition is paused for it."""
    create(primary, topic, 2)
    for partition in (0, 1, 0, 1):
        rows = [(b"key", os.urandom(20_000), (), 1)] * 45
        write(primary, topic, rows, partition=partition, **ONE_BATCH)
    with Broker.start("backup", tmp_path / "backup") as backup:
        asyncio.run(limit(backup, RATE))
        appliance = RunningAppliance(
            tmp_path,
            primary=primary.bootstrap,
            backup=backup.bootstrap,
            topics=topic,
            extra=f"backup.exactly.once.source.support = {mode}\nmirror.slots = 1",
        )
        with appliance:
            eventually(
                lambda: sum(appliance.served("throttled_seconds_total", cluster="backup")) > 20,
                within_s=60,
                because="windows are held up by the quota",
            )
            asyncio.run(limit(backup, None))
            eventually(
                lambda: appliance.served("lag_records") == [0, 0],  # a partition whose lag is unknown has no sample
                within_s=60,
                because="the rest is replicated when the brokers let the mirror send",
            )
            assert appliance.stop()[0] == 0
        text = appliance.log.read_text()
        assert [line for line in text.splitlines() if any(one in line for one in UNKNOWN)] == []
        verdict = compare(primary.bootstrap, backup.bootstrap, {topic: f"primary.{topic}"})
        assert verdict.equal, verdict.differences
        assert verdict.records == 180


def test_a_flow_that_copies_slower_than_its_source_grows_is_warned_of(primary, topic, tmp_path: Path):
    """Each poll finds a higher position, and a lag that has grown: WARN, until the quota is lifted."""
    create(primary, topic)

    def run(stop: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": primary.bootstrap, "batch.num.messages": 5})
        while not stop.wait(0.1):  # 200 kB/s
            for _ in range(20):
                producer.produce(topic, os.urandom(1_000))
            producer.flush(30)

    with Broker.start("backup", tmp_path / "backup") as backup:
        asyncio.run(limit(backup, RATE))
        appliance = RunningAppliance(
            tmp_path,
            primary=primary.bootstrap,
            backup=backup.bootstrap,
            topics=topic,
            extra="backup.producer.max.request.size = 15000",
        )

        def statuses() -> list[float]:
            return appliance.served("partition_status", topic=f"primary.{topic}")

        with appliance:
            with beside(run, "source"):
                eventually(lambda: statuses() == [Status.WARN], within_s=60, because="the lag grows at each poll")
                before = appliance.served("replicated_offset", topic=f"primary.{topic}")
                eventually(
                    lambda: appliance.served("replicated_offset", topic=f"primary.{topic}") > before,
                    within_s=30,
                    because="records are copied all the same",
                )
            asyncio.run(limit(backup, None))
            eventually(lambda: statuses() == [Status.OK], within_s=60, because="the lag shrinks")
            assert appliance.stop()[0] == 0
        assert f"primary.{topic}-0 is WARN: copying, but falling behind: lag " in appliance.log.read_text()
