"""Define the recording rules: series by flow and by topic for dashboards and alerts. Pure.

Recorded series have no `instance`, so a process that starts or ends changes neither sums nor shares.
"""

from __future__ import annotations

from metrics.catalogue import BY_NAME
from metrics.objective import OBJECTIVE
from metrics.partition_status import Status

BY_FLOW = "job, source, target"
BY_TOPIC = f"{BY_FLOW}, topic"
FLOW_LEVEL = "source_target:"
TOPIC_LEVEL = "source_target_topic:"

COPIED = f"{TOPIC_LEVEL}kafka_mirror_record_count:rate5m"
COPIED_BYTES = f"{TOPIC_LEVEL}kafka_mirror_byte_count:rate5m"
PRODUCED = f"{TOPIC_LEVEL}kafka_mirror_produced:deriv5m"
LAG = f"{TOPIC_LEVEL}kafka_mirror_lag_records:sum"
UNTIL = f"{TOPIC_LEVEL}kafka_mirror_replicated_until_timestamp_seconds:min"
LAG_SECONDS = f"{TOPIC_LEVEL}kafka_mirror_lag_seconds:max"
FLOW_COPIED = f"{FLOW_LEVEL}kafka_mirror_record_count:rate5m"
FLOW_COPIED_BYTES = f"{FLOW_LEVEL}kafka_mirror_byte_count:rate5m"
FLOW_PRODUCED = f"{FLOW_LEVEL}kafka_mirror_produced:deriv5m"
FLOW_LAG = f"{FLOW_LEVEL}kafka_mirror_lag_records:sum"
FLOW_LAG_SECONDS = f"{FLOW_LEVEL}kafka_mirror_lag_seconds:max"
STATUSES = f"{FLOW_LEVEL}kafka_mirror_partitions:sum"
EXPECTED = f"{FLOW_LEVEL}kafka_mirror_expected_partitions:max"
GOOD = f"{FLOW_LEVEL}kafka_mirror_fresh_partitions:sum"
FRESH = f"{FLOW_LEVEL}kafka_mirror_fresh_partitions:ratio"
WORST = f"{FLOW_LEVEL}kafka_mirror_partition_status:max"
FAILOVER = f"{FLOW_LEVEL}kafka_mirror_failover_answer:min"
LATENCY_P50 = f"{FLOW_LEVEL}kafka_mirror_replication_latency_seconds:p50_5m"
LATENCY_P99 = f"{FLOW_LEVEL}kafka_mirror_replication_latency_seconds:p99_5m"


def metric(short: str) -> str:
    """Return a family's full name; raises KeyError if the catalogue lacks it."""
    return BY_NAME[f"kafka_mirror_{short}"].name


def quantile(share: float, histogram: str, by: str, where: str) -> str:
    """Return a quantile of a histogram's classic buckets, or of Prometheus 3's native ones.

    `where` is the text that follows the name: matchers and range.
    """
    classic = f"histogram_quantile({share}, sum by ({by}, le) (rate({histogram}_bucket{where})))"
    return f"{classic}\nor histogram_quantile({share}, sum by ({by}) (rate({histogram}{where})))"


def recording() -> dict[str, str]:
    """Return the recording rules by name (level:metric:operations), each after the rules that it uses."""
    lag_seconds, expected = metric("lag_seconds"), metric("expected_partitions")
    latency = metric("replication_latency_seconds")
    return {
        COPIED: f"sum by ({BY_TOPIC}) (rate({metric('record_count_total')}[5m]))",
        COPIED_BYTES: f"sum by ({BY_TOPIC}) (rate({metric('byte_count_total')}[5m]))",
        # deriv, although an end offset normally only grows: with rate, a truncated log would look like a burst.
        PRODUCED: f"sum by ({BY_TOPIC}) (clamp_min(deriv({metric('source_end_offset')}[5m]), 0))",
        LAG: f"sum by ({BY_TOPIC}) ({metric('lag_records')})",
        UNTIL: f"min by ({BY_TOPIC}) (max by ({BY_TOPIC}, partition) ({metric('replicated_until_timestamp_seconds')}))",
        # If no process serves the flow's series, use the last values: lag also grows while the measuring process is dead.
        LAG_SECONDS: (
            f"max by ({BY_TOPIC}) (min by ({BY_TOPIC}, partition) ({lag_seconds}))\n"
            f"or (time() - last_over_time({UNTIL}[1h]) unless on ({BY_FLOW}) {expected})"
        ),
        FLOW_COPIED: f"sum by ({BY_FLOW}) ({COPIED})",
        FLOW_COPIED_BYTES: f"sum by ({BY_FLOW}) ({COPIED_BYTES})",
        FLOW_PRODUCED: f"sum by ({BY_FLOW}) ({PRODUCED})",
        FLOW_LAG: f"sum by ({BY_FLOW}) ({LAG})",
        FLOW_LAG_SECONDS: f"max by ({BY_FLOW}) ({LAG_SECONDS})",
        STATUSES: f"sum by ({BY_FLOW}, status) ({metric('partitions')})",
        # For the objective: the expected partitions, even while no process serves them, and the partitions known to be fresh.
        EXPECTED: f"max by ({BY_FLOW}) ({expected})\nor max by ({BY_FLOW}) (last_over_time({expected}[1d]))",
        GOOD: (
            f"(sum by ({BY_FLOW}) ({metric('fresh_partitions')}) < {EXPECTED})\n"
            f"or ({EXPECTED} and on ({BY_FLOW}) (sum by ({BY_FLOW}) ({metric('fresh_partitions')}) >= {EXPECTED}))\n"
            f"or 0 * {EXPECTED}"
        ),
        FRESH: f"{GOOD} / ({EXPECTED} > 0)",
        # A flow without series of any process is UNKNOWN.
        WORST: f"max by ({BY_FLOW}) ({metric('partition_status')})\nor (0 * {EXPECTED} + {Status.UNKNOWN.value})",
        # A separate process serves the differences that verify found. Without series of any process, the result is NO.
        FAILOVER: (
            f"min by ({BY_FLOW}) ({metric('failover_answer')})\n"
            f"unless on ({BY_FLOW}) (sum by ({BY_FLOW}) (increase({metric('verify_differences_total')}[1d])) > 0)\n"
            f"or 0 * {EXPECTED}"
        ),
        LATENCY_P50: quantile(0.5, latency, BY_FLOW, "[5m]"),
        LATENCY_P99: quantile(0.99, latency, BY_FLOW, "[5m]"),
    }


def missed(window: str) -> str:
    """Return the share of expected partitions, over time, that were not known to be fresh."""
    return f"1 - sum_over_time({GOOD}[{window}]) / (sum_over_time({EXPECTED}[{window}]) > 0)"


def burns(factor: float, long: str, short: str) -> str:
    """Return the condition that the freshness budget burns `factor` times too fast, in both windows.

    A flow that is younger than the long window never meets the condition: its start would be a large share of its time.
    """
    allowed = f"{factor * (1 - OBJECTIVE):.4g}"
    is_old = f"last_over_time({EXPECTED}[1d] offset {long})"
    return f"(({missed(long)} > {allowed}) and ({missed(short)} > {allowed}) and {is_old})"
