"""Recording and alerting rules for Prometheus, from the catalogue. Pure: `rules()` is what the YAML file holds.

Every alert tells a person something to do; docs/runbook.md has a section of the alert's name for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metrics.catalogue import BY_NAME
from metrics.objective import FRESH_S, OBJECTIVE

JOB = "kafka-mirror"
RUNBOOK = "docs/runbook.md"
GRAFANA = "http://localhost:3000"
FLOW = "source, target"
COPIED = "source_target_topic:kafka_mirror_record_count:rate5m"
COPIED_BYTES = "source_target:kafka_mirror_byte_count:rate5m"
LAG = "source_target_topic:kafka_mirror_lag_records:sum"
PRODUCED = "source_target_topic:kafka_mirror_produced:deriv5m"
LAG_SECONDS = "source_target_topic:kafka_mirror_lag_seconds:max"
FRESH = "source_target:kafka_mirror_partitions_fresh:ratio"
LATENCY_P99 = "source_target:kafka_mirror_replication_latency_seconds:p99_5m"
# What became of a group's offset, where the group has none to go on from on the target
NO_WAY = "no_map|refused|past_end"
CHECKPOINT_STALE_S = 300  # five rounds at the default interval
# How a description names what an alert is about
THE_FLOW = "{{ $labels.source }}->{{ $labels.target }}"
THE_TOPIC = f"{THE_FLOW}: {{{{ $labels.topic }}}}"
THE_GROUP = f"{THE_FLOW}: group {{{{ $labels.group }}}}"
THE_PARTITION = f"{THE_TOPIC}-{{{{ $labels.partition }}}}"


def metric(short: str) -> str:
    """Return a family's full name; a KeyError for one that the catalogue does not have."""
    return BY_NAME[f"kafka_mirror_{short}"].name


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alerting rule. `lasts` is how long it must hold, `keeps` how long it goes on firing behind its end."""

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str
    description: str
    keeps: str = ""

    def rule(self, runbook: str, grafana: str) -> dict[str, Any]:
        """Return the rule as Prometheus reads it; `runbook` is the address of the page with a section for each alert."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasts,
            **({"keep_firing_for": self.keeps} if self.keeps else {}),
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{runbook}#{self.name.lower()}",
                "dashboard_url": grafana + self._board(),
            },
        }

    def _board(self) -> str:
        """Return the path of the board that shows what the alert is about: a topic, a group, a flow, or the engine."""
        of_flow = "var-source={{ $labels.source }}&var-target={{ $labels.target }}"
        if "$labels.topic" in self.description:
            return f"/d/kafka-mirror-topic?{of_flow}&var-topic={{{{ $labels.topic }}}}"
        if "$labels.group" in self.description:
            return f"/d/kafka-mirror-failover?{of_flow}&var-group={{{{ $labels.group }}}}"
        return (
            f"/d/kafka-mirror-overview?{of_flow}" if "$labels.source" in self.description else "/d/kafka-mirror-engine"
        )


def recording() -> dict[str, str]:
    """Return the recording rules, level:metric:operations, by name."""
    count, size, lag = metric("record_count_total"), metric("byte_count_total"), metric("lag_records")
    produced = metric("source_end_offset")
    return {
        COPIED: f"sum without (partition) (rate({count}[5m]))",
        COPIED_BYTES: f"sum without (partition, topic) (rate({size}[5m]))",
        LAG: f"sum without (partition) ({lag})",
        # An end offset only grows, but is no counter to us: deriv, because a truncated log must not look like a burst.
        PRODUCED: f"sum without (partition) (clamp_min(deriv({produced}[5m]), 0))",
        LAG_SECONDS: f"max without (partition) ({metric('lag_seconds')})",
        # Polled, not counted from records that arrived: a mirror at a standstill is not fresh, but has no latency at all.
        FRESH: f"avg without (partition, topic) ({metric('lag_seconds')} <= bool {FRESH_S})",
        LATENCY_P99: (
            f"histogram_quantile(0.99, sum without (topic) (rate({metric('replication_latency_seconds')}_bucket[5m])))"
        ),
    }


def burns(factor: float, *windows: str) -> str:
    """Return the condition that the freshness budget burns `factor` times too fast, over each of the windows."""
    allowed = f"{factor * (1 - OBJECTIVE):.4g}"
    return "(" + " and ".join(f"(1 - avg_over_time({FRESH}[{window}]) > {allowed})" for window in windows) + ")"


def retention_within(seconds: int) -> str:
    """Return the condition that deletion comes this near, on a topic that is behind: short retention alone is no risk."""
    on = f"on ({FLOW}, topic)"
    return f"({metric('retention_headroom_seconds')} < {seconds})\nand {on} ({LAG_SECONDS} > 300)"


def alerts() -> list[Alert]:
    """Return the alerts, those that mean "nothing is mirrored" first."""
    return [
        Alert(
            name="KafkaMirrorDown",
            expr=f'absent(up{{job="{JOB}"}}) or sum by (job) (up{{job="{JOB}"}}) == 0',
            lasts="3m",
            severity="critical",
            summary="No Kafka mirror can be scraped.",
            description="Nothing is known of any flow; assume that nothing is mirrored.",
        ),
        Alert(
            name="KafkaMirrorQueryDown",
            expr=f"{metric('query_active')} == 0",
            lasts="2m",
            severity="critical",
            summary="A streaming query of the mirror has ended and does not come back.",
            description="Query {{ $labels.query }} of {{ $labels.instance }} is down; its windows are not served.",
        ),
        Alert(
            name="KafkaMirrorStopped",
            expr=(
                f"(time() - {metric('last_progress_timestamp_seconds')} > 300)\n"
                f"and on ({FLOW}) (sum by ({FLOW}) ({metric('lag_records')}) > 0)"
            ),
            lasts="2m",
            severity="critical",
            summary="A flow has reported nothing for five minutes and records wait.",
            description=f"{THE_FLOW}: last report {{{{ $value | humanizeDuration }}}} ago.",
        ),
        Alert(
            name="KafkaMirrorStalled",
            expr=(
                f"(increase({metric('record_count_total')}[10m]) == 0)\n"
                f"and (min_over_time({metric('lag_records')}[10m]) > 0)"
            ),
            lasts="5m",
            keeps="10m",
            severity="critical",
            summary="A topic-partition stands still while records wait.",
            description=(
                f"{THE_FLOW}: nothing of {{{{ $labels.topic }}}}-{{{{ $labels.partition }}}} "
                "was copied in 10 minutes, and it was behind all the time."
            ),
        ),
        Alert(
            name="KafkaMirrorRecordsLost",
            expr=f"increase({metric('records_lost_total')}[10m]) > 0",
            lasts="0m",
            keeps="1h",
            severity="critical",
            summary="Records were deleted at the source before they were mirrored.",
            description=(
                f"{THE_PARTITION} lost about {{{{ $value | humanize }}}} records; the log has the exact range."
            ),
        ),
        Alert(
            name="KafkaMirrorRetentionImminent",
            expr=retention_within(1800),
            lasts="5m",
            severity="critical",
            summary="Within half an hour the source may delete records that are not mirrored.",
            description=f"{THE_TOPIC}: in {{{{ $value | humanizeDuration }}}} retention may reach the first record that waits.",
        ),
        Alert(
            name="KafkaMirrorFreshnessBurnsFast",
            expr=f"{burns(14.4, '1h', '5m')}\nor {burns(6, '6h', '30m')}",
            lasts="2m",
            severity="critical",
            summary="The month's freshness budget is gone within days at this pace.",
            description=f"{THE_FLOW}: {{{{ $value | humanizePercentage }}}} of it was more than {FRESH_S} s behind.",
        ),
        Alert(
            name="KafkaMirrorClusterUnreachable",
            expr=f"{metric('cluster_up')} == 0",
            lasts="3m",
            severity="critical",
            summary="A cluster does not answer the mirror.",
            description="Cluster {{ $labels.cluster }} has not answered {{ $labels.instance }} for 3 minutes.",
        ),
        Alert(
            name="KafkaMirrorPartitionPaused",
            expr=f"{metric('partition_paused')} == 1",
            lasts="5m",
            severity="warning",
            summary="A topic-partition rests after an error; the others flow.",
            description=(f"{THE_PARTITION} is tried again with growing pauses; the log has the reason."),
        ),
        Alert(
            name="KafkaMirrorLagIncreasing",
            expr=(f"(deriv({LAG}[15m]) > 0)\nand (min_over_time({LAG}[15m]) > 0)\nand ({LAG} > 60 * {COPIED})"),
            lasts="15m",
            keeps="10m",
            severity="warning",
            summary="A topic falls behind more and more.",
            description=(
                f"{THE_TOPIC} was behind for 15 minutes without a "
                "break, by more than a minute of copying, and its lag still grows."
            ),
        ),
        Alert(
            name="KafkaMirrorCatchUpTooSlow",
            expr=(f"({LAG} / clamp_min({COPIED} - {PRODUCED}, 0.001) > 3600)\nand ({LAG} > 10 * {COPIED})"),
            lasts="15m",
            severity="warning",
            summary="At its present rate a topic needs more than an hour to catch up.",
            description=(f"{THE_TOPIC} would be level in {{{{ $value | humanizeDuration }}}}."),
        ),
        Alert(
            name="KafkaMirrorRetentionAtRisk",
            expr=retention_within(7200),
            lasts="5m",
            severity="warning",
            summary="Within two hours the source may delete records that are not mirrored.",
            description=f"{THE_TOPIC}: in {{{{ $value | humanizeDuration }}}} retention may reach the first record that waits.",
        ),
        Alert(
            name="KafkaMirrorFreshnessBurnsSlowly",
            expr=f"{burns(3, '1d', '2h')}\nor {burns(1, '3d', '6h')}",
            lasts="1h",
            severity="warning",
            summary="The month's freshness budget will not last at this pace.",
            description=f"{THE_FLOW}: {{{{ $value | humanizePercentage }}}} of it was more than {FRESH_S} s behind.",
        ),
        Alert(
            name="KafkaMirrorHandoversFail",
            # 1.5: increase() extrapolates a single one to a little more than 1.
            expr=(
                f"(increase({metric('takeovers_total')}[30m]) > 1.5)\n"
                f"or (increase({metric('late_handovers_total')}[30m]) > 10)"
            ),
            lasts="0m",
            keeps="10m",
            severity="warning",
            summary="Windows wait for each other: records are copied in bursts.",
            description=f"{THE_FLOW}, slot {{{{ $labels.slot }}}}: {{{{ $value | humanize }}}} windows in half an hour.",
        ),
        Alert(
            name="KafkaMirrorVerifyDiffers",
            expr=f"increase({metric('verify_differences_total')}[10m]) > 0",
            lasts="0m",
            keeps="1h",
            severity="critical",
            summary="Records on the target are not what the source has.",
            description=f"{THE_PARTITION}: {{{{ $value | humanize }}}} records differ or are missing.",
        ),
        Alert(
            name="KafkaMirrorVerifyStale",
            expr=f"time() - {metric('last_verify_timestamp_seconds')} > 3600",
            lasts="5m",
            severity="warning",
            summary="Nothing has been compared for an hour.",
            description=f"{THE_FLOW}: the last round ended {{{{ $value | humanizeDuration }}}} ago.",
        ),
        Alert(
            name="KafkaMirrorSlotsUnserved",
            expr=f"max by ({FLOW}) ({metric('slots')}) > sum by ({FLOW}) ({metric('slots_owned')})",
            lasts="3m",
            severity="critical",
            summary="Slots of a flow are served by no process.",
            description=f"{THE_FLOW}: fewer than its {{{{ $value | humanize }}}} slots are served.",
        ),
        Alert(
            name="KafkaMirrorSettingsDiffer",
            expr=f"max by ({FLOW}) ({metric('settings_conflict')}) > 0",
            lasts="15m",
            severity="warning",
            summary="Processes that share a flow have different settings.",
            description=f"{THE_FLOW}: what is replicated depends on which process serves it.",
        ),
        Alert(
            name="KafkaMirrorHeartbeatLate",
            expr=f"time() - {metric('last_heartbeat_timestamp_seconds')} > 60",
            lasts="5m",
            severity="warning",
            summary="The target has taken no heartbeat for a minute and more.",
            description=f"{THE_FLOW}: it last took one {{{{ $value | humanizeDuration }}}} ago.",
        ),
        # Apart from the next one: a flow whose first rounds fail knows no group that could be stale.
        Alert(
            name="KafkaMirrorCheckpointErrors",
            expr=f"increase({metric('checkpoint_errors_total')}[5m]) > 0",
            lasts="10m",
            severity="warning",
            summary="Offsets of consumer groups are not translated: rounds of checkpoints fail again and again.",
            description=f"{THE_FLOW}: {{{{ $value | humanize }}}} rounds failed in 5 minutes; the log has the reason.",
        ),
        Alert(
            name="KafkaMirrorCheckpointStale",
            expr=f"time() - {metric('last_checkpoint_timestamp_seconds')} > {CHECKPOINT_STALE_S}",
            lasts="10m",
            severity="warning",
            summary="A consumer group's checkpoint is more than five minutes old.",
            description=f"{THE_GROUP} would read again what it has read in {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorGroupCannotFailOver",
            expr=f'sum by ({FLOW}, group) ({metric("group_partitions")}{{state=~"{NO_WAY}"}}) > 0',
            lasts="30m",
            severity="warning",
            summary="A consumer group has topic-partitions with no offset to go on from on the target.",
            description=f"{THE_GROUP} cannot fail over on {{{{ $value | humanize }}}} topic-partitions.",
        ),
        Alert(
            name="KafkaMirrorLagDataStale",
            expr=f"time() - {metric('last_poll_timestamp_seconds')} > 60",
            lasts="5m",
            severity="warning",
            summary="Lag is not measured any more.",
            description=f"{THE_FLOW}: offsets were last read {{{{ $value | humanizeDuration }}}} ago.",
        ),
        Alert(
            name="KafkaMirrorListenerErrors",
            expr=f"increase({metric('listener_errors_total')}[15m]) > 0",
            lasts="0m",
            severity="warning",
            summary="Reports of the stream could not be read: counts are too small.",
            description="{{ $labels.instance }} failed to read progress events; the log has the error.",
        ),
        Alert(
            name="KafkaMirrorSeriesLimitReached",
            expr=f"{metric('dropped_series')} > 0",
            lasts="10m",
            severity="warning",
            summary="There are more series than the cap allows: partitions are folded into their topics.",
            description="{{ $labels.instance }} leaves out {{ $value | humanize }} series.",
        ),
        Alert(
            name="KafkaMirrorOffsetRewind",
            expr=f"increase({metric('offset_rewinds_total')}[10m]) > 0",
            lasts="0m",
            keeps="30m",
            severity="info",
            summary="A position moved because the source's log was truncated or its topic made anew.",
            description=f"{THE_PARTITION}.",
        ),
        # Not a warning: where synchronization is off, somebody has chosen it.
        Alert(
            name="KafkaMirrorConfigDrift",
            expr=f"{metric('config_drift_settings')} > 0",
            lasts="30m",
            severity="info",
            summary="Settings of a remote topic are not what the source's say they should be.",
            description=f"{THE_TOPIC} differs in {{{{ $value | humanize }}}} settings.",
        ),
    ]


def rules(runbook: str = RUNBOOK, grafana: str = GRAFANA) -> dict[str, Any]:
    """Return the content of the rules file; `runbook` and `grafana` are the addresses that alerts point to."""
    return {
        "groups": [
            {
                "name": "kafka-mirror-recording",
                "rules": [{"record": name, "expr": expr} for name, expr in recording().items()],
            },
            {"name": "kafka-mirror-alerts", "rules": [alert.rule(runbook, grafana) for alert in alerts()]},
        ]
    }
