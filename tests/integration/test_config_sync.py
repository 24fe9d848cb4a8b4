"""Topic settings follow the source on real brokers, and nothing else is touched."""

from __future__ import annotations

import signal

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mirror.kafka.cluster import Cluster
from tests.integration.appliance import RunningAppliance
from tests.integration.records import create
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]
EXTRA = """\
sync.topic.configs.enabled = true
sync.topic.configs.interval.seconds = 1
config.properties.exclude = min\\\\.insync\\\\.replicas, segment.*
"""


def put(cluster, topic: str, **changes: str | None) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    entries = [
        ConfigEntry(
            name.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def own(cluster, topic: str) -> dict[str, str]:
    """What is set on the topic itself."""
    found = Cluster("test", {"bootstrap.servers": cluster.bootstrap}).configs([topic])[topic]
    return {name: setting.value for name, setting in found.items() if setting.is_own}


def test_settings_follow_the_source_and_plan_shows_the_changes(primary, backup, topic, tmp_path):
    remote = f"primary.{topic}"
    create(primary, topic, cleanup_policy="compact", min_insync_replicas="1", segment_ms="70000")
    create(backup, remote, retention_bytes="12345", segment_ms="80000")
    appliance = RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=EXTRA
    )
    shown = kafka_mirror("plan", appliance.file, check=True).stdout
    assert "settings that change: cleanup.policy=compact, retention.bytes back to its default" in shown
    assert own(backup, remote) == {"retention.bytes": "12345", "segment.ms": "80000"}  # plan changed nothing
    with appliance:
        eventually(
            lambda: own(backup, remote) == {"cleanup.policy": "compact", "segment.ms": "80000"},
            within_s=30,
            because="the settings follow at start; what is excluded stays",
        )
        put(primary, topic, cleanup_policy="delete", delete_retention_ms="99999")
        eventually(
            lambda: (
                own(backup, remote)
                == {"cleanup.policy": "delete", "delete.retention.ms": "99999", "segment.ms": "80000"}
            ),
            within_s=30,
            because="a change on the source follows",
        )
        put(primary, topic, delete_retention_ms=None)
        eventually(
            lambda: "delete.retention.ms" not in own(backup, remote),
            within_s=30,
            because="a setting taken back follows too",
        )
        eventually(
            lambda: appliance.value("kafka_mirror_config_drift_settings", topic=remote, partition=None) == 0,
            within_s=30,
            because="drift is told when it has been looked for",
        )
        assert appliance.stop()[0] == 0
    assert f"{remote} changed on backup: cleanup.policy=compact, retention.bytes back" in appliance.log.read_text()


def test_drift_is_reported_if_the_sync_is_off(primary, backup, topic, tmp_path):
    create(primary, topic, cleanup_policy="compact")
    create(backup, f"primary.{topic}", retention_bytes="12345")
    switched_off = EXTRA.replace("sync.topic.configs.enabled = true", "sync.topic.configs.enabled = false")
    with RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=switched_off
    ) as running:
        eventually(
            lambda: running.value("kafka_mirror_config_drift_settings", topic=f"primary.{topic}", partition=None) == 2,
            within_s=30,
            because="two settings differ",
        )
    assert own(backup, f"primary.{topic}") == {"retention.bytes": "12345"}


def test_a_hangup_asks_for_everything_at_once(primary, backup, topic, tmp_path):
    create(primary, topic)
    rarely = "refresh.topics.interval.seconds = 3600\nsync.topic.configs.enabled = true"
    with RunningAppliance(
        tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=f"{topic}.*", extra=rarely
    ) as running:
        eventually(
            lambda: running.value("kafka_mirror_config_drift_settings", topic=f"primary.{topic}", partition=None) == 0,
            within_s=30,
            because="the settings were looked at",
        )
        put(primary, topic, cleanup_policy="compact")
        create(primary, f"{topic}-late")
        assert running.process is not None
        running.process.send_signal(signal.SIGHUP)
        eventually(
            lambda: own(backup, f"primary.{topic}") == {"cleanup.policy": "compact"},
            within_s=15,
            because="settings follow at once",
        )
        eventually(
            lambda: running.value("kafka_mirror_replicated_offset", topic=f"primary.{topic}-late", partition=0) == 0,
            within_s=30,
            because="so do topics",
        )
        assert running.stop()[0] == 0
