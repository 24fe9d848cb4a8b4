"""The unit of docs/systemd runs under a real systemd: ready, reload, restart after a crash, levels in the journal, stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.embedded.ports import free_port
from tests.containers import images
from tests.containers.podman import HOST, ROOT, Container, missing, run
from tests.containers.test_image import is_ready
from tests.integration.records import create, differences, end_offset, load
from tests.waiting import eventually

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kafka,
    pytest.mark.xdist_group("containers"),
    pytest.mark.skipif(missing() != "", reason=missing()),
]
UNIT = "kafka-mirror"
FOLDER = ROOT / "docs" / "systemd"
MACHINE = "localhost/kafka-mirror-systemd:latest"
PRIVILEGES = ("--systemd=always", "--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined")


@pytest.fixture
def machine(topic, tmp_path) -> Iterator[Container]:
    """A container with systemd as its first process, and the unit."""
    images.build()
    run(*images.BUILD, "-f", "tests/containers/stand_ins/systemd.dockerfile", "-t", MACHINE, tmp_path)
    with Container.start(topic, MACHINE, (*HOST, *PRIVILEGES), ()) as started:
        eventually(lambda: systemctl(started, "is-system-running", check=False) != "", 30, "systemd runs")
        run("podman", "cp", FOLDER / "kafka-mirror.service", f"{started.name}:/etc/systemd/system/")
        started.inside("mkdir", "/etc/kafka-mirror")
        (tmp_path / "environment").write_text("JAVA_HOME=/opt/kafka-mirror/java\n")
        run("podman", "cp", tmp_path / "environment", f"{started.name}:/etc/kafka-mirror/")
        yield started


def systemctl(machine: Container, *arguments: str, check: bool = True) -> str:
    return run("podman", "exec", machine.name, "systemctl", *arguments, check=check).strip()


def journal(machine: Container) -> list[tuple[int, str]]:
    """Return priority and text of each line of the unit."""
    lines = machine.inside("journalctl", "-u", UNIT, "-o", "json", "--no-pager").splitlines()
    found = [json.loads(line) for line in lines]
    return [(int(line["PRIORITY"]), str(line["MESSAGE"])) for line in found]


def configure(machine: Container, folder: Path, text: str) -> None:
    file = folder / "connect-mirror-maker.properties"
    file.write_text(text)
    run("podman", "cp", file, f"{machine.name}:/etc/kafka-mirror/")


def test_the_unit(machine, primary, backup, topic, tmp_path):
    create(primary, topic, 2)
    port, remote = free_port(), f"primary.{topic}"
    text = (FOLDER / "connect-mirror-maker.properties").read_text()
    for alias, cluster in (("primary", primary), ("backup", backup)):
        text = text.replace(f"{alias}-1:9092", cluster.bootstrap)
    text = text.replace("topics = .*", f"topics = {topic}").replace("0.0.0.0:9404", f"127.0.0.1:{port}")
    text += "replication.factor = 1\nemit.checkpoints.enabled = false\nheartbeats.topic.replication.factor = 1\n"
    configure(machine, tmp_path, text)
    assert "kafka-mirror.service" not in machine.inside("systemd-analyze", "verify", "kafka-mirror.service")
    with load(primary, topic):
        systemctl(machine, "start", UNIT)
        assert is_ready(port), "`systemctl start` returns when the process is ready"
        eventually(lambda: end_offset(backup, remote, 0) > 300, 60, "it replicates")
        systemctl(machine, "reload", UNIT)
        before = systemctl(machine, "show", "-P", "MainPID", UNIT)
        systemctl(machine, "kill", "-s", "KILL", UNIT)
        eventually(lambda: is_restarted(machine, before) and is_ready(port), 60, "systemd starts it again")
        arrived = end_offset(backup, remote, 0)
        eventually(lambda: end_offset(backup, remote, 0) > arrived + 300, 90, "it replicates again")
    eventually(lambda: not differences(primary, backup, topic, remote), 60, "both logs are equal")
    systemctl(machine, "stop", UNIT)
    assert systemctl(machine, "show", "-P", "Result", UNIT) == "success"
    lines = journal(machine)
    assert (6, "stopped; every position is committed") in lines
    assert not [line for line in lines if line[1].startswith("<")]


def is_restarted(machine: Container, before: str) -> bool:
    return systemctl(machine, "show", "-P", "MainPID", UNIT) not in (before, "0")


def test_a_refused_setting_is_an_error_and_not_tried_again(machine, tmp_path):
    configure(machine, tmp_path, "clusters = a, b\na->b.enabled = true\nmirror.lanez = 2\n")
    systemctl(machine, "start", UNIT, check=False)
    shown = {
        name: systemctl(machine, "show", "-P", name, UNIT) for name in ("ActiveState", "ExecMainStatus", "NRestarts")
    }
    assert shown == {"ActiveState": "failed", "ExecMainStatus": "2", "NRestarts": "0"}
    assert [text for priority, text in journal(machine) if priority == 3 and "mirror.lanez" in text]
