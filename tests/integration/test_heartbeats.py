"""Heartbeats on real brokers: written to the target, carried on, and hops counted by Kafka's own client."""

from __future__ import annotations

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


def test_a_flow_beats_and_carries_the_other_sides_heartbeats_on(primary, backup, topic, tmp_path):
    with RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=EXTRA
    ) as running:
        eventually(
            lambda: (
                'kafka_mirror_last_heartbeat_timestamp_seconds{source="primary",target="backup"}'
                in running.exposition()
            ),
            within_s=30,
            because="the target takes a heartbeat",
        )
        eventually(
            lambda: running.value("kafka_mirror_record_count_total", topic="primary.heartbeats", partition=0),
            within_s=60,
            because="heartbeats of the source are mirrored whatever topics are asked for",
        )
        assert running.stop()[0] == 0
    own = [Heartbeat.decode(m.key(), m.value()) for m in messages(backup, "heartbeats")]
    assert {(beat.source, beat.target) for beat in own} == {("primary", "backup")}
    assert all(
        beat.timestamp_ms == m.timestamp()[1] for beat, m in zip(own[:3], messages(backup, "heartbeats"), strict=False)
    )
    carried = [Heartbeat.decode(m.key(), m.value()) for m in messages(backup, "primary.heartbeats")]
    assert {(beat.source, beat.target) for beat in carried} == {("backup", "primary")}
    printed = formatted(backup.bootstrap, "primary.heartbeats", "Heartbeat")
    assert printed[0] == (
        f"Heartbeat{{sourceClusterAlias=backup, targetClusterAlias=primary, timestamp={carried[0].timestamp_ms}}}"
    )
    with kafka_java() as java:
        utils = java.org.apache.kafka.connect.mirror.RemoteClusterUtils
        properties = {"bootstrap.servers": backup.bootstrap}
        assert utils.replicationHops(properties, "primary") == 1
        assert utils.replicationHops(properties, "elsewhere") == -1
        assert "primary" in list(utils.upstreamClusters(properties))
