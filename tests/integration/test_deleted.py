"""Topics that somebody deletes stay deleted, though brokers create what they are asked about; ours are put right."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from mirror.embedded.broker import Broker
from mirror.model.mm2_records import Heartbeat
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, commit, create, differences, messages, rows, write
from tests.integration.test_checkpoints import stands, write_transactions
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]

FOLLOWED_S = 12.0  # several windows, polls, rounds of checkpoints and looks at topics
SETTINGS = """emit.checkpoints.enabled = true
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
sync.topic.configs.enabled = true
sync.topic.acls.enabled = true
emit.heartbeats.enabled = true
emit.heartbeats.interval.seconds = 1
mirror.recreated.topics = stop
"""


def names(cluster: Broker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics)


def delete(cluster: Broker, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for deleted in admin.delete_topics(list(topics)).values():
        deleted.result(30)


def policy(cluster: Broker, topic: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    return str(admin.describe_configs([resource])[resource].result(30)["cleanup.policy"].value)


@pytest.fixture
def clusters(tmp_path: Path):
    with Broker.start("source", tmp_path / "source") as source, Broker.start("target", tmp_path / "target") as target:
        yield source, target


def test_a_deleted_topic_stays_deleted_while_clients_still_follow_it(tmp_path: Path, clusters, topic):
    """Two source topics, one with a group, and a remote topic are deleted under the mirror and the lag inspector."""
    source, target = clusters
    kept, gone, unread = f"{topic}-kept", f"{topic}-gone", f"{topic}-unread"
    for name in (kept, gone, unread):
        create(source, name, 2)
        write(source, name, rows(20))
    with RunningAppliance(
        tmp_path, primary=source.bootstrap, backup=target.bootstrap, topics=f"{topic}.*", extra=SETTINGS
    ) as appliance:
        for name in (kept, gone, unread):
            await_replicated(appliance, source, name, f"primary.{name}")
        delete(source, gone)
        delete(target, f"primary.{unread}", "heartbeats")
        until = time.monotonic() + FOLLOWED_S
        while time.monotonic() < until:
            kafka_mirror("lag", appliance.file, check=True)
            assert gone not in names(source), "it came back on the source"
            assert f"primary.{unread}" not in names(target), "it came back on the target"
        write(source, kept, rows(5, start=20))
        await_replicated(appliance, source, kept, f"primary.{kept}")
        eventually(lambda: "heartbeats" in names(target), within_s=60, because="the next heartbeat creates their topic")
        assert policy(target, "heartbeats") == "compact"
        eventually(
            lambda: Heartbeat.decode(
                messages(target, "heartbeats")[0].key(), messages(target, "heartbeats")[0].value()
            ),
            within_s=60,
            because="heartbeats go on",
        )


def test_auto_created_internal_topics_are_set_to_compaction(tmp_path: Path, clusters, topic):
    source, target = clusters
    ours = ("mm2-offset-map.primary.internal", "mm2-batons.primary.internal", "primary.checkpoints.internal")
    for name in ours:
        create(target, name, cleanup_policy="delete")
    create(target, "heartbeats", cleanup_policy="delete")
    create(source, "mm2-offset-syncs.backup.internal", cleanup_policy="delete")
    create(source, topic)
    write(source, topic, rows(10))
    with RunningAppliance(
        tmp_path, primary=source.bootstrap, backup=target.bootstrap, topics=topic, extra=SETTINGS
    ) as appliance:
        await_replicated(appliance, source, topic, f"primary.{topic}")
        for name in ours:
            assert policy(target, name) == "compact", name
            assert f"internal topic {name} on backup had cleanup.policy=delete" in appliance.log.read_text()
        assert policy(source, "mm2-offset-syncs.backup.internal") == "compact"
        eventually(
            lambda: "--entity-name heartbeats --add-config cleanup.policy=compact" in appliance.log.read_text(),
            within_s=30,
            because="the log names the command",
        )
        assert policy(target, "heartbeats") == "delete", "others may have made it so"


@pytest.mark.nightly
def test_deleted_internal_topics_are_created_and_filled_again(tmp_path: Path, clusters, topic):
    """One after the other. No record is lost or repeated, and all of the map and an idle group's checkpoint come back."""
    source, target = clusters
    remote, group = f"primary.{topic}", f"group-{topic}"
    create(source, topic)
    write_transactions(source, topic, 40)
    commit(source, group, topic, 30)
    extra = f"{SETTINGS}primary.consumer.isolation.level = read_committed\n"
    with RunningAppliance(
        tmp_path, primary=source.bootstrap, backup=target.bootstrap, topics=topic, extra=extra
    ) as appliance:
        await_replicated(appliance, source, topic, remote)
        eventually(lambda: stands(target, group, remote) is not None, within_s=60, because="the group is moved")
        before = {offset: translated(appliance.file, "--topic", topic, "--offset", offset) for offset in (5, 30, 77)}
        for cluster, name in (
            (target, "primary.checkpoints.internal"),
            (target, "mm2-offset-map.primary.internal"),
            (target, "mm2-group-offsets.primary.internal"),
            (target, "mm2-batons.primary.internal"),
            (target, "mm2-slots.primary.2.internal"),
            (source, "mm2-offset-syncs.backup.internal"),
        ):
            delete(cluster, name)
            write(source, topic, rows(5))
            await_replicated(appliance, source, topic, remote)
            eventually(lambda c=cluster, n=name: n in names(c), within_s=60, because=f"{name} is created again")
            eventually(lambda c=cluster, n=name: policy(c, n) == "compact", within_s=60, because=f"{name} is compacted")
        for cluster, name in (
            (target, "primary.checkpoints.internal"),
            (target, "mm2-group-offsets.primary.internal"),
            (source, "mm2-offset-syncs.backup.internal"),
        ):
            eventually(lambda c=cluster, n=name: messages(c, n), within_s=60, because=f"{name} is filled again")
        assert "mm2-offset-map.primary.internal was deleted and created again" in appliance.log.read_text()
        for offset, was in before.items():
            assert translated(appliance.file, "--topic", topic, "--offset", offset) == was
        assert appliance.stop()[0] == 0
    assert differences(source, target, topic, remote) == []
    dead = appliance.file.with_name("dead.properties")
    dead.write_text(appliance.file.read_text().replace(source.bootstrap, "127.0.0.1:1"))
    assert translated(dead, "--group", group) == before[30]


def translated(file: Path, *what: object) -> int:
    """Return where an offset of the source, or the only one of a group, is on the target."""
    done = kafka_mirror("translate", file, "primary->backup", *what, "--json", check=True)
    (found,) = json.loads(done.stdout)
    return int(found["to"]["offset"])
