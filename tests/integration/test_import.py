"""Connectors in a Connect cluster of their own become a file, and the mirror goes on where they stopped."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.config.load import load as load_settings
from mirror.embedded import jars
from mirror.embedded.ports import free_port
from mirror.runtime.java import java
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, create, differences, end_offset, rows, write
from tests.integration.test_take_over import eventually_done
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = pytest.mark.kafka

WORKER = """\
bootstrap.servers = {servers}
group.id = {name}
listeners = http://127.0.0.1:{port}
key.converter = org.apache.kafka.connect.json.JsonConverter
value.converter = org.apache.kafka.connect.json.JsonConverter
offset.storage.topic = {name}-offsets
config.storage.topic = {name}-configs
status.storage.topic = {name}-status
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
offset.storage.partitions = 3
offset.flush.interval.ms = 500
connector.client.config.override.policy = All
"""
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@contextlib.contextmanager
def connect(servers: str, name: str, folder: Path) -> Iterator[str]:
    """A Connect worker of a cluster of that name; its address."""
    folder.mkdir()
    port = free_port()
    file = folder / "worker.properties"
    file.write_text(WORKER.format(servers=servers, name=name, port=port))
    command = [
        *(java(), "-Xmx512m", "-cp", jars.classpath(jars.resolve(lambda _: None))),
        *("org.apache.kafka.connect.cli.ConnectDistributed", str(file)),
    ]
    with (folder / "connect.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        address = f"http://127.0.0.1:{port}"
        eventually(lambda: ask(address, "/connectors") is not None, within_s=120, because="Connect answers")
        yield address
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def ask(address: str, path: str, method: str = "GET", body: object = None) -> object:
    """Return what Connect answers, None where it does not."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address + path, data=data, method=method, headers={"Content-Type": "application/json"}
    )
    with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"{}")
    return None


@pytest.mark.nightly
def test_a_running_connects_flow_is_imported_and_resumes_where_it_stopped(primary, backup, topic, tmp_path):
    remote, name = f"{topic}.{topic}", f"connect-{topic}"
    create(primary, topic, 2)
    write(primary, topic, rows(200), range(2))
    common = {
        "source.cluster.alias": topic,
        "target.cluster.alias": "backup",
        "source.cluster.bootstrap.servers": primary.bootstrap,
        "target.cluster.bootstrap.servers": backup.bootstrap,
        **{f"{what}.converter": BYTES for what in ("key", "value", "header")},
    }
    settings = {
        "Source": {
            "topics": f"{topic}.*",
            "tasks.max": "2",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "sync.topic.configs.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "refresh.topics.interval.seconds": "1",
            "consumer.fetch.min.bytes": "10",
            "producer.override.batch.size": "4096",
        },
        "Checkpoint": {"groups": "billing", "checkpoints.topic.replication.factor": "1", "tasks.max": "1"},
        "Heartbeat": {"heartbeats.topic.replication.factor": "1"},
    }
    with connect(backup.bootstrap, name, tmp_path / "connect") as address:
        for kind, own in settings.items():
            java_class = f"org.apache.kafka.connect.mirror.Mirror{kind}Connector"
            body = {"name": f"my-{kind.lower()}", "config": {"connector.class": java_class, **common, **own}}
            assert ask(address, "/connectors", "POST", body) is not None
        eventually(
            lambda: all(
                end_offset(backup, remote, partition) == end_offset(primary, topic, partition) for partition in (0, 1)
            ),
            within_s=90,
            because="the connector copies",
        )
        file = tmp_path / "imported.properties"
        done = kafka_mirror("import", address, "-o", str(file), "--offsets-topic", f"{name}-offsets")
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        running = RunningAppliance(tmp_path, primary="x:1", backup="x:1", topics=topic)
        own = [line for line in running.file.read_text().splitlines() if line.startswith("mirror.")]
        running.file.write_text("\n".join([file.read_text(), *own, "mirror.slots = 2", f"backup.group.id = {name}"]))
        refused = kafka_mirror(*running.arguments)
        assert refused.returncode == 2
        assert f"a MirrorMaker 2 still replicates into backup (its group {name} is " in refused.stderr
        eventually(
            lambda: ask(address, "/connectors/my-source/stop", "PUT") is not None, within_s=30, because="it stops"
        )
        eventually(
            lambda: len(positions_of(ask(address, "/connectors/my-source/offsets"))) == 2,
            within_s=30,
            because="its positions are kept",
        )
    [flow] = load_settings(file).flows
    assert (flow.name, flow.tasks_max, flow.replication_factor) == (f"{topic}->backup", 2, 1)
    assert flow.topics.include == (f"{topic}.*",)
    assert flow.checkpoints.groups.include == ("billing",)
    assert (flow.connect_offsets_topic, flow.takeover_connectors) == (f"{name}-offsets", ("my-source",))
    assert (flow.consumer["fetch.min.bytes"], flow.producer["batch.size"]) == ("10", "4096")
    assert not flow.sync_configs.enabled
    write(primary, topic, rows(100, start=200), range(2))
    with running:
        for partition in (0, 1):
            await_replicated(running, primary, topic, remote, partition)
        assert running.stop()[0] == 0
    assert "2 partitions resume where MirrorMaker 2 stopped" in running.log.read_text()
    assert differences(primary, backup, topic, remote) == []
    back = eventually_done(lambda: kafka_mirror("positions", "export", str(running.file), f"{topic}->backup"))
    assert f"2 of 2 positions are in {name}-offsets on backup" in back.stdout
    write(primary, topic, rows(100, start=300), range(2))
    with connect(backup.bootstrap, name, tmp_path / "again") as address:
        eventually(
            lambda: ask(address, "/connectors/my-source/resume", "PUT") is not None, within_s=60, because="it resumes"
        )
        for partition in (0, 1):
            eventually(
                lambda partition=partition: end_offset(backup, remote, partition) >= 400,
                within_s=90,
                because="the connector goes on where we stopped",
            )
    assert differences(primary, backup, topic, remote) == []


def positions_of(answer: object) -> list[object]:
    return answer.get("offsets", []) if isinstance(answer, dict) else []
