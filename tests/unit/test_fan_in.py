"""Partitions of a target that several flows write to."""

from __future__ import annotations

from mirror.flows.fan_in import shared
from mirror.model.flow_plan import LEASE_TOPIC, PlannedPartition
from mirror.model.position_metadata import PositionMetadata
from mirror.model.slot_ownership import layout_key

OURS = [
    PlannedPartition("t", "t", 0, "id-of-a"),
    PlannedPartition("t", "t", 1, "id-of-a"),
    PlannedPartition("u", "u", 0, "other"),
]


def flow(source: str, *places: tuple[str, int], topic_id: str) -> dict[tuple[str, int], tuple[int, str]]:
    """Return the group of a flow from `source`: its layout, and a position for each place."""
    position = (5, str(PositionMetadata(f"{topic_id}:here", "0,0,5")))
    return {(LEASE_TOPIC.format(source=source), layout_key()): (0, ""), **dict.fromkeys(places, position)}


def test_a_partition_is_shared_if_a_flow_from_another_topic_has_a_position_there():
    others = {"mirror.c->b": flow("c", ("t", 0), ("v", 0), topic_id="id-of-c")}
    assert shared(OURS, others) == {("t", 0): "mirror.c->b"}
    assert shared(OURS, {"mirror.c->b": flow("c", ("t", 0), topic_id="")}) == {("t", 0): "mirror.c->b"}, "not known"


def test_other_aliases_and_source_groups_do_not_count_as_other_flows():
    assert shared(OURS, {"mirror.old->b": flow("old", ("t", 0), topic_id="id-of-a")}) == {}
    shown = {place: at for place, at in flow("b", ("t", 0), topic_id="x").items() if place == ("t", 0)}
    assert shared(OURS, {"mirror.b->d": shown}) == {}
