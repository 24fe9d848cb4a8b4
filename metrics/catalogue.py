"""List every metric family: name, type, labels, unit, help. Exposition, docs, boards, rules and tests all read this list.

Its order is the order of importance: under a cap on series the families of topic-partitions fold into one series per
topic from the last to the first (metrics.cap).
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

# Upper bounds. A mirror beside both clusters takes some milliseconds; 30 and 60 s are usual freshness objectives.
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

    `mm2` is the attribute of MirrorMaker, or of Connect's source tasks, of the same meaning, "" where they have none; `example` a
    query worth asking. `fold` is how a family of topic-partitions becomes one series per topic; with "" it has no meaning per
    topic. `reported_by`: which of several processes that share a flow has a flow's gauge: each that serves slots of it, the one
    that leads it, or all.
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
    """Return the first line of a family; called with its help and an example, it returns the whole."""
    name = f"kafka_mirror_{name}"
    return lambda help_, example: MetricSpec(name, kind, labels, unit, help_, example, mm2, fold, bounds, reported_by)


_gauge = partial(_family, "gauge")
_counter = partial(_family, "counter")
_histogram = partial(_family, "histogram")


def _spread(name: str, what: str) -> Iterator[MetricSpec]:
    parts: tuple[tuple[str, str, Fold], ...] = (
        ("", "Newest record.", "max"),
        ("_min", "Smallest of the last window that replicated records.", "min"),
        ("_max", "Largest of the last window that replicated records.", "max"),
        ("_avg", "Average of the last window that replicated records.", ""),
    )
    for part, which, fold in parts:
        yield _gauge(f"{name}{part}", PARTITION, "milliseconds", mm2=f"{name}{part}".replace("_", "-"), fold=fold)(
            f"{what} {which} From the record batch's first and largest timestamp where it crosses whole.",
            f"max by (topic) (kafka_mirror_{name}{part})",
        )


def _poll_times() -> Iterator[MetricSpec]:
    for part, which in (("avg", "Average"), ("max", "Longest")):
        yield _gauge(f"slot_poll_ms_{part}", SLOT, "milliseconds", mm2=f"poll-batch-{part}-time-ms")(
            f"{which} time of the fetches of the last window that brought records, waiting for records included. No value "
            "if no fetch brought any.",
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
            f"{which} of the last ten minutes' checkpoints of this group that had changed; absent where none had.",
            f"max by (source, target, group) (kafka_mirror_{mm2.replace('-', '_')})",
        )


CATALOGUE: tuple[MetricSpec, ...] = (
    _gauge("partitions", (*FLOW, "status"), "topic-partitions")(
        "Topic-partitions of the flow with this verdict; every verdict is present, also with 0.",
        'sum by (source, target) (kafka_mirror_partitions{status!="ok"})',
    ),
    _gauge("flow_info", FLOW, "1", reported_by="all")(
        "Always 1 for each flow that the settings enable. A flow that lacks its other series is unhealthy.",
        "kafka_mirror_flow_info unless on (source, target) kafka_mirror_partitions",
    ),
    _gauge("flow_begun", FLOW, "0 or 1", reported_by="all")(
        "1 once the flow's topics are known and replicated, 0 while its clusters have not answered since the start.",
        "kafka_mirror_flow_begun == 0",
    ),
    _gauge("matched_topics", FLOW, "topics", reported_by="all")(
        "Topics of the source that the flow's settings match, heartbeats not counted; 0: it mirrors nothing.",
        "max by (source, target) (kafka_mirror_matched_topics) == 0",
    ),
    _gauge("expected_partitions", FLOW, "topic-partitions", reported_by="all")(
        "Topic-partitions that the flow replicates, those of all processes that share it.",
        "max by (source, target) (kafka_mirror_expected_partitions)",
    ),
    _gauge("fresh_partitions", FLOW, "topic-partitions")(
        "Topic-partitions whose oldest unreplicated record is at most 60 s old, as far as this process knows. "
        "Measurements that are not recent do not count.",
        "sum by (source, target) (kafka_mirror_fresh_partitions) / max by (source, target) (kafka_mirror_expected_partitions)",
    ),
    _gauge("failover_answer", FLOW, "0, 1 or 2")(
        "May the source's readers go to the target now, as far as this process knows: 2 GO, 1 GO WITH LOSS, 0 NO. `kafka-mirror"
        " failover-check` says why. The smallest over all processes is the answer.",
        "min by (source, target) (kafka_mirror_failover_answer)",
    ),
    _gauge("cluster_up", (*FLOW, "cluster"), "0 or 1", reported_by="all")(
        "1 when the cluster answered the flow's last poll, 0 when it did not.",
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
        "When the last replication reports of the flow arrived; before the first, when this process began to wait for them.",
        "time() - kafka_mirror_last_progress_timestamp_seconds",
    ),
    _gauge("last_poll_timestamp_seconds", FLOW, "epoch seconds")(
        "When offsets and lag of the flow were last read; before the first time, when this process began to try.",
        "time() - kafka_mirror_last_poll_timestamp_seconds",
    ),
    _gauge("poll_duration_seconds", FLOW, "seconds")(
        "How long the last poll of the flow took.",
        "max(kafka_mirror_poll_duration_seconds)",
    ),
    _counter("poll_errors_total", FLOW, "polls")(
        "Lag polls that failed; the offsets and lag of the flow are as old as the last good one.",
        "increase(kafka_mirror_poll_errors_total[15m])",
    ),
    _counter("windows_total", SLOT, "windows")(
        "Windows that the slot has served for the flow.",
        "rate(kafka_mirror_windows_total[5m]) * 60",
    ),
    _gauge("turn_wait_seconds", SLOT, "seconds")(
        "How long the last window waited for its predecessor's lease, from its start on. No record is copied in this "
        "time.",
        "max by (source, target) (kafka_mirror_turn_wait_seconds)",
    ),
    _counter("late_handovers_total", SLOT, "windows")(
        "Windows that acquired their lease more than a second after their start, from a predecessor that released it.",
        "increase(kafka_mirror_late_handovers_total[1h])",
    ),
    _counter("takeovers_total", SLOT, "windows")(
        "Windows that took over the lease of a predecessor which never released it (its process is gone, or hangs).",
        "increase(kafka_mirror_takeovers_total[1h])",
    ),
    _counter("slot_seconds_total", (*SLOT, "spent_on"), "seconds")(
        "How the slot's windows spent their time. `source`: no batch was in flight, the window waited for records; "
        "`target`: batches were in flight; `packing`: it decoded, encoded or joined batches; `lease`: it waited for its "
        "predecessor. A slot that is caught up spends nearly all its time on `source`.",
        "sum by (source, target, spent_on) (rate(kafka_mirror_slot_seconds_total[5m]))",
    ),
    _gauge("read_ahead_bytes", SLOT, "bytes")(
        "Largest amount that the slot's last window had read and the target had not acknowledged. The bound is 48 MiB; "
        "near it, the target limits the throughput.",
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
        "Records of the slot that the target has acknowledged; the sum of its topic-partitions' record counts.",
        "sum by (source, target, slot) (rate(kafka_mirror_slot_written_records_total[5m]))",
    ),
    _gauge("slot_write_rate", SLOT, "records per second", mm2="source-record-write-rate")(
        "Records per second of the slot that the target has acknowledged over the last window.",
        "sum by (source, target) (kafka_mirror_slot_write_rate)",
    ),
    *_poll_times(),
    _counter("throttled_seconds_total", (*FLOW, "cluster"), "seconds")(
        "For how long the cluster's brokers have asked the flow to wait, by their quotas; slots add up.",
        "rate(kafka_mirror_throttled_seconds_total[5m]) > 0",
    ),
    _gauge("clock_skew_seconds", SLOT, "seconds")(
        "How far the timestamps of records were ahead of this machine's clock when they were read, the largest of the last "
        "window of the slot that read any; 0 where none was. Their ages and latencies are too small by as much. It is the "
        "producers' clocks that are meant, with LogAppendTime the source brokers'.",
        "max by (source, target) (kafka_mirror_clock_skew_seconds) > 1",
    ),
    _gauge("cluster_clock_skew_seconds", (*FLOW, "cluster"), "seconds", reported_by="all")(
        "How far the clock of the cluster's active controller is ahead of this machine's, at least; below 0 it is behind, and 0"
        " where no difference was seen. Absent where the cluster does not tell it (KRaft does, from Kafka 3.3 on, to one that "
        "may DESCRIBE the cluster) or has not answered lately.",
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
        "Processes that serve slots of the flow, as this one sees them; itself included.",
        "max by (source, target) (kafka_mirror_processes)",
    ),
    _gauge("settings_conflict", FLOW, "0 or 1", reported_by="all")(
        "1 while another process serves the flow with other settings than this one, else 0. Normal during a rolling restart "
        "that changes them.",
        "max by (source, target) (kafka_mirror_settings_conflict) > 0",
    ),
    _gauge("last_verify_timestamp_seconds", FLOW, "epoch seconds", reported_by="all")(
        "When the last round of `kafka-mirror verify --every` has ended; from that process.",
        "time() - kafka_mirror_last_verify_timestamp_seconds",
    ),
    _gauge("verify_waiting_records", FLOW, "records", reported_by="all")(
        "Records that are replicated and wait to be compared; it grows where --rate is less than what comes.",
        "max by (source, target) (kafka_mirror_verify_waiting_records)",
    ),
    _gauge("drill_last_success_timestamp_seconds", FLOW, "epoch seconds", reported_by="leader")(
        "The end of the last drill that passed, of any process. No series before the first one.",
        "time() - kafka_mirror_drill_last_success_timestamp_seconds",
    ),
    _gauge("drill_due_timestamp_seconds", FLOW, "epoch seconds", reported_by="leader")(
        "When the next drill must have passed: two intervals (`mirror.drill.interval.seconds`) after the last one that did, or "
        "after the first that did not.",
        "time() > kafka_mirror_drill_due_timestamp_seconds",
    ),
    _gauge("drill_passed", FLOW, "0 or 1", reported_by="leader")(
        "1 where the last drill came to its end and each of its records was read once, else 0.",
        "min by (source, target) (kafka_mirror_drill_passed)",
    ),
    _gauge("drill_rpo_records", FLOW, "records", reported_by="leader")(
        "Largest number of canary records that were on the source and not yet on the target during the last drill. A "
        "loss of the source would have cost so many.",
        "max by (source, target) (kafka_mirror_drill_rpo_records)",
    ),
    _gauge("drill_rto_seconds", FLOW, "seconds", reported_by="leader")(
        "How long the last drill's producer and group were stopped: from the fence on the source until records written "
        "to the target were read there.",
        "max by (source, target) (kafka_mirror_drill_rto_seconds)",
    ),
    _gauge("drill_step_seconds", (*FLOW, "run", "step"), "seconds", reported_by="leader")(
        "How long each step of the last drill took, on the way over (`switch`) and back (`switch-back`).",
        "max by (source, target, run, step) (kafka_mirror_drill_step_seconds)",
    ),
    _gauge("gaps", (*FLOW, "effect"), "gaps", reported_by="leader")(
        "Entries of the flow's ledger of gaps (`kafka-mirror gaps`), since it was begun: ranges of records that were lost, "
        "skipped, repeated, kept on the target only, or refused. No series while the ledger cannot be read.",
        'sum by (source, target) (kafka_mirror_gaps{effect=~"lost|skipped"})',
    ),
    _gauge("gap_offsets", (*FLOW, "effect"), "offsets", reported_by="leader")(
        "Source offsets in these entries. Entries of unknown size do not count.",
        'sum by (source, target) (kafka_mirror_gap_offsets{effect="lost"})',
    ),
    _gauge("last_gap_timestamp_seconds", FLOW, "epoch seconds", reported_by="leader")(
        "When the last entry was found. No series before the first one.",
        "time() - kafka_mirror_last_gap_timestamp_seconds < 86400",
    ),
    _gauge("last_heartbeat_timestamp_seconds", FLOW, "epoch seconds", reported_by="leader")(
        "When the target last acknowledged a heartbeat of the flow, which shows that the target accepts writes even if "
        "there are no records to replicate. Before the first heartbeat: when this process began to write them.",
        "time() - kafka_mirror_last_heartbeat_timestamp_seconds",
    ),
    _gauge("last_checkpoint_timestamp_seconds", GROUP, "epoch seconds", reported_by="leader")(
        "When the group's offsets were last translated. A failover costs what the group has read since then.",
        "time() - kafka_mirror_last_checkpoint_timestamp_seconds",
    ),
    _gauge("group_partitions", (*GROUP, "state"), "topic-partitions", reported_by="leader")(
        "Topic-partitions that the group has offsets on, by state. `translated` and `synced` are healthy; "
        "docs/offsets.md explains the other states. A group in the state `unsupported` counts 1.",
        'sum by (source, target, group) (kafka_mirror_group_partitions{state!~"translated|synced"})',
    ),
    _gauge("failover_reread_records", GROUP, "records", reported_by="leader")(
        "Records that the group would have read again, had it failed over just before its last checkpoint: what it had read "
        "since the one before.",
        "topk(10, kafka_mirror_failover_reread_records)",
    ),
    _gauge("config_drift_settings", TOPIC, "settings", reported_by="leader")(
        "Settings of the remote topic that are not what the source's say they should be, after the last synchronization: "
        "refused by the target, or all of them where sync.topic.configs.enabled is false.",
        "sum by (source, target) (kafka_mirror_config_drift_settings)",
    ),
    _gauge("acl_drift", FLOW, "ACLs", reported_by="leader")(
        "ACLs of source topics that the target's topics lack, after the last synchronization: refused by the target, or all of "
        "them where sync.topic.acls.enabled is false.",
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
        "Rounds of checkpoints that failed; the log has the reason.",
        "increase(kafka_mirror_checkpoint_errors_total[15m])",
    ),
    _histogram("batch_duration_seconds", ("query", "phase"), "seconds", bounds=PHASE_SECONDS)(
        "Duration of Spark's micro-batches by phase. addBatch is the window itself, latestOffset the wait until it is "
        "planned; the other phases are Spark's overhead.",
        "histogram_quantile(0.99, sum by (phase, le) (rate(kafka_mirror_batch_duration_seconds_bucket[10m])))",
    ),
    _counter("listener_events_total", ("event",), "events")(
        "Events that Spark sent to our listener: started, progress, idle, terminated.",
        "rate(kafka_mirror_listener_events_total[5m])",
    ),
    _counter("listener_errors_total", (), "events")(
        "Progress events that our listener failed to read.",
        "increase(kafka_mirror_listener_errors_total[1h])",
    ),
    _gauge("exposed_series", (), "series")(
        "Series of this answer, under mirror.metrics.max.series.",
        "kafka_mirror_exposed_series",
    ),
    _gauge("dropped_series", (), "series")(
        "Series that the cap on series folded into their topics or left out of this answer.",
        "kafka_mirror_dropped_series > 0",
    ),
    _gauge("build_info", ("version", "python", "spark"), "1")(
        "Always 1; the labels say what runs.",
        "count by (version) (kafka_mirror_build_info)",
    ),
    _gauge("retention_headroom_seconds", TOPIC, "seconds")(
        "How long until the source's retention may delete the first record that is not replicated, the nearest of all "
        "partitions; from retention.ms, and from how fast the log start moves. Absent where nothing is deleted by age or size.",
        "kafka_mirror_retention_headroom_seconds < 7200",
    ),
    _histogram("replication_latency_seconds", TOPIC, "seconds", bounds=RECORD_SECONDS)(
        "Wall clock minus record timestamp when the target acknowledged the record. The records of a batch that crosses whole "
        "are spread evenly between its first and its largest timestamp.",
        "histogram_quantile(0.99, sum by (topic, le) (rate(kafka_mirror_replication_latency_seconds_bucket[5m])))",
    ),
    _histogram("record_age_seconds", TOPIC, "seconds", bounds=RECORD_SECONDS)(
        "Wall clock minus record timestamp when the record was read at the source; batches as for the latency.",
        "histogram_quantile(0.5, sum by (topic, le) (rate(kafka_mirror_record_age_seconds_bucket[5m])))",
    ),
    _gauge("topic_info", (*TOPIC, "source_topic"), "1")(
        "Always 1; joins the name on the target (topic) with the name on the source.",
        "kafka_mirror_lag_records * on (source, target, topic) group_left (source_topic) kafka_mirror_topic_info",
    ),
    _gauge("lag_records", PARTITION, "records", fold="sum")(
        "Source log-end offset minus replicated offset, never below 0, from the poller.",
        "topk(10, kafka_mirror_lag_records)",
    ),
    _gauge("replicated_until_timestamp_seconds", PARTITION, "epoch seconds", fold="min")(
        "Every record written before this time is on the target. It is the timestamp of the first unreplicated record, "
        "read from the source, or the time when all records were last seen on the target. Subtract it from time(): the "
        "difference grows while there are no measurements.",
        "time() - min by (source, target) (kafka_mirror_replicated_until_timestamp_seconds)",
    ),
    _gauge("lag_seconds", PARTITION, "seconds", fold="max")(
        "Now minus replicated_until; 0 while it is known that everything is replicated. Where many partitions lag their records"
        " are read in turn, and until its turn a partition counts from an older record.",
        "max by (source, target) (kafka_mirror_lag_seconds)",
    ),
    _gauge("partition_status", PARTITION, "code", fold="max")(
        "Status from the last 10 polls: 1 OK, 2 WARN (falls behind), 3 UNKNOWN (a cluster has not responded for three "
        "polls), 4 STOP (flow silent), 5 STALL (no progress), 6 REWIND (position went back), 7 LOST (records deleted "
        "before they were copied), 8 ABSENT (not on the target). 3, 7 and 8 are not Burrow's codes; all others are.",
        "kafka_mirror_partition_status > 1",
    ),
    _gauge("partition_behind_open_transaction", PARTITION, "0 or 1", fold="max")(
        "1 while all that waits of the topic-partition is behind an open transaction on the source, which a flow that reads "
        "committed records (isolation.level) waits for; the verdict's reason in the log names its producer. Else 0.",
        "max by (topic) (kafka_mirror_partition_behind_open_transaction)",
    ),
    _gauge("partition_paused", PARTITION, "0 or 1", fold="max")(
        "1 while the topic-partition ended its last window paused by an error (the log says why), else 0.",
        "sum by (topic) (kafka_mirror_partition_paused)",
    ),
    _gauge("partition_paused_by_operator", PARTITION, "0 or 1", fold="max")(
        "1 while an operator has paused the topic-partition (kafka-mirror positions pause), else 0.",
        "sum by (topic) (kafka_mirror_partition_paused_by_operator)",
    ),
    _counter("records_lost_total", PARTITION, "offsets", fold="sum")(
        "Source offsets that retention deleted before they were replicated.",
        "increase(kafka_mirror_records_lost_total[1d]) > 0",
    ),
    _counter("offset_rewinds_total", PARTITION, "rewinds", fold="sum")(
        "Times the position had to move because the source's log was truncated, or its topic deleted and created again.",
        "increase(kafka_mirror_offset_rewinds_total[1d]) > 0",
    ),
    _counter("verify_differences_total", PARTITION, "records", fold="sum")(
        "Records that `kafka-mirror verify --every` found different or missing on the target; its output names the first.",
        "increase(kafka_mirror_verify_differences_total[1h]) > 0",
    ),
    _counter("verified_records_total", PARTITION, "records", fold="sum")(
        "Records that `kafka-mirror verify --every` found equal on both sides.",
        "sum by (source, target) (rate(kafka_mirror_verified_records_total[5m]))",
    ),
    _counter("record_count_total", PARTITION, "records", mm2="record-count", fold="sum")(
        "Records that the target acknowledged. Label topic is the name on the target.",
        "sum by (topic) (rate(kafka_mirror_record_count_total[5m]))",
    ),
    _counter("byte_count_total", PARTITION, "bytes", mm2="byte-count", fold="sum")(
        "Bytes of record batches as written to the target, compressed as they are (MirrorMaker counts values only).",
        "sum by (source, target) (rate(kafka_mirror_byte_count_total[5m]))",
    ),
    _gauge("last_record_timestamp_seconds", PARTITION, "epoch seconds", fold="max")(
        "Timestamp of the newest record that was replicated.",
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
        "From the begin of a round of checkpoints, when the groups' offsets are read, to the target's acknowledgement of this "
        "group's last changed checkpoint.",
        "max by (source, target, group) (kafka_mirror_checkpoint_latency_ms)",
    ),
    *_checkpoint_latencies(),
    _gauge("source_end_offset", PARTITION, "offset", fold="sum")(
        "Log-end offset on the source (last stable offset under read_committed), from the poller.",
        "sum by (topic) (deriv(kafka_mirror_source_end_offset[5m]))",
    ),
    _gauge("replicated_offset", PARTITION, "offset", fold="sum")(
        "Next source offset to replicate, as committed on the target, from the poller.",
        "kafka_mirror_source_end_offset - kafka_mirror_replicated_offset",
    ),
    _gauge("source_start_offset", PARTITION, "offset", fold="sum")(
        "Log-start offset on the source, from the poller: what lies before it retention has deleted.",
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
    *_spread("record_age_ms", "Wall clock minus record timestamp when the record was read at the source."),
)

BY_NAME = {spec.name: spec for spec in CATALOGUE}
