"""Define the alerting rules. Pure.

Every alert is actionable: docs/runbook.md has a section with its name. An alert is about a flow, a topic, a group or a process,
never about one partition, so that ten thousand partitions do not page ten thousand times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboards.monitoring import DEFAULT, Monitoring
from dashboards.recording import BY_FLOW, BY_TOPIC, LAG, LAG_SECONDS, STATUSES, burns, metric
from metrics.objective import FRESH_S
from metrics.partition_status import Status

# States of a group's offset in which the group has no offset to resume from on the target
NO_WAY = "no_map|refused|past_end|shared|unsupported"
CHECKPOINT_STALE_S = 300  # five rounds at the default interval
STALLED_FOR = "10m"
CLOCK_SKEW_S = 5
YOUNG_S = 600  # a younger process may have counted events before its first scrape
# Subjects of descriptions
THE_FLOW = "{{ $labels.source }}->{{ $labels.target }}"
THE_TOPIC = f"{THE_FLOW}: {{{{ $labels.topic }}}}"
THE_GROUP = f"{THE_FLOW}: group {{{{ $labels.group }}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alerting rule.

    `lasts` is how long its condition must hold, `keeps` how long it fires after that.
    """

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str
    description: str
    keeps: str = ""

    def rule(self, monitoring: Monitoring) -> dict[str, Any]:
        """Return the rule for Prometheus, with links to runbook, dashboard and lag inspector."""
        page = f"{monitoring.inspector}{self._page()}"
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasts,
            **({"keep_firing_for": self.keeps} if self.keeps else {}),
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{monitoring.runbook}#{self.name.lower()}",
                "dashboard_url": monitoring.grafana + self._board(),
                **({"inspector_url": page} if monitoring.inspector else {}),
            },
        }

    def _board(self) -> str:
        """Return the path of the dashboard of the alert's subject."""
        of_flow = "var-job={{ $labels.job }}&var-source={{ $labels.source }}&var-target={{ $labels.target }}"
        if "$labels.topic" in self.description:
            return f"/d/kafka-mirror-topic?{of_flow}&var-topic={{{{ $labels.topic }}}}"
        if "$labels.group" in self.description:
            return f"/d/kafka-mirror-failover?{of_flow}&var-group={{{{ $labels.group }}}}"
        return (
            f"/d/kafka-mirror-overview?{of_flow}" if "$labels.source" in self.description else "/d/kafka-mirror-engine"
        )

    def _page(self) -> str:
        """Return the path of the inspector's page of the alert's subject."""
        flow = "source={{ $labels.source }}&target={{ $labels.target }}"
        if "$labels.topic" in self.description:
            return f"/partitions?{flow}&topic={{{{ $labels.topic }}}}"
        if "$labels.group" in self.description:
            return f"/groups?{flow}&group={{{{ $labels.group }}}}"
        return f"/partitions?{flow}" if "$labels.source" in self.description else "/health"


def retention_within(seconds: int) -> str:
    """Return the condition that a lagging topic's headroom is below `seconds`.

    Short retention without lag is no risk.
    """
    nearest = f"min by ({BY_TOPIC}) ({metric('retention_headroom_seconds')})"
    return f"({nearest} < {seconds})\nand on ({BY_TOPIC}) ({LAG_SECONDS} > 300)"


def waits_longer(seconds: int | str) -> str:
    """Return the condition that an unpaused topic's first unreplicated record waits longer."""
    paused = f"max by ({BY_TOPIC}) ({metric('partition_paused_by_operator')}) > 0"
    return f"({LAG_SECONDS} > {seconds})\nunless on ({BY_TOPIC}) ({paused})"


def counted(short: str, window: str, monitoring: Monitoring) -> str:
    """Return the increase of a topic's counter over a window.

    New processes also count: their counts from before the first scrape are included.
    """
    name = metric(short)
    young = f"(time() - process_start_time_seconds{{{monitoring.selector}}} < {YOUNG_S})"
    grew = f"(increase({name}[{window}]) > 0)"
    return f"sum by ({BY_TOPIC}) ({grew} or ({name} > 0 and on (job, instance) {young}))"


def stalled() -> str:
    """Return how many partitions of a topic copied nothing for ten minutes while records waited."""
    stands = f"(increase({metric('record_count_total')}[{STALLED_FOR}]) == 0)"
    waits = f"(min_over_time({metric('lag_records')}[{STALLED_FOR}]) > 0)"
    return f"count by ({BY_TOPIC}) ({stands} and {waits} unless ({metric('partition_paused_by_operator')} > 0))"


def alerts(monitoring: Monitoring = DEFAULT) -> list[Alert]:
    """Return the alerts, most urgent groups first."""
    return [
        *of_processes(monitoring),
        *of_queries(),
        *of_the_unknown(),
        *of_standstills(),
        *of_losses(monitoring),
        *of_delays(monitoring),
        *of_budgets(),
        *of_timing(),
        *of_upkeep(),
        *of_groups(),
        *of_monitoring(),
        *of_changes(monitoring),
    ]


def of_processes(monitoring: Monitoring) -> list[Alert]:
    """Return the alerts about the processes of the mirror."""
    return [
        Alert(
            name="KafkaMirrorDown",
            expr=f"absent({metric('flow_info')})",
            lasts="3m",
            severity="critical",
            summary="No kafka-mirror process can be scraped.",
            description="The state of all flows is unknown. Assume that nothing is replicated.",
        ),
        Alert(
            name="KafkaMirrorFlowGone",
            expr=(
                f"max by ({BY_FLOW}) (max_over_time({metric('flow_info')}[1d]))\n"
                f"unless on ({BY_FLOW}) {metric('flow_info')}"
            ),
            lasts="3m",
            severity="critical",
            summary="No process reports a flow that was replicated within the last day.",
            description=f"{THE_FLOW}: assume that nothing is replicated.",
        ),
        Alert(
            name="KafkaMirrorInstanceDown",
            expr=f"up{{{monitoring.selector}}} == 0",
            lasts="3m",
            severity="warning",
            summary="A kafka-mirror process cannot be scraped.",
            description="{{ $labels.instance }} does not respond. Other processes may have taken over its slots.",
        ),
        Alert(
            name="KafkaMirrorCrashLoop",
            expr=f"changes(process_start_time_seconds{{{monitoring.selector}}}[30m]) > 3",
            lasts="0m",
            keeps="15m",
            severity="critical",
            summary="A kafka-mirror process restarts repeatedly.",
            description="{{ $labels.instance }} has restarted {{ $value | humanize }} times in 30 minutes.",
        ),
    ]


def of_queries() -> list[Alert]:
    """Return the alerts about flows and queries that do not run."""
    return [
        Alert(
            name="KafkaMirrorFlowNotBegun",
            expr=f"max by ({BY_FLOW}) ({metric('flow_begun')}) == 0",
            lasts="5m",
            severity="critical",
            summary="A flow has not started since the process started.",
            description=f"{THE_FLOW}: its clusters have not responded, or the log shows another reason.",
        ),
        Alert(
            name="KafkaMirrorMatchesNothing",
            expr=f"max by ({BY_FLOW}) ({metric('matched_topics')}) == 0",
            lasts="15m",
            severity="warning",
            summary="No topic of the source matches the settings of a flow: the flow replicates nothing.",
            description=f"{THE_FLOW}: no topic on {{{{ $labels.source }}}} matches.",
        ),
        Alert(
            name="KafkaMirrorQueryDown",
            expr=f"{metric('query_active')} == 0",
            lasts="2m",
            severity="critical",
            summary="A streaming query of kafka-mirror has ended and was not restarted.",
            description="Query {{ $labels.query }} of {{ $labels.instance }} is down. The slots of its lane are not served.",
        ),
        Alert(
            name="KafkaMirrorLaneFlapping",
            expr=f"increase({metric('query_restarts_total')}[30m]) > 3",
            lasts="0m",
            keeps="15m",
            severity="warning",
            summary="Streaming queries of kafka-mirror fail and are restarted repeatedly.",
            description="{{ $labels.instance }} has restarted queries {{ $value | humanize }} times in 30 minutes.",
        ),
    ]


def of_the_unknown() -> list[Alert]:
    """Return the alerts about unknown lag and about partitions that the target lacks."""
    return [
        Alert(
            name="KafkaMirrorClusterUnreachable",
            expr=f"max by ({BY_FLOW}, cluster) ({metric('cluster_up')}) == 0",
            lasts="3m",
            severity="critical",
            summary="A cluster does not respond to kafka-mirror.",
            description=f"{THE_FLOW}: cluster {{{{ $labels.cluster }}}} has not responded for 3 minutes.",
        ),
        Alert(
            name="KafkaMirrorLagDataStale",
            expr=f"time() - max by ({BY_FLOW}) ({metric('last_poll_timestamp_seconds')}) > 60",
            lasts="5m",
            severity="critical",
            summary="Lag is not measured: which records are missing on the target is unknown.",
            description=f"{THE_FLOW}: offsets were last read {{{{ $value | humanizeDuration }}}} ago.",
        ),
        Alert(
            name="KafkaMirrorPartitionsUnknown",
            expr=f'{STATUSES}{{status="unknown"}} > 0',
            lasts="10m",
            severity="warning",
            summary="Replication progress of some partitions is unknown.",
            description=f"{THE_FLOW}: {{{{ $value | humanize }}}} partitions are UNKNOWN.",
        ),
        # Only a warning: KafkaMirrorRpoExceeded wakes the on-call if records wait for long.
        Alert(
            name="KafkaMirrorTopicAbsent",
            expr=f"count by ({BY_TOPIC}) ({metric('partition_status')} == {Status.ABSENT.value})",
            lasts="10m",
            severity="warning",
            summary="A topic or some of its partitions do not exist on the target and are not replicated.",
            description=(
                f"{THE_TOPIC}: {{{{ $value | humanize }}}} partitions are not on the target. The log shows the reason."
            ),
        ),
    ]


def of_standstills() -> list[Alert]:
    """Return the alerts about records that wait while nothing is copied."""
    return [
        Alert(
            name="KafkaMirrorStopped",
            expr=(
                f"(time() - max by ({BY_FLOW}) ({metric('last_progress_timestamp_seconds')}) > 300)\n"
                f"and on ({BY_FLOW}) (sum by ({BY_FLOW}) ({LAG}) > 0)"
            ),
            lasts="2m",
            severity="critical",
            summary="A flow has reported nothing for five minutes while records are waiting.",
            description=f"{THE_FLOW}: no report for {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorStalled",
            expr=stalled(),
            lasts="5m",
            keeps="10m",
            severity="critical",
            summary="Partitions are stalled: records are waiting and none is copied.",
            description=(
                f"{THE_TOPIC}: {{{{ $value | humanize }}}} partitions have copied nothing for 10 minutes although records "
                "were waiting."
            ),
        ),
        # A broker ends a transaction after transaction.max.timeout.ms, 15 minutes: an older one hangs.
        Alert(
            name="KafkaMirrorOpenTransaction",
            expr=(
                f"({LAG_SECONDS} > 900)\n"
                f"and on ({BY_TOPIC}) (max by ({BY_TOPIC}) ({metric('partition_behind_open_transaction')}) == 1)"
            ),
            lasts="2m",
            severity="warning",
            summary="A hanging transaction on the source blocks a topic.",
            description=f"{THE_TOPIC}: records have waited for {{{{ $value | humanizeDuration }}}}. The log names the producer.",
        ),
    ]


def of_losses(monitoring: Monitoring) -> list[Alert]:
    """Return the alerts about records that are lost, or would be after a failover."""
    return [
        Alert(
            name="KafkaMirrorRpoExceeded",
            expr=waits_longer(monitoring.rpo_critical_s),
            lasts="5m",
            severity="critical",
            summary="A topic's lag exceeds the recovery point objective (RPO).",
            description=f"{THE_TOPIC}: the first unreplicated record has waited for {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorRecordsLost",
            expr=f"{counted('records_lost_total', '10m', monitoring)} > 0",
            lasts="0m",
            keeps="1h",
            severity="critical",
            summary="Records were deleted at the source before they were replicated.",
            description=f"{THE_TOPIC} lost about {{{{ $value | humanize }}}} records. The log shows the exact range.",
        ),
        Alert(
            name="KafkaMirrorRetentionImminent",
            expr=retention_within(1800),
            lasts="5m",
            severity="critical",
            summary="The source may delete unreplicated records within 30 minutes.",
            description=f"{THE_TOPIC}: retention may delete the first waiting record in {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorFreshnessBurnsFast",
            expr=f"{burns(14.4, '1h', '5m')}\nor {burns(6, '6h', '30m')}",
            lasts="2m",
            severity="critical",
            summary="At the present rate, the month's freshness budget is used up within days.",
            description=(
                f"{THE_FLOW}: {{{{ $value | humanizePercentage }}}} of its partitions lagged over {FRESH_S} s or were unknown."
            ),
        ),
        Alert(
            name="KafkaMirrorSlotsUnserved",
            expr=f"max by ({BY_FLOW}) ({metric('slots')}) > sum by ({BY_FLOW}) ({metric('slots_owned')})",
            lasts="3m",
            severity="critical",
            summary="No process serves some slots of a flow.",
            description=f"{THE_FLOW}: fewer than its {{{{ $value | humanize }}}} slots are served.",
        ),
        Alert(
            name="KafkaMirrorVerifyDiffers",
            expr=f"{counted('verify_differences_total', '10m', monitoring)} > 0",
            lasts="0m",
            keeps="1h",
            severity="critical",
            summary="Records on the target differ from the source.",
            description=f"{THE_TOPIC}: {{{{ $value | humanize }}}} records differ or are missing.",
        ),
    ]


def of_delays(monitoring: Monitoring) -> list[Alert]:
    """Return the alerts about records that are late and may be lost later."""
    return [
        Alert(
            name="KafkaMirrorRpoAtRisk",
            expr=waits_longer(monitoring.rpo_warning_s),
            lasts="5m",
            severity="warning",
            summary="A topic lags by minutes.",
            description=f"{THE_TOPIC}: the first unreplicated record has waited for {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorOffsetsDiffer",
            expr=f"count by ({BY_TOPIC}) ({metric('offsets_identical')} == 0)",
            lasts="1m",
            severity="warning",
            summary="Offsets are no longer identical: the partition is paused, and consumers cannot move with their offsets.",
            description=f"{THE_TOPIC}: {{{{ $value | humanize }}}} partitions differ. The log shows where.",
        ),
        Alert(
            name="KafkaMirrorPartitionPaused",
            expr=f"sum by ({BY_TOPIC}) ({metric('partition_paused')}) > 0",
            lasts="5m",
            severity="warning",
            summary="Partitions are paused after an error; the other partitions are replicated.",
            description=(
                f"{THE_TOPIC}: {{{{ $value | humanize }}}} partitions are retried with growing delays. The log shows the "
                "reason."
            ),
        ),
        Alert(
            name="KafkaMirrorVerdictBad",
            expr=f'sum by ({BY_FLOW}, status) ({STATUSES}{{status=~"warn|stop|stall|rewind|lost"}}) > 0',
            lasts="15m",
            severity="warning",
            summary="Partitions of a flow have been unhealthy for 15 minutes.",
            description=f"{THE_FLOW}: {{{{ $value | humanize }}}} partitions are {{{{ $labels.status | toUpper }}}}.",
        ),
        Alert(
            name="KafkaMirrorLagIncreasing",
            expr=(f"(deriv({LAG}[15m]) > 0)\nand (min_over_time({LAG}[15m]) > 0)\nand ({LAG_SECONDS} > 60)"),
            lasts="15m",
            keeps="10m",
            severity="warning",
            summary="A topic's lag keeps growing.",
            description=(
                f"{THE_TOPIC} has lagged for 15 minutes without a break, by more than a minute, and its lag still grows."
            ),
        ),
        Alert(
            name="KafkaMirrorCatchUpTooSlow",
            # From the slope of the lag, not from copied records: with transactions, markers make offsets outnumber records.
            expr=f"({LAG} / -(deriv({LAG}[15m]) < 0) > 3600)\nand ({LAG_SECONDS} > 60)",
            lasts="15m",
            severity="warning",
            summary="At its present rate, a topic needs more than an hour to catch up.",
            description=f"{THE_TOPIC} would catch up in {{{{ $value | humanizeDuration }}}}.",
        ),
    ]


def of_budgets() -> list[Alert]:
    """Return the alerts about budgets that shrink slowly."""
    return [
        Alert(
            name="KafkaMirrorRetentionAtRisk",
            expr=retention_within(7200),
            lasts="5m",
            severity="warning",
            summary="The source may delete unreplicated records within two hours.",
            description=f"{THE_TOPIC}: retention may delete the first waiting record in {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorFreshnessBurnsSlowly",
            expr=f"{burns(3, '1d', '2h')}\nor {burns(1, '3d', '6h')}",
            lasts="1h",
            severity="warning",
            summary="At the present rate, the month's freshness budget will not last.",
            description=(
                f"{THE_FLOW}: {{{{ $value | humanizePercentage }}}} of its partitions lagged over {FRESH_S} s or were unknown."
            ),
        ),
    ]


def of_timing() -> list[Alert]:
    """Return the alerts about late handovers and clock differences."""
    return [
        Alert(
            name="KafkaMirrorHandoversFail",
            # 1.5: increase() extrapolates a single takeover to a little more than 1. After an outage, late handovers are normal.
            expr=(
                f"((sum by ({BY_FLOW}, slot) (increase({metric('takeovers_total')}[30m])) > 1.5)\n"
                f"or (sum by ({BY_FLOW}, slot) (increase({metric('late_handovers_total')}[30m])) > 10))\n"
                f"unless on ({BY_FLOW}) (min by ({BY_FLOW}) (min_over_time({metric('cluster_up')}[35m])) == 0)"
            ),
            lasts="0m",
            keeps="10m",
            severity="warning",
            summary="Windows wait for each other: records are copied in bursts.",
            description=f"{THE_FLOW}, slot {{{{ $labels.slot }}}}: {{{{ $value | humanize }}}} windows in 30 minutes.",
        ),
        Alert(
            name="KafkaMirrorClockSkew",
            expr=f"max by ({BY_FLOW}) ({metric('clock_skew_seconds')}) > {CLOCK_SKEW_S}",
            lasts="10m",
            severity="warning",
            summary="Records have timestamps in the future: their measured ages and latencies are too small.",
            description=f"{THE_FLOW}: timestamps are {{{{ $value | humanizeDuration }}}} ahead of the process' clock.",
        ),
        Alert(
            name="KafkaMirrorClusterClockSkew",
            expr=f"max by ({BY_FLOW}, cluster) (abs({metric('cluster_clock_skew_seconds')})) > {CLOCK_SKEW_S}",
            lasts="10m",
            severity="warning",
            summary="The clocks of a cluster and of kafka-mirror differ: time lag, ages and retention headroom are wrong.",
            description=(
                f"{THE_FLOW}: the clocks of {{{{ $labels.cluster }}}}'s controller and of the process are "
                "{{ $value | humanizeDuration }} apart."
            ),
        ),
    ]


def of_upkeep() -> list[Alert]:
    """Return the alerts about comparisons, settings and heartbeats."""
    return [
        Alert(
            name="KafkaMirrorVerifyStale",
            expr=f"time() - max by ({BY_FLOW}) ({metric('last_verify_timestamp_seconds')}) > 3600",
            lasts="5m",
            severity="warning",
            summary="No verification round has ended for an hour.",
            description=f"{THE_FLOW}: the last round ended {{{{ $value | humanizeDuration }}}} ago.",
        ),
        Alert(
            name="KafkaMirrorSettingsDiffer",
            expr=f"max by ({BY_FLOW}) ({metric('settings_conflict')}) > 0",
            lasts="15m",
            severity="warning",
            summary="Processes that share a flow have different settings.",
            description=f"{THE_FLOW}: replication depends on which process serves a slot.",
        ),
        Alert(
            name="KafkaMirrorHeartbeatLate",
            expr=f"time() - max by ({BY_FLOW}) ({metric('last_heartbeat_timestamp_seconds')}) > 60",
            lasts="5m",
            severity="warning",
            summary="The target has acknowledged no heartbeat for more than a minute.",
            description=f"{THE_FLOW}: no heartbeat for {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorDrillOverdue",
            expr=f"time() - max by ({BY_FLOW}) ({metric('drill_due_timestamp_seconds')}) > 0",
            lasts="5m",
            severity="warning",
            summary="No drill has passed for two intervals: whether the flow can be switched is unknown.",
            description=f"{THE_FLOW}: a drill should have passed {{{{ $value | humanizeDuration }}}} ago.",
        ),
    ]


def of_groups() -> list[Alert]:
    """Return the alerts about consumer groups and their checkpoints."""
    return [
        # Separate from the next alert: a flow whose first rounds fail has no group that could be stale.
        Alert(
            name="KafkaMirrorCheckpointErrors",
            expr=f"sum by ({BY_FLOW}) (increase({metric('checkpoint_errors_total')}[5m])) > 0",
            lasts="10m",
            severity="warning",
            summary="Offsets of consumer groups are not translated: rounds of checkpoints fail repeatedly.",
            description=f"{THE_FLOW}: {{{{ $value | humanize }}}} rounds failed in 5 minutes. The log shows the reason.",
        ),
        Alert(
            name="KafkaMirrorCheckpointStale",
            expr=(
                f"time() - max by ({BY_FLOW}, group) ({metric('last_checkpoint_timestamp_seconds')}) > {CHECKPOINT_STALE_S}"
            ),
            lasts="10m",
            severity="warning",
            summary="A consumer group's checkpoint is more than five minutes old.",
            description=f"{THE_GROUP} would re-read the records of the last {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorGroupCannotFailOver",
            expr=f'sum by ({BY_FLOW}, group) ({metric("group_partitions")}{{state=~"{NO_WAY}"}}) > 0',
            lasts="30m",
            severity="warning",
            summary="A consumer group has no offset to resume from on the target for some partitions.",
            description=f"{THE_GROUP} cannot fail over on {{{{ $value | humanize }}}} partitions.",
        ),
    ]


def of_monitoring() -> list[Alert]:
    """Return the alerts about metrics that are incomplete."""
    return [
        Alert(
            name="KafkaMirrorListenerErrors",
            expr=f"increase({metric('listener_errors_total')}[15m]) > 0",
            lasts="0m",
            severity="warning",
            summary="Reports of the stream could not be read: counters are too small.",
            description="{{ $labels.instance }} failed to read progress events. The log shows the error.",
        ),
        Alert(
            name="KafkaMirrorSeriesLimitReached",
            expr=f"{metric('dropped_series')} > 0",
            lasts="10m",
            severity="warning",
            summary="There are more series than mirror.metrics.max.series allows: partitions are folded into their topics.",
            description="{{ $labels.instance }} folded or removed {{ $value | humanize }} series.",
        ),
    ]


def of_changes(monitoring: Monitoring) -> list[Alert]:
    """Return the alerts for information only."""
    return [
        Alert(
            name="KafkaMirrorOffsetRewind",
            expr=f"{counted('offset_rewinds_total', '10m', monitoring)} > 0",
            lasts="0m",
            keeps="30m",
            severity="info",
            summary="A position was reset because the source's log was truncated or its topic created again.",
            description=f"{THE_TOPIC}: the log shows the reason.",
        ),
        # Not a warning: synchronization may be disabled on purpose.
        Alert(
            name="KafkaMirrorConfigDrift",
            expr=f"max by ({BY_TOPIC}) ({metric('config_drift_settings')}) > 0",
            lasts="30m",
            severity="info",
            summary="Settings of a remote topic differ from the source topic's.",
            description=f"{THE_TOPIC} differs in {{{{ $value | humanize }}}} settings.",
        ),
    ]
