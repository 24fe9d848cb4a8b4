"""One round: a topic of its own, numbered records under way, one fault, and what became of every record."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from confluent_kafka.admin import AdminClient

from mirror.embedded.broker import Broker
from tests.compare import compare
from tests.integration.records import create, end_offset, load
from tests.integration.values import values_by_offset
from tests.soak.oracle import Fate, fate, shifted
from tests.soak.stage import MODES, Fault, Stage
from tests.waiting import eventually

PARTITIONS = 2
RECOVERY_S = 150.0
CALM_S = 20.0


@dataclass(slots=True)
class Outcome:
    """All rounds of one fault in one mode."""

    rounds: int = 0
    fate: Fate = field(default_factory=Fate)
    recoveries_s: list[float] = field(default_factory=list)
    dirty: list[int] = field(default_factory=list)  # seeds of the rounds that were not clean

    def add(self, other: Outcome) -> None:
        """Add the rounds of another one."""
        self.rounds += other.rounds
        self.fate.add(other.fate)
        self.recoveries_s += other.recoveries_s
        self.dirty += other.dirty


def a_round(stage: Stage, strike: Fault, seed: int, topic: str) -> Outcome:
    """Do one round. The recovery is the time from the fault's begin to fifty more records on the target behind its end."""
    dice = random.Random(seed)
    remote = f"primary.{topic}"
    stage.topic = topic
    create(stage.source, topic, PARTITIONS, replicas=stage.replicas)
    with load(stage.source, topic, partitions=PARTITIONS):
        eventually(lambda: end_offset(stage.target, remote, 0) > 50, within_s=RECOVERY_S, because="the load flows")
        time.sleep(dice.uniform(0, 3))
        began = time.monotonic()
        strike(stage, dice)
        before = end_offset(stage.target, remote, 0)
        eventually(
            lambda: end_offset(stage.target, remote, 0) > before + 50, within_s=RECOVERY_S, because="it flows again"
        )
        recovery_s = time.monotonic() - began
        time.sleep(1)
    found = Fate()
    for partition in range(PARTITIONS):
        sent = values_by_offset(stage.source, topic, partition, isolation="read_committed")
        got = _arrived(stage.target, remote, partition, [*sent.values()][-1])
        found.add(fate([*sent.values()], [*got.values()]))
        found.shifted += shifted(sent, got) if stage.mode == MODES[2] else 0
    return Outcome(1, found, [recovery_s], [] if found.is_clean else [seed])


def calmed_down(stage: Stage) -> Outcome:
    """Wait until leases change hands in time again, then compare the topics of all rounds once more.

    The recovery is how long the wait took.

    Raises:
        AssertionError: Leases are still late although no fault lasts, or a topic has changed after its round.
    """
    began = time.monotonic()
    eventually(
        lambda: _is_calm(stage), within_s=RECOVERY_S, because=f"for {CALM_S:.0f} s no lease is late or taken over"
    )
    calm_s = time.monotonic() - began - CALM_S
    admin = AdminClient({"bootstrap.servers": stage.source.bootstrap})
    topics = {topic: f"primary.{topic}" for topic in admin.list_topics(timeout=30).topics if topic.startswith("soak-")}
    found = compare(stage.source.bootstrap, stage.target.bootstrap, topics).differences
    assert not found, f"after its round a topic differs: {found}"
    return Outcome(1, Fate(), [calm_s], [])


def _is_calm(stage: Stage) -> bool:
    served, disturbed = _turns(stage)
    time.sleep(CALM_S)
    served_then, disturbed_then = _turns(stage)
    return served_then > served and disturbed_then == disturbed


def _turns(stage: Stage) -> tuple[float, float]:
    """Return how many windows were served so far, and how many turns were late or taken over."""
    total = stage.appliance.total
    disturbed = total("kafka_mirror_late_handovers_total") + total("kafka_mirror_takeovers_total")
    return total("kafka_mirror_windows_total"), disturbed


def _arrived(cluster: Broker, topic: str, partition: int, last: bytes | None) -> dict[int, bytes | None]:
    """Return all values by offset, when the last one that was sent is among them or does not come."""
    deadline = time.monotonic() + RECOVERY_S
    while True:
        got = values_by_offset(cluster, topic, partition, isolation="read_committed")
        if last in got.values() or time.monotonic() > deadline:
            return got
        time.sleep(1)
