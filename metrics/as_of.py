"""Remove outdated values from a snapshot, or replace them with UNKNOWN. Pure.

A scrape must not serve values that are minutes old as if they were current: the polling thread may hang, a cluster may not
respond, a stream may have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from metrics.catalogue import BY_NAME
from metrics.objective import FRESH_S
from metrics.partition_status import FLOW_STATUSES, Status
from metrics.series import Labels

UNTIL = "kafka_mirror_replicated_until_timestamp_seconds"
LAG = "kafka_mirror_lag_records"
LAG_SECONDS = "kafka_mirror_lag_seconds"
STATUS = "kafka_mirror_partition_status"
STATUSES = "kafka_mirror_partitions"
FRESH = "kafka_mirror_fresh_partitions"
HEADROOM = "kafka_mirror_retention_headroom_seconds"
REPORTED = "kafka_mirror_last_progress_timestamp_seconds"
CLOCK = "kafka_mirror_cluster_clock_skew_seconds"
CLUSTER_UP = "kafka_mirror_cluster_up"
CLOCK_KNOWN_S = 180.0  # three readings of a cluster's clock
OF_LOG_ENDS = (
    LAG,
    "kafka_mirror_source_end_offset",
    "kafka_mirror_source_start_offset",
    "kafka_mirror_partition_behind_open_transaction",
)
OF_REPORTS = (
    "kafka_mirror_clock_skew_seconds",
    "kafka_mirror_partition_paused",
    "kafka_mirror_partition_paused_by_operator",
    "kafka_mirror_offsets_identical",
    "kafka_mirror_record_rate",
    "kafka_mirror_byte_rate",
    *(
        f"kafka_mirror_{measure}_ms{part}"
        for measure in ("record_age", "replication_latency")
        for part in ("", "_min", "_max", "_avg")
    ),
)
assert all(
    name in BY_NAME for name in (*OF_LOG_ENDS, *OF_REPORTS, CLOCK, CLUSTER_UP, UNTIL, STATUS, STATUSES, FRESH, HEADROOM)
)

Series = dict[Labels, Any]


@dataclass(frozen=True, slots=True)
class MaxAge:
    """The age up to which responses of clusters, and a flow's last report, are served.

    Unlimited by default.
    """

    known_s: float = float("inf")
    silence_s: float = float("inf")


def as_of(
    families: Mapping[str, Series],
    *,
    now_s: float,
    ends_s: Mapping[Labels, float],
    judged_s: Mapping[Labels, float],
    clocks_s: Mapping[Labels, float],
    horizon: MaxAge,
) -> None:
    """Remove values from a snapshot's families that are outdated at `now_s` (epoch seconds).

    Args:
        families: Series of every family; changed in place.
        now_s: The current time.
        ends_s: When each partition's log end was read.
        judged_s: When the statuses of each flow were determined.
        clocks_s: When the clock of each flow's clusters was read.
        horizon: The maximum age of these readings, and of the last report of a flow.
    """
    _leave_out_old_reports(families, now_s - horizon.silence_s)
    old = {labels for labels, read_s in ends_s.items() if now_s - read_s > horizon.known_s}
    for name in OF_LOG_ENDS:
        _leave_out(families[name], old)
    _leave_out(families[HEADROOM], {labels[:3] for labels in old})
    _leave_out(families[CLOCK], [labels for labels, read_s in clocks_s.items() if now_s - read_s > CLOCK_KNOWN_S])
    _leave_out(families[CLOCK], [labels for labels, is_up in families[CLUSTER_UP].items() if not is_up])
    _forget_statuses(families, {flow for flow, at_s in judged_s.items() if now_s - at_s > horizon.known_s})
    _measure_time_lag(families, now_s)


def _leave_out(series: Series, labels: Iterable[Labels]) -> None:
    for key in labels:
        series.pop(key, None)


def _leave_out_old_reports(families: Mapping[str, Series], since_s: float) -> None:
    silent = {flow for flow, at_s in families[REPORTED].items() if at_s < since_s}
    if silent:
        for name in OF_REPORTS:
            _leave_out(families[name], [labels for labels in families[name] if labels[:2] in silent])


def _measure_time_lag(families: Mapping[str, Series], now_s: float) -> None:
    """Compute lag_seconds from replicated_until, so that it grows while nothing is measured.

    The lag of an UNKNOWN partition never becomes 0.
    """
    lag, lag_seconds, fresh, status = families[LAG], families[LAG_SECONDS], families[FRESH], families[STATUS]
    _leave_out(lag, [labels for labels, code in status.items() if code == Status.UNKNOWN and lag.get(labels) == 0])
    for flow in {*fresh, *(labels[:2] for labels in families[UNTIL])}:
        fresh[flow] = 0.0
    for labels, until_s in families[UNTIL].items():
        waits_s = 0.0 if lag.get(labels) == 0 else now_s - until_s
        lag_seconds[labels] = waits_s
        fresh[labels[:2]] += waits_s <= FRESH_S and status.get(labels) != Status.UNKNOWN


def _forget_statuses(families: Mapping[str, Series], flows: set[Labels]) -> None:
    if not flows:
        return
    counts: dict[Labels, int] = dict.fromkeys(flows, 0)
    for labels in families[STATUS]:
        if labels[:2] in flows:
            families[STATUS][labels] = float(Status.UNKNOWN)
            counts[labels[:2]] += 1
    for flow, count in counts.items():
        for status in FLOW_STATUSES:
            families[STATUSES][(*flow, status.name.lower())] = float(count if status is Status.UNKNOWN else 0)
