"""Heartbeats go to each target by itself. Asks no broker."""

from __future__ import annotations

import threading
import time

import pytest

from mirror.config.properties import Properties
from mirror.config.settings import HeartbeatFlow
from mirror.errors import MirrorError
from mirror.flows import heartbeats
from mirror.flows.heartbeats import HeartbeatEmitter
from mirror.kafka.appender import NoTopicError
from tests.unit.fakes import FakeCluster
from tests.waiting import eventually


@pytest.fixture
def responds(monkeypatch):
    """Clusters of which "dead" does not respond until this event is set; every other one acknowledges at once."""
    event = threading.Event()

    class Cluster(FakeCluster):
        def __init__(self, alias, _):
            super().__init__(alias)

        def create(self, *args, **options):
            if self.alias == "dead":
                event.wait(60)
            return super().create(*args, **options)

    monkeypatch.setattr(heartbeats, "Cluster", Cluster)
    yield event
    event.set()


def flow(target):
    client = Properties({"bootstrap.servers": "127.0.0.1:1"})
    return HeartbeatFlow(
        source="a", target=target, topic="heartbeats", interval_s=0.05, replication_factor=1, client=client
    )


def test_a_target_that_does_not_respond_holds_up_no_heartbeat_of_another(responds):
    seen: list[tuple[str, str]] = []
    emitter = HeartbeatEmitter([flow("dead"), flow("b")], seen.append)
    emitter.start()
    try:
        eventually(lambda: seen.count(("a", "b")) >= 3, within_s=1, because="b acknowledges")
        assert ("a", "dead") not in seen
        responds.set()
        eventually(lambda: ("a", "dead") in seen, within_s=1, because="the other one responds")
    finally:
        responds.set()
        emitter.stop()


def test_a_stop_does_not_wait_for_a_target_that_does_not_respond(responds, monkeypatch):
    monkeypatch.setattr(heartbeats, "STOP_S", 0.3)
    emitter = HeartbeatEmitter([flow("dead")], lambda _: None)
    emitter.start()
    began_s = time.monotonic()
    emitter.stop()
    assert time.monotonic() - began_s < 5


def test_a_deleted_topic_is_created_again_and_a_refusal_is_logged_once(monkeypatch, caplog):
    failures: list[MirrorError] = [NoTopicError("topic heartbeats does not exist"), *[MirrorError("refused")] * 3]
    created: list[str] = []
    seen: list[tuple[str, str]] = []

    class Cluster(FakeCluster):
        def __init__(self, alias, _):
            super().__init__(alias)

        def create(self, topic, **options):
            created.append(topic)
            return super().create(topic, **options)

        def append(self, *_, **__):
            if failures:
                raise failures.pop(0)

    monkeypatch.setattr(heartbeats, "Cluster", Cluster)
    emitter = HeartbeatEmitter([flow("b")], seen.append)
    emitter.start()
    try:
        eventually(lambda: ("a", "b") in seen, within_s=5, because="the target acknowledges again")
    finally:
        emitter.stop()
    assert created == ["heartbeats"] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "a->b: no heartbeat: topic heartbeats does not exist",
        "a->b: no heartbeat: refused",
    ]
