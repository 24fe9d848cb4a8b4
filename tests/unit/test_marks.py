"""The events that the chart of a partition marks, each with its time and what happened."""

from __future__ import annotations

from app.marks import Mark, of_errors, of_leaders, of_process, of_prometheus, table
from metrics.last_errors import LastError
from mirror.kafka.cluster import Topic
from mirror.lag.leader_changes import LeaderChange, LeaderChanges
from tests.unit.test_app import STALLED
from tests.unit.test_past import Server, samples


def topic(*leaders: int, name: str = "t", is_hidden: bool = False) -> Topic:
    return Topic(name=name, topic_id="", partitions=len(leaders), leaders=leaders, is_hidden=is_hidden)


def test_a_pause_has_its_reason_and_its_end():
    own = LastError("a", "b", "a.payments", 3, "too large", 100.0, 160.0)
    others = [LastError("a", "b", "a.payments", 2, "x", 1.0), LastError("a", "c", "a.payments", 3, "x", 1.0)]
    assert of_errors([*others, own], STALLED) == [
        Mark(100.0, "pause", "too large"),
        Mark(160.0, "resumed", "the pause ended"),
    ]


def test_leader_changes_are_those_of_the_partition():
    changes = LeaderChanges()
    for time_s, leaders in ((0.0, (1, 2)), (5.0, (1, 2)), (10.0, (1, -1)), (15.0, (1, 3))):
        changes.record("a", [topic(*leaders), topic(7, name="other")], time_s)
    assert changes.of("a", "t", 0) == []
    assert changes.of("b", "t", 1) == []
    assert changes.of("a", "t", 1) == [LeaderChange(10.0, "a", 2, -1), LeaderChange(15.0, "a", -1, 3)]
    assert [mark.what for mark in of_leaders(changes.of("a", "t", 1))] == [
        "a: from broker 2 to no leader",
        "a: from no leader to broker 3",
    ]


def test_a_hidden_topic_and_a_new_partition_are_no_leader_change():
    changes = LeaderChanges()
    for leaders, is_hidden in (((1,), False), ((9,), True), ((1, 2), False)):
        changes.record("a", [topic(*leaders, is_hidden=is_hidden)], 1.0)
    assert changes.of("a", "t", 0) == changes.of("a", "t", 1) == []


def test_restarts_come_from_prometheus_and_takeovers_are_of_the_flow():
    server = Server(
        {
            "process_start_time": [{"metric": {"instance": "x:1"}, "values": samples((60, 1))}],
            "takeovers": [
                {"metric": {"source": "a", "target": target}, "values": samples((120, 1))} for target in ("b", "c")
            ],
        }
    )
    found = of_prometheus(server, "a->b", start_s=0, end_s=120, step_s=60)
    assert found == [Mark(0, "restart", "x:1"), Mark(60, "takeover", "a->b")]
    assert len(server.asked) == 2, "nothing else is queried"


def test_events_are_listed_newest_first():
    marks = [*of_process([(60.0, False), (90.0, True)]), Mark(75.0, "pause", "x")]
    assert [tuple(line) for line in table(marks).itertuples(index=False)] == [
        ("1970-01-01 00:01:30 UTC", "process", "the process responds again"),
        ("1970-01-01 00:01:15 UTC", "pause", "x"),
        ("1970-01-01 00:01:00 UTC", "process", "the process does not respond"),
    ]
