"""Draw the live table of a running appliance: flow, topic, partition, offset, log end, lag, rate, age, latency, verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from metrics.recorder import Recorder
from metrics.series import Labels
from metrics.verdict import Status
from mirror.runtime.text_columns import aligned

COLUMNS = ("flow", "topic", "partition", "offset", "log end", "lag", "rec/s", "age ms", "latency ms", "status")
_NUMBERS = range(2, len(COLUMNS) - 1)
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
    return aligned(rows, right=_NUMBERS)


def _show(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"
