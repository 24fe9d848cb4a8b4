"""Turn rows and snapshots into the tables of the pages. No Streamlit, no clock, no Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pandas as pd

from metrics.catalogue import CATALOGUE
from metrics.objective import FRESH_S
from metrics.verdict import Sample, Status
from mirror.lag.rows import LagRow, Snapshot, selected
from mirror.lag.served_metrics import samples
from mirror.lag.text import duration, level_in

# A word and a shape, so that no colour need be seen.
SHAPES = {
    Status.OK: "●",
    Status.WARN: "▲",
    Status.UNKNOWN: "?",
    Status.STOP: "■",
    Status.STALL: "■",
    Status.REWIND: "◀",
    Status.LOST: "✖",
}
COLOURS = {Status.OK: "green", Status.WARN: "orange", Status.UNKNOWN: "violet"}  # every other verdict is red
MEANING = {
    Status.OK: "level, keeps pace, or catches up",
    Status.WARN: "copies, but falls behind",
    Status.UNKNOWN: "not known: a cluster has not answered",
    Status.STOP: "the flow has reported nothing",
    Status.STALL: "stands still while records wait",
    Status.REWIND: "the position went back",
    Status.LOST: "records were deleted before they were copied",
}
COLUMNS = (
    "Status",
    "Group",
    "Topic",
    "Partition",
    "Lag",
    "Time lag s",
    "Why",
    "Offset",
    "Log end",
    "Records/s",
    "Level in",
    "Cluster",
    "Owner",
)


def shown(status: Status) -> str:
    """Return a verdict as shape and word."""
    return f"{SHAPES[status]} {status.name}"


def coloured(status: Status) -> str:
    """Return a verdict as shape and word in its colour, as Streamlit's Markdown writes it."""
    return f":{COLOURS.get(status, 'red')}[{shown(status)}]"


def at_least(value: int, unknown: int) -> str:
    """Return a sum of which some summands may be unknown, as a person says it."""
    if not unknown:
        return f"{value:,}"
    return f"at least {value:,}" if value else "unknown"


def table(rows: Sequence[LagRow]) -> pd.DataFrame:
    """Return rows as the lag table shows them; what is not known is empty, never 0."""
    content = [
        (
            shown(row.status),
            row.group,
            row.topic,
            row.partition,
            row.lag,
            row.lag_seconds,
            row.reason,
            row.offset,
            row.log_end,
            row.records_per_s,
            level_in(row),
            row.cluster,
            row.owner or "none",
        )
        for row in rows
    ]
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
        for row in selected(
            rows, groups=[group] if group else [], topics=[topic] if topic else [], only_lagging=only_lagging
        )
        if (not flow or row.group == flow)
        and (not partition or str(row.partition) == partition)
        and (not status or row.status.name == status)
        and (not search or search.lower() in f"{row.group} {row.topic} {row.remote_topic} {row.owner}".lower())
    ]


@dataclass(frozen=True, slots=True)
class FlowSummary:
    """One flow in a line: how many topic-partitions have which verdict, how far it is behind.

    `unknown` are topic-partitions whose lag nobody knows; `lag` is that of the others, `lag_seconds` the longest known, None
    where none is.
    """

    name: str
    partitions: int
    fresh: float
    lag: int
    unknown: int
    lag_seconds: float | None
    statuses: Counter[Status]

    @property
    def worst(self) -> Status:
        """The worst verdict of any of its topic-partitions."""
        return max(self.statuses, default=Status.UNKNOWN)

    @property
    def waits(self) -> str:
        """How long its longest waiting record waits, as far as anybody knows."""
        if self.lag_seconds is None:
            return "unknown"
        return f"{'at least ' if self.unknown else ''}{duration(self.lag_seconds)}"


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
            sum(is_fresh(row) for row in rows) / len(rows),
            sum(row.lag or 0 for row in rows),
            sum(row.lag is None or row.status is Status.UNKNOWN for row in rows),
            max((row.lag_seconds for row in rows if row.lag_seconds is not None), default=None),
            Counter(row.status for row in rows),
        )
        for name, rows in by_flow.items()
    ]
    return sorted(found, key=lambda flow: (-flow.worst, -(flow.lag_seconds or 0.0), flow.name))


def is_fresh(row: LagRow) -> bool:
    """Tell whether a row is known to be no more than the objective's 60 s behind."""
    return row.status is not Status.UNKNOWN and row.lag_seconds is not None and row.lag_seconds <= FRESH_S


@dataclass(frozen=True, slots=True)
class FailOver:
    """What a fail-over now would mean for one group on the source: what is not on the target, and what it has not read."""

    group: str
    flow: str
    topics: int
    unread: int
    missing: int
    missing_s: float
    unknown: int  # topic-partitions of which nobody knows what is missing


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
        missing = [
            0 if flow.log_end is None or flow.offset is None else flow.log_end - max(flow.offset, row.offset or 0)
            for row, flow in pairs
        ]
        waits = [flow.lag_seconds or 0.0 for (_, flow), lost in zip(pairs, missing, strict=True) if lost > 0]
        unknown = sum(flow.lag is None or flow.status is Status.UNKNOWN for _, flow in pairs)
        found.append(
            FailOver(
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


def readiness_table(exposition: str, now_s: float) -> pd.DataFrame:
    """Return what an appliance's checkpoints say of each group that it follows: may it fail over, and what would it cost."""
    about = "kafka_mirror_group_partitions"
    checkpointed, reread = "kafka_mirror_last_checkpoint_timestamp_seconds", "kafka_mirror_failover_reread_records"
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for sample in samples(exposition, (about, checkpointed, reread)):
        labels = sample.labels
        group = groups.setdefault((labels["group"], f"{labels['source']}->{labels['target']}"), {"states": []})
        if sample.name == about:
            group["states"].append(f"{labels['state']} {sample.value:,.0f}")
        else:
            group[sample.name] = sample.value
    content = [
        (
            *key,
            ", ".join(sorted(group["states"])),
            duration(now_s - group[checkpointed]) if checkpointed in group else "",
            int(group.get(reread, 0)),
        )
        for key, group in sorted(groups.items())
    ]
    return pd.DataFrame(content, columns=["Group", "Flow", "Topic-partitions", "Checkpoint's age", "Read again"])


def differing_settings(exposition: str, flow: str, remote_topic: str) -> int | None:
    """Return how many settings of a remote topic are not as they should be, as an appliance says; None when it does not."""
    for sample in samples(exposition, ("kafka_mirror_config_drift_settings",)):
        labels = sample.labels
        if (f"{labels['source']}->{labels['target']}", labels["topic"]) == (flow, remote_topic):
            return int(sample.value)
    return None


def health_table(exposition: str) -> pd.DataFrame:
    """Return what an appliance says of itself on /metrics: the catalogue's families that are not of topics or groups."""
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
        for sample in samples(exposition, own)
        for name in (sample.name,)
    ]
    return pd.DataFrame(content, columns=["What", "Of", "Value", "Meaning"])


def _readable(value: float, unit: str) -> str:
    if unit == "epoch seconds":
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return duration(value) if unit == "seconds" else f"{value:,.10g}"


def incident_table(series: Iterable[Mapping[str, Any]], step_s: float) -> pd.DataFrame:
    """Return the alerts that fired, the newest first: from `ALERTS` over a range, one line per alert and labels."""
    content = []
    for each in series:
        labels = {name: value for name, value in each["metric"].items() if name not in _NOT_ABOUT}
        times = [float(at) for at, _ in each["values"]]
        about = " ".join(f"{name}={value}" for name, value in sorted(labels.items()))
        metric = each["metric"]
        content.append(
            (
                metric["alertname"],
                metric.get("severity", ""),
                about,
                _when(times[0]),
                _when(times[-1]),
                round(len(times) * step_s / 60, 1),
                times[-1],
            )
        )
    content.sort(key=lambda row: -row[-1])
    columns = ["Alert", "Severity", "About", "First", "Last", "Minutes firing"]
    return pd.DataFrame([row[:-1] for row in content], columns=columns)


_NOT_ABOUT = {"__name__", "alertname", "alertstate", "severity", "instance", "job"}


def _when(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def window_table(samples: Sequence[Sample]) -> pd.DataFrame:
    """Return the polls of a window for drawing: seconds before the newest, position, log end, lag."""
    newest = samples[-1].time_s if samples else 0.0
    content = [(round(each.time_s - newest, 1), each.position, each.end, each.lag) for each in samples]
    return pd.DataFrame(content, columns=["seconds", "position", "log end", "lag"])


def link(page: str, row: LagRow) -> str:
    """Return a deep link to a page about one row."""
    named = {"group": row.group, "cluster": row.cluster, "topic": row.topic, "partition": row.partition}
    return f"/{page}?{urlencode(named)}"


def board_link(grafana: str, row: LagRow) -> str:
    """Return the address of the board of a flow's topic."""
    source, _, target = row.group.partition("->")
    chosen = {"var-source": source, "var-target": target, "var-topic": row.remote_topic, "var-partition": row.partition}
    return f"{grafana}/d/kafka-mirror-topic?{urlencode(chosen)}"
