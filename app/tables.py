"""Rows and snapshots as the pages show them. No Streamlit, no clock, no Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import pandas as pd

from metrics.verdict import Sample, Status
from mirror.lag.rows import LagRow, Snapshot
from mirror.lag.text import duration

FRESH_S = 60.0  # the objective's, dashboards.rules.FRESH_S
# A word and a shape, so that no colour need be seen.
SHAPES = {Status.OK: "●", Status.WARN: "▲", Status.STOP: "■", Status.STALL: "■", Status.REWIND: "◀", Status.LOST: "✖"}
MEANING = {
    Status.OK: "level, or catching up",
    Status.WARN: "copies, but falls behind",
    Status.STOP: "the flow has reported nothing",
    Status.STALL: "stands still while records wait",
    Status.REWIND: "the position went back",
    Status.LOST: "records were deleted before they were copied",
}
COLUMNS = ("Group", "Cluster", "Topic", "Partition", "Offset", "Log end", "Lag", "Time lag s", "Status", "Records/s", "Level in",
           "Owner", "Why")  # fmt: skip


def shown(status: Status) -> str:
    """Return a verdict as shape and word."""
    return f"{SHAPES[status]} {status.name}"


def table(rows: Sequence[LagRow]) -> pd.DataFrame:
    """Return rows as the lag table shows them; what is not known is empty, never 0."""
    content = [
        (
            row.group, row.cluster, row.topic, row.partition, row.offset, row.log_end, row.lag, row.lag_seconds,
            shown(row.status), row.records_per_s, duration(row.level_in_s), row.owner or "none", row.reason,
        )
        for row in rows
    ]  # fmt: skip
    frame = pd.DataFrame(content, columns=list(COLUMNS))
    return frame.astype(
        {"Offset": "Int64", "Log end": "Int64", "Lag": "Int64", "Time lag s": "Float64", "Records/s": "Float64"}
    )


def worst_first(rows: Iterable[LagRow]) -> list[LagRow]:
    """Order by verdict, then time lag, then lag: what an on-call must see is on top."""
    return sorted(
        rows,
        key=lambda row: (-row.status, -(row.lag_seconds or 0.0), -(row.lag or 0), row.group, row.topic, row.partition),
    )


def narrowed(
    rows: Iterable[LagRow],
    *,
    source: str = "",
    target: str = "",
    group: str = "",
    topic: str = "",
    partition: str = "",
    status: str = "",
    search: str = "",
    only_lagging: bool = False,
) -> list[LagRow]:
    """Return the rows that fit every filter that is set. `topic` is a name on either side, `search` a part of any id."""
    flow = f"{source}->{target}" if source and target else ""
    return [
        row
        for row in rows
        if (not flow or row.group == flow)
        and (not group or row.group == group)
        and (not topic or topic in (row.topic, row.remote_topic))
        and (not partition or str(row.partition) == partition)
        and (not status or row.status.name == status)
        and (not search or search.lower() in f"{row.group} {row.topic} {row.remote_topic} {row.owner}".lower())
        and (not only_lagging or row.lag != 0)
    ]


@dataclass(frozen=True, slots=True)
class FlowSummary:
    """One flow in a line: how many topic-partitions have which verdict, how far it is behind."""

    name: str
    partitions: int
    fresh: float | None
    lag: int
    lag_seconds: float
    statuses: Counter[Status]

    @property
    def worst(self) -> Status:
        """The worst verdict of any of its topic-partitions."""
        return max(self.statuses, default=Status.OK)


def summaries(snapshot: Snapshot) -> list[FlowSummary]:
    """Return the flows of a snapshot, the worst first."""
    by_flow: dict[str, list[LagRow]] = {}
    for row in snapshot.rows:
        if row.is_flow:
            by_flow.setdefault(row.group, []).append(row)
    found = [
        FlowSummary(
            name,
            len(rows),
            sum((row.lag_seconds or 0.0) <= FRESH_S for row in rows) / len(rows) if rows else None,
            sum(row.lag or 0 for row in rows),
            max((row.lag_seconds or 0.0 for row in rows), default=0.0),
            Counter(row.status for row in rows),
        )
        for name, rows in by_flow.items()
    ]
    return sorted(found, key=lambda flow: (-flow.worst, -flow.lag_seconds, flow.name))


@dataclass(frozen=True, slots=True)
class FailOver:
    """What a fail-over now would mean for one group on the source: what is not on the target, and what it has not read."""

    group: str
    flow: str
    topics: int
    unread: int
    missing: int
    missing_s: float


def failovers(snapshot: Snapshot) -> list[FailOver]:
    """Return one line per consumer group of a source and flow that copies what it reads."""
    flows: dict[tuple[str, str, int], list[LagRow]] = {}
    for row in snapshot.rows:
        if row.is_flow:
            flows.setdefault((row.cluster, row.topic, row.partition), []).append(row)
    grouped: dict[tuple[str, str], list[tuple[LagRow, LagRow]]] = {}
    for row in snapshot.rows:
        if not row.is_flow and row.offset is not None:
            for flow in flows.get((row.cluster, row.topic, row.partition), ()):
                grouped.setdefault((row.group, flow.group), []).append((row, flow))
    found = []
    for (group, name), pairs in grouped.items():
        missing = [(flow.log_end or 0) - max(flow.offset or 0, row.offset or 0) for row, flow in pairs]
        waits = [flow.lag_seconds or 0.0 for (_, flow), lost in zip(pairs, missing, strict=True) if lost > 0]
        found.append(
            FailOver(
                group, name, len({row.topic for row, _ in pairs}), sum(row.lag or 0 for row, _ in pairs),
                sum(max(0, lost) for lost in missing), max(waits, default=0.0),
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: (-each.missing, each.group))


def window_table(samples: Sequence[Sample]) -> pd.DataFrame:
    """Return the polls of a window for drawing: seconds before the newest, position, log end, lag."""
    newest = samples[-1].time_s if samples else 0.0
    content = [(round(each.time_s - newest, 1), each.position, each.end, each.lag) for each in samples]
    return pd.DataFrame(content, columns=["seconds", "position", "log end", "lag"])


def link(page: str, row: LagRow) -> str:
    """Return a deep link to a page about one row."""
    named = {"group": row.group, "cluster": row.cluster, "topic": row.topic, "partition": row.partition}
    return f"/{page}?{urlencode(named)}"
