"""Every metric family: name, type, labels, help. Exporter, docs, boards and tests all read this list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PARTITION = ("source", "target", "topic", "partition")
FLOW = ("source", "target")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """One metric family. `mm2` is MirrorMaker's attribute of the same meaning, "" where it has none."""

    name: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    help: str
    mm2: str = ""


def _spread(name: str, what: str) -> tuple[MetricSpec, ...]:
    mm2 = name.removeprefix("kafka_mirror_").replace("_", "-")
    from_header = "Milliseconds; from the record batch's first and largest timestamp where it crosses whole."
    return (
        MetricSpec(name=name, kind="gauge", labels=PARTITION, help=f"{what} Newest record. {from_header}", mm2=mm2),
        *(
            MetricSpec(
                name=f"{name}_{part}",
                kind="gauge",
                labels=PARTITION,
                help=f"{what} {word} of the last window that replicated records. {from_header}",
                mm2=f"{mm2}-{part}",
            )
            for part, word in (("min", "Smallest"), ("max", "Largest"), ("avg", "Average"))
        ),
    )


CATALOGUE: tuple[MetricSpec, ...] = (
    MetricSpec(
        name="kafka_mirror_record_count_total",
        kind="counter",
        labels=PARTITION,
        help="Records that the target acknowledged. Label topic is the name on the target.",
        mm2="record-count",
    ),
    MetricSpec(
        name="kafka_mirror_byte_count_total",
        kind="counter",
        labels=PARTITION,
        help="Bytes of record batches as written to the target, compressed as they are (MirrorMaker counts values only).",
        mm2="byte-count",
    ),
    MetricSpec(
        name="kafka_mirror_record_rate",
        kind="gauge",
        labels=PARTITION,
        help="Records per second over the last window.",
        mm2="record-rate",
    ),
    MetricSpec(
        name="kafka_mirror_byte_rate",
        kind="gauge",
        labels=PARTITION,
        help="Bytes of record batches per second over the last window.",
        mm2="byte-rate",
    ),
    *_spread("kafka_mirror_record_age_ms", "Wall clock minus record timestamp when the record was read at the source."),
    *_spread(
        "kafka_mirror_replication_latency_ms",
        "Wall clock minus record timestamp when the target acknowledged the record.",
    ),
    MetricSpec(
        name="kafka_mirror_source_end_offset",
        kind="gauge",
        labels=PARTITION,
        help="Log-end offset on the source (last stable offset under read_committed), from the poller.",
    ),
    MetricSpec(
        name="kafka_mirror_source_start_offset",
        kind="gauge",
        labels=PARTITION,
        help="Log-start offset on the source, from the poller: what lies before it retention has deleted.",
    ),
    MetricSpec(
        name="kafka_mirror_replicated_offset",
        kind="gauge",
        labels=PARTITION,
        help="Next source offset to replicate, as committed on the target, from the poller.",
    ),
    MetricSpec(
        name="kafka_mirror_lag_records",
        kind="gauge",
        labels=PARTITION,
        help="Source log-end offset minus replicated offset, never below 0, from the poller.",
    ),
    MetricSpec(
        name="kafka_mirror_partition_status",
        kind="gauge",
        labels=PARTITION,
        help="Verdict on the last 10 polls: 1 OK, 2 WARN (falls behind), 4 STOP (flow silent), 5 STALL (stands still), "
        "6 REWIND (position went back), 7 LOST (records deleted before they were copied). Burrow's codes and rules.",
    ),
    MetricSpec(
        name="kafka_mirror_partitions",
        kind="gauge",
        labels=(*FLOW, "status"),
        help="Topic-partitions of the flow with this verdict; every verdict is present, also with 0.",
    ),
    MetricSpec(
        name="kafka_mirror_last_record_timestamp_seconds",
        kind="gauge",
        labels=PARTITION,
        help="Timestamp of the newest record that was replicated, epoch seconds.",
    ),
    MetricSpec(
        name="kafka_mirror_records_lost_total",
        kind="counter",
        labels=PARTITION,
        help="Source offsets that retention deleted before they were replicated.",
    ),
    MetricSpec(
        name="kafka_mirror_offset_rewinds_total",
        kind="counter",
        labels=PARTITION,
        help="Times the position had to move because the source's log was truncated or its topic created anew.",
    ),
    MetricSpec(
        name="kafka_mirror_partition_paused",
        kind="gauge",
        labels=PARTITION,
        help="1 while the topic-partition ended its last window paused by an error (the log says why), else 0.",
    ),
    MetricSpec(
        name="kafka_mirror_last_progress_timestamp_seconds",
        kind="gauge",
        labels=FLOW,
        help="When the last replication reports of the flow arrived, epoch seconds.",
    ),
    MetricSpec(
        name="kafka_mirror_query_restarts_total",
        kind="counter",
        labels=(),
        help="Streaming queries that ended with an error and were started again.",
    ),
    MetricSpec(
        name="kafka_mirror_listener_errors_total",
        kind="counter",
        labels=(),
        help="Progress events that our listener failed to read.",
    ),
    MetricSpec(
        name="kafka_mirror_poll_errors_total",
        kind="counter",
        labels=FLOW,
        help="Lag polls that failed; the offsets and lag of the flow are as old as the last good one.",
    ),
    MetricSpec(
        name="kafka_mirror_last_poll_timestamp_seconds",
        kind="gauge",
        labels=FLOW,
        help="When offsets and lag of the flow were last read, epoch seconds.",
    ),
    MetricSpec(
        name="kafka_mirror_poll_duration_seconds",
        kind="gauge",
        labels=FLOW,
        help="How long the last poll of the flow took.",
    ),
    MetricSpec(
        name="kafka_mirror_cluster_up",
        kind="gauge",
        labels=("cluster",),
        help="1 when the cluster answered the last poll, 0 when it did not.",
    ),
    MetricSpec(
        name="kafka_mirror_query_active",
        kind="gauge",
        labels=("query",),
        help="1 while the streaming query (a lane) runs, 0 when it has ended.",
    ),
)

BY_NAME = {spec.name: spec for spec in CATALOGUE}
