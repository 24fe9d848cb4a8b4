"""When a flow looks for loops, and what it takes for true when a cluster does not tell."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mirror.config.load import load
from mirror.errors import ClusterUnavailable
from mirror.flows import loops as module
from mirror.flows.loops import FIRST_S, LAST_S, Loops
from mirror.flows.upstream import Upstream
from mirror.kafka.cluster import Topic


def topics(*names: str) -> dict[str, Topic]:
    return {name: Topic(name=name, topic_id=f"id of {name}", partitions=1) for name in names}


@pytest.fixture
def loops(tmp_path, monkeypatch):
    """A flow's loops at a clock that a test sets, of a source whose answer a test gives."""
    file = tmp_path / "f"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    made = Loops(load(file).flows[0])
    made.answer, made.now_s = {}, 100.0

    def read(*_: object) -> object:
        if isinstance(made.answer, Exception):
            raise made.answer
        return made.answer

    monkeypatch.setattr(module, "read_upstreams", read)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    return made


def look(loops: Loops, *names: str) -> None:
    loops.look(topics(*names), remote={name: f"A.{name}" for name in names}, on_target={"theirs"})


def test_it_looks_soon_again_where_topics_are_new_and_seldom_where_they_are_not(loops):
    assert loops.is_due
    waits = []
    for names in (["t"], ["t"], ["t"], ["t"], ["t"], ["t"], ["t"], ["t", "new"], ["t", "new"]):
        look(loops, *names)
        began = loops.now_s
        while not loops.is_due:
            loops.now_s += 0.5
        waits.append(loops.now_s - began)
    assert waits == [FIRST_S, 4, 8, 16, LAST_S, LAST_S, LAST_S, FIRST_S, 4]


def test_loops_stay_known_while_the_source_does_not_respond(loops, caplog):
    caplog.set_level("INFO")
    loops.answer = {"t": Upstream(live=frozenset({"theirs"}), progress=1)}
    look(loops, "t")
    assert loops.going_round == {"t"}
    loops.answer = ClusterUnavailable("cluster A: no answer.", cluster="A")
    look(loops, "t")
    look(loops, "t")
    assert loops.going_round == {"t"}
    assert loops.upstream == {"t": ("theirs",)}
    assert caplog.text.count("topics cannot be checked for loops: cluster A: no answer.") == 1
    loops.answer = {}
    look(loops, "t")
    assert loops.going_round == set()
    assert "replicated again, because no mirror copies them from B any more: t" in caplog.text


def test_a_topic_that_was_never_looked_at_is_not_known(loops):
    assert not loops.knows(topics())
    look(loops, "t")
    assert loops.knows(topics("t"))
    assert not loops.knows(topics("t", "u"))
