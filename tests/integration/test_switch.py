"""The day of the switch: readers and writers go to the other cluster and come back, nothing lost, nothing twice, whoever dies."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from metrics.partition_status import Status
from mirror.config.clients import client_options
from mirror.embedded.broker import Broker
from mirror.kafka.cluster import Cluster
from mirror.kafka.internal_topics import read_checkpoints
from mirror.policy.topic_acls import Acl
from mirror.switching.run import STEPS, Kind, Step
from tests.integration.acls import GUARDED
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, commit, create, load, messages, rows, write
from tests.processes import kafka_mirror
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.separate]
FLOW = "primary->backup"
GROUP = "billing"
EXTRA = """\
sync.topic.acls.enabled = true
sync.topic.acls.interval.seconds = 1
emit.checkpoints.enabled = true
emit.checkpoints.interval.seconds = 2
backup->primary.enabled = true
backup->primary.topics = {topics}
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two clusters with ACLs, and the appliance between them."""

    primary: Broker
    backup: Broker
    appliance: RunningAppliance
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        name, *options = arguments
        process = subprocess.Popen(
            [sys.executable, "-m", "mirror.cli", *name.split(), str(self.appliance.file), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.appliance.environment,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """End what a failed test has left running."""
        for process in self._started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        name, *options = arguments
        return kafka_mirror(*name.split(), self.appliance.file, *options, within_s=900)


@contextmanager
def pair(folder: Path, topics: Sequence[str], *, extra: str = "") -> Iterator[Pair]:
    with ExitStack() as stack:
        primary, backup = (
            stack.enter_context(Broker.start(name, folder / name, overrides=GUARDED)) for name in ("primary", "backup")
        )
        for topic in topics:
            create(primary, topic, 2)
            create(backup, topic, 2)
        names = ",".join(topics)
        appliance = RunningAppliance(
            folder,
            primary=primary.bootstrap,
            backup=backup.bootstrap,
            topics=names,
            extra=EXTRA.format(topics=names) + extra,
        )
        clusters = Pair(primary, backup, stack.enter_context(appliance))
        stack.callback(clusters.end)
        eventually(
            lambda: clusters.run("switch", FLOW, "--dry-run", "--fence", "none").returncode == 0,
            within_s=60,
            because="the flow is served",
        )
        yield clusters


class InThread:
    """Runs in a thread while its context lasts; `stop` tells it to end."""

    def __post_init__(self) -> None:
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self.run, name=type(self).__name__)

    def run(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Tell it to end, and wait until it has: what it did is known then."""
        self.stop.set()
        self._thread.join(60)


@dataclass
class Writer(InThread):
    """Writes numbered records until it is denied or told to stop; `acked` are those that the cluster has."""

    cluster: Broker
    topic: str
    prefix: str
    acked: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def run(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True, "log_level": 0},
            error_cb=lambda _: None,
        )
        number = 0
        while not self.stop.wait(0.01) and not self.refused:
            value = f"{self.prefix}-{number}"
            try:
                producer.produce(
                    self.topic,
                    value,
                    key=str(number % 7),
                    partition=number % 2,
                    on_delivery=lambda error, _, value=value: (self.refused if error else self.acked).append(value),
                )
            except KafkaException:  # it knows by now that it may not write
                self.refused.append(value)
            number += 1
            producer.poll(0)
        producer.flush(30)


def consumer_of(cluster: Broker) -> Consumer:
    """Return a consumer of the group; its caller commits."""
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


@dataclass
class Reader(InThread):
    """Reads topics as a member of the group, commits what it read, and leaves when it is told to."""

    cluster: Broker
    topics: Sequence[str]
    read: list[str]

    def run(self) -> None:
        consumer = consumer_of(self.cluster)
        consumer.subscribe(list(self.topics))
        while not self.stop.is_set():
            messages = [message for message in consumer.consume(200, 0.2) if message.error() is None]
            if messages:
                self.read += [message.value().decode() for message in messages]
                consumer.commit(asynchronous=False)
        consumer.close()


def committed(cluster: Broker, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, part) for part in range(2)], timeout=20)
    consumer.close()
    return [at.offset for at in found]


def followed(process: subprocess.Popen[str], until: str) -> list[str]:
    """The lines that a command prints, up to the one that begins so."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(until):
            return lines
    raise AssertionError("".join(lines))


def ended(process: subprocess.Popen[str], lines: Sequence[str] = (), *, by_force: bool = False) -> None:
    """Wait until a command has ended well, or end it."""
    if by_force:
        process.kill()
    rest, _ = process.communicate(timeout=300)
    assert by_force or process.returncode == 0, "".join(lines) + rest


@pytest.mark.parametrize("offsets", ["translated", pytest.param("identical", marks=pytest.mark.nightly)])
def test_readers_and_writers_go_over_and_come_back_and_read_each_record_once(tmp_path, topic, offsets):
    remote, back = f"primary.{topic}", f"backup.{topic}"
    read: list[str] = []
    written: list[str] = []
    with pair(tmp_path, [topic], extra=f"mirror.offsets = {offsets}\n") as clusters:
        options = ("--yes", "--fence", "acls-and-read", "--last", "50")
        with Writer(clusters.primary, topic, "before") as writer:
            with Reader(clusters.primary, [topic, back], read):
                eventually(lambda: len(read) > 200, within_s=60, because="the group reads on the source")
                process = clusters.start("switch", FLOW, *options)
                lines = followed(process, "drain ...")
            ended(process, lines)
        assert writer.refused, "the fence keeps the producer out"
        written += writer.acked
        (report,) = (tmp_path / "state" / "switches").glob("*.json")
        run = json.loads(report.read_text())
        assert run["state"] == "done"
        assert [each[2] for each in sorted(run["steps"]["drain"]["facts"]["positions"])] == committed_ends(
            clusters, topic
        )
        assert {move["group"] for move in run["moves"]} == {GROUP}

        with Writer(clusters.backup, topic, "between") as writer:
            with Reader(clusters.backup, [remote, topic], read):
                eventually(
                    lambda: set(written) <= set(read), within_s=60, because="what was left is read on the target"
                )
                eventually(lambda: len(writer.acked) > 200, within_s=60, because="records are written on the target")
                process = clusters.start("switch-back", FLOW, *options)
                lines = followed(process, "drain ...")
            ended(process, lines)
        written += writer.acked

        with Writer(clusters.primary, topic, "after") as writer, Reader(clusters.primary, [topic, back], read):
            eventually(lambda: len(writer.acked) > 200, within_s=60, because="the source may be written again")
            writer.end()
            eventually(
                lambda: set(written + writer.acked) <= set(read),
                within_s=60,
                because="everything is read on the source again",
            )
        written += writer.acked
        assert [value for value, count in Counter(read).items() if count > 1] == []
        assert set(read) == set(written)
        eventually(
            lambda: committed(clusters.backup, "mirror.primary->backup", remote) == committed_ends(clusters, topic),
            within_s=60,
            because="the flow that was paused goes on",
        )
        if offsets == "identical":
            assert ends_of(clusters.backup, remote) == ends_of(clusters.primary, topic)
            assert ends_of(clusters.primary, back) == ends_of(clusters.backup, topic)
            assert committed(clusters.primary, GROUP, back) == ends_of(clusters.backup, topic)


def committed_ends(clusters: Pair, topic: str) -> list[int]:
    """Where the logs of the source end."""
    return ends_of(clusters.primary, topic)


def ends_of(cluster: Broker, topic: str) -> list[int]:
    """Where the logs of a topic end."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "ends"})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, part), timeout=20)[1] for part in range(2)]
    consumer.close()
    return ends


@pytest.mark.parametrize(
    "killed_at",
    [
        pytest.param((Step.FENCE, Step.GROUPS), id="fence and groups"),
        pytest.param(STEPS[Kind.SWITCH], id="every step", marks=pytest.mark.nightly),
    ],
)
def test_a_conductor_killed_at_or_after_any_step_is_resumed_by_another(tmp_path, topic, killed_at):
    remote = f"primary.{topic}"
    read: list[str] = []
    with pair(tmp_path, [topic]) as clusters:
        with Writer(clusters.primary, topic, "before") as writer, Reader(clusters.primary, [topic], read):
            eventually(lambda: len(read) > 100, within_s=60, because="the group reads on the source")
        with Writer(clusters.primary, topic, "unread") as unread:
            eventually(lambda: len(unread.acked) > 100, within_s=60, because="some is left for the target")
        options = ("switch", FLOW, "--yes", "--fence", "acls-and-read", "--last", "50")
        for step in killed_at:
            done = clusters.run(*options, "--hook", f"{step.value}=kill -9 $PPID")
            assert done.returncode == -9, (step, done.stdout, done.stderr)
        done = clusters.run(*options)
        assert done.returncode == 0, done.stdout + done.stderr
        (run,) = json.loads(clusters.run("switches", FLOW, "--json").stdout)["runs"]
        assert run["state"] == "done"
        assert {step["state"] for step in run["steps"].values()} == {"done"}
        assert clusters.run("switch", FLOW, "--abort").returncode == 2, "it has ended"
        with Reader(clusters.backup, [remote], read):
            eventually(
                lambda: set(writer.acked + unread.acked) <= set(read),
                within_s=60,
                because="the rest is read on the target",
            )
        killed_when_each_step_begins(clusters, [step for step in STEPS[Kind.SWITCH_BACK] if step in killed_at])
        with Writer(clusters.primary, topic, "after") as after, Reader(clusters.primary, [topic], read):
            eventually(lambda: len(after.acked) > 100, within_s=60, because="the source may be written again")
            after.end()
            eventually(lambda: set(after.acked) <= set(read), within_s=60, because="the group goes on on the source")
        assert set(writer.acked + unread.acked + after.acked) == set(read)
        assert max(Counter(read).values()) == 1


def killed_when_each_step_begins(clusters: Pair, steps: Sequence[Step]) -> None:
    """On the way back; the last conductor comes to the end."""
    options = ("switch-back", FLOW, "--yes", "--fence", "acls-and-read", "--last", "50")
    for step in steps:
        process = clusters.start(*options)
        ended(process, followed(process, f"{step.value} ..."), by_force=True)
    done = clusters.run(*options)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads(clusters.run("switches", "backup->primary", "--json").stdout)["runs"]
    assert run["state"] == "done"


def test_blockers_of_a_switch_are_named_and_an_abort_reverts_it(tmp_path, topic):
    with pair(tmp_path, [topic]) as clusters:
        plan = clusters.run("switch", FLOW, "--dry-run")
        assert plan.returncode == 5
        assert "no ACL is about 1 topic" in plan.stdout
        assert "--fence acls-and-read" in plan.stdout

        with load(clusters.primary, topic):
            # Without a fence its producer goes on: it is caught, and named.
            caught = clusters.run("switch", FLOW, "--yes", "--fence", "none", "--within", "3")
            assert caught.returncode == 1
            assert f"still written on primary after 3 s: {topic}-0 (+" in caught.stderr
            other = clusters.run("switch", FLOW, "--yes", "--fence", "none", "--topics", "other")
            assert other.returncode == 2
            assert "has not ended" in other.stderr

            first = clusters.start("switch", FLOW, "--yes", "--fence", "none")
            followed(first, "  still written:")
            second = clusters.run("switch", FLOW, "--yes", "--fence", "none")
            assert second.returncode == 2
            assert " is running " in second.stderr
            assert f" of {FLOW}. Wait until it ends." in second.stderr
            ended(first, by_force=True)
        assert clusters.run("switch", FLOW, "--abort").returncode == 0
        (run,) = json.loads(clusters.run("switches", FLOW, "--json").stdout)["runs"]
        assert run["state"] == "aborted"

        fenced = clusters.run("switch", FLOW, "--yes", "--fence", "acls-and-read", "--hook", "fence=exit 7")
        assert fenced.returncode == 1
        assert "the hook of fence ended with 7" in fenced.stderr
        with Writer(clusters.primary, topic, "denied") as writer:
            eventually(lambda: writer.refused, within_s=30, because="the fence stands")
        assert clusters.run("switch", FLOW, "--fence", "acls-and-read", "--abort").returncode == 0
        with Writer(clusters.primary, topic, "allowed") as writer:
            eventually(lambda: writer.acked, within_s=30, because="the fence is taken away")

        with Reader(clusters.backup, [topic], []):
            commit(clusters.primary, GROUP, topic, 1)
            eventually(
                lambda: clusters.run("switch", FLOW, "--dry-run", "--fence", "none").returncode == 5,
                within_s=60,
                because="the group reads on the target",
            )
            blocked = clusters.run("switch", FLOW, "--yes", "--fence", "none")
            assert "1 group read on backup already" in blocked.stdout
        strange = clusters.run("switch", FLOW, "--fence", "none", "--hook", "tail=true")
        assert "a switch has no step tail" in strange.stderr
        assert strange.returncode == 2
        nobody = clusters.run("switch", FLOW, "--fence", "none")
        assert "stdin is not a terminal" in nobody.stderr
        assert nobody.returncode == 2


@dataclass
class OwnReader(InThread):
    """Reads partitions that it assigns itself, slowly, and commits what it read: its group has no members."""

    cluster: Broker
    topic: str
    read: list[str]

    def run(self) -> None:
        consumer = consumer_of(self.cluster)
        consumer.assign([TopicPartition(self.topic, part, 0) for part in range(2)])
        while not self.stop.wait(0.2):
            messages = [message for message in consumer.consume(5, 0.2) if message.error() is None]
            if messages:
                self.read += [message.value().decode() for message in messages]
                consumer.commit(asynchronous=False)
        consumer.close()


def test_a_consumer_without_members_is_waited_for_and_reads_no_record_twice(tmp_path, topic):
    """As Flink, Spark and sink connectors read: the group has offsets and no members, so only its offsets show that it reads."""
    remote = f"primary.{topic}"
    with pair(tmp_path, [topic]) as clusters:
        with Writer(clusters.primary, topic, "a") as writer:
            eventually(lambda: len(writer.acked) >= 1_500, within_s=60, because="there is a lot to read")
        for part in range(2):
            await_replicated(clusters.appliance, clusters.primary, topic, remote, part)
        with OwnReader(clusters.primary, topic, []) as reader:
            eventually(lambda: len(reader.read) >= 20, within_s=30, because="it reads")
            switch = clusters.start("switch", FLOW, "--yes", "--fence", "none")
            lines = followed(switch, f"  {GROUP} read on primary without members")
            assert committed(clusters.backup, GROUP, remote) == [-1001, -1001], "it was moved while it read"
        ended(switch, lines)
        there = committed(clusters.backup, GROUP, remote)
        rest = [
            message.value().decode()
            for part in range(2)
            for message in messages(clusters.backup, remote, part)
            if message.offset() >= there[part]
        ]
        assert Counter(reader.read) + Counter(rest) == Counter(writer.acked)


def test_a_topic_missing_on_the_target_blocks_a_switch_until_it_is_left_out(tmp_path, topic):
    """One whose remote name is too long for Kafka, one that is younger than the last look, and one that appears meanwhile."""
    long, young, late = topic + "-".ljust(246 - len(topic), "x"), f"{topic}-young", f"{topic}-late"
    extra = f"""
refresh.topics.interval.seconds = 600
primary->backup.topics = {topic}.*
backup->primary.topics = matches-nothing
"""
    with pair(tmp_path, [topic], extra=extra) as clusters:
        create(clusters.primary, long)
        write(clusters.primary, long, rows(30))
        create(clusters.primary, young)
        switch = ("switch", FLOW, "--fence", "acls-and-read")
        plan = clusters.run(*switch, "--dry-run", "--without-topic", long)
        assert plan.returncode == 5
        assert f"1 topic of primary->backup would be left behind: {young}" in plan.stdout
        clusters.appliance.process.send_signal(signal.SIGHUP)
        eventually(
            lambda: clusters.run(*switch, "--dry-run", "--without-topic", long).returncode == 0,
            within_s=30,
            because="the mirror looks for topics at once",
        )
        blocked = clusters.run(*switch, "--yes")
        assert blocked.returncode == 5
        assert f"would be left behind: {long}" in blocked.stdout
        remote = f"primary.{long}"
        assert clusters.appliance.value("kafka_mirror_partition_status", topic=remote, partition=0) == Status.ABSENT
        assert clusters.appliance.value("kafka_mirror_lag_records", topic=remote, partition=0) == 30
        assert f"{remote} (CANNOT be created: TOPIC_EXCEPTION" in clusters.run("plan").stdout
        answer = clusters.run("failover-check", FLOW)
        assert answer.returncode == 5
        assert f"not on the target: {remote}-0" in answer.stdout
        (row,) = [row for row in json.loads(clusters.run("lag", "--json").stdout)["rows"] if row["topic"] == long]
        assert (row["status"], row["lag"]) == ("ABSENT", 30)

        script = tmp_path / "create.py"
        script.write_text(
            "from confluent_kafka.admin import AdminClient, NewTopic\n"
            f"admin = AdminClient({{'bootstrap.servers': '{clusters.primary.bootstrap}'}})\n"
            f"admin.create_topics([NewTopic('{late}', 1, 1)])['{late}'].result(30)\n"
        )
        without = ("--within", "3", "--without-topic", long)
        behind = clusters.run(*switch, "--yes", *without, "--hook", f"fence={sys.executable} {script}")
        assert behind.returncode == 1
        assert f"{late}-0 would be left behind: backup has no topic primary.{late}" in behind.stderr
        clusters.appliance.process.send_signal(signal.SIGHUP)
        eventually(
            lambda: "appeared after the fence" in clusters.run(*switch, "--yes", *without).stderr,
            within_s=30,
            because="the topic is on the target now, and was never fenced",
        )
        done = clusters.run(*switch, "--yes", *without, "--without-topic", late)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "backup->primary matches no topic of backup yet" in done.stdout
        for name in (long, late):
            write(clusters.primary, name, rows(1))  # it was not fenced
        with Writer(clusters.primary, young, "denied") as writer:
            eventually(lambda: writer.refused, within_s=30, because="what was switched is fenced")


def test_a_lost_source_leaves_an_exact_gap_and_a_complete_tail(tmp_path, topic):
    remote, back = f"primary.{topic}", f"backup.{topic}"
    read: list[str] = []
    with pair(tmp_path, [topic], extra=f"backup->primary.topics = {topic}.*\n") as clusters:
        with Writer(clusters.primary, topic, "before") as writer, Reader(clusters.primary, [topic], read):
            eventually(lambda: len(read) > 100, within_s=60, because="the group reads on the source")
        written = list(writer.acked)
        for partition in range(2):
            await_replicated(clusters.appliance, clusters.primary, topic, remote, partition)
        eventually(
            lambda: checkpointed(clusters, remote) == committed(clusters.primary, GROUP, topic),
            within_s=60,
            because="the group's last place is known on the target",
        )
        # What is written from now on never crosses, but the appliance sees it.
        assert clusters.run("positions pause", FLOW, "--topic", topic).returncode == 0
        eventually(
            lambda: sum(clusters.appliance.served("partition_paused_by_operator", topic=remote)) == 2,
            within_s=60,
            because="the flow is paused",
        )
        with Writer(clusters.primary, topic, "tail") as tail:
            eventually(lambda: len(tail.acked) > 100, within_s=60, because="a tail is written")
        missing = {int(part): sum(int(v.split("-")[1]) % 2 == part for v in tail.acked) for part in range(2)}
        eventually(
            lambda: sorted(clusters.appliance.served("lag_records", topic=remote)) == sorted(missing.values()),
            within_s=30,
            because="the appliance has seen it",
        )
        clusters.primary.kill()
        eventually(
            lambda: clusters.appliance.served("cluster_up", source="primary", cluster="primary") == [0],
            within_s=30,
            because="the appliance sees that the source is gone, and keeps what it saw last",
        )
        others = Cluster("backup", {"bootstrap.servers": clusters.backup.bootstrap})
        rule = Acl(f"{topic}-closed", "User:*", "*", "WRITE", "DENY")
        create(clusters.backup, rule.topic)
        assert others.add_acls([rule]) == {rule: ""}
        over = clusters.run("switch", FLOW, "--source-lost", "--yes")
        assert over.returncode == 0, over.stdout + over.stderr
        assert f"deny WRITE to all: {rule.topic}" in over.stdout
        assert rule in others.topic_acls(), "an operator's ACL stays"
        (run,) = json.loads(clusters.run("switches", FLOW, "--json").stdout)["runs"]
        gaps = {each["partition"]: each["missing"] for each in run["steps"]["gap"]["facts"]["gaps"]}
        assert gaps == missing
        in_ledger = json.loads(clusters.run("gaps", FLOW, "--json", "--effect", "lost").stdout)["gaps"]
        assert {each["partition"]: each["offsets"] for each in in_ledger} == {
            part: n for part, n in missing.items() if n
        }
        assert f"{len(tail.acked)} records seen on the source and not on the target" in over.stdout
        with Reader(clusters.backup, [remote, topic], read), Writer(clusters.backup, topic, "between") as writer:
            eventually(lambda: set(written) <= set(read), within_s=60, because="all that crossed is read on the target")
            eventually(lambda: len(writer.acked) > 100, within_s=60, because="records are written on the target")
        written += writer.acked
        assert not set(tail.acked) & set(read)

        clusters.primary.restart()
        options = ("--yes", "--fence", "acls-and-read")
        eventually(
            lambda: clusters.run("switch-back", FLOW, "--dry-run", *options).returncode == 0,
            within_s=120,
            because="the source is back and the flows are served again",
        )
        gone_back = clusters.run("switch-back", FLOW, *options)
        assert gone_back.returncode == 0, gone_back.stdout + gone_back.stderr
        (file,) = (tmp_path / "state" / "switches").glob("*-tail.jsonl")
        assert {oct(each.stat().st_mode & 0o777) for each in (file, *file.parent.iterdir())} == {"0o600"}
        kept = [json.loads(line) for line in file.read_text().splitlines()]
        assert sorted(base64.b64decode(each["value"]).decode() for each in kept) == sorted(tail.acked)
        written += tail.acked
        with Reader(clusters.primary, [topic, back], read):
            eventually(
                lambda: set(written) <= set(read), within_s=60, because="the rest is read on the source, the tail too"
            )
        assert [value for value, count in Counter(read).items() if count > 1] == []
        assert set(read) == set(written)


def checkpointed(clusters: Pair, remote: str) -> list[int]:
    """Where the group stood on the source by its last checkpoints."""
    options = client_options({"bootstrap.servers": clusters.backup.bootstrap})
    found, _ = asyncio.run(read_checkpoints(options, "primary.checkpoints.internal"))
    last = {at.partition: at.upstream for at in found if (at.group, at.topic) == (GROUP, remote)}
    return [last.get(part, -1) for part in range(2)]
