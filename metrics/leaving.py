"""Remove the series of what is gone: topic-partitions that left their flow, flows that another process serves. Pure."""

from __future__ import annotations

from collections.abc import Collection, Set
from operator import itemgetter
from typing import Any

from metrics.cap import Labels
from metrics.catalogue import BY_NAME, CATALOGUE, FLOW, PARTITION, SLOT

FLOW_GAUGES = [s.name for s in CATALOGUE if s.kind == "gauge" and s.labels[:2] == FLOW and s.reported_by != "all"]
SLOT_GAUGES = [s.name for s in CATALOGUE if s.kind == "gauge" and s.labels == SLOT]

# Thousands of topic-partitions are looked at every few seconds, so the loops over all series are C's: `map` and sets.
_flow_of = itemgetter(slice(len(FLOW)))


def keep_partitions(series: dict[Labels, Any], names: tuple[str, ...], partitions: set[Labels]) -> None:
    """Remove from series with labels of these names what is of other topic-partitions, or of topics without any."""
    if "topic" in names:
        present = partitions if "partition" in names else {labels[:3] for labels in partitions}
        place_of = itemgetter(*(names.index(label) for label in PARTITION if label in names))
        # The labels of most families are the place already: no tuple is made again.
        places = set(series) if names == PARTITION else set(map(place_of, series))
        if gone := places - present:
            for labels in [labels for labels in series if place_of(labels) in gone]:
                del series[labels]


def keep_slots(families: dict[str, dict[Labels, Any]], flow: Labels, owned: Collection[int]) -> None:
    """Remove gauges of a flow's slots that this process does not serve."""
    kept = set(map(str, owned))
    for name in SLOT_GAUGES:
        for labels in [labels for labels in families[name] if labels[:2] == flow and labels[2] not in kept]:
            del families[name][labels]


def keep_flows(families: dict[str, dict[Labels, Any]], *, served: Set[Labels], led: Set[Labels]) -> None:
    """Remove gauges of flows that this process does not serve, or, where one process tells of a flow, does not lead."""
    for name in FLOW_GAUGES:
        wanted = led if BY_NAME[name].reported_by == "leader" else served
        if gone := set(map(_flow_of, families[name])) - wanted:
            for labels in [labels for labels in families[name] if _flow_of(labels) in gone]:
                del families[name][labels]
