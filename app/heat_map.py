"""Lay out the map of partitions: cells, their order, and the legend. No Streamlit, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from operator import attrgetter
from typing import Any

from app.links import address
from app.statuses import MEANING, SHAPES, shown, tone
from metrics.lag_row import LagRow
from metrics.partition_status import Status
from mirror.lag.text import duration

_PARTITION = attrgetter("partition")


def cells(rows: Iterable[LagRow]) -> list[dict[str, Any]]:
    """Return a block per topic, by flow, worst status first, with its partitions.

    Flows and topics with the same status are ordered by name, so that each keeps its place while nothing changes.
    A cell is [partition, shape, tone, tooltip]. A cell that is caught up has no tooltip.
    """
    own = [row for row in rows if row.is_flow]
    worst: dict[str, int] = {}
    for row in own:
        worst[row.group] = max(row.status, worst.get(row.group, 0))
    blocks: dict[tuple[str, str, str], list[LagRow]] = {}
    for row in sorted(own, key=lambda row: (-worst[row.group], row.group, -row.status, row.cluster, row.topic)):
        blocks.setdefault((row.group, row.cluster, row.topic), []).append(row)
    return [
        {
            "group": group,
            "topic": topic,
            "address": address("partition", group=group, cluster=cluster, topic=topic),
            "cells": [_cell(row) for row in sorted(found, key=_PARTITION)],
        }
        for (group, cluster, topic), found in blocks.items()
    ]


def legend_html(rows: Sequence[LagRow]) -> str:
    """Return how many partitions have each status, worst first, as links to these partitions."""
    said = (
        f'<li class="{tone(status)}">'
        f'<a href="{escape(address("partitions", status=status.name))}" title="{escape(MEANING[status])}">'
        f'<span class="mark" aria-hidden="true">{SHAPES[status]}</span> {count:,} {status.name}</a></li>'
        for status, count in _counts(rows)
    )
    return f'<ul class="legend" aria-label="Partitions by status">{"".join(said)}</ul>'


def summary(rows: Sequence[LagRow]) -> str:
    """Return the map's text alternative."""
    said = ", ".join(f"{count:,} {status.name}" for status, count in _counts(rows))
    return f"Map of partitions by status: {said or 'none'}. Arrow keys move, Enter opens a partition."


def _counts(rows: Iterable[LagRow]) -> list[tuple[Status, int]]:
    """Return how many partitions of flows have each status, worst first."""
    return sorted(Counter(row.status for row in rows if row.is_flow).items(), reverse=True)


def _cell(row: LagRow) -> list[Any]:
    if row.status is Status.OK and row.lag == 0:
        return [row.partition, SHAPES[row.status], tone(row.status), ""]
    waits = "" if row.lag_seconds is None else f", time lag {duration(row.lag_seconds)}"
    lag = "lag unknown" if row.lag is None else f"lag {row.lag:,}"
    return [row.partition, SHAPES[row.status], tone(row.status), f"{shown(row.status)}, {lag}{waits}: {row.reason}"]
