"""What a flow makes of remote topics that somebody deletes, or deletes and creates again, while it looks."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from mirror.config.load import load
from mirror.flows import flow
from mirror.flows.flow import Due, FlowState
from mirror.flows.loops import Loops
from mirror.kafka.cluster import Topic
from tests.unit.fakes import FakeCluster, named

SETTINGS = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\ntopics = orders, sales\n"
SOURCE = named("orders", "sales")


def on_target(**ids):
    return {f"A.{name}": Topic(name=f"A.{name}", topic_id=topic_id, partitions=1) for name, topic_id in ids.items()}


@pytest.fixture
def told(tmp_path, monkeypatch, caplog):
    """Return a function that plays looks at the target and returns the log lines about A.sales. The first makes the plan."""
    monkeypatch.setattr("mirror.flows.flow.begin", lambda *_: frozenset())
    monkeypatch.setattr(Loops, "look", lambda *_, **__: None)
    (tmp_path / "f").write_text(SETTINGS)

    def played(*looks):
        source, target = FakeCluster("A", SOURCE), FakeCluster("B", *looks)
        state = FlowState(load(tmp_path / "f").flows[0], source, target)
        for _ in looks:
            state.discover(slots=1, last_position=lambda _: None)
        return [found.getMessage() for found in caplog.records if "A.sales was" in found.getMessage()]

    return played


FIRST = on_target(orders="1", sales="1")


@pytest.mark.parametrize(
    ("looks", "saying"),
    [
        pytest.param([FIRST, FIRST], [], id="nothing happens"),
        pytest.param([FIRST, on_target(orders="1", sales="2")], ["deleted and created again"], id="replaced"),
        pytest.param([FIRST, on_target(orders="1"), on_target(orders="1", sales="2")], ["deleted on"], id="gone"),
        pytest.param(
            [FIRST, on_target(sales="1"), on_target(orders="2", sales="2")],
            ["deleted and created again"],
            id="replaced while another, that was gone, is created",
        ),
        pytest.param(
            [FIRST, on_target(sales="1"), on_target(orders="2"), on_target(orders="2", sales="2")],
            ["deleted and created again"],
            id="gone while another is created, replaced before the next look",
        ),
        pytest.param(
            [
                FIRST,
                on_target(sales="1"),
                on_target(orders="2"),
                on_target(orders="2"),
                on_target(orders="2", sales="2"),
            ],
            ["deleted on"],
            id="gone while another is created, and at the next look",
        ),
    ],
)
def test_each_remote_topic_that_disappears_is_logged_once(told, looks, saying):
    found = told(*looks)
    assert len(found) == len(saying)
    assert all(part in one for part, one in zip(saying, found, strict=True)), found


def test_a_request_for_a_look_that_comes_during_another_one_is_not_forgotten(monkeypatch):
    """The listener asks for a look in a minute, just as upkeep takes the present one and sets the next to ten minutes."""
    due, now_s, asking = Due(), 1_000.0, []

    def monotonic():
        if not asking:
            asking.append(threading.Thread(target=due.hasten, args=(60.0,)))
            asking[0].start()
            asking[0].join(0.2)
        return now_s

    monkeypatch.setattr(flow, "time", SimpleNamespace(monotonic=monotonic))
    due.at_s = 999.0
    assert due.take(600.0)
    asking[0].join()
    assert due.at_s == now_s + 60.0
