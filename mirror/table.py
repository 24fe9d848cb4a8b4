"""The live table of a running appliance: flow, topic, partition, offset, log end, lag, rate, age, latency, verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from metrics.cap import Labels
from metrics.recorder import Recorder
from metrics.verdict import Status

COLUMNS = ("flow", "topic", "partition", "offset", "log end", "lag", "rec/s", "age ms", "latency ms", "status")
_WORDS = (0, 1, len(COLUMNS) - 1)  # set flush left
_VALUES = (
    "kafka_mirror_replicated_offset",
    "kafka_mirror_source_end_offset",
    "kafka_mirror_lag_records",
    "kafka_mirror_record_rate",
    "kafka_mirror_record_age_ms_avg",
    "kafka_mirror_replication_latency_ms_avg",
)


def lag_table(recorder: Recorder, partitions: Iterable[Labels]) -> str:
    """Return one line per topic-partition (labels source, target, topic, partition); unknown shows as "-"."""
    rows = [COLUMNS]
    for labels in sorted(partitions, key=lambda labels: (*labels[:3], int(labels[3]))):
        source, target, topic, partition = labels
        values = (_show(recorder.value(name, labels)) for name in _VALUES)
        code = recorder.value("kafka_mirror_partition_status", labels)
        status = "-" if code is None else Status(int(code)).name
        rows.append((f"{source}->{target}", topic, partition, *values, status))  # type: ignore[arg-type]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in _WORDS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _show(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"
