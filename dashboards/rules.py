"""Recording and alerting rules for Prometheus, from the catalogue. Pure: `rules()` is what the YAML file holds.

Every alert tells a person something to do; docs/runbook.md has a section of the alert's name for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metrics.catalogue import BY_NAME

JOB = "kafka-mirror"
RUNBOOK = "docs/runbook.md"
FLOW = "source, target"
COPIED = "source_target_topic:kafka_mirror_record_count:rate5m"
COPIED_BYTES = "source_target:kafka_mirror_byte_count:rate5m"
LAG = "source_target_topic:kafka_mirror_lag_records:sum"
PRODUCED = "source_target_topic:kafka_mirror_produced:deriv5m"
# How a description names what an alert is about
THE_FLOW = "{{ $labels.source }}->{{ $labels.target }}"
THE_TOPIC = f"{THE_FLOW}: {{{{ $labels.topic }}}}"
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

    def rule(self) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasts,
            **({"keep_firing_for": self.keeps} if self.keeps else {}),
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{RUNBOOK}#{self.name.lower()}",
            },
        }


def recording() -> dict[str, str]:
    """Return the recording rules, level:metric:operations, by name."""
    count, size, lag = metric("record_count_total"), metric("byte_count_total"), metric("lag_records")
    produced = metric("source_end_offset")
    return {
        COPIED: f"sum without (partition) (rate({count}[5m]))",
        COPIED_BYTES: f"sum without (partition, topic) (rate({size}[5m]))",
        LAG: f"sum without (partition) ({lag})",
        # An end offset only grows, but is no counter to us: deriv, because a truncated log must not look like a burst.
        PRODUCED: (f"sum without (partition) (clamp_min(deriv({produced}[5m]), 0))"),
    }


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
            name="KafkaMirrorOffsetRewind",
            expr=f"increase({metric('offset_rewinds_total')}[10m]) > 0",
            lasts="0m",
            keeps="30m",
            severity="info",
            summary="A position moved because the source's log was truncated or its topic made anew.",
            description=f"{THE_PARTITION}.",
        ),
    ]


def rules() -> dict[str, Any]:
    """Return the content of the rules file."""
    return {
        "groups": [
            {
                "name": "kafka-mirror-recording",
                "rules": [{"record": name, "expr": expr} for name, expr in recording().items()],
            },
            {"name": "kafka-mirror-alerts", "rules": [alert.rule() for alert in alerts()]},
        ]
    }
