"""Faults of stored state, clocks and the metrics port: positions, the target's logs, the mode, hung workers, silent clients."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from types import ModuleType
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from mirror.config.clients import client_options
from mirror.embedded.broker import Broker
from mirror.kafka.client import Client, CoordinatorType
from mirror.kafka.internal_topics import committed
from mirror.kafka.kept_client import KeptClient
from mirror.kafka.messages import Request
from tests.integration.appliance import RunningAppliance, signal_all
from tests.integration.coordinators import restart_killed
from tests.integration.power_cut import cut
from tests.integration.records import create, rows, write
from tests.integration.values import values
from tests.soak.hooks.sitecustomize import CLOCK_AHEAD_S
from tests.soak.stage import ONCE, Fault, Stage
from tests.waiting import eventually

GROUP = "mirror.primary->backup"
TOPIC_NAME = 249  # characters at most
SHARED_WITHIN_S = 60.0
HUNG_WITHIN_S = 150.0
IDLE_RECORDS = 50
COPIED_WITHIN_S = 90.0
SHORT_RETENTION = (
    "offsets.retention.minutes=1\noffsets.retention.check.interval.ms=2000\n"  # the least that brokers allow
)
EXPIRE_WITHIN_S = 120.0


def _delete_positions(stage: Stage, _: random.Random) -> None:
    admin = AdminClient({"bootstrap.servers": stage.target.bootstrap})
    admin.delete_consumer_groups([GROUP])[GROUP].result(30)


@contextmanager
def _idle_topic(stage: Stage) -> Iterator[str]:
    """Let an idle topic be replicated, and yield its remote name. At the end it has each record once."""
    topic = f"{stage.topic}-idle"
    create(stage.source, topic, replicas=stage.replicas)
    write(stage.source, topic, rows(IDLE_RECORDS))
    stage.appliance.refresh()
    remote = f"primary.{topic}"
    sent = values(stage.source, topic, 0)

    def is_copied_once() -> bool:
        return values(stage.target, remote, 0, isolation="read_committed") == sent

    eventually(is_copied_once, within_s=COPIED_WITHIN_S, because=f"{topic} is replicated")
    yield remote
    assert is_copied_once(), f"{remote} is another one than {topic}"


def _expire_positions(stage: Stage, dice: random.Random) -> None:
    """Delete the positions of an idle topic and of a partition under load from their group, as the broker's retention does."""
    with _idle_topic(stage) as idle:
        places = [(idle, 0), (f"primary.{stage.topic}", dice.randrange(2))]
        with closing(KeptClient({"bootstrap.servers": stage.target.bootstrap})) as client:
            client.ask(_offset_delete(places), within_s=30)
        time.sleep(dice.uniform(5, 10))  # some windows


def _offset_delete(places: list[tuple[str, int]]) -> Any:
    def build(module: ModuleType, _: int) -> Any:
        topics = [
            module.OffsetDeleteRequestTopic(
                name=topic, partitions=(module.OffsetDeleteRequestPartition(partition_index=partition),)
            )
            for topic, partition in places
        ]
        return module.OffsetDeleteRequest(group_id=GROUP, topics=tuple(topics))

    async def delete(client: Client) -> None:
        node = await client.coordinator(CoordinatorType.GROUP, GROUP)
        found = await client.ask(node, Request(47, 0, 0, build))
        assert not found.error_code.value, found
        assert not any(part.error_code.value for topic in found.topics for part in topic.partitions), found

    return delete


@contextmanager
def _short_retention(target: Broker) -> Iterator[None]:
    """Let the target keep a group's offsets for one minute; at the end for Kafka's week again."""
    file = target.data_dir / "server.properties"
    kept = file.read_text()
    file.write_text(kept + SHORT_RETENTION)
    target.restart()
    try:
        yield
    finally:
        file.write_text(kept)
        target.restart()


def _outlast_retention(stage: Stage, dice: random.Random) -> None:
    """Kill the source, and restart it when the target's offsets of before are expired: the appliance has kept its positions."""
    assert isinstance(stage.source, Broker)
    assert isinstance(stage.target, Broker)
    with _short_retention(stage.target), _idle_topic(stage):
        stage.source.kill()
        time.sleep(dice.uniform(70, 90))
        restart_killed(stage.source)


def _sleep_past_retention(stage: Stage, _: random.Random) -> None:
    """Kill the appliance, and start it again when all its positions and leases are expired."""
    target = stage.target
    assert isinstance(target, Broker)
    options = client_options({"bootstrap.servers": target.bootstrap})
    with _short_retention(target), _idle_topic(stage):
        stage.appliance.kill_all()
        eventually(
            lambda: not asyncio.run(committed(options, GROUP)), within_s=EXPIRE_WITHIN_S, because="the positions expire"
        )
        stage.appliance.start()
        eventually(lambda: stage.appliance.slots() == 2, within_s=SHARED_WITHIN_S, because="it serves")
        time.sleep(5)  # some windows


def _end(appliance: RunningAppliance, dice: random.Random) -> None:
    if dice.random() < 0.5:
        appliance.kill_all()
    else:
        appliance.stop()


def _clock_ahead(stage: Stage, dice: random.Random) -> None:
    """End the appliance and start it with a clock that is minutes ahead; then again, with the right one."""
    for ahead_s in (dice.uniform(60, 300), 0.0):
        _end(stage.appliance, dice)
        stage.appliance.environment[CLOCK_AHEAD_S] = str(ahead_s)
        stage.appliance.start()
        time.sleep(dice.uniform(3, 10))


def _join_with_clock_ahead(stage: Stage, dice: random.Random) -> None:
    """Let another process join whose clock is ahead, share the slots, and end it."""
    other, own = stage.another(), stage.appliance
    other.environment[CLOCK_AHEAD_S] = str(dice.uniform(5, 120))
    other.start()
    eventually(lambda: own.slots() == other.slots() == 1, within_s=SHARED_WITHIN_S, because="the slots are shared")
    time.sleep(dice.uniform(3, 10))
    _end(other, dice)
    eventually(lambda: own.slots() == 2, within_s=SHARED_WITHIN_S, because="the first one has all slots again")


def _cut_target(stage: Stage, dice: random.Random) -> None:
    """Kill the target, take some batches from the ends of its logs, and start it again."""
    target = stage.target
    assert isinstance(target, Broker)
    target.kill()
    for partition in range(2):
        cut(target, f"primary.{stage.topic}", partition, least=dice.randint(0, 4))
    restart_killed(target)


def _change_mode(stage: Stage, dice: random.Random) -> None:
    """Kill the appliance and start it in the other mode; then again, back."""
    for _ in range(2):
        stage.appliance.kill_all()
        text = stage.appliance.file.read_text()
        stage.appliance.file.write_text(text.replace(ONCE, "") if ONCE in text else text + ONCE)
        stage.appliance.start()
        time.sleep(dice.uniform(3, 10))


def _hang_workers(stage: Stage, _: random.Random) -> None:
    """Let another process join, freeze the workers of the first one until the other has all slots, and let them go on."""
    other, own = stage.another(), stage.appliance
    other.start()
    eventually(lambda: other.slots() == 1, within_s=SHARED_WITHIN_S, because="the slots are shared")
    workers = own.workers()
    signal_all(workers, signal.SIGSTOP)
    try:
        eventually(lambda: other.slots() == 2, within_s=HUNG_WITHIN_S, because="the other one has all slots")
    finally:
        signal_all(workers, signal.SIGCONT)
    eventually(lambda: own.slots() == other.slots() == 1, within_s=SHARED_WITHIN_S, because="they are shared again")
    other.stop()


def _silent_clients(stage: Stage, dice: random.Random) -> None:
    """Connect to the metrics port, and send nothing, or half a request."""
    with ExitStack() as stack:
        for n in range(60):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", stage.appliance.port), 5))
            if n % 2:
                client.sendall(b"GET /metr")
        time.sleep(dice.uniform(2, 8))


def _refused_topic(stage: Stage, dice: random.Random) -> None:
    """Create a topic whose remote name is too long."""
    name = f"{stage.topic}-{'x' * (TOPIC_NAME - len(stage.topic) - 1)}"
    create(stage.source, name, replicas=stage.replicas)
    stage.appliance.refresh()
    time.sleep(dice.uniform(2, 6))
    admin = AdminClient({"bootstrap.servers": stage.source.bootstrap})  # kept: a collected client cancels its calls
    admin.delete_topics([name])[name].result(30)


def _open_transaction(stage: Stage, dice: random.Random) -> None:
    """Leave a transaction open on the source for a while, between the records of others; then commit it."""
    name = f"soak-{stage.topic}"
    producer = Producer({"bootstrap.servers": stage.source.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for n in range(20):
        producer.produce(stage.topic, f"open {n}".encode(), b"k", 0)
    producer.flush(30)
    time.sleep(dice.uniform(3, 12))
    producer.commit_transaction(30)


CHANGES_MODE = "kill -9 the mirror, change the mode, twice"
OF_STATE: dict[str, Fault] = {
    "delete the group of the positions": _delete_positions,
    "expire the positions of an idle topic and of a partition": _expire_positions,
    "kill -9 the source for longer than offsets are kept": _outlast_retention,
    "kill -9 the mirror for longer than offsets are kept": _sleep_past_retention,
    "restart the mirror with a clock ahead, then with the right one": _clock_ahead,
    "let a second process join whose clock is ahead, end it": _join_with_clock_ahead,
    "cut the ends of the target's logs": _cut_target,
    CHANGES_MODE: _change_mode,
    "let a second process join, freeze the workers of the first": _hang_workers,
    "silent clients on the metrics port": _silent_clients,
    "a topic that the target refuses": _refused_topic,
    "a transaction that stays open on the source": _open_transaction,
}
