"""`kafka-mirror lag` beside Kafka's own kafka-consumer-groups, on the same live clusters."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from metrics.partition_status import Status
from mirror.embedded import jars
from mirror.embedded.broker import Broker
from mirror.kafka.cluster import Cluster
from mirror.lag.failover import Answer
from mirror.lag.inspector import CLUSTER_S
from mirror.lag.leader_changes import NO_LEADER
from mirror.runtime.java import java
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, commit, create, differences, rows, write
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]
START_S = 20.0  # of a command, on a machine that does other things


def lag(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return kafka_mirror("lag", file, *arguments)


def described(cluster, group: str) -> dict[tuple[str, str], tuple[str, str, str, str]]:
    """What kafka-consumer-groups says: (offset, log end, lag, client) by topic and partition."""
    command = [
        *(java(), "-Xmx128m", "-cp", jars.classpath(jars.resolve())),
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", cluster.bootstrap, "--describe", "--group", group),
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    cells = [line.split() for line in found.stdout.splitlines() if line.startswith(group)]
    return {(row[1], row[2]): (row[3], row[4], row[5], row[-1]) for row in cells}


@contextmanager
def consuming(cluster, group: str, topic: str, *, count: int) -> Iterator[None]:
    """A member of the group that has read and committed `count` records and goes on polling nothing."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        read = 0
        while read < count:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            read += 1
            consumer.commit(message, asynchronous=False)
        yield
    finally:
        consumer.close()


def test_the_table_agrees_with_kafkas_own_tool(primary, backup, topic, tmp_path):
    create(primary, topic, 2)
    write(primary, topic, rows(40))
    write(primary, topic, rows(5), partition=1)
    group = f"group-{topic}"
    with RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic) as running:
        for partition in range(2):
            await_replicated(running, primary, topic, f"primary.{topic}", partition)
        with consuming(primary, group, topic, count=10):
            found = lag(running.file, "--group", f"{group},primary->backup")
            kafka = described(primary, group)
        assert found.returncode == 0, found.stderr
        lines = [line.split() for line in found.stdout.splitlines()]
        assert lines[0] == ["Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"]
        ours = {(cells[1], cells[2]): tuple(cells[3:6]) for cells in lines[1:] if cells[0] == group}
        for place, (offset, end, behind, _) in kafka.items():
            if offset != "-":  # a partition without a commit: Kafka's tool writes a dash, the old checker "unknown"
                assert ours[place] == (offset, end, behind)
            else:
                assert ours[place] == ("unknown", end, "unknown")
        owners = {cells[6] for cells in lines[1:] if cells[0] == group}
        assert owners == {"reader/127.0.0.1"}
        flow = {(cells[1], cells[2]): (*cells[3:6], cells[6]) for cells in lines[1:] if cells[0] == "primary->backup"}
        owner = f"127.0.0.1:{running.port}"
        assert flow == {(topic, "0"): ("40", "40", "0", owner), (topic, "1"): ("5", "5", "0", owner)}
        # The same positions stand in the mirror's group on the source, for Kafka's own tool.
        eventually(
            lambda: described(primary, "mirror.primary->backup")[topic, "0"][:3] == ("40", "40", "0"),
            within_s=30,
            because="the source has taken the positions",
        )
        assert running.stop()[0] == 0

    # With the appliance down: straight from the clusters.
    write(primary, topic, rows(7, start=40))
    found = lag(running.file, "--json", "--group", "primary->backup", "--only-lagging")
    assert found.returncode == 0, found.stderr
    (row,) = json.loads(found.stdout)["rows"]
    assert (row["topic"], row["partition"], row["offset"], row["log_end"], row["lag"]) == (topic, 0, 40, 47, 7)
    assert row["owner"] == ""
    assert row["remote_topic"] == f"primary.{topic}"
    assert row["lag_seconds"] > 0

    found = lag(running.file, "--group", "primary->backup", "--fail-over-lag", "6")
    assert found.returncode == 1
    assert f"primary->backup is 7 records behind in {topic}-0" in found.stderr
    assert lag(running.file, "--group", "primary->backup", "--fail-over-lag", "7").returncode == 0
    wide = lag(running.file, "--wide", "--topic", topic, "--group", "primary->backup").stdout
    assert "Status" in wide
    assert "none" in wide


def test_a_cluster_that_is_down_costs_its_rows_and_one_line(primary, topic, tmp_path):
    create(primary, topic)
    write(primary, topic, rows(10))
    with Broker.start("gone", tmp_path / "gone") as gone:
        address = gone.bootstrap
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = a, b\na.bootstrap.servers = {primary.bootstrap}\nb.bootstrap.servers = {address}\n"
        f"a->b.enabled = true\na->b.topics = {topic}\nmirror.state.dir = {tmp_path / 'state'}\n"
    )
    with consuming(primary, f"group-{topic}", topic, count=4):
        found = lag(file, "--group", f"group-{topic}")
    assert found.returncode == 3
    assert "cluster b" in found.stderr
    assert "Traceback" not in found.stderr
    assert [line.split()[3:6] for line in found.stdout.splitlines()[1:]] == [["4", "10", "6"]]


def test_rows_outlive_their_cluster_and_are_unknown_then(primary, topic, tmp_path):
    from mirror.config.load import load
    from mirror.lag.inspector import Inspector

    create(primary, topic)
    write(primary, topic, rows(10))
    file = tmp_path / "mirror.properties"
    with ExitStack() as stack:
        target = stack.enter_context(Broker.start("target", tmp_path / "target"))
        create(target, f"a.{topic}")
        file.write_text(
            f"clusters = a, b\na.bootstrap.servers = {primary.bootstrap}\nb.bootstrap.servers = {target.bootstrap}\n"
            f"a->b.enabled = true\na->b.topics = {topic}\nmirror.state.dir = {tmp_path / 'state'}\n"
        )
        inspector = stack.enter_context(closing(Inspector(load(file, options={}, targets=[]))))
        before = inspector.poll()
        (leader,) = Cluster("b", {"bootstrap.servers": target.bootstrap}).topics()[f"a.{topic}"].leaders
        target.stop()
        after = inspector.poll()
    assert before.problems == ()
    assert leader > NO_LEADER
    (row,) = [row for row in before.rows if row.is_flow and row.topic == topic]  # there may be heartbeats
    assert (row.offset, row.log_end, row.lag) == (None, 10, None)
    assert [each for each in after.rows if each.is_flow and each.topic == topic] == [row]
    assert row.status is Status.UNKNOWN
    assert dict(after.clusters) == {"a": True, "b": False}
    (problem,) = after.problems
    assert problem.sentence.startswith(
        f"Cluster b at {target.bootstrap} does not respond. Positions of a->b are unknown."
    )
    assert "no answer" in problem.detail


def test_the_time_lag_of_a_group_is_estimated_from_earlier_polls(primary, backup, topic, tmp_path):
    from mirror.config.load import load
    from mirror.lag.inspector import Inspector

    create(primary, topic)
    write(primary, topic, rows(10))
    reads, is_late = f"reads-{topic}", f"late-{topic}"
    commit(primary, reads, topic, 10)
    commit(primary, is_late, topic, 3)
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = a, b\na.bootstrap.servers = {primary.bootstrap}\nb.bootstrap.servers = {backup.bootstrap}\n"
        f"a->b.enabled = true\na->b.topics = {topic}\nmirror.state.dir = {tmp_path / 'state'}\n"
    )
    with closing(Inspector(load(file, options={}, targets=[]))) as inspector:

        def polled() -> tuple[float, dict[str, tuple[int | None, float | None]]]:
            found = inspector.poll()
            return found.time_s, {row.group: (row.lag, row.lag_seconds) for row in found.rows if row.topic == topic}

        first_s, groups = polled()
        assert (groups[reads], groups[is_late]) == ((0, 0.0), (7, None))
        write(primary, topic, rows(5, start=10))
        second_s, groups = polled()
        assert groups[reads] == (5, pytest.approx(second_s - first_s))
        commit(primary, reads, topic, 12)  # two of the five, which count as written evenly between the two polls
        third_s, groups = polled()
        assert groups[reads] == (3, pytest.approx(third_s - first_s - 0.4 * (second_s - first_s)))
        assert groups[is_late] == (12, None), "its next record was written before the first poll"
        commit(primary, reads, topic, 15)
        commit(primary, is_late, topic, 10)
        fourth_s, groups = polled()
        assert groups[reads] == (0, 0.0)
        assert groups[is_late] == (5, pytest.approx(fourth_s - first_s))


def test_lag_prints_the_last_known_rows_while_both_clusters_are_silent(topic, tmp_path):
    with Broker.start("a", tmp_path / "a") as source, Broker.start("b", tmp_path / "b") as target:
        create(source, topic)
        write(source, topic, rows(10))
        with RunningAppliance(tmp_path, primary=source.bootstrap, backup=target.bootstrap, topics=topic) as running:
            await_replicated(running, source, topic, f"primary.{topic}")
            eventually(
                lambda: (running.served("lag_records") or [1]) == [0], within_s=30, because="it was seen to be level"
            )
            assert running.stop()[0] == 0
        source.pause()
        target.pause()
        try:
            began = time.monotonic()
            found = lag(running.file, "--wide", "--group", "primary->backup")
            took_s = time.monotonic() - began
        finally:
            source.resume()
            target.resume()
    (row,) = [line for line in found.stdout.splitlines() if topic in line]
    assert row.split()[2:7] == ["0", "10", "unknown", "unknown", "none"]
    assert "UNKNOWN" in row
    assert found.returncode == 3
    assert len(found.stderr.strip().splitlines()) == 2
    assert took_s < 4 * CLUSTER_S + START_S


def test_an_unknown_alias_is_one_line(tmp_path):
    file = tmp_path / "mirror.properties"
    file.write_text("clusters = a\n")
    found = lag(file)
    assert found.returncode == 2
    assert len(found.stderr.strip().splitlines()) == 1


def test_groups_of_every_state_are_read(primary, topic):
    from mirror.kafka.cluster import Cluster

    create(primary, topic)
    write(primary, topic, rows(3))
    group = f"group-{topic}"
    groups = Cluster("primary", {"bootstrap.servers": primary.bootstrap})
    with consuming(primary, group, topic, count=3):
        (found,) = [each for each in groups.groups() if each.name == group]
        assert found.state == "Stable"
        assert found.offsets == {(topic, 0): 3}
        assert found.owners == {(topic, 0): "reader/127.0.0.1"}

    def empty():
        (found,) = [each for each in groups.groups() if each.name == group]
        return (found.state, found.offsets, found.owners) == ("Empty", {(topic, 0): 3}, {})

    eventually(empty, within_s=20, because="the group has lost its only member")


def test_records_after_an_open_transaction_are_lag_and_its_producer_is_named(primary, backup, topic, tmp_path):
    """A reader of committed records is shown nothing behind it, however much others write."""
    remote = f"primary.{topic}"
    create(primary, topic)
    write(primary, topic, rows(10))
    running = RunningAppliance(
        tmp_path,
        primary=primary.bootstrap,
        backup=backup.bootstrap,
        topics=topic,
        extra="primary.consumer.isolation.level = read_committed\n",
    )
    producer = Producer({"bootstrap.servers": primary.bootstrap, "transactional.id": f"id-{topic}", "log_level": 0})
    with running:
        await_replicated(running, primary, topic, remote)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, "undecided", partition=0)
        assert producer.flush(30) == 0
        write(primary, topic, rows(100, start=10))

        def row() -> dict[str, object]:
            (found,) = [each for each in json.loads(lag(running.file, "--json").stdout)["rows"] if each["is_flow"]]
            return found

        eventually(
            lambda: running.value("kafka_mirror_partition_status", topic=remote, partition=0) == Status.STALL,
            within_s=30,
            because="it stands still while records wait",
        )
        found = row()
        assert found["lag"] == 101
        assert f"(id-{topic}), open since offset 10" in str(found["reason"])
        assert f"(id-{topic}), open since offset 10" in running.log.read_text()
        assert running.value("kafka_mirror_partition_behind_open_transaction", topic=remote, partition=0) == 1
        assert running.value("kafka_mirror_lag_records", topic=remote, partition=0) == 101
        assert running.gauge("kafka_mirror_failover_answer") == Answer.GO_WITH_LOSS
        producer.abort_transaction(30)  # which ends before its marker is in the log
        eventually(
            lambda: running.value("kafka_mirror_lag_records", topic=remote, partition=0) == 0,
            within_s=30,
            because="all that was committed is on the target",
        )
        eventually(
            lambda: running.value("kafka_mirror_partition_behind_open_transaction", topic=remote, partition=0) == 0,
            within_s=30,
            because="nothing is open any more",
        )
        eventually(lambda: row()["lag"] == 0, within_s=30, because="the inspector says so too")
        assert differences(primary, backup, topic, remote) == []
