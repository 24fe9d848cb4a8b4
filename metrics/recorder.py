"""Keep the newest value of every series, and hand them to prometheus-client. Thread-safe; knows no Spark, no Kafka."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from metrics.catalogue import BY_NAME, CATALOGUE

Labels = tuple[str, ...]
_SPREADS = {"age": "kafka_mirror_record_age_ms", "latency": "kafka_mirror_replication_latency_ms"}


class Recorder(Collector):
    """Takes in replication reports and lag polls; `collect` is what a scrape sees."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[str, dict[Labels, float]] = {spec.name: {} for spec in CATALOGUE}
        for spec in CATALOGUE:
            if not spec.labels and spec.kind == "counter":
                self._series[spec.name][()] = 0.0

    def report(self, row: Mapping[str, Any], *, now_s: float) -> None:
        """Take in one replication report (columns: mirror.replication.reports.SCHEMA)."""
        labels = (row["source"], row["target"], row["topic"], str(row["partition"]))
        seconds = max(row["duration_ms"], 1.0) / 1000
        with self._lock:
            self._add("kafka_mirror_record_count_total", labels, row["records"])
            self._add("kafka_mirror_byte_count_total", labels, row["bytes"])
            self._add("kafka_mirror_records_lost_total", labels, row["lost"])
            self._add("kafka_mirror_offset_rewinds_total", labels, row["rewinds"])
            self._set("kafka_mirror_record_rate", labels, row["records"] / seconds)
            self._set("kafka_mirror_byte_rate", labels, row["bytes"] / seconds)
            self._set("kafka_mirror_partition_paused", labels, 1.0 if row["reason"] else 0.0)
            self._set("kafka_mirror_last_progress_timestamp_seconds", labels[:2], now_s)
            if row["last_timestamp_ms"] is not None:
                self._set("kafka_mirror_last_record_timestamp_seconds", labels, row["last_timestamp_ms"] / 1000)
            for column, name in _SPREADS.items():
                self._spread(name, labels, row, column)

    def _spread(self, name: str, labels: Labels, row: Mapping[str, Any], column: str) -> None:
        if row[f"{column}_ms"] is None:  # an idle window measured nothing: a gap says so, the last value stays
            for part in ("min", "max", "avg"):
                self._series[f"{name}_{part}"].pop(labels, None)
            return
        self._set(name, labels, row[f"{column}_ms"])
        self._set(f"{name}_min", labels, row[f"{column}_min_ms"])
        self._set(f"{name}_max", labels, row[f"{column}_max_ms"])
        self._set(f"{name}_avg", labels, row[f"{column}_sum_ms"] / row["records"])

    def offsets(self, labels: Labels, *, start: int | None, end: int, replicated: int | None) -> None:
        """Take in one poll of a topic-partition; an unknown position leaves no lag, which is not lag 0."""
        with self._lock:
            self._set("kafka_mirror_source_end_offset", labels, end)
            if start is not None:
                self._set("kafka_mirror_source_start_offset", labels, start)
            if replicated is not None:
                self._set("kafka_mirror_replicated_offset", labels, replicated)
                self._set("kafka_mirror_lag_records", labels, max(0, end - replicated))

    def status(self, labels: Labels, code: int) -> None:
        """Take in the verdict on a topic-partition."""
        with self._lock:
            self._set("kafka_mirror_partition_status", labels, code)

    def statuses(self, flow: Labels, counts: Mapping[str, int]) -> None:
        """Take in how many topic-partitions of a flow have each verdict, those of nobody included."""
        with self._lock:
            for status, count in counts.items():
                self._set("kafka_mirror_partitions", (*flow, status), count)

    def polled(self, flow: Labels, *, now_s: float, took_s: float) -> None:
        """Take in that a flow's offsets were read."""
        with self._lock:
            self._set("kafka_mirror_last_poll_timestamp_seconds", flow, now_s)
            self._set("kafka_mirror_poll_duration_seconds", flow, took_s)

    def cluster(self, alias: str, *, is_up: bool) -> None:
        """Take in whether a cluster answered."""
        with self._lock:
            self._set("kafka_mirror_cluster_up", (alias,), 1.0 if is_up else 0.0)

    def query(self, name: str, *, is_active: bool) -> None:
        """Take in whether a streaming query runs."""
        with self._lock:
            self._set("kafka_mirror_query_active", (name,), 1.0 if is_active else 0.0)

    def count(self, name: str, labels: Labels = ()) -> None:
        """Add one to a counter."""
        with self._lock:
            self._add(name, labels, 1)

    def keep_only(self, partitions: Collection[Labels]) -> None:
        """Remove the series of topic-partitions that left their flow."""
        wanted = set(partitions)
        with self._lock:
            for name, series in self._series.items():
                if "partition" in BY_NAME[name].labels:
                    for labels in [labels for labels in series if labels not in wanted]:
                        del series[labels]

    def value(self, name: str, labels: Labels) -> float | None:
        """Return one series' value, None when it does not exist."""
        with self._lock:
            return self._series[name].get(labels)

    def _add(self, name: str, labels: Labels, amount: float) -> None:
        self._series[name][labels] = self._series[name].get(labels, 0.0) + amount

    def _set(self, name: str, labels: Labels, value: float) -> None:
        self._series[name][labels] = value

    def collect(self) -> Iterator[Metric]:
        """Yield every family with its series."""
        with self._lock:
            snapshot = {name: dict(series) for name, series in self._series.items()}
        for spec in CATALOGUE:
            kind = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
            family = kind(spec.name.removesuffix("_total"), spec.help, labels=spec.labels)
            for labels, value in sorted(snapshot[spec.name].items()):
                family.add_metric(labels, value)
            yield family
