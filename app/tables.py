"""Convert rows and snapshots to the tables of the pages. No Streamlit, no clock, no Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import pandas as pd

from app.statuses import shown
from metrics.catalogue import CATALOGUE
from metrics.lag_row import LagRow
from metrics.partition_status import Sample, Status
from metrics.process_status import ProcessStatus, flow_of
from mirror.lag.flow_summary import at_least, worst_first
from mirror.lag.snapshot import Snapshot, selected
from mirror.lag.text import duration, level_in, utc

COLUMNS = (
    "Status",
    "Group",
    "Topic",
    "Partition",
    "Lag",
    "Last hour",
    "Time lag s",
    "Why",
    "In/s",
    "Out/s",
    "Caught up in",
    "Offset",
    "Log end",
    "Cluster",
    "Owner",
)


def table(rows: Sequence[LagRow], lags: Callable[[LagRow], Sequence[int]] = lambda _: ()) -> pd.DataFrame:
    """Return rows as the lag table.

    An unknown value is empty, never 0. `lags`: returns the lags of a row's last hour.
    """
    content = [
        (
            [shown(row.status)],
            row.group,
            row.topic,
            row.partition,
            row.lag,
            list(lags(row)),
            row.lag_seconds,
            row.reason,
            row.written_per_s,
            row.records_per_s,
            level_in(row),
            row.offset,
            row.log_end,
            row.cluster,
            row.owner or "none",
        )
        for row in rows
    ]
    numbers = {"Offset": "Int64", "Log end": "Int64", "Lag": "Int64"}
    numbers |= dict.fromkeys(("Time lag s", "In/s", "Out/s"), "Float64")
    return pd.DataFrame(content, columns=list(COLUMNS)).astype(numbers)


def totals(rows: Iterable[LagRow], by: Callable[[LagRow], tuple[str, str]]) -> pd.DataFrame:
    """Return one line per topic, or per group, worst first.

    `by` returns (group, topic or "") for a row.
    """
    found: dict[tuple[str, str], list[LagRow]] = {}
    for row in worst_first(rows):
        found.setdefault(by(row), []).append(row)
    content = [
        (
            [shown(own[0].status)],
            *key,
            len(own),
            sum(row.lag != 0 for row in own),
            at_least(sum(row.lag or 0 for row in own), sum(row.lag is None for row in own)),
            max((row.lag_seconds for row in own if row.lag_seconds is not None), default=None),
            own[0].reason,
        )
        for key, own in found.items()
    ]
    columns = [
        "Status",
        "Group",
        "Topic",
        "Partitions",
        "Lagging",
        "Records waiting",
        "Time lag s",
        "Why (worst)",
    ]
    return pd.DataFrame(content, columns=columns).astype({"Time lag s": "Float64"})


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
    """Return the rows that match every filter that is set.

    `topic` is a name on either cluster, `search` a part of any id.
    """
    flow = f"{source}->{target}" if source and target else ""
    return [
        row
        for row in selected(
            rows, groups=[group] if group else [], topics=[topic] if topic else [], only_lagging=only_lagging
        )
        if (not flow or row.group == flow)
        and (not partition or str(row.partition) == partition)
        and (not status or row.status.name == status)
        and (not search or search.lower() in f"{row.group} {row.topic} {row.remote_topic} {row.owner}".lower())
    ]


@dataclass(frozen=True, slots=True)
class GroupFailover:
    """The cost of a failover now for one consumer group of the source."""

    group: str
    flow: str
    topics: int
    unread: int
    missing: int
    missing_s: float
    unknown: int  # partitions whose lag is unknown


def failovers(snapshot: Snapshot) -> list[GroupFailover]:
    """Return one line for each consumer group of a source and each flow."""
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
        missing = [
            0 if flow.log_end is None or flow.offset is None else flow.log_end - max(flow.offset, row.offset or 0)
            for row, flow in pairs
        ]
        waits = [flow.lag_seconds or 0.0 for (_, flow), lost in zip(pairs, missing, strict=True) if lost > 0]
        unknown = sum(flow.lag is None or flow.status is Status.UNKNOWN for _, flow in pairs)
        found.append(
            GroupFailover(
                group,
                name,
                len({row.topic for row, _ in pairs}),
                sum(row.lag or 0 for row, _ in pairs),
                sum(max(0, lost) for lost in missing),
                max(waits, default=0.0),
                unknown,
            )
        )
    return sorted(found, key=lambda each: (-each.unknown, -each.missing, each.group))


def differing_settings(status: ProcessStatus, flow: str, remote_topic: str) -> int | None:
    """Return how many settings of a remote topic differ, from its process' report.

    Return None if the process does not report it.
    """
    for sample in status.samples(("kafka_mirror_config_drift_settings",)):
        labels = sample.labels
        if (flow_of(labels), labels["topic"]) == (flow, remote_topic):
            return int(sample.value)
    return None


def health_table(status: ProcessStatus) -> pd.DataFrame:
    """Return the metrics of a process, except those about topics or groups."""
    own = {
        spec.name: spec for spec in CATALOGUE if not {"topic", "group"} & set(spec.labels) and spec.kind != "histogram"
    }
    content = [
        (
            name.removeprefix("kafka_mirror_"),
            " ".join(f"{label}={value}" for label, value in sorted(sample.labels.items())),
            _readable(sample.value, own[name].unit),
            own[name].help,
        )
        for sample in status.samples(own)
        for name in (sample.name,)
    ]
    return pd.DataFrame(content, columns=["Metric", "Labels", "Value", "Meaning"])


def _readable(value: float, unit: str) -> str:
    if unit == "epoch seconds":
        return utc(value)
    return duration(value) if unit == "seconds" else f"{value:,.10g}"


def window_table(samples: Sequence[Sample]) -> pd.DataFrame:
    """Return the polls of a window: seconds before the newest, position, log end, lag."""
    newest = samples[-1].time_s if samples else 0.0
    content = [(round(each.time_s - newest, 1), each.position, each.end, each.lag) for each in samples]
    return pd.DataFrame(content, columns=["seconds", "position", "log end", "lag"])


def board_link(grafana: str, row: LagRow) -> str:
    """Return the address of the Grafana dashboard of a flow's topic."""
    source, _, target = row.group.partition("->")
    chosen = {"var-source": source, "var-target": target, "var-topic": row.remote_topic, "var-partition": row.partition}
    return f"{grafana}/d/kafka-mirror-topic?{urlencode(chosen)}"
