"""A cluster of three brokers with three replicas of everything, that can be struck as one broker can."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from mirror.embedded.broker import Broker
from mirror.embedded.jars import KAFKA_VERSION
from tests.waiting import eventually

REPLICAS = 3
OVERRIDES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
HEALED_WITHIN_S = 120.0


class Trio:
    """Three brokers; the first one has the controller too. What is done to "the" broker is done to one that the dice decide."""

    def __init__(self, brokers: list[Broker], dice: random.Random) -> None:
        self.brokers = brokers
        self._dice = dice
        self._struck = brokers[0]

    @property
    def bootstrap(self) -> str:
        """All three addresses."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def pause(self) -> None:
        """Freeze one, until `resume`."""
        self._struck = self._dice.choice(self.brokers)
        self._struck.pause()

    def resume(self) -> None:
        """Let it go on."""
        self._struck.resume()

    def kill(self) -> None:
        """Kill one, until `restart`."""
        self._struck = self._dice.choice(self.brokers)
        self._struck.kill()

    def alone(self, topic: str, node: int) -> None:
        """Create a topic of one topic-partition, which one broker has and no other."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        made = NewTopic(topic, 1, replica_assignment=[[node]], config={"min.insync.replicas": "1"})
        admin.create_topics([made])[topic].result(30)

    def kill_node(self, node: int) -> None:
        """Kill this one, until `restart`: what it alone has is without a leader."""
        self._struck = self.brokers[node - 1]
        self._struck.kill()

    def restart(self) -> None:
        """Start the one again that was killed; or restart all, one after the other, each when the one before is in sync again."""
        dead = [broker for broker in self.brokers if not broker.is_running]
        for broker in dead or self.brokers:
            broker.restart()
            eventually(self._is_whole, within_s=HEALED_WITHIN_S, because="all replicas are in sync")

    def _is_whole(self) -> bool:
        listed = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=10)
        partitions = [part for topic in listed.topics.values() for part in topic.partitions.values()]
        return len(listed.brokers) == len(self.brokers) and all(
            part.leader >= 0 and len(part.isrs) == len(part.replicas) for part in partitions
        )


@contextmanager
def trio(name: str, folder: Path, *, version: str = KAFKA_VERSION) -> Iterator[Trio]:
    """Start three brokers of one of Kafka's versions."""
    with ExitStack() as stack:
        first = stack.enter_context(Broker.start(f"{name}-1", folder / "1", overrides=OVERRIDES, version=version))
        others = [
            stack.enter_context(
                Broker.start(f"{name}-{n}", folder / str(n), overrides=OVERRIDES, joins=first, node=n, version=version)
            )
            for n in (2, 3)
        ]
        yield Trio([first, *others], random.Random(name))
