"""Limit the series of one scrape: fold partitions into their topics, then drop topics. Pure.

A tenant that creates ten thousand topics must not exhaust the memory of a shared Prometheus.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from metrics.catalogue import CATALOGUE, PARTITION
from metrics.series import Family, Labels, Value


def capped(snapshot: Mapping[str, Mapping[Labels, Value]], max_series: int) -> tuple[list[Family], int]:
    """Return the families in the catalogue's order, and how many series were folded or dropped.

    The families have at most `max_series` lines. Starting with the catalogue's last family, the series of partitions are folded
    into one series per topic. If that is not enough, series of topics and groups are dropped. Series of a flow or of the process
    are always kept.
    """
    families = [Family(spec, spec.labels, snapshot[spec.name]) for spec in CATALOGUE]
    size = full = sum(family.size() for family in families)
    for at in reversed(range(len(families))):
        if size <= max_series:
            break
        if families[at].labels[-1:] == PARTITION[-1:]:
            before, families[at] = families[at], _folded(families[at])
            size += families[at].size() - before.size()
    for at in reversed(range(len(families))):
        if size <= max_series:
            break
        if {"topic", "group"} & set(families[at].labels):
            size -= families[at].size()
            families[at] = Family(families[at].spec, families[at].labels)
    return families, full - size


_FOLDS: dict[str, Callable[[Any, Any], Any]] = {"sum": operator.add, "max": max, "min": min}


def _folded(family: Family) -> Family:
    spec = family.spec
    folded: dict[Labels, Value] = {}
    if spec.fold:
        together = _FOLDS[spec.fold]
        for labels, value in family.series.items():
            topic = labels[:-1]
            folded[topic] = together(folded[topic], value) if topic in folded else value
    return Family(spec, spec.labels[:-1], folded)
