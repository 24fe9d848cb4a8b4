"""Heartbeats on real brokers: written to the target, carried on, and hops counted by Kafka's own client."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from mirror.model.mm2_records import Heartbeat
from tests.integration.appliance import RunningAppliance
from tests.integration.kafka_java import formatted, kafka_java
from tests.integration.records import messages
from tests.waiting import eventually

pytestmark = pytest.mark.kafka
EXTRA = """\
emit.heartbeats.enabled = true
heartbeats.replication.enabled = true
mirror.heartbeats.all.pairs = true
"""


def test_a_flow_writes_heartbeats_and_mirrors_those_of_its_source(primary, backup, alias, tmp_path):
    beats(primary, backup, alias, tmp_path)


@pytest.mark.nightly
def test_kafkas_own_client_counts_the_hops_of_heartbeats(primary, backup, alias, tmp_path):
    first = beats(primary, backup, alias, tmp_path)
    printed = formatted(backup, f"{alias}.heartbeats", "Heartbeat")
    assert (
        f"Heartbeat{{sourceClusterAlias=backup, targetClusterAlias={alias}, timestamp={first.timestamp_ms}}}" in printed
    )
    with kafka_java() as java:
        utils = java.org.apache.kafka.connect.mirror.RemoteClusterUtils
        properties = {"bootstrap.servers": backup.bootstrap}
        assert utils.replicationHops(properties, alias) == 1
        assert utils.replicationHops(properties, "elsewhere") == -1
        assert alias in list(utils.upstreamClusters(properties))


@pytest.fixture
def alias() -> str:
    """The source's alias: other tests' heartbeats are in the same topics."""
    return f"a{uuid.uuid4().hex[:8]}"


def beats(primary, backup, alias: str, folder: Path) -> Heartbeat:
    """Run a mirror until it has written and carried heartbeats; return the first that it carried."""
    running = RunningAppliance(
        folder, primary=primary.bootstrap, backup=backup.bootstrap, topics="none", extra=EXTRA
    ).call_source(alias)
    with running:
        eventually(
            lambda: (
                f'kafka_mirror_last_heartbeat_timestamp_seconds{{source="{alias}",target="backup"}}'
                in running.exposition()
            ),
            within_s=30,
            because="the target takes a heartbeat",
        )
        eventually(
            lambda: running.value("kafka_mirror_record_count_total", topic=f"{alias}.heartbeats", partition=0),
            within_s=60,
            because="heartbeats of the source are mirrored whatever topics are asked for",
        )
        assert running.stop()[0] == 0
    written = decoded(backup, "heartbeats")
    own = [(beat, timestamp_ms) for beat, timestamp_ms in written if alias in (beat.source, beat.target)]
    assert {(beat.source, beat.target) for beat, _ in own} == {(alias, "backup")}
    assert all(beat.timestamp_ms == timestamp_ms for beat, timestamp_ms in own[:3])
    carried = [beat for beat, _ in decoded(backup, f"{alias}.heartbeats") if alias in (beat.source, beat.target)]
    assert {(beat.source, beat.target) for beat in carried} == {("backup", alias)}
    return carried[0]


def decoded(cluster, topic: str) -> list[tuple[Heartbeat, int]]:
    """Return the heartbeats of a topic, each with the record's timestamp."""
    return [(Heartbeat.decode(one.key(), one.value()), one.timestamp()[1]) for one in messages(cluster, topic)]
