"""List every metric family: name, type, labels, unit, help. Exposition, docs, boards, rules and tests all read this list.

Its order is the order of importance: under a cap on series the families of topic-partitions fold into one series per
topic from the last to the first (metrics.cap).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PARTITION = ("source", "target", "topic", "partition")
TOPIC = ("source", "target", "topic")
SLOT = ("source", "target", "slot")
FLOW = ("source", "target")
GROUP = (*FLOW, "group")

# Upper bounds. A mirror beside both clusters takes some milliseconds; 30 and 60 s are usual freshness objectives.
RECORD_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0),
)
PHASE_SECONDS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 12.5, 15.0, 30.0, 60.0)

Fold = Literal["", "sum", "max", "min"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """One metric family.

    `mm2` is the attribute of MirrorMaker, or of Connect's source tasks, of the same meaning, "" where they have none; `example` a
    query worth asking. `fold` is how a family of topic-partitions becomes one series per topic; with "" it has no meaning per
    topic. `told_by`: which of several processes that share a flow has a flow's gauge: each that serves slots of it, the one
    that leads it, or all.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    unit: str
    help: str
    example: str
    mm2: str = ""
    fold: Fold = ""
    bounds: tuple[float, ...] = ()
    told_by: Literal["servers", "leader", "all"] = "servers"


_PARTS: tuple[tuple[str, str, Fold], ...] = (
    ("", "Newest record.", "max"),
    ("_min", "Smallest of the last window that replicated records.", "min"),
    ("_max", "Largest of the last window that replicated records.", "max"),
    ("_avg", "Average of the last window that replicated records.", ""),
)

_CHECKPOINT_PARTS: tuple[tuple[str, str, Fold], ...] = (
    ("min", "Smallest", "min"),
    ("max", "Largest", "max"),
    ("avg", "Average", ""),
)


def _spread(name: str, what: str) -> tuple[MetricSpec, ...]:
    return tuple(
        MetricSpec(
            name=name + part,
            kind="gauge",
            labels=PARTITION,
            unit="milliseconds",
            help=f"{what} {which} From the record batch's first and largest timestamp where it crosses whole.",
            example=f"max by (topic) ({name}{part})",
            mm2=f"{name}{part}".removeprefix("kafka_mirror_").replace("_", "-"),
            fold=fold,
        )
        for part, which, fold in _PARTS
    )


CATALOGUE: tuple[MetricSpec, ...] = (
    MetricSpec(
        name="kafka_mirror_partitions",
        kind="gauge",
        labels=(*FLOW, "status"),
        unit="topic-partitions",
        help="Topic-partitions of the flow with this verdict; every verdict is present, also with 0.",
        example='sum by (source, target) (kafka_mirror_partitions{status!="ok"})',
    ),
    MetricSpec(
        name="kafka_mirror_flow_info",
        kind="gauge",
        labels=FLOW,
        unit="1",
        help="Always 1, for each flow that the settings enable: what else is missing of it is not well.",
        example="kafka_mirror_flow_info unless on (source, target) kafka_mirror_partitions",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_flow_begun",
        kind="gauge",
        labels=FLOW,
        unit="0 or 1",
        help="1 once the flow's topics are known and replicated, 0 while its clusters have not answered since the start.",
        example="kafka_mirror_flow_begun == 0",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_matched_topics",
        kind="gauge",
        labels=FLOW,
        unit="topics",
        help="Topics of the source that the flow's settings match, heartbeats not counted; 0: it mirrors nothing.",
        example="max by (source, target) (kafka_mirror_matched_topics) == 0",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_expected_partitions",
        kind="gauge",
        labels=FLOW,
        unit="topic-partitions",
        help="Topic-partitions that the flow replicates, those of all processes that share it.",
        example="max by (source, target) (kafka_mirror_expected_partitions)",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_fresh_partitions",
        kind="gauge",
        labels=FLOW,
        unit="topic-partitions",
        help="Topic-partitions of which this process knows that no record waits for more than 60 s. What nobody has measured "
        "lately is not among them.",
        example="sum by (source, target) (kafka_mirror_fresh_partitions) / "
        "max by (source, target) (kafka_mirror_expected_partitions)",
    ),
    MetricSpec(
        name="kafka_mirror_failover_answer",
        kind="gauge",
        labels=FLOW,
        unit="0, 1 or 2",
        help="May the source's readers go to the target now, as far as this process knows: 2 GO, 1 GO WITH LOSS, 0 NO. "
        "`kafka-mirror failover-check` says why. The smallest over all processes is the answer.",
        example="min by (source, target) (kafka_mirror_failover_answer)",
    ),
    MetricSpec(
        name="kafka_mirror_cluster_up",
        kind="gauge",
        labels=(*FLOW, "cluster"),
        unit="0 or 1",
        help="1 when the cluster answered the flow's last poll, 0 when it did not.",
        example="min by (cluster) (kafka_mirror_cluster_up) == 0",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_query_active",
        kind="gauge",
        labels=("query",),
        unit="0 or 1",
        help="1 while the streaming query (a lane) runs, 0 when it has ended.",
        example="min(kafka_mirror_query_active)",
    ),
    MetricSpec(
        name="kafka_mirror_query_restarts_total",
        kind="counter",
        labels=(),
        unit="restarts",
        help="Streaming queries that ended with an error and were started again.",
        example="increase(kafka_mirror_query_restarts_total[1h])",
    ),
    MetricSpec(
        name="kafka_mirror_last_progress_timestamp_seconds",
        kind="gauge",
        labels=FLOW,
        unit="epoch seconds",
        help="When the last replication reports of the flow arrived; before the first, when this process began to wait for them.",
        example="time() - kafka_mirror_last_progress_timestamp_seconds",
    ),
    MetricSpec(
        name="kafka_mirror_last_poll_timestamp_seconds",
        kind="gauge",
        labels=FLOW,
        unit="epoch seconds",
        help="When offsets and lag of the flow were last read; before the first time, when this process began to try.",
        example="time() - kafka_mirror_last_poll_timestamp_seconds",
    ),
    MetricSpec(
        name="kafka_mirror_poll_duration_seconds",
        kind="gauge",
        labels=FLOW,
        unit="seconds",
        help="How long the last poll of the flow took.",
        example="max(kafka_mirror_poll_duration_seconds)",
    ),
    MetricSpec(
        name="kafka_mirror_poll_errors_total",
        kind="counter",
        labels=FLOW,
        unit="polls",
        help="Lag polls that failed; the offsets and lag of the flow are as old as the last good one.",
        example="increase(kafka_mirror_poll_errors_total[15m])",
    ),
    MetricSpec(
        name="kafka_mirror_windows_total",
        kind="counter",
        labels=SLOT,
        unit="windows",
        help="Windows that the slot has served for the flow.",
        example="rate(kafka_mirror_windows_total[5m]) * 60",
    ),
    MetricSpec(
        name="kafka_mirror_turn_wait_seconds",
        kind="gauge",
        labels=SLOT,
        unit="seconds",
        help="How long the last window waited for its predecessor's lease, from its start on. Nothing is copied meanwhile.",
        example="max by (source, target) (kafka_mirror_turn_wait_seconds)",
    ),
    MetricSpec(
        name="kafka_mirror_late_handovers_total",
        kind="counter",
        labels=SLOT,
        unit="windows",
        help="Windows that acquired their lease more than a second after their start, from a predecessor that released it.",
        example="increase(kafka_mirror_late_handovers_total[1h])",
    ),
    MetricSpec(
        name="kafka_mirror_takeovers_total",
        kind="counter",
        labels=SLOT,
        unit="windows",
        help="Windows that took over the lease of a predecessor which never released it (its process is gone, or hangs).",
        example="increase(kafka_mirror_takeovers_total[1h])",
    ),
    MetricSpec(
        name="kafka_mirror_slot_seconds_total",
        kind="counter",
        labels=(*SLOT, "spent_on"),
        unit="seconds",
        help="What the slot's windows spent their time on: `source`: nothing was on its way, it waited for records; `target`: "
        "batches were on their way; `packing`: it decoded, encoded or joined batches; `lease`: it waited for its predecessor. "
        "A slot that is level with its source spends nearly all on `source`.",
        example="sum by (source, target, spent_on) (rate(kafka_mirror_slot_seconds_total[5m]))",
    ),
    MetricSpec(
        name="kafka_mirror_read_ahead_bytes",
        kind="gauge",
        labels=SLOT,
        unit="bytes",
        help="The most that the slot's last window had read and the target had not acknowledged. It is bounded: near 48 MiB the "
        "target is what limits.",
        example="max by (source, target) (kafka_mirror_read_ahead_bytes)",
    ),
    MetricSpec(
        name="kafka_mirror_read_ahead_records",
        kind="gauge",
        labels=SLOT,
        unit="records",
        help="What the slot's last window had read and the target had not acknowledged when the window ended; in offsets, so "
        "transactions' markers and what compaction took count too.",
        example="sum by (source, target) (kafka_mirror_read_ahead_records)",
        mm2="source-record-active-count",
    ),
    MetricSpec(
        name="kafka_mirror_slot_polled_records_total",
        kind="counter",
        labels=SLOT,
        unit="records",
        help="Records that the slot has read from the source. What was read and not written by a window's end is read again.",
        example="sum by (source, target) (rate(kafka_mirror_slot_polled_records_total[5m]))",
        mm2="source-record-poll-total",
    ),
    MetricSpec(
        name="kafka_mirror_slot_poll_rate",
        kind="gauge",
        labels=SLOT,
        unit="records per second",
        help="Records per second that the slot has read from the source over the last window.",
        example="sum by (source, target) (kafka_mirror_slot_poll_rate)",
        mm2="source-record-poll-rate",
    ),
    MetricSpec(
        name="kafka_mirror_slot_written_records_total",
        kind="counter",
        labels=SLOT,
        unit="records",
        help="Records of the slot that the target has acknowledged; the sum of its topic-partitions' record counts.",
        example="sum by (source, target, slot) (rate(kafka_mirror_slot_written_records_total[5m]))",
        mm2="source-record-write-total",
    ),
    MetricSpec(
        name="kafka_mirror_slot_write_rate",
        kind="gauge",
        labels=SLOT,
        unit="records per second",
        help="Records per second of the slot that the target has acknowledged over the last window.",
        example="sum by (source, target) (kafka_mirror_slot_write_rate)",
        mm2="source-record-write-rate",
    ),
    *(
        MetricSpec(
            name=f"kafka_mirror_slot_poll_ms_{part}",
            kind="gauge",
            labels=SLOT,
            unit="milliseconds",
            help=f"{which} time of the fetches of the last window that brought records, waiting for records included. Nothing "
            "where there was none.",
            example=f"max by (source, target) (kafka_mirror_slot_poll_ms_{part})",
            mm2=f"poll-batch-{part}-time-ms",
        )
        for part, which in (("avg", "Average"), ("max", "Longest"))
    ),
    MetricSpec(
        name="kafka_mirror_throttled_seconds_total",
        kind="counter",
        labels=(*FLOW, "cluster"),
        unit="seconds",
        help="For how long the cluster's brokers have asked the flow to wait, by their quotas; slots add up.",
        example="rate(kafka_mirror_throttled_seconds_total[5m]) > 0",
    ),
    MetricSpec(
        name="kafka_mirror_clock_skew_seconds",
        kind="gauge",
        labels=SLOT,
        unit="seconds",
        help="How far the timestamps of records were ahead of this machine's clock when they were read, the largest of the last "
        "window of the slot that read any; 0 where none was. Their ages and latencies are too small by as much. It is "
        "the producers' clocks that are meant, with LogAppendTime the source brokers'.",
        example="max by (source, target) (kafka_mirror_clock_skew_seconds) > 1",
    ),
    MetricSpec(
        name="kafka_mirror_cluster_clock_skew_seconds",
        kind="gauge",
        labels=(*FLOW, "cluster"),
        unit="seconds",
        help="How far the clock of the cluster's active controller is ahead of this machine's, at least; below 0 it is behind, "
        "and 0 where no difference was seen. Absent where the cluster does not tell it (KRaft does, from Kafka 3.3 on, to one "
        "that may DESCRIBE the cluster) or has not answered lately.",
        example="max by (cluster) (abs(kafka_mirror_cluster_clock_skew_seconds)) > 1",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_slots",
        kind="gauge",
        labels=FLOW,
        unit="slots",
        help="Slots (mirror.slots) that the processes of the flow share.",
        example="max by (source, target) (kafka_mirror_slots) - sum by (source, target) (kafka_mirror_slots_owned)",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_slots_owned",
        kind="gauge",
        labels=FLOW,
        unit="slots",
        help="Slots of the flow that this process serves. The sum over all processes is kafka_mirror_slots.",
        example="sum by (source, target, instance) (kafka_mirror_slots_owned)",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_processes",
        kind="gauge",
        labels=FLOW,
        unit="processes",
        help="Processes that serve slots of the flow, as this one sees them; itself included.",
        example="max by (source, target) (kafka_mirror_processes)",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_settings_conflict",
        kind="gauge",
        labels=FLOW,
        unit="0 or 1",
        help="1 while another process serves the flow with other settings than this one, else 0. Normal during a rolling restart "
        "that changes them.",
        example="max by (source, target) (kafka_mirror_settings_conflict) > 0",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_last_verify_timestamp_seconds",
        kind="gauge",
        labels=FLOW,
        unit="epoch seconds",
        help="When the last round of `kafka-mirror verify --every` has ended; from that process.",
        example="time() - kafka_mirror_last_verify_timestamp_seconds",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_verify_waiting_records",
        kind="gauge",
        labels=FLOW,
        unit="records",
        help="Records that are replicated and wait to be compared; it grows where --rate is less than what comes.",
        example="max by (source, target) (kafka_mirror_verify_waiting_records)",
        told_by="all",
    ),
    MetricSpec(
        name="kafka_mirror_drill_last_success_timestamp_seconds",
        kind="gauge",
        labels=FLOW,
        unit="epoch seconds",
        help="The end of the last drill that passed, whoever conducted it. No series before the first one.",
        example="time() - kafka_mirror_drill_last_success_timestamp_seconds",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_drill_due_timestamp_seconds",
        kind="gauge",
        labels=FLOW,
        unit="epoch seconds",
        help="When the next drill must have passed: two intervals (`mirror.drill.interval.seconds`) after the last one that did, "
        "or after the first that did not.",
        example="time() > kafka_mirror_drill_due_timestamp_seconds",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_drill_passed",
        kind="gauge",
        labels=FLOW,
        unit="0 or 1",
        help="1 where the last drill came to its end and each of its records was read once, else 0.",
        example="min by (source, target) (kafka_mirror_drill_passed)",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_drill_rpo_records",
        kind="gauge",
        labels=FLOW,
        unit="records",
        help="The most canary records that were on the source and not on the target at once during the last drill: what a loss "
        "of the source would have cost then.",
        example="max by (source, target) (kafka_mirror_drill_rpo_records)",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_drill_rto_seconds",
        kind="gauge",
        labels=FLOW,
        unit="seconds",
        help="How long the last drill's producer and group stood: from the fence on the source until what was written on the "
        "target was read there.",
        example="max by (source, target) (kafka_mirror_drill_rto_seconds)",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_drill_step_seconds",
        kind="gauge",
        labels=(*FLOW, "run", "step"),
        unit="seconds",
        help="How long each step of the last drill took, on the way over (`switch`) and back (`switch-back`).",
        example="max by (source, target, run, step) (kafka_mirror_drill_step_seconds)",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_gaps",
        kind="gauge",
        labels=(*FLOW, "effect"),
        unit="gaps",
        help="Entries of the flow's ledger of gaps (`kafka-mirror gaps`), since it was begun: ranges of records that were lost, "
        "skipped, repeated, kept on the target only, or refused. No series while the ledger cannot be read.",
        example='sum by (source, target) (kafka_mirror_gaps{effect=~"lost|skipped"})',
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_gap_offsets",
        kind="gauge",
        labels=(*FLOW, "effect"),
        unit="offsets",
        help="Source offsets in these entries, without those of which nobody knows how many they are.",
        example='sum by (source, target) (kafka_mirror_gap_offsets{effect="lost"})',
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_last_gap_timestamp_seconds",
        kind="gauge",
        labels=FLOW,
        unit="epoch seconds",
        help="When the last entry was found. No series before the first one.",
        example="time() - kafka_mirror_last_gap_timestamp_seconds < 86400",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_last_heartbeat_timestamp_seconds",
        kind="gauge",
        labels=FLOW,
        unit="epoch seconds",
        help="When the target last took a heartbeat of the flow: that it can be written to, also when nothing is to be mirrored. "
        "Before the first, when this process began to write them.",
        example="time() - kafka_mirror_last_heartbeat_timestamp_seconds",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_last_checkpoint_timestamp_seconds",
        kind="gauge",
        labels=GROUP,
        unit="epoch seconds",
        help="When the group's offsets were last translated; its age is what a fail-over would cost.",
        example="time() - kafka_mirror_last_checkpoint_timestamp_seconds",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_group_partitions",
        kind="gauge",
        labels=(*GROUP, "state"),
        unit="topic-partitions",
        help="Topic-partitions that the group has offsets on, by what became of them: translated or synced is well, "
        "each other state is explained in docs/offsets.md. A group in the state unsupported counts 1.",
        example='sum by (source, target, group) (kafka_mirror_group_partitions{state!~"translated|synced"})',
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_failover_reread_records",
        kind="gauge",
        labels=GROUP,
        unit="records",
        help="Records that the group would have read again, had it failed over just before its last checkpoint: "
        "what it had read since the one before.",
        example="topk(10, kafka_mirror_failover_reread_records)",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_config_drift_settings",
        kind="gauge",
        labels=TOPIC,
        unit="settings",
        help="Settings of the remote topic that are not what the source's say they should be, after the last synchronization: "
        "refused by the target, or all of them where sync.topic.configs.enabled is false.",
        example="sum by (source, target) (kafka_mirror_config_drift_settings)",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_acl_drift",
        kind="gauge",
        labels=FLOW,
        unit="ACLs",
        help="ACLs of source topics that the target's topics lack, after the last synchronization: refused by the target, "
        "or all of them where sync.topic.acls.enabled is false.",
        example="kafka_mirror_acl_drift > 0",
        told_by="leader",
    ),
    MetricSpec(
        name="kafka_mirror_checkpoints_total",
        kind="counter",
        labels=FLOW,
        unit="checkpoints",
        help="Checkpoints that were written because a group's offset had changed.",
        example="sum by (source, target) (rate(kafka_mirror_checkpoints_total[5m]))",
    ),
    MetricSpec(
        name="kafka_mirror_foreign_records_total",
        kind="counter",
        labels=FLOW,
        unit="records",
        help="Records in the flow's own topics (checkpoints, offset map) that somebody else wrote, and that were skipped.",
        example="increase(kafka_mirror_foreign_records_total[1h]) > 0",
    ),
    MetricSpec(
        name="kafka_mirror_checkpoint_errors_total",
        kind="counter",
        labels=FLOW,
        unit="rounds",
        help="Rounds of checkpoints that failed; the log has the reason.",
        example="increase(kafka_mirror_checkpoint_errors_total[15m])",
    ),
    MetricSpec(
        name="kafka_mirror_batch_duration_seconds",
        kind="histogram",
        labels=("query", "phase"),
        unit="seconds",
        help="Spark's micro-batches by phase. addBatch is the window itself, latestOffset the wait until it is to be planned; "
        "the others are what Spark adds.",
        example="histogram_quantile(0.99, sum by (phase, le) (rate(kafka_mirror_batch_duration_seconds_bucket[10m])))",
        bounds=PHASE_SECONDS,
    ),
    MetricSpec(
        name="kafka_mirror_listener_events_total",
        kind="counter",
        labels=("event",),
        unit="events",
        help="Events that Spark sent to our listener: started, progress, idle, terminated.",
        example="rate(kafka_mirror_listener_events_total[5m])",
    ),
    MetricSpec(
        name="kafka_mirror_listener_errors_total",
        kind="counter",
        labels=(),
        unit="events",
        help="Progress events that our listener failed to read.",
        example="increase(kafka_mirror_listener_errors_total[1h])",
    ),
    MetricSpec(
        name="kafka_mirror_exposed_series",
        kind="gauge",
        labels=(),
        unit="series",
        help="Series of this answer, under mirror.metrics.max.series.",
        example="kafka_mirror_exposed_series",
    ),
    MetricSpec(
        name="kafka_mirror_dropped_series",
        kind="gauge",
        labels=(),
        unit="series",
        help="Series that the cap on series folded into their topics or left out of this answer.",
        example="kafka_mirror_dropped_series > 0",
    ),
    MetricSpec(
        name="kafka_mirror_build_info",
        kind="gauge",
        labels=("version", "python", "spark"),
        unit="1",
        help="Always 1; the labels say what runs.",
        example="count by (version) (kafka_mirror_build_info)",
    ),
    MetricSpec(
        name="kafka_mirror_retention_headroom_seconds",
        kind="gauge",
        labels=TOPIC,
        unit="seconds",
        help="How long until the source's retention may delete the first record that is not replicated, the nearest of all "
        "partitions; from retention.ms, and from how fast the log start moves. Absent where nothing is deleted by age or size.",
        example="kafka_mirror_retention_headroom_seconds < 7200",
    ),
    MetricSpec(
        name="kafka_mirror_replication_latency_seconds",
        kind="histogram",
        labels=TOPIC,
        unit="seconds",
        help="Wall clock minus record timestamp when the target acknowledged the record. The records of a batch that crosses "
        "whole are spread evenly between its first and its largest timestamp.",
        example="histogram_quantile(0.99, sum by (topic, le) (rate(kafka_mirror_replication_latency_seconds_bucket[5m])))",
        bounds=RECORD_SECONDS,
    ),
    MetricSpec(
        name="kafka_mirror_record_age_seconds",
        kind="histogram",
        labels=TOPIC,
        unit="seconds",
        help="Wall clock minus record timestamp when the record was read at the source; batches as for the latency.",
        example="histogram_quantile(0.5, sum by (topic, le) (rate(kafka_mirror_record_age_seconds_bucket[5m])))",
        bounds=RECORD_SECONDS,
    ),
    MetricSpec(
        name="kafka_mirror_topic_info",
        kind="gauge",
        labels=(*TOPIC, "source_topic"),
        unit="1",
        help="Always 1; joins the name on the target (topic) with the name on the source.",
        example="kafka_mirror_lag_records * on (source, target, topic) group_left (source_topic) kafka_mirror_topic_info",
    ),
    MetricSpec(
        name="kafka_mirror_lag_records",
        kind="gauge",
        labels=PARTITION,
        unit="records",
        help="Source log-end offset minus replicated offset, never below 0, from the poller.",
        example="topk(10, kafka_mirror_lag_records)",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_replicated_until_timestamp_seconds",
        kind="gauge",
        labels=PARTITION,
        unit="epoch seconds",
        help="Up to when everything written is on the target: the timestamp of the first record that is not replicated, read "
        "from the source, or when all were last seen to be. Subtract it from time(): the difference grows while nobody measures.",
        example="time() - min by (source, target) (kafka_mirror_replicated_until_timestamp_seconds)",
        fold="min",
    ),
    MetricSpec(
        name="kafka_mirror_lag_seconds",
        kind="gauge",
        labels=PARTITION,
        unit="seconds",
        help="Now minus replicated_until; 0 while it is known that everything is replicated. Where many partitions lag their "
        "records are read in turn, and until its turn a partition counts from an older record.",
        example="max by (source, target) (kafka_mirror_lag_seconds)",
        fold="max",
    ),
    MetricSpec(
        name="kafka_mirror_partition_status",
        kind="gauge",
        labels=PARTITION,
        unit="code",
        help="Verdict on the last 10 polls: 1 OK, 2 WARN (falls behind), 3 UNKNOWN (a cluster has not answered for three polls), "
        "4 STOP (flow silent), 5 STALL (stands still), 6 REWIND (position went back), 7 LOST (records deleted before they were "
        "copied), 8 ABSENT (not on the target). Burrow's codes and rules.",
        example="kafka_mirror_partition_status > 1",
        fold="max",
    ),
    MetricSpec(
        name="kafka_mirror_partition_behind_open_transaction",
        kind="gauge",
        labels=PARTITION,
        unit="0 or 1",
        help="1 while all that waits of the topic-partition is behind an open transaction on the source, which a flow that reads "
        "committed records (isolation.level) waits for; the verdict's reason in the log names its producer. Else 0.",
        example="max by (topic) (kafka_mirror_partition_behind_open_transaction)",
        fold="max",
    ),
    MetricSpec(
        name="kafka_mirror_partition_paused",
        kind="gauge",
        labels=PARTITION,
        unit="0 or 1",
        help="1 while the topic-partition ended its last window paused by an error (the log says why), else 0.",
        example="sum by (topic) (kafka_mirror_partition_paused)",
        fold="max",
    ),
    MetricSpec(
        name="kafka_mirror_partition_paused_by_operator",
        kind="gauge",
        labels=PARTITION,
        unit="0 or 1",
        help="1 while an operator has paused the topic-partition (kafka-mirror positions pause), else 0.",
        example="sum by (topic) (kafka_mirror_partition_paused_by_operator)",
        fold="max",
    ),
    MetricSpec(
        name="kafka_mirror_records_lost_total",
        kind="counter",
        labels=PARTITION,
        unit="offsets",
        help="Source offsets that retention deleted before they were replicated.",
        example="increase(kafka_mirror_records_lost_total[1d]) > 0",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_offset_rewinds_total",
        kind="counter",
        labels=PARTITION,
        unit="rewinds",
        help="Times the position had to move because the source's log was truncated, or its topic deleted and created again.",
        example="increase(kafka_mirror_offset_rewinds_total[1d]) > 0",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_verify_differences_total",
        kind="counter",
        labels=PARTITION,
        unit="records",
        help="Records that `kafka-mirror verify --every` found different or missing on the target; its output names the first.",
        example="increase(kafka_mirror_verify_differences_total[1h]) > 0",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_verified_records_total",
        kind="counter",
        labels=PARTITION,
        unit="records",
        help="Records that `kafka-mirror verify --every` found equal on both sides.",
        example="sum by (source, target) (rate(kafka_mirror_verified_records_total[5m]))",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_record_count_total",
        kind="counter",
        labels=PARTITION,
        unit="records",
        help="Records that the target acknowledged. Label topic is the name on the target.",
        example="sum by (topic) (rate(kafka_mirror_record_count_total[5m]))",
        mm2="record-count",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_byte_count_total",
        kind="counter",
        labels=PARTITION,
        unit="bytes",
        help="Bytes of record batches as written to the target, compressed as they are (MirrorMaker counts values only).",
        example="sum by (source, target) (rate(kafka_mirror_byte_count_total[5m]))",
        mm2="byte-count",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_last_record_timestamp_seconds",
        kind="gauge",
        labels=PARTITION,
        unit="epoch seconds",
        help="Timestamp of the newest record that was replicated.",
        example="time() - max by (topic) (kafka_mirror_last_record_timestamp_seconds)",
        fold="max",
    ),
    MetricSpec(
        name="kafka_mirror_checkpoint_latency_ms",
        kind="gauge",
        labels=(*GROUP, "topic", "partition"),
        unit="milliseconds",
        help="From the begin of a round of checkpoints, when the groups' offsets are read, to the target's acknowledgement "
        "of this group's last changed checkpoint.",
        example="max by (source, target, group) (kafka_mirror_checkpoint_latency_ms)",
        mm2="checkpoint-latency-ms",
        fold="max",
        told_by="leader",
    ),
    *(
        MetricSpec(
            name=f"kafka_mirror_checkpoint_latency_ms_{part}",
            kind="gauge",
            labels=(*GROUP, "topic", "partition"),
            unit="milliseconds",
            help=f"{which} of the last ten minutes' checkpoints of this group that had changed; absent where none had.",
            example=f"max by (source, target, group) (kafka_mirror_checkpoint_latency_ms_{part})",
            mm2=f"checkpoint-latency-ms-{part}",
            fold=fold,
            told_by="leader",
        )
        for part, which, fold in _CHECKPOINT_PARTS
    ),
    MetricSpec(
        name="kafka_mirror_source_end_offset",
        kind="gauge",
        labels=PARTITION,
        unit="offset",
        help="Log-end offset on the source (last stable offset under read_committed), from the poller.",
        example="sum by (topic) (deriv(kafka_mirror_source_end_offset[5m]))",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_replicated_offset",
        kind="gauge",
        labels=PARTITION,
        unit="offset",
        help="Next source offset to replicate, as committed on the target, from the poller.",
        example="kafka_mirror_source_end_offset - kafka_mirror_replicated_offset",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_source_start_offset",
        kind="gauge",
        labels=PARTITION,
        unit="offset",
        help="Log-start offset on the source, from the poller: what lies before it retention has deleted.",
        example="kafka_mirror_replicated_offset - kafka_mirror_source_start_offset",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_record_rate",
        kind="gauge",
        labels=PARTITION,
        unit="records per second",
        help="Records per second over the last window.",
        example="sum by (topic) (kafka_mirror_record_rate)",
        mm2="record-rate",
        fold="sum",
    ),
    MetricSpec(
        name="kafka_mirror_byte_rate",
        kind="gauge",
        labels=PARTITION,
        unit="bytes per second",
        help="Bytes of record batches per second over the last window.",
        example="sum by (topic) (kafka_mirror_byte_rate)",
        mm2="byte-rate",
        fold="sum",
    ),
    *_spread(
        "kafka_mirror_replication_latency_ms",
        "Wall clock minus record timestamp when the target acknowledged the record.",
    ),
    *_spread("kafka_mirror_record_age_ms", "Wall clock minus record timestamp when the record was read at the source."),
)

BY_NAME = {spec.name: spec for spec in CATALOGUE}


def series_names(spec: MetricSpec) -> tuple[str, ...]:
    """Return the names of the family's series: a classic histogram has three, one that Prometheus converted has its own."""
    if spec.kind == "histogram":
        return (spec.name, *(f"{spec.name}_{part}" for part in ("bucket", "count", "sum")))
    return (spec.name,)
