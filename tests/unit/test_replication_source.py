"""When a lane's window is planned: a moment before it begins, from the plan of then."""

from __future__ import annotations

import time

import pytest

from mirror.model.flow_plan import FlowPlan, PlannedPartition, window_at
from mirror.spark.plan_file import Plan, write_plan
from mirror.spark.replication_source import AHEAD_S, LaneReader

WINDOW_MS = 2000

pytestmark = pytest.mark.usefixtures("virtual_clock")


def plan_of(*topics: str) -> FlowPlan:
    assigned = tuple(PlannedPartition(topic, f"a.{topic}", 0, topic) for topic in topics)
    return FlowPlan(source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=assigned)


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan"
    write_plan(path, Plan((plan_of("first"),)))
    return path


def reader(plan) -> LaneReader:
    options = {"plan": str(plan), "lanes": "2", "slots": "1", "window_ms": str(WINDOW_MS), "first": "0", "run_id": "1"}
    return LaneReader({**options, "gone": ""})


def coming() -> int:
    """Wait for the start of a window and return the number of the next one."""
    time.sleep((WINDOW_MS - time.time() * 1000 % WINDOW_MS) / 1000 + 0.1)
    return window_at(time.time() * 1000, WINDOW_MS) + 1


def topics(lane: LaneReader, start: dict[str, int], end: dict[str, int]) -> list[str]:
    return [
        assigned.topic for task in lane.partitions(start, end) for flow in task.flows for assigned in flow.partitions
    ]


def test_a_topic_that_is_found_while_the_window_before_runs_is_in_the_next_one(plan, virtual_clock):
    lane, window = reader(plan), coming()
    found = Plan((plan_of("first", "second"),))
    virtual_clock.call_at(time.time() + 0.3, lambda: write_plan(plan, found))
    start = {"window": window}
    end = lane.latestOffset(start, None)
    assert end == {"window": window + 2}
    assert time.time() * 1000 >= window * WINDOW_MS - AHEAD_S * 1000
    assert topics(lane, start, end) == ["first", "second"]


def test_a_window_that_runs_already_is_planned_at_once(plan):
    lane, running = reader(plan), coming() - 1
    start = {"window": running}
    assert lane.latestOffset(start, None) == {"window": running + 2}
    assert topics(lane, start, {"window": running + 2}) == ["first"]


def test_a_lane_that_waits_for_a_window_ends_when_the_process_stops(plan, virtual_clock):
    lane, window = reader(plan), coming()
    virtual_clock.call_at(time.time() + 0.2, lambda: write_plan(plan, Plan((), is_stopping=True)))
    start = {"window": window}
    assert lane.latestOffset(start, None) == start
    assert lane.partitions(start, start) == []
    assert time.time() * 1000 < window * WINDOW_MS


def test_a_lane_that_waits_for_a_window_ends_with_its_parent_process(plan, monkeypatch):
    lane, window = reader(plan), coming()
    parents = iter([7, 7, 1])
    monkeypatch.setattr("mirror.spark.replication_source.os.getppid", lambda: next(parents))
    start = {"window": window}
    assert lane.latestOffset(start, None) == start
