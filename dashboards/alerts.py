"""Define the alerting rules. Pure. Every alert tells a person something to do; docs/runbook.md has a section of its name.

An alert is about a flow, a topic, a group or a process, never about one topic-partition: a page for each of ten thousand wakes
nobody up for the right reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboards.monitoring import DEFAULT, Monitoring
from dashboards.recording import BY_FLOW, BY_TOPIC, LAG, LAG_SECONDS, STATUSES, burns, metric
from metrics.objective import FRESH_S
from metrics.verdict import Status

# What became of a group's offset, where the group has none to go on from on the target
NO_WAY = "no_map|refused|past_end|shared|unsupported"
CHECKPOINT_STALE_S = 300  # five rounds at the default interval
STALLED_FOR = "10m"
CLOCK_SKEW_S = 5
YOUNG_S = 600  # a process that is younger may have counted something before it was first scraped
# How a description names what an alert is about
THE_FLOW = "{{ $labels.source }}->{{ $labels.target }}"
THE_TOPIC = f"{THE_FLOW}: {{{{ $labels.topic }}}}"
THE_GROUP = f"{THE_FLOW}: group {{{{ $labels.group }}}}"


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

    def rule(self, monitoring: Monitoring) -> dict[str, Any]:
        """Return the rule as Prometheus reads it, with links to the runbook, a board and the lag inspector."""
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
        """Return the path of the board that shows what the alert is about: a topic, a group, a flow, or the engine."""
        of_flow = "var-job={{ $labels.job }}&var-source={{ $labels.source }}&var-target={{ $labels.target }}"
        if "$labels.topic" in self.description:
            return f"/d/kafka-mirror-topic?{of_flow}&var-topic={{{{ $labels.topic }}}}"
        if "$labels.group" in self.description:
            return f"/d/kafka-mirror-failover?{of_flow}&var-group={{{{ $labels.group }}}}"
        return (
            f"/d/kafka-mirror-overview?{of_flow}" if "$labels.source" in self.description else "/d/kafka-mirror-engine"
        )

    def _page(self) -> str:
        """Return the path of the inspector's page that shows it."""
        flow = "source={{ $labels.source }}&target={{ $labels.target }}"
        if "$labels.topic" in self.description:
            return f"/lag?{flow}&topic={{{{ $labels.topic }}}}"
        if "$labels.group" in self.description:
            return "/lag?group={{ $labels.group }}"
        return f"/lag?{flow}" if "$labels.source" in self.description else "/health"


def retention_within(seconds: int) -> str:
    """Return the condition that deletion comes this near, on a topic that is behind: short retention alone is no risk."""
    nearest = f"min by ({BY_TOPIC}) ({metric('retention_headroom_seconds')})"
    return f"({nearest} < {seconds})\nand on ({BY_TOPIC}) ({LAG_SECONDS} > 300)"


def waits_longer(seconds: int | str) -> str:
    """Return the condition that a topic's first unreplicated record waits longer; not where an operator has paused it."""
    paused = f"max by ({BY_TOPIC}) ({metric('partition_paused_by_operator')}) > 0"
    return f"({LAG_SECONDS} > {seconds})\nunless on ({BY_TOPIC}) ({paused})"


def counted(short: str, window: str, monitoring: Monitoring) -> str:
    """Return what a topic's counter grew by over a window, also by what a young process counted before it was first scraped."""
    name = metric(short)
    young = f"(time() - process_start_time_seconds{{{monitoring.selector}}} < {YOUNG_S})"
    grew = f"(increase({name}[{window}]) > 0)"
    return f"sum by ({BY_TOPIC}) ({grew} or ({name} > 0 and on (job, instance) {young}))"


def stalled() -> str:
    """Return how many topic-partitions of a topic copied nothing for ten minutes while records waited."""
    stands = f"(increase({metric('record_count_total')}[{STALLED_FOR}]) == 0)"
    waits = f"(min_over_time({metric('lag_records')}[{STALLED_FOR}]) > 0)"
    return f"count by ({BY_TOPIC}) ({stands} and {waits} unless ({metric('partition_paused_by_operator')} > 0))"


def alerts(monitoring: Monitoring = DEFAULT) -> list[Alert]:
    """Return the alerts, those that mean "nothing is mirrored" first, then those that mean "nobody knows"."""
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
            summary="No Kafka mirror can be scraped.",
            description="Nothing is known of any flow; assume that nothing is mirrored.",
        ),
        Alert(
            name="KafkaMirrorFlowGone",
            expr=(
                f"max by ({BY_FLOW}) (max_over_time({metric('flow_info')}[1d]))\n"
                f"unless on ({BY_FLOW}) {metric('flow_info')}"
            ),
            lasts="3m",
            severity="critical",
            summary="No process tells of a flow that was mirrored within the last day.",
            description=f"{THE_FLOW}: assume that nothing of it is mirrored.",
        ),
        Alert(
            name="KafkaMirrorInstanceDown",
            expr=f"up{{{monitoring.selector}}} == 0",
            lasts="3m",
            severity="warning",
            summary="A process of the mirror cannot be scraped.",
            description="{{ $labels.instance }} does not answer; others may have taken its slots over.",
        ),
        Alert(
            name="KafkaMirrorCrashLoop",
            expr=f"changes(process_start_time_seconds{{{monitoring.selector}}}[30m]) > 3",
            lasts="0m",
            keeps="15m",
            severity="critical",
            summary="A process of the mirror starts again and again.",
            description="{{ $labels.instance }} has started {{ $value | humanize }} times in half an hour.",
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
            summary="A flow has not begun since the mirror started.",
            description=f"{THE_FLOW}: its clusters have not answered, or the log says what else is in the way.",
        ),
        Alert(
            name="KafkaMirrorMatchesNothing",
            expr=f"max by ({BY_FLOW}) ({metric('matched_topics')}) == 0",
            lasts="15m",
            severity="warning",
            summary="No topic of the source matches a flow's settings: it mirrors nothing.",
            description=f"{THE_FLOW}: none of the topics on {{{{ $labels.source }}}} is to be mirrored.",
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
            name="KafkaMirrorLaneFlapping",
            expr=f"increase({metric('query_restarts_total')}[30m]) > 3",
            lasts="0m",
            keeps="15m",
            severity="warning",
            summary="Streaming queries of the mirror end and are started again and again.",
            description="{{ $labels.instance }} has started queries {{ $value | humanize }} times in half an hour.",
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
            summary="A cluster does not answer the mirror.",
            description=f"{THE_FLOW}: cluster {{{{ $labels.cluster }}}} has not answered for 3 minutes.",
        ),
        Alert(
            name="KafkaMirrorLagDataStale",
            expr=f"time() - max by ({BY_FLOW}) ({metric('last_poll_timestamp_seconds')}) > 60",
            lasts="5m",
            severity="critical",
            summary="Lag is not measured any more: nobody knows what is missing on the target.",
            description=f"{THE_FLOW}: offsets were last read {{{{ $value | humanizeDuration }}}} ago.",
        ),
        Alert(
            name="KafkaMirrorPartitionsUnknown",
            expr=f'{STATUSES}{{status="unknown"}} > 0',
            lasts="10m",
            severity="warning",
            summary="Of some topic-partitions nobody knows how far they are replicated.",
            description=f"{THE_FLOW}: {{{{ $value | humanize }}}} topic-partitions are UNKNOWN.",
        ),
        # A warning only: KafkaMirrorRpoExceeded wakes the on-call if records wait for long.
        Alert(
            name="KafkaMirrorTopicAbsent",
            expr=f"count by ({BY_TOPIC}) ({metric('partition_status')} == {Status.ABSENT.value})",
            lasts="10m",
            severity="warning",
            summary="The target has no counterpart of a topic, or not of all its partitions: nothing of them is mirrored.",
            description=(
                f"{THE_TOPIC}: {{{{ $value | humanize }}}} topic-partitions are not on the target; the log has the reason."
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
            summary="A flow has reported nothing for five minutes and records wait.",
            description=f"{THE_FLOW}: no report for {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorStalled",
            expr=stalled(),
            lasts="5m",
            keeps="10m",
            severity="critical",
            summary="Topic-partitions stand still while records wait.",
            description=(
                f"{THE_TOPIC}: of {{{{ $value | humanize }}}} topic-partitions nothing was copied in 10 minutes, "
                "and they were behind all the time."
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
            summary="A transaction that hangs on the source holds up a topic.",
            description=f"{THE_TOPIC}: records wait for {{{{ $value | humanizeDuration }}}}; the log names the producer.",
        ),
    ]


def of_losses(monitoring: Monitoring) -> list[Alert]:
    """Return the alerts about records that are lost, or would be after a fail-over."""
    return [
        Alert(
            name="KafkaMirrorRpoExceeded",
            expr=waits_longer(monitoring.rpo_critical_s),
            lasts="5m",
            severity="critical",
            summary="A topic is further behind than a fail-over may cost.",
            description=f"{THE_TOPIC}: its first record that is not mirrored waits for {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorRecordsLost",
            expr=f"{counted('records_lost_total', '10m', monitoring)} > 0",
            lasts="0m",
            keeps="1h",
            severity="critical",
            summary="Records were deleted at the source before they were mirrored.",
            description=f"{THE_TOPIC} lost about {{{{ $value | humanize }}}} records; the log has the exact range.",
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
            description=(
                f"{THE_FLOW}: {{{{ $value | humanizePercentage }}}} of it was more than {FRESH_S} s behind, or not known."
            ),
        ),
        Alert(
            name="KafkaMirrorSlotsUnserved",
            expr=f"max by ({BY_FLOW}) ({metric('slots')}) > sum by ({BY_FLOW}) ({metric('slots_owned')})",
            lasts="3m",
            severity="critical",
            summary="Slots of a flow are served by no process.",
            description=f"{THE_FLOW}: fewer than its {{{{ $value | humanize }}}} slots are served.",
        ),
        Alert(
            name="KafkaMirrorVerifyDiffers",
            expr=f"{counted('verify_differences_total', '10m', monitoring)} > 0",
            lasts="0m",
            keeps="1h",
            severity="critical",
            summary="Records on the target are not what the source has.",
            description=f"{THE_TOPIC}: {{{{ $value | humanize }}}} records differ or are missing.",
        ),
    ]


def of_delays(monitoring: Monitoring) -> list[Alert]:
    """Return the alerts about records that are late, and may be lost some day."""
    return [
        Alert(
            name="KafkaMirrorRpoAtRisk",
            expr=waits_longer(monitoring.rpo_warning_s),
            lasts="5m",
            severity="warning",
            summary="A topic is minutes behind.",
            description=f"{THE_TOPIC}: its first record that is not mirrored waits for {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorPartitionPaused",
            expr=f"sum by ({BY_TOPIC}) ({metric('partition_paused')}) > 0",
            lasts="5m",
            severity="warning",
            summary="Topic-partitions are paused after an error; the others flow.",
            description=(
                f"{THE_TOPIC}: {{{{ $value | humanize }}}} topic-partitions are tried again with growing pauses; "
                "the log has the reason."
            ),
        ),
        Alert(
            name="KafkaMirrorVerdictBad",
            expr=f'sum by ({BY_FLOW}, status) ({STATUSES}{{status=~"warn|stop|stall|rewind|lost"}}) > 0',
            lasts="15m",
            severity="warning",
            summary="Topic-partitions of a flow are not well, and stay so.",
            description=f"{THE_FLOW}: {{{{ $value | humanize }}}} topic-partitions are {{{{ $labels.status | toUpper }}}}.",
        ),
        Alert(
            name="KafkaMirrorLagIncreasing",
            expr=(f"(deriv({LAG}[15m]) > 0)\nand (min_over_time({LAG}[15m]) > 0)\nand ({LAG_SECONDS} > 60)"),
            lasts="15m",
            keeps="10m",
            severity="warning",
            summary="A topic falls behind more and more.",
            description=(
                f"{THE_TOPIC} was behind for 15 minutes without a break, by more than a minute, and its lag still grows."
            ),
        ),
        Alert(
            name="KafkaMirrorCatchUpTooSlow",
            # By the lag's own slope: records that are copied are fewer than offsets where transactions leave markers.
            expr=f"({LAG} / -(deriv({LAG}[15m]) < 0) > 3600)\nand ({LAG_SECONDS} > 60)",
            lasts="15m",
            severity="warning",
            summary="At its present rate a topic needs more than an hour to catch up.",
            description=f"{THE_TOPIC} would be level in {{{{ $value | humanizeDuration }}}}.",
        ),
    ]


def of_budgets() -> list[Alert]:
    """Return the alerts about what is used up slowly."""
    return [
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
            description=(
                f"{THE_FLOW}: {{{{ $value | humanizePercentage }}}} of it was more than {FRESH_S} s behind, or not known."
            ),
        ),
    ]


def of_timing() -> list[Alert]:
    """Return the alerts about hand-overs that are late and clocks that differ."""
    return [
        Alert(
            name="KafkaMirrorHandoversFail",
            # 1.5: increase() extrapolates a single one to a little more than 1. Behind an outage hand-overs are late by nature.
            expr=(
                f"((sum by ({BY_FLOW}, slot) (increase({metric('takeovers_total')}[30m])) > 1.5)\n"
                f"or (sum by ({BY_FLOW}, slot) (increase({metric('late_handovers_total')}[30m])) > 10))\n"
                f"unless on ({BY_FLOW}) (min by ({BY_FLOW}) (min_over_time({metric('cluster_up')}[35m])) == 0)"
            ),
            lasts="0m",
            keeps="10m",
            severity="warning",
            summary="Windows wait for each other: records are copied in bursts.",
            description=f"{THE_FLOW}, slot {{{{ $labels.slot }}}}: {{{{ $value | humanize }}}} windows in half an hour.",
        ),
        Alert(
            name="KafkaMirrorClockSkew",
            expr=f"max by ({BY_FLOW}) ({metric('clock_skew_seconds')}) > {CLOCK_SKEW_S}",
            lasts="10m",
            severity="warning",
            summary="Records have timestamps of the future: their ages and latencies are too small.",
            description=f"{THE_FLOW}: timestamps are {{{{ $value | humanizeDuration }}}} ahead of the mirror's clock.",
        ),
        Alert(
            name="KafkaMirrorClusterClockSkew",
            expr=f"max by ({BY_FLOW}, cluster) (abs({metric('cluster_clock_skew_seconds')})) > {CLOCK_SKEW_S}",
            lasts="10m",
            severity="warning",
            summary="A cluster's clock and the mirror's differ: lag in seconds, ages and retention are not what they seem.",
            description=(
                f"{THE_FLOW}: the clock of {{{{ $labels.cluster }}}}'s controller and the mirror's are "
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
            summary="Nothing has been compared for an hour.",
            description=f"{THE_FLOW}: the last round ended {{{{ $value | humanizeDuration }}}} ago.",
        ),
        Alert(
            name="KafkaMirrorSettingsDiffer",
            expr=f"max by ({BY_FLOW}) ({metric('settings_conflict')}) > 0",
            lasts="15m",
            severity="warning",
            summary="Processes that share a flow have different settings.",
            description=f"{THE_FLOW}: what is replicated depends on which process serves it.",
        ),
        Alert(
            name="KafkaMirrorHeartbeatLate",
            expr=f"time() - max by ({BY_FLOW}) ({metric('last_heartbeat_timestamp_seconds')}) > 60",
            lasts="5m",
            severity="warning",
            summary="The target has taken no heartbeat for a minute and more.",
            description=f"{THE_FLOW}: none for {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorDrillOverdue",
            expr=f"time() - max by ({BY_FLOW}) ({metric('drill_due_timestamp_seconds')}) > 0",
            lasts="5m",
            severity="warning",
            summary="No drill has passed for two intervals: nobody knows whether this flow can be switched.",
            description=f"{THE_FLOW}: one should have passed {{{{ $value | humanizeDuration }}}} ago.",
        ),
    ]


def of_groups() -> list[Alert]:
    """Return the alerts about consumer groups and their checkpoints."""
    return [
        # Apart from the next one: a flow whose first rounds fail knows no group that could be stale.
        Alert(
            name="KafkaMirrorCheckpointErrors",
            expr=f"sum by ({BY_FLOW}) (increase({metric('checkpoint_errors_total')}[5m])) > 0",
            lasts="10m",
            severity="warning",
            summary="Offsets of consumer groups are not translated: rounds of checkpoints fail again and again.",
            description=f"{THE_FLOW}: {{{{ $value | humanize }}}} rounds failed in 5 minutes; the log has the reason.",
        ),
        Alert(
            name="KafkaMirrorCheckpointStale",
            expr=(
                f"time() - max by ({BY_FLOW}, group) ({metric('last_checkpoint_timestamp_seconds')}) > {CHECKPOINT_STALE_S}"
            ),
            lasts="10m",
            severity="warning",
            summary="A consumer group's checkpoint is more than five minutes old.",
            description=f"{THE_GROUP} would read again what it has read in {{{{ $value | humanizeDuration }}}}.",
        ),
        Alert(
            name="KafkaMirrorGroupCannotFailOver",
            expr=f'sum by ({BY_FLOW}, group) ({metric("group_partitions")}{{state=~"{NO_WAY}"}}) > 0',
            lasts="30m",
            severity="warning",
            summary="A consumer group has topic-partitions with no offset to go on from on the target.",
            description=f"{THE_GROUP} cannot fail over on {{{{ $value | humanize }}}} topic-partitions.",
        ),
    ]


def of_monitoring() -> list[Alert]:
    """Return the alerts about what the numbers leave out."""
    return [
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
    ]


def of_changes(monitoring: Monitoring) -> list[Alert]:
    """Return the alerts about what somebody is to know, and nobody to be woken for."""
    return [
        Alert(
            name="KafkaMirrorOffsetRewind",
            expr=f"{counted('offset_rewinds_total', '10m', monitoring)} > 0",
            lasts="0m",
            keeps="30m",
            severity="info",
            summary="A position moved because the source's log was truncated or its topic created again.",
            description=f"{THE_TOPIC}.",
        ),
        # Not a warning: where synchronization is off, somebody has chosen it.
        Alert(
            name="KafkaMirrorConfigDrift",
            expr=f"max by ({BY_TOPIC}) ({metric('config_drift_settings')}) > 0",
            lasts="30m",
            severity="info",
            summary="Settings of a remote topic are not what the source's say they should be.",
            description=f"{THE_TOPIC} differs in {{{{ $value | humanize }}}} settings.",
        ),
    ]
