"""A MirrorMaker 2 is stopped, this mirror started on the same file's flow: nothing is lost, nothing twice."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mirror.config.load import load as load_settings
from mirror.flows.stored_positions import read_positions
from mirror.flows.takeover import connect_offset
from mirror.model.flow_plan import paused_key
from mirror.model.offset_map_tail import UNSAVED
from tests.benchmarks import peers
from tests.integration.appliance import RunningAppliance
from tests.integration.records import (
    START_MS,
    await_replicated,
    commit,
    create,
    differences,
    end_offset,
    load,
    rows,
    write,
)
from tests.integration.test_checkpoints import checkpoints, records
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]


@contextlib.contextmanager
def mirrormaker(source: str, primary, backup, topic: str, folder: Path, extra: str = ""):
    job = peers.Job(source=source, source_servers=primary.bootstrap, target_servers=backup.bootstrap, topics=topic)
    process = peers.start("mm2", job, folder, extra=extra)
    try:
        yield process
    finally:
        if process.poll() is None:
            peers.stop(process)


def flow_of_its_own(folder, primary, backup, topic: str, extra: str = "") -> RunningAppliance:
    """A mirror whose flow no other test has run."""
    running = RunningAppliance(
        folder, primary=primary.bootstrap, backup=backup.bootstrap, topics=f"{topic}.*", extra=extra
    )
    return running.call_source(topic)


@pytest.mark.parametrize(
    "hands_back", [pytest.param(False, id="for good"), pytest.param(True, id="and back", marks=pytest.mark.nightly)]
)
def test_it_resumes_where_mirrormaker_stopped_under_load(primary, backup, topic, tmp_path, hands_back):
    remote, group = f"{topic}.{topic}", f"group-{topic}"
    create(primary, topic, 2)
    write(primary, topic, rows(500))
    running = flow_of_its_own(
        tmp_path,
        primary,
        backup,
        topic,
        f"emit.checkpoints.enabled = true\nemit.checkpoints.interval.seconds = 1\ngroups = {group}\n"
        f"{topic}.consumer.auto.offset.reset = latest\n",
    )
    with load(primary, topic):
        with mirrormaker(
            topic, primary, backup, topic, tmp_path / "peer", "emit.checkpoints.enabled = true\n"
        ) as theirs:
            eventually(lambda: end_offset(backup, remote, 0) > 800, within_s=90, because="MirrorMaker copies")
            refused = kafka_mirror(*running.arguments)
            assert refused.returncode == 2
            assert "a MirrorMaker 2 still replicates into backup" in refused.stderr
            theirs.send_signal(signal.SIGTERM)
            assert theirs.wait(180) is not None
        stopped_at = end_offset(backup, remote, 0)
        with running:
            eventually(lambda: end_offset(backup, remote, 0) > stopped_at + 300, within_s=60, because="we go on")
            commit(primary, group, topic, stopped_at + 100)
            eventually(
                lambda: group in checkpoints(backup, remote, source=topic),
                within_s=30,
                because="its groups are followed",
            )
    with running:
        for partition in range(2):
            await_replicated(running, primary, topic, remote, partition)
        assert running.stop()[0] == 0
    assert "2 partitions resume where MirrorMaker 2 stopped" in running.log.read_text()
    assert differences(primary, backup, topic, remote) == []
    if hands_back:
        mirrormaker_resumes(running, primary, backup, topic, tmp_path)
    there = checkpoints(backup, remote, source=topic)[group].downstream
    unread = [value for at, value in records(primary, topic) if at >= stopped_at + 100]
    assert [value for at, value in records(backup, remote) if at >= there] == unread


def mirrormaker_resumes(running: RunningAppliance, primary, backup, topic: str, folder: Path) -> None:
    """Let MirrorMaker resume where kafka-mirror stopped: a topic that it knows, and one that it has never seen."""
    later, remote = f"{topic}-later", f"{topic}.{topic}"
    create(primary, later)
    write(primary, later, rows(30))
    with running:
        await_replicated(running, primary, later, f"{topic}.{later}")
        early = positions(running, "export", "--to", "mm2")
        assert early.returncode == 2
        assert f"{topic}->backup runs" in early.stderr
        running.stop()
    done = eventually_done(lambda: positions(running, "export", "--to", "mm2"))
    assert f"3 of 3 positions are in mm2-offsets.{topic}.internal on backup" in done.stdout
    write(primary, topic, rows(20, start=500))
    write(primary, later, rows(20, start=30))
    extra = "emit.checkpoints.enabled = false\n"
    with mirrormaker(topic, primary, backup, f"{topic}.*", folder / "back", extra):
        for name, parts in ((topic, 2), (later, 1)):
            for part in range(parts):
                end = end_offset(primary, name, part)
                eventually(
                    lambda name=name, part=part, end=end: end_offset(backup, f"{topic}.{name}", part) >= end,
                    within_s=90,
                    because="MirrorMaker copies what came since",
                )
    assert differences(primary, backup, topic, remote) == []
    assert differences(primary, backup, later, f"{topic}.{later}") == []


def eventually_done(command) -> subprocess.CompletedProcess[str]:
    """Run a command until it succeeds: a flow counts as one that runs for a while behind its end."""
    done: list[subprocess.CompletedProcess[str]] = []

    def ran() -> bool:
        done[:] = [command()]
        assert done[0].returncode == 0, done[0].stderr
        return True

    eventually(ran, within_s=60, because="the flow has ended")
    return done[0]


def test_later_topics_are_mirrored_from_their_start_with_latest(primary, backup, topic, tmp_path):
    create(primary, topic)
    write(primary, topic, rows(10))
    running = flow_of_its_own(tmp_path, primary, backup, topic, f"{topic}.consumer.auto.offset.reset = latest")
    with running:
        await_replicated(running, primary, topic, f"{topic}.{topic}")
        assert end_offset(backup, f"{topic}.{topic}", 0) == 0
        assert running.stop()[0] == 0
    later, last = f"{topic}-later", f"{topic}-last"
    create(primary, later)
    write(primary, later, rows(10))
    write(primary, topic, rows(5, start=10))
    with running:
        await_replicated(running, primary, later, f"{topic}.{later}")
        await_replicated(running, primary, topic, f"{topic}.{topic}")
        assert end_offset(backup, f"{topic}.{topic}", 0) == 5
        create(primary, last)
        write(primary, last, rows(10))
        eventually(
            lambda: running.value("kafka_mirror_replicated_offset", topic=f"{topic}.{last}", partition=0) == 10,
            within_s=30,
            because="a topic that appears while it runs is replicated",
        )
    for each in (later, last):
        assert differences(primary, backup, each, f"{topic}.{each}") == []


def test_positions_that_are_gone_come_back_from_the_offset_map(primary, backup, topic, tmp_path):
    remote = f"{topic}.{topic}"
    create(primary, topic)
    running, group = flow_of_its_own(tmp_path, primary, backup, topic), f"mirror.{topic}->backup"
    written = 0
    for _ in range(10):  # a stop in the very moment of a hand-over leaves the map's end with the positions
        write(primary, topic, rows(40, start=written))  # so that a window has to begin
        written += 40
        with running:
            await_replicated(running, primary, topic, remote)
            assert running.stop()[0] == 0
        [flow] = load_settings(running.file).flows
        if not read_positions(flow)[remote, 0].metadata.endswith(UNSAVED):
            break
    admin = AdminClient({"bootstrap.servers": backup.bootstrap})
    admin.delete_consumer_groups([group])[group].result(30)
    write(primary, topic, rows(50, start=written))
    with running:
        await_replicated(running, primary, topic, remote)
        assert running.stop()[0] == 0
    assert "had forgotten 1 positions" in running.log.read_text()
    assert differences(primary, backup, topic, remote) == []
    # A topic that is gone from the target takes its position along, and is filled again: the map is about another log.
    admin.delete_topics([remote])[remote].result(30)
    with running:
        eventually(
            lambda: remote in admin.list_topics(timeout=5).topics and end_offset(backup, remote, 0) == written + 50,
            within_s=60,
            because="the topic is replicated from its begin",
        )
        assert running.stop()[0] == 0
    assert running.log.read_text().count("had forgotten") == 1
    assert differences(primary, backup, topic, remote) == []


def test_connect_positions_are_read_and_foreign_records_are_none():
    key = b'["MirrorSourceConnector",{"partition":3,"cluster":"A","topic":"orders"}]'
    ours = ("MirrorSourceConnector", "mine")
    assert connect_offset(key, b'{"offset":41}', ours) == ("A", ("orders", 3), 41)
    assert connect_offset(key.replace(b"MirrorSourceConnector", b"mine"), b'{"offset":41}', ours) is not None
    assert connect_offset(key, None, ours) == ("A", ("orders", 3), None)  # it was removed
    assert connect_offset(key.replace(b"Source", b"Checkpoint"), b'{"offset":41}', ours) is None
    incomplete = (b'["MirrorSourceConnector",{}]', b'{"offset":1}')
    for bad in ((None, b"{}"), (b"[]", b"{}"), (key, b"x"), (key, b"{}"), incomplete):
        assert connect_offset(*bad, ours) is None


def positions(running: RunningAppliance, *arguments: str) -> subprocess.CompletedProcess[str]:
    action, *rest = arguments
    return kafka_mirror("positions", action, running.file, flow_name(running), *rest)


def flow_name(running: RunningAppliance) -> str:
    return next(line for line in running.file.read_text().splitlines() if "->backup.enabled" in line).split(".enabled")[
        0
    ]


def columns(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def test_positions_are_set_while_stopped_and_topics_paused_while_running(primary, backup, topic, tmp_path):
    remote, other = f"{topic}.{topic}", f"{topic}-other"
    for each in (topic, other):
        create(primary, each)
        write(primary, each, rows(40))
    running = flow_of_its_own(tmp_path, primary, backup, topic, f"{topic}.consumer.auto.offset.reset = latest")
    at = datetime.fromtimestamp((START_MS + 10) / 1000, UTC).isoformat()
    done = positions(running, "set", "--topic", topic, "--to", at)
    assert done.returncode == 0, done.stderr
    assert columns(done.stdout) == [[topic, "0", "10", "0", "40", "30", remote]]
    with running:
        await_replicated(running, primary, topic, remote)
        await_replicated(running, primary, other, f"{topic}.{other}")
        refused = positions(running, "reset")
        assert refused.returncode == 2
        assert "runs, and would write its own positions over yours. Stop it first" in refused.stderr
        assert running.stop()[0] == 0
    assert [end_offset(backup, name, 0) for name in (remote, f"{topic}.{other}")] == [30, 0]
    assert columns(positions(running, "show", "--topic", topic).stdout) == [[topic, "0", "40", "0", "40", "0", remote]]
    assert positions(running, "set", "--topic", other, "--to", "35").returncode == 0
    assert positions(running, "reset", "--topic", topic).returncode == 0
    with running:
        await_replicated(running, primary, topic, remote)
        await_replicated(running, primary, other, f"{topic}.{other}")
        assert positions(running, "pause", "--topic", topic).stdout.splitlines()[1].endswith("paused")
        paused = "kafka_mirror_partition_paused_by_operator"
        eventually(lambda: running.value(paused, topic=remote, partition=0) == 1, within_s=20, because="it is paused")
        for each in (topic, other):
            write(primary, each, rows(3))
        await_replicated(running, primary, other, f"{topic}.{other}")
        assert end_offset(backup, remote, 0) == 70
        assert "is not paused; paused is" in positions(running, "resume", "--topic", other).stderr
        assert positions(running, "resume").returncode == 0
        await_replicated(running, primary, topic, remote)
    assert [end_offset(backup, name, 0) for name in (remote, f"{topic}.{other}")] == [73, 8]
    for arguments, complaint in {
        ("set", "--to", "soon"): '--to: "soon" is not a position. Write earliest, latest, an offset, or a time such as',
        ("set", "--to", "44"): f"--to: 44 is not in {topic}-0, whose offsets are 0 to 43.",
        ("show", "--topic", "nothing"): "replicates no such partition",
    }.items():
        bad = positions(running, *arguments, *([] if "--topic" in arguments else ["--topic", topic]))
        assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)
        assert complaint in bad.stderr


def forget(admin: AdminClient, group: str) -> bool:
    """Have a cluster delete a group with its offsets; False while a transaction is about to change them."""
    try:
        admin.delete_consumer_groups([group])[group].result(30)
    except KafkaException:
        return False
    return True


def is_paused(running: RunningAppliance, remote: str) -> bool:
    return running.value("kafka_mirror_partition_paused_by_operator", topic=remote, partition=0) == 1


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_group_that_is_deleted_under_a_running_mirror_makes_nothing_come_again(
    primary, backup, topic, tmp_path, mode
):
    """Neither records of a topic that is written nor those of an idle one, whose position nobody commits again.

    And what an operator has paused stays so.
    """
    idle, paused = f"{topic}-idle", f"{topic}-paused"
    for name in (topic, idle, paused):
        create(primary, name)
        write(primary, name, rows(500))
    extra = f"backup.exactly.once.source.support = {mode}\n"
    running, group = flow_of_its_own(tmp_path, primary, backup, topic, extra), f"mirror.{topic}->backup"
    [flow] = load_settings(running.file).flows
    admin = AdminClient({"bootstrap.servers": backup.bootstrap})
    with running:
        for name in (idle, paused):
            await_replicated(running, primary, name, f"{topic}.{name}")
        kafka_mirror("positions", "pause", running.file, flow.name, "--topic", paused, check=True)
        eventually(lambda: is_paused(running, f"{topic}.{paused}"), within_s=30, because="it is paused")
        write(primary, paused, rows(50, start=500))
        with load(primary, topic, partitions=1):
            for _ in range(3):
                eventually(lambda: forget(admin, group), within_s=30, because="the broker deletes the group")
                eventually(
                    lambda: {(f"{topic}.{idle}", 0), paused_key(topic)} <= read_positions(flow).keys(),
                    within_s=30,
                    because="the position of the idle topic is back, and so are the paused topics",
                )
                assert end_offset(backup, f"{topic}.{paused}", 0, read_committed=True) <= 502, "with markers"
        assert is_paused(running, f"{topic}.{paused}")
        kafka_mirror("positions", "resume", running.file, flow.name, "--topic", paused, check=True)
        for name in (topic, idle, paused):
            await_replicated(running, primary, name, f"{topic}.{name}")
        assert running.stop()[0] == 0
    for name in (topic, idle, paused):
        assert differences(primary, backup, name, f"{topic}.{name}") == []
