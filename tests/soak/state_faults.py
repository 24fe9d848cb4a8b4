"""Faults of stored state and of the metrics port: positions, the target's logs, the mode, hung workers, silent clients."""

from __future__ import annotations

import random
import signal
import socket
import time
from contextlib import ExitStack

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from mirror.embedded.broker import Broker
from tests.integration.appliance import signal_all
from tests.integration.coordinators import restart_killed
from tests.integration.power_cut import cut
from tests.integration.records import create
from tests.soak.stage import ONCE, Fault, Stage
from tests.waiting import eventually

GROUP = "mirror.primary->backup"
TOPIC_NAME = 249  # characters at most
SHARED_WITHIN_S = 60.0
HUNG_WITHIN_S = 150.0


def _delete_positions(stage: Stage, _: random.Random) -> None:
    admin = AdminClient({"bootstrap.servers": stage.target.bootstrap})
    admin.delete_consumer_groups([GROUP])[GROUP].result(30)


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


OF_STATE: dict[str, Fault] = {
    "delete the group of the positions": _delete_positions,
    "cut the ends of the target's logs": _cut_target,
    "kill -9 the appliance, change the mode, twice": _change_mode,
    "let a second process join, freeze the workers of the first": _hang_workers,
    "silent clients on the metrics port": _silent_clients,
    "a topic that the target refuses": _refused_topic,
    "a transaction that stays open on the source": _open_transaction,
}
