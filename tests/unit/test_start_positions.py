"""Whether a flow begins now: only then is auto.offset.reset about the topic-partitions that are there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror.flows import start_positions
from mirror.flows.start_positions import begin
from mirror.kafka.forgotten_positions import Recalled
from mirror.model.flow_plan import FlowPlan, PlannedPartition

PLAN = FlowPlan(
    source="A", target="B", tasks_max=1, consumer={}, producer={}, partitions=(PlannedPartition("t", "A.t", 0, "id"),)
)


@pytest.mark.parametrize(("has_run", "first"), [(False, {("t", 0)}), (True, set())])
def test_a_flow_whose_offset_map_has_any_record_has_begun_before(monkeypatch, has_run, first):
    """All its positions and leases are expired, and the map does not have this partition: it is read from its start."""
    flow: Any = SimpleNamespace(source_group="", name="A->B")
    cluster: Any = None  # is not asked for anything
    nothing = {"refuse_running": None, "read_positions": {}, "write_positions": None, "take_over": 0}
    for name, result in {**nothing, "_went_on_as_shown": False, "recalled": None}.items():
        monkeypatch.setattr(start_positions, name, lambda *_, result=result, **__: result)
    monkeypatch.setattr(
        start_positions, "answer_of_target", lambda *_: Recalled({PLAN.paused_key: (0, "")}, has_run=has_run)
    )
    assert begin(flow, PLAN, cluster, cluster) == first
