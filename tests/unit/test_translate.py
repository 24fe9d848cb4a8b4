"""`kafka-mirror translate`: the way between clusters, and offsets along it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mirror.commands.translate import route, translate
from mirror.errors import SettingsError
from mirror.flows.offset_maps import FlowMaps
from mirror.flows.translation import Place, across
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.model.offset_map import OffsetMap, OffsetRun


def flow(name):
    source, target = name.split(">")
    return SimpleNamespace(
        source=SimpleNamespace(alias=source), target=SimpleNamespace(alias=target), name=f"{source}->{target}"
    )


def way(flows, start, end):
    return [
        (hop.start, hop.end, hop.along is not None, hop.back is not None)
        for hop in route([flow(name) for name in flows], start, end)
    ]


def test_the_way_leads_along_flows_or_back_along_them():
    assert way(["a>b"], "a", "b") == [("a", "b", True, False)]
    assert way(["a>b"], "b", "a") == [("b", "a", False, True)]
    assert way(["a>b", "b>a"], "b", "a") == [("b", "a", True, True)]
    assert way(["a>b", "b>c", "d>c"], "a", "d") == [
        ("a", "b", True, False),
        ("b", "c", True, False),
        ("c", "d", False, True),
    ]
    assert way(["a>b", "b>c", "a>c"], "a", "c") == [("a", "c", True, False)]
    with pytest.raises(SettingsError, match="no flows lead from a to d; enabled are a->b, c->d"):
        route([flow("a>b"), flow("c>d")], "a", "d")


def test_places_get_the_other_sides_names_and_offsets():
    plan = FlowPlan(
        source="a",
        target="b",
        tasks_max=1,
        consumer={},
        producer={},
        partitions=(PlannedPartition("t", "a.t", 0, "id"),),
    )
    maps = FlowMaps(plan, maps={("t", 0): OffsetMap([OffsetRun(10, 0, 5)])})
    asked = [Place("t", 0, 12), Place("t", 0, 3), Place("t", 1, 0), Place("u", 0, 0), Place("t", 0, None)]
    there = [Place("a.t", 0, 2), Place("a.t", 0, None), None, None, Place("a.t", 0, None)]
    assert across(plan, maps, asked, is_back=False) == there
    assert across(plan, maps, [Place("a.t", 0, 2), Place("t", 0, 2)], is_back=True) == [Place("t", 0, 12), None]


@pytest.mark.parametrize("pair", ["a->a", "a", "a->moon", "->b"])
def test_a_route_without_two_clusters_is_refused(pair):
    with pytest.raises(SettingsError, match="does not name two clusters; expected A->B of a, b"):
        translate(SimpleNamespace(flows=[flow("a>b")]), SimpleNamespace(pair=pair))
