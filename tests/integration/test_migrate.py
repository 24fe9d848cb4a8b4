"""For good, same names: Kafka's own console clients and transactions go to the other cluster, each record read once, in order."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Producer

from mirror.embedded import jars
from mirror.embedded.broker import Broker
from mirror.runtime.java import java
from tests.integration.acls import GUARDED
from tests.integration.appliance import RunningAppliance
from tests.integration.records import create
from tests.integration.test_switch import FLOW, InThread, Pair, ended, followed
from tests.waiting import eventually

pytestmark = pytest.mark.kafka
IDENTITY = """\
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
mirror.source.group.enabled = true
"""
TOOLS = "org.apache.kafka.tools"
GROUP = "console"


@dataclass
class Transactions(InThread):
    """Writes transactions of five records; every third is aborted."""

    cluster: Broker
    topic: str
    prefix: str
    committed: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)

    def run(self) -> None:
        options = {"bootstrap.servers": self.cluster.bootstrap, "transactional.id": f"{self.topic}-{self.prefix}"}
        producer = Producer({**options, "log_level": 0})
        producer.init_transactions(30)
        number = 0
        while not self.stop.wait(0.02):
            values = [f"{self.prefix}-{number}-{each}" for each in range(5)]
            producer.begin_transaction()
            for value in values:
                producer.produce(self.topic, value, key=str(number % 7), partition=number % 7 % 2)
            if number % 3 == 2:
                producer.flush(30)
                producer.abort_transaction(30)
                self.aborted += values
            else:
                producer.commit_transaction(30)
                self.committed += values
            number += 1


class ConsoleReader(InThread):
    """Kafka's console consumer, a member of the group; `read` are the lines that it prints."""

    def __init__(self, cluster: Broker, topics: Sequence[str], read: list[str]) -> None:
        self.cluster, self.topics, self.read = cluster, topics, read
        self.__post_init__()

    def run(self) -> None:
        names = ("--include", "|".join(self.topics), "--group", GROUP, "--isolation-level", "read_committed")
        earliest = ("--consumer-property", "auto.offset.reset=earliest")
        command = tool("consumer.ConsoleConsumer", self.cluster, *names, *earliest)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            ends = threading.Thread(target=lambda: (self.stop.wait(), process.terminate()))
            ends.start()
            for line in process.stdout:
                self.read.append(line.strip())
            ends.join()


@contextmanager
def console_writer(cluster: Broker, topic: str, prefix: str, written: list[str]) -> Iterator[None]:
    """Kafka's console producer: a record with a key each few milliseconds, until the context ends."""
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:", "--timeout", "10")
    command = tool("ConsoleProducer", cluster, "--topic", topic, *keyed)
    stop = threading.Event()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stdin is not None

        def write() -> None:
            number = 0
            while not stop.wait(0.01):
                value = f"{prefix}-{number}"
                process.stdin.write(f"{number % 7}:{value}\n")
                process.stdin.flush()
                written.append(value)
                number += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            process.stdin.close()  # it flushes, and ends
            try:
                assert process.wait(120) == 0
            finally:
                process.kill()


def tool(name: str, cluster: Broker, *arguments: str) -> list[str]:
    classpath = jars.classpath(jars.resolve(lambda _: None))
    return [
        java(),
        "-Xmx128m",
        "-cp",
        classpath,
        f"{TOOLS}.{name}",
        "--bootstrap-server",
        cluster.bootstrap,
        *arguments,
    ]


def in_order(read: Sequence[str], written: Sequence[str]) -> bool:
    """Tell whether the records of each topic's key were read in the order in which they were written."""
    position = {value: number for number, value in enumerate(written)}
    last: dict[tuple[bool, int], int] = {}
    for value in read:
        if value in position:
            _, number, *of_transaction = value.split("-")
            key = bool(of_transaction), int(number) % 7
            if position[value] < last.get(key, -1):
                return False
            last[key] = position[value]
    return True


def test_console_clients_and_transactions_migrate_under_the_same_names(tmp_path):
    topics, read = ["lines", "sums"], []
    written: list[str] = []
    with ExitStack() as stack:
        primary, backup = (
            stack.enter_context(Broker.start(name, tmp_path / name, overrides=GUARDED))
            for name in ("primary", "backup")
        )
        for topic in topics:
            create(primary, topic, 2)
        appliance = RunningAppliance(
            tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics="lines,sums", extra=IDENTITY
        )
        clusters = Pair(primary, backup, stack.enter_context(appliance))
        eventually(
            lambda: clusters.run("migrate", FLOW, "--dry-run", "--fence", "none").returncode == 0,
            within_s=60,
            because="the flow is served",
        )
        with Transactions(primary, "sums", "before") as sums, ConsoleReader(primary, topics, read):
            with console_writer(primary, "lines", "before", written):
                eventually(lambda: len(read) > 200, within_s=60, because="the console reads on the source")
                # Nothing waits for readers here: the group is moved when they have left.
                process = clusters.start("migrate", FLOW, "--yes", "--fence", "acls-and-read")
                lines = followed(process, "migrate primary->backup")
            sums.end()
            lines += followed(process, "drain ...")
        ended(process, lines)
        written += sums.committed
        (run,) = json.loads(clusters.run("switches", FLOW, "--json").stdout)["runs"]
        assert (run["kind"], run["state"]) == ("migrate", "done")
        assert {move["group"] for move in run["moves"]} == {GROUP}

        after: list[str] = []
        with Transactions(backup, "sums", "after") as more, ConsoleReader(backup, topics, read):
            with console_writer(backup, "lines", "after", after):
                eventually(lambda: len(more.committed) > 100, within_s=60, because="the target is written")
            more.end()
            eventually(
                lambda: set(written + after + more.committed) <= set(read),
                within_s=60,
                because="the rest is read on the target",
            )
        written += after + more.committed
        aborted = set(sums.aborted + more.aborted)
        assert len(aborted) > 20
    assert not aborted & set(read)
    assert set(read) == set(written)
    assert [value for value, count in Counter(read).items() if count > 1] == []
    for prefix in ("before", "after"):
        assert in_order(
            [value for value in read if value.startswith(prefix)], [v for v in written if v.startswith(prefix)]
        )
