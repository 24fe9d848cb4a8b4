"""List every metric family: name, type, labels, unit, help.

Exposition, docs, dashboards, alert rules and tests all read this list. It is ordered by importance: under a cap on series,
families of partitions fold into one series per topic, from the last family to the first (metrics.cap).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

PARTITION = ("source", "target", "topic", "partition")
TOPIC = ("source", "target", "topic")
SLOT = ("source", "target", "slot")
FLOW = ("source", "target")
GROUP = (*FLOW, "group")
GROUP_PARTITION = (*GROUP, "topic", "partition")

# Upper bounds. Near both clusters, replication takes some milliseconds; 30 and 60 s are usual freshness objectives.
RECORD_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0),
)
PHASE_SECONDS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 12.5, 15.0, 30.0, 60.0)

Kind = Literal["counter", "gauge", "histogram"]
Fold = Literal["", "sum", "max", "min"]
ReportedBy = Literal["servers", "leader", "all"]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric family.

    Attributes:
        mm2: The attribute of MirrorMaker, or of Connect's source tasks, with the same meaning; "" if there is none.
        example: A useful query.
        fold: How series of partitions become one series per topic; "": they are dropped.
        reported_by: Which of the processes that share a flow report its gauges: those that serve slots of it, the leader, or all.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    unit: str
    help: str
    example: str
    mm2: str = ""
    fold: Fold = ""
    bounds: tuple[float, ...] = ()
    reported_by: ReportedBy = "servers"


def _family(
    kind: Kind,
    name: str,
    labels: tuple[str, ...],
    unit: str,
    *,
    mm2: str = "",
    fold: Fold = "",
    bounds: tuple[float, ...] = (),
    reported_by: ReportedBy = "servers",
) -> Callable[[str, str], MetricSpec]:
    """Return a function that makes the family from its help and an example."""
    name = f"kafka_mirror_{name}"
    return lambda help_, example: MetricSpec(name, kind, labels, unit, help_, example, mm2, fold, bounds, reported_by)


_gauge = partial(_family, "gauge")
_counter = partial(_family, "counter")
_histogram = partial(_family, "histogram")


def _spread(name: str, what: str) -> Iterator[MetricSpec]:
    parts: tuple[tuple[str, str, Fold], ...] = (
        ("", "Value of the newest record.", "max"),
        ("_min", "Smallest value of the last window that replicated records.", "min"),
        ("_max", "Largest value of the last window that replicated records.", "max"),
        ("_avg", "Average value of the last window that replicated records.", ""),
    )
    for part, which, fold in parts:
        yield _gauge(f"{name}{part}", PARTITION, "milliseconds", mm2=f"{name}{part}".replace("_", "-"), fold=fold)(
            f"{what} {which} If a batch is copied unchanged, only its first and its largest timestamp count.",
            f"max by (topic) (kafka_mirror_{name}{part})",
        )


def _poll_times() -> Iterator[MetricSpec]:
    for part, which in (("avg", "Average"), ("max", "Longest")):
        yield _gauge(f"slot_poll_ms_{part}", SLOT, "milliseconds", mm2=f"poll-batch-{part}-time-ms")(
            f"{which} time of the last window's fetches that returned records, waiting for records included. No value if no "
            "fetch returned any.",
            f"max by (source, target) (kafka_mirror_slot_poll_ms_{part})",
        )


def _checkpoint_latencies() -> Iterator[MetricSpec]:
    parts: tuple[tuple[str, str, Fold], ...] = (
        ("min", "Smallest", "min"),
        ("max", "Largest", "max"),
        ("avg", "Average", ""),
    )
    for part, which, fold in parts:
        mm2 = f"checkpoint-latency-ms-{part}"
        yield _gauge(mm2.replace("-", "_"), GROUP_PARTITION, "milliseconds", mm2=mm2, fold=fold, reported_by="leader")(
            f"{which} latency of the group's changed checkpoints of the last ten minutes. No series if none changed.",
            f"max by (source, target, group) (kafka_mirror_{mm2.replace('-', '_')})",
        )


CATALOGUE: tuple[MetricSpec, ...] = (
    _gauge("partitions", (*FLOW, "status"), "partitions")(
        "Partitions of the flow with this status. Every status has a series, even if 0.",
        'sum by (source, target) (kafka_mirror_partitions{status!="ok"})',
    ),
    _gauge("flow_info", FLOW, "1", reported_by="all")(
        "Always 1 for each flow that the settings enable. A flow that lacks its other series is unhealthy.",
        "kafka_mirror_flow_info unless on (source, target) kafka_mirror_partitions",
    ),
    _gauge("flow_begun", FLOW, "0 or 1", reported_by="all")(
        "1 once the flow's topics are known and replicated, 0 while its clusters have not responded since the start.",
        "kafka_mirror_flow_begun == 0",
    ),
    _gauge("matched_topics", FLOW, "topics", reported_by="all")(
        "Topics of the source that the flow's settings match, heartbeats not counted. 0: the flow replicates nothing.",
        "max by (source, target) (kafka_mirror_matched_topics) == 0",
    ),
    _gauge("expected_partitions", FLOW, "partitions", reported_by="all")(
        "Partitions that the flow replicates, over all processes that share it.",
        "max by (source, target) (kafka_mirror_expected_partitions)",
    ),
    _gauge("fresh_partitions", FLOW, "partitions")(
        "Partitions, of those that this process serves, whose oldest unreplicated record is at most 60 s old. "
        "Partitions without a recent measurement do not count.",
        "sum by (source, target) (kafka_mirror_fresh_partitions) / max by (source, target) (kafka_mirror_expected_partitions)",
    ),
    _gauge("switch_ready", FLOW, "0 or 1")(
        "1 if a planned switch to the target can start now (READY), as this process sees it, else 0. The minimum over all "
        "processes counts. `kafka-mirror failover-check` prints what blocks it.",
        "min by (source, target) (kafka_mirror_switch_ready)",
    ),
    _gauge("rpo_within_objective", FLOW, "0 or 1")(
        "1 if no record has waited for the target longer than mirror.rpo.objective.seconds, as this process sees it, else 0. "
        "Absent while it is unknown.",
        "min by (source, target) (kafka_mirror_rpo_within_objective)",
    ),
    _gauge("failover_answer", FLOW, "0, 1 or 2")(
        "Single answer to both questions, as this process sees it: 2 GO (ready, and within the objective), 1 GO WITH LOSS (the "
        "loss is beyond the objective or unknown), 0 NO. The minimum over all processes counts.",
        "min by (source, target) (kafka_mirror_failover_answer)",
    ),
    _gauge("cluster_up", (*FLOW, "cluster"), "0 or 1", reported_by="all")(
        "1 if the cluster responded to the flow's last poll, else 0.",
        "min by (cluster) (kafka_mirror_cluster_up) == 0",
    ),
    _gauge("query_active", ("query",), "0 or 1")(
        "1 while the streaming query (a lane) runs, 0 when it has ended.",
        "min(kafka_mirror_query_active)",
    ),
    _counter("query_restarts_total", (), "restarts")(
        "Streaming queries that ended with an error and were started again.",
        "increase(kafka_mirror_query_restarts_total[1h])",
    ),
    _gauge("last_progress_timestamp_seconds", FLOW, "epoch seconds")(
        "When the flow's last replication report arrived. Before the first report: when this process began to wait for it.",
        "time() - kafka_mirror_last_progress_timestamp_seconds",
    ),
    _gauge("last_poll_timestamp_seconds", FLOW, "epoch seconds")(
        "When offsets and lag of the flow were last read. Before the first read: when this process started to poll.",
        "time() - kafka_mirror_last_poll_timestamp_seconds",
    ),
    _gauge("poll_duration_seconds", FLOW, "seconds")(
        "Duration of the flow's last poll.",
        "max(kafka_mirror_poll_duration_seconds)",
    ),
    _counter("poll_errors_total", FLOW, "polls")(
        "Lag polls that failed. The flow's offsets and lag are as old as the last successful poll.",
        "increase(kafka_mirror_poll_errors_total[15m])",
    ),
    _counter("windows_total", SLOT, "windows")(
        "Windows that the slot has served for the flow.",
        "rate(kafka_mirror_windows_total[5m]) * 60",
    ),
    _gauge("turn_wait_seconds", SLOT, "seconds")(
        "How long the last window waited, from its start, for its predecessor to release the lease. No record is copied "
        "meanwhile.",
        "max by (source, target) (kafka_mirror_turn_wait_seconds)",
    ),
    _counter("late_handovers_total", SLOT, "windows")(
        "Windows that acquired their lease more than a second after their start, from a predecessor that released it.",
        "increase(kafka_mirror_late_handovers_total[1h])",
    ),
    _counter("takeovers_total", SLOT, "windows")(
        "Windows that took over the lease of a predecessor that never released it (its process is gone or hangs).",
        "increase(kafka_mirror_takeovers_total[1h])",
    ),
    _counter("slot_seconds_total", (*SLOT, "spent_on"), "seconds")(
        "How the slot's windows spent their time. `source`: no batch was in flight, the window waited for records; "
        "`target`: batches were in flight; `packing`: it decoded, encoded or joined batches; `lease`: it waited for its "
        "predecessor. A slot that is caught up spends nearly all its time on `source`.",
        "sum by (source, target, spent_on) (rate(kafka_mirror_slot_seconds_total[5m]))",
    ),
    _gauge("read_ahead_bytes", SLOT, "bytes")(
        "Largest amount that the slot's last window had read and the target had not acknowledged. The limit is 48 MiB; "
        "near the limit, the target bounds the throughput.",
        "max by (source, target) (kafka_mirror_read_ahead_bytes)",
    ),
    _gauge("read_ahead_records", SLOT, "records", mm2="source-record-active-count")(
        "Offsets that the slot's last window had read and the target had not acknowledged when the window ended. "
        "Transaction markers and compacted records count too.",
        "sum by (source, target) (kafka_mirror_read_ahead_records)",
    ),
    _counter("slot_polled_records_total", SLOT, "records", mm2="source-record-poll-total")(
        "Records that the slot has read from the source. Records that a window read and did not write are read again, "
        "and count again.",
        "sum by (source, target) (rate(kafka_mirror_slot_polled_records_total[5m]))",
    ),
    _gauge("slot_poll_rate", SLOT, "records per second", mm2="source-record-poll-rate")(
        "Records per second that the slot has read from the source over the last window.",
        "sum by (source, target) (kafka_mirror_slot_poll_rate)",
    ),
    _counter("slot_written_records_total", SLOT, "records", mm2="source-record-write-total")(
        "Records of the slot that the target has acknowledged: the sum of kafka_mirror_record_count_total of its partitions.",
        "sum by (source, target, slot) (rate(kafka_mirror_slot_written_records_total[5m]))",
    ),
    _gauge("slot_write_rate", SLOT, "records per second", mm2="source-record-write-rate")(
        "Records per second of the slot that the target has acknowledged over the last window.",
        "sum by (source, target) (kafka_mirror_slot_write_rate)",
    ),
    *_poll_times(),
    _counter("throttled_seconds_total", (*FLOW, "cluster"), "seconds")(
        "Time for which the cluster's brokers throttled the flow by their quotas, summed over its slots.",
        "rate(kafka_mirror_throttled_seconds_total[5m]) > 0",
    ),
    _gauge("clock_skew_seconds", SLOT, "seconds")(
        "How far record timestamps were ahead of this machine's clock when the records were read: the largest difference in "
        "the slot's last window that read any, 0 if none was ahead. Ages and latencies are too small by this difference. The "
        "timestamps are from the producers' clocks, with LogAppendTime from the source brokers'.",
        "max by (source, target) (kafka_mirror_clock_skew_seconds) > 1",
    ),
    _gauge("cluster_clock_skew_seconds", (*FLOW, "cluster"), "seconds", reported_by="all")(
        "By how much, at least, the clock of the cluster's active controller is ahead of this machine's. Negative: it is slow; "
        "0: no difference was found. No series if the cluster does not report it (needs KRaft, Kafka 3.3 and DESCRIBE on the "
        "cluster) or has not responded recently.",
        "max by (cluster) (abs(kafka_mirror_cluster_clock_skew_seconds)) > 1",
    ),
    _gauge("slots", FLOW, "slots", reported_by="all")(
        "Slots (mirror.slots) that the processes of the flow share.",
        "max by (source, target) (kafka_mirror_slots) - sum by (source, target) (kafka_mirror_slots_owned)",
    ),
    _gauge("slots_owned", FLOW, "slots", reported_by="all")(
        "Slots of the flow that this process serves. The sum over all processes is kafka_mirror_slots.",
        "sum by (source, target, instance) (kafka_mirror_slots_owned)",
    ),
    _gauge("processes", FLOW, "processes", reported_by="all")(
        "Processes that serve slots of the flow, this one included, as this process sees them.",
        "max by (source, target) (kafka_mirror_processes)",
    ),
    _gauge("settings_conflict", FLOW, "0 or 1", reported_by="all")(
        "1 while another process of the same version serves the flow with settings that differ from this process', else 0. "
        "Normal during a rolling restart that changes them.",
        "max by (source, target) (kafka_mirror_settings_conflict) > 0",
    ),
    _gauge("last_verify_timestamp_seconds", FLOW, "epoch seconds", reported_by="all")(
        "When the last round of `kafka-mirror verify --every` ended. Reported by that process.",
        "time() - kafka_mirror_last_verify_timestamp_seconds",
    ),
    _gauge("verify_waiting_records", FLOW, "records", reported_by="all")(
        "Replicated records that are not compared yet. Grows if --rate is lower than the rate of new records.",
        "max by (source, target) (kafka_mirror_verify_waiting_records)",
    ),
    _gauge("drill_last_success_timestamp_seconds", FLOW, "epoch seconds", reported_by="leader")(
        "When the last drill that passed ended, in any process. No series until a drill has passed.",
        "time() - kafka_mirror_drill_last_success_timestamp_seconds",
    ),
    _gauge("drill_due_timestamp_seconds", FLOW, "epoch seconds", reported_by="leader")(
        "Time by which the next drill must pass: two intervals (`mirror.drill.interval.seconds`) after the last drill that "
        "passed or, if none has, after the first that failed.",
        "time() > kafka_mirror_drill_due_timestamp_seconds",
    ),
    _gauge("drill_passed", FLOW, "0 or 1", reported_by="leader")(
        "1 if the last drill completed and each of its records was read once, else 0.",
        "min by (source, target) (kafka_mirror_drill_passed)",
    ),
    _gauge("drill_rpo_records", FLOW, "records", reported_by="leader")(
        "Largest number of canary records that were on the source and not yet on the target during the last drill: the "
        "records that a loss of the source would have cost.",
        "max by (source, target) (kafka_mirror_drill_rpo_records)",
    ),
    _gauge("drill_rto_seconds", FLOW, "seconds", reported_by="leader")(
        "How long the last drill's producer and group were stopped: from the fence on the source until a record written "
        "to the target was read there.",
        "max by (source, target) (kafka_mirror_drill_rto_seconds)",
    ),
    _gauge("drill_step_seconds", (*FLOW, "run", "step"), "seconds", reported_by="leader")(
        "Duration of each step of the last drill, by run (`switch`, `switch-back`).",
        "max by (source, target, run, step) (kafka_mirror_drill_step_seconds)",
    ),
    _gauge("gaps", (*FLOW, "effect"), "gaps", reported_by="leader")(
        "All entries of the flow's gap ledger (`kafka-mirror gaps`): ranges of records that were lost, skipped, repeated, "
        "kept on the target only, or refused. No series while the ledger cannot be read.",
        'sum by (source, target) (kafka_mirror_gaps{effect=~"lost|skipped"})',
    ),
    _gauge("gap_offsets", (*FLOW, "effect"), "offsets", reported_by="leader")(
        "Source offsets in the entries of the flow's gap ledger. Entries of unknown size do not count.",
        'sum by (source, target) (kafka_mirror_gap_offsets{effect="lost"})',
    ),
    _gauge("last_gap_timestamp_seconds", FLOW, "epoch seconds", reported_by="leader")(
        "When the last entry of the flow's gap ledger was found. No series while the ledger is empty.",
        "time() - kafka_mirror_last_gap_timestamp_seconds < 86400",
    ),
    _gauge("last_heartbeat_timestamp_seconds", FLOW, "epoch seconds", reported_by="leader")(
        "When the target last acknowledged a heartbeat of the flow, which shows that the target accepts writes even if "
        "there are no records to replicate. Before the first heartbeat: when this process began to write them.",
        "time() - kafka_mirror_last_heartbeat_timestamp_seconds",
    ),
    _gauge("last_checkpoint_timestamp_seconds", GROUP, "epoch seconds", reported_by="leader")(
        "When the group's offsets were last translated. After a failover, the group re-reads what it has read since then.",
        "time() - kafka_mirror_last_checkpoint_timestamp_seconds",
    ),
    _gauge("group_partitions", (*GROUP, "state"), "partitions", reported_by="leader")(
        "Partitions that the group has offsets on, by state. `translated` and `synced` are healthy; "
        "docs/offsets.md explains the other states. A group in the state `unsupported` counts 1.",
        'sum by (source, target, group) (kafka_mirror_group_partitions{state!~"translated|synced"})',
    ),
    _gauge("failover_reread_records", GROUP, "records", reported_by="leader")(
        "Records that the group would have re-read if it had failed over just before its last checkpoint: those that it had "
        "read since the previous checkpoint.",
        "topk(10, kafka_mirror_failover_reread_records)",
    ),
    _gauge("config_drift_settings", TOPIC, "settings", reported_by="leader")(
        "Settings of the remote topic that differ from the source topic's after the last synchronization: those that the "
        "target refused or, if sync.topic.configs.enabled is false, all that differ.",
        "sum by (source, target) (kafka_mirror_config_drift_settings)",
    ),
    _gauge("acl_drift", FLOW, "ACLs", reported_by="leader")(
        "ACLs of source topics that the target's topics lack after the last synchronization: those that the target refused or, "
        "if sync.topic.acls.enabled is false, all that are missing.",
        "kafka_mirror_acl_drift > 0",
    ),
    _counter("checkpoints_total", FLOW, "checkpoints")(
        "Checkpoints that were written because a group's offset had changed.",
        "sum by (source, target) (rate(kafka_mirror_checkpoints_total[5m]))",
    ),
    _counter("foreign_records_total", FLOW, "records")(
        "Records in the flow's own topics (checkpoints, offset map) that another program wrote. They are skipped.",
        "increase(kafka_mirror_foreign_records_total[1h]) > 0",
    ),
    _counter("checkpoint_errors_total", FLOW, "rounds")(
        "Rounds of checkpoints that failed. The log shows the reason.",
        "increase(kafka_mirror_checkpoint_errors_total[15m])",
    ),
    _histogram("batch_duration_seconds", ("query", "phase"), "seconds", bounds=PHASE_SECONDS)(
        "Duration of Spark's micro-batches by phase: addBatch is the window itself, latestOffset the wait until its start; "
        "the other phases are Spark's overhead.",
        "histogram_quantile(0.99, sum by (phase, le) (rate(kafka_mirror_batch_duration_seconds_bucket[10m])))",
    ),
    _counter("listener_events_total", ("event",), "events")(
        "Spark's streaming events: started, progress, idle, terminated.",
        "rate(kafka_mirror_listener_events_total[5m])",
    ),
    _counter("listener_errors_total", (), "events")(
        "Progress events of Spark that could not be read.",
        "increase(kafka_mirror_listener_errors_total[1h])",
    ),
    _gauge("exposed_series", (), "series")(
        "Series of this scrape that count toward mirror.metrics.max.series.",
        "kafka_mirror_exposed_series",
    ),
    _gauge("dropped_series", (), "series")(
        "Series that mirror.metrics.max.series folded into their topics or removed from this scrape.",
        "kafka_mirror_dropped_series > 0",
    ),
    _gauge("build_info", ("version", "python", "spark"), "1")(
        "Always 1; the labels show the versions.",
        "count by (version) (kafka_mirror_build_info)",
    ),
    _gauge("retention_headroom_seconds", TOPIC, "seconds")(
        "Time until the source's retention may delete the first unreplicated record: the shortest of the topic's partitions, "
        "from retention.ms and the speed of the log start. No series if nothing is deleted by age or size.",
        "kafka_mirror_retention_headroom_seconds < 7200",
    ),
    _histogram("replication_latency_seconds", TOPIC, "seconds", bounds=RECORD_SECONDS)(
        "Wall clock minus record timestamp when the target acknowledged the record. If a batch is copied unchanged, its records "
        "count as spread evenly between its first and its largest timestamp.",
        "histogram_quantile(0.99, sum by (topic, le) (rate(kafka_mirror_replication_latency_seconds_bucket[5m])))",
    ),
    _histogram("record_age_seconds", TOPIC, "seconds", bounds=RECORD_SECONDS)(
        "Wall clock minus record timestamp when the record was read from the source. If a batch is copied unchanged, its "
        "records count as spread evenly between its first and its largest timestamp.",
        "histogram_quantile(0.5, sum by (topic, le) (rate(kafka_mirror_record_age_seconds_bucket[5m])))",
    ),
    _gauge("topic_info", (*TOPIC, "source_topic"), "1")(
        "Always 1; joins a topic's name on the target (topic) with its name on the source (source_topic).",
        "kafka_mirror_lag_records * on (source, target, topic) group_left (source_topic) kafka_mirror_topic_info",
    ),
    _gauge("lag_records", PARTITION, "records", fold="sum")(
        "Source log-end offset minus replicated offset, never below 0. Polled.",
        "topk(10, kafka_mirror_lag_records)",
    ),
    _gauge("replicated_until_timestamp_seconds", PARTITION, "epoch seconds", fold="min")(
        "Every record written before this time is on the target. It is the timestamp of the first unreplicated record, "
        "read from the source, or the time when all records were last seen on the target. Subtract it from time(): the "
        "difference grows while there are no measurements.",
        "time() - min by (source, target) (kafka_mirror_replicated_until_timestamp_seconds)",
    ),
    _gauge("lag_seconds", PARTITION, "seconds", fold="max")(
        "Now minus kafka_mirror_replicated_until_timestamp_seconds; 0 if lag_records is 0. If many partitions lag, their first "
        "records are read in turn; until its turn, a partition counts from an older record.",
        "max by (source, target) (kafka_mirror_lag_seconds)",
    ),
    _gauge("partition_status", PARTITION, "code", fold="max")(
        "Status from the last 10 polls. 1 OK. 2 WARN: falling behind. 3 UNKNOWN: a cluster has not responded for three polls. "
        "4 STOP: the flow is silent. 5 STALL: no progress. 6 REWIND: the position went back. 7 LOST: records were deleted "
        "before they were copied. 8 ABSENT: not on the target. 3, 7 and 8 are not Burrow's codes; all others are.",
        "kafka_mirror_partition_status > 1",
    ),
    _gauge("partition_behind_open_transaction", PARTITION, "0 or 1", fold="max")(
        "1 while all waiting records of the partition wait for an open transaction on the source (only if isolation.level is "
        "read_committed), else 0. The reason of the status in the log names the producer.",
        "max by (topic) (kafka_mirror_partition_behind_open_transaction)",
    ),
    _gauge("partition_paused", PARTITION, "0 or 1", fold="max")(
        "1 if the partition was paused by an error at the end of its last window, else 0. The log shows the error.",
        "sum by (topic) (kafka_mirror_partition_paused)",
    ),
    _gauge("partition_paused_by_operator", PARTITION, "0 or 1", fold="max")(
        "1 while an operator has paused the partition (kafka-mirror positions pause), else 0.",
        "sum by (topic) (kafka_mirror_partition_paused_by_operator)",
    ),
    _gauge("offsets_identical", PARTITION, "0 or 1", fold="min")(
        "1 if the partition's last comparison found the same offsets on both clusters, 0 if they differ. Only with "
        "mirror.offsets=identical.",
        "min by (topic) (kafka_mirror_offsets_identical) == 0",
    ),
    _counter("records_lost_total", PARTITION, "offsets", fold="sum")(
        "Source offsets that retention deleted before they were replicated.",
        "increase(kafka_mirror_records_lost_total[1d]) > 0",
    ),
    _counter("offset_rewinds_total", PARTITION, "rewinds", fold="sum")(
        "How often the position was reset because the source's log was truncated, or its topic deleted and created again.",
        "increase(kafka_mirror_offset_rewinds_total[1d]) > 0",
    ),
    _counter("verify_differences_total", PARTITION, "records", fold="sum")(
        "Records that `kafka-mirror verify --every` found different or missing on the target. Its output names the first.",
        "increase(kafka_mirror_verify_differences_total[1h]) > 0",
    ),
    _counter("verified_records_total", PARTITION, "records", fold="sum")(
        "Records that `kafka-mirror verify --every` found equal on both clusters.",
        "sum by (source, target) (rate(kafka_mirror_verified_records_total[5m]))",
    ),
    _counter("record_count_total", PARTITION, "records", mm2="record-count", fold="sum")(
        "Records that the target acknowledged. The label `topic` is the topic's name on the target.",
        "sum by (topic) (rate(kafka_mirror_record_count_total[5m]))",
    ),
    _counter("byte_count_total", PARTITION, "bytes", mm2="byte-count", fold="sum")(
        "Bytes of record batches written to the target, as compressed (MirrorMaker counts values only).",
        "sum by (source, target) (rate(kafka_mirror_byte_count_total[5m]))",
    ),
    _gauge("last_record_timestamp_seconds", PARTITION, "epoch seconds", fold="max")(
        "Timestamp of the newest replicated record.",
        "time() - max by (topic) (kafka_mirror_last_record_timestamp_seconds)",
    ),
    _gauge(
        "checkpoint_latency_ms",
        GROUP_PARTITION,
        "milliseconds",
        mm2="checkpoint-latency-ms",
        fold="max",
        reported_by="leader",
    )(
        "Time from the start of a round of checkpoints, when the groups' offsets are read, to the target's acknowledgement of "
        "the group's last changed checkpoint.",
        "max by (source, target, group) (kafka_mirror_checkpoint_latency_ms)",
    ),
    *_checkpoint_latencies(),
    _gauge("source_end_offset", PARTITION, "offset", fold="sum")(
        "Log-end offset on the source. Polled.",
        "sum by (topic) (deriv(kafka_mirror_source_end_offset[5m]))",
    ),
    _gauge("replicated_offset", PARTITION, "offset", fold="sum")(
        "Next source offset to replicate, as committed on the target. Polled.",
        "kafka_mirror_source_end_offset - kafka_mirror_replicated_offset",
    ),
    _gauge("source_start_offset", PARTITION, "offset", fold="sum")(
        "Log-start offset on the source: retention has deleted all records before it. Polled.",
        "kafka_mirror_replicated_offset - kafka_mirror_source_start_offset",
    ),
    _gauge("record_rate", PARTITION, "records per second", mm2="record-rate", fold="sum")(
        "Records per second over the last window.",
        "sum by (topic) (kafka_mirror_record_rate)",
    ),
    _gauge("byte_rate", PARTITION, "bytes per second", mm2="byte-rate", fold="sum")(
        "Bytes of record batches per second over the last window.",
        "sum by (topic) (kafka_mirror_byte_rate)",
    ),
    *_spread(
        "replication_latency_ms",
        "Wall clock minus record timestamp when the target acknowledged the record.",
    ),
    *_spread("record_age_ms", "Wall clock minus record timestamp when the record was read from the source."),
)

BY_NAME = {spec.name: spec for spec in CATALOGUE}
