"""Lay out the overview dashboard, which the on-call opens first."""

from __future__ import annotations

from dashboards import queries as q
from dashboards.boards.words import BEHIND, FLOW, NO_DELETION, NO_GROUP, NO_HEARTBEAT, NOT_COMPARED, SHARE, TOPIC
from dashboards.panels import COUNT, INFO, Board, Panel, Query, Row, lines, none_wanted, stat
from metrics.objective import FRESH_S


def overview() -> Board:
    """Return the overview dashboard."""
    return Board(
        uid="kafka-mirror-overview",
        title="Kafka mirror: overview",
        question="Is replication healthy, what lags, and since when?",
        rows=(_status(), _flows(), _each_flow(), _upkeep(), _where_to_look()),
    )


def _status() -> Row:
    """Return the row "Status"."""
    return Row(
        "Status",
        (
            Panel(
                kind="timeline",
                title="Flows",
                unit="short",
                width=24,
                height=5,
                description="The worst status of each flow's partitions; UNKNOWN while no process reports the flow.",
                queries=(Query(q.worst_status_by_flow(), FLOW),),
            ),
            stat(
                "Fresh",
                f"Share of partitions whose first unreplicated record has waited at most {FRESH_S} s.",
                q.fresh_ratio(),
                "percentunit",
                SHARE,
            ),
            stat(
                "Not OK",
                "Partitions with a status other than OK.",
                q.partitions_not_ok(),
                "short",
                none_wanted(),
            ),
            stat("Time lag", "How long the longest waiting record has waited.", q.lag_seconds_max(), "s", BEHIND),
            stat(
                "Records waiting",
                "Records produced to the source and not yet on the target.",
                q.lag_records_total(),
                "short",
                ((None, INFO),),
            ),
            stat(
                "Down",
                "Processes that cannot be scraped, streaming queries that have ended, clusters that do not respond.",
                q.out_of_order(),
                "short",
                none_wanted(),
            ),
            stat("Alerts", "Firing alerts of kafka-mirror.", q.alerts_firing(), "short", none_wanted()),
        ),
    )


def _flows() -> Row:
    """Return the row "Flows"."""
    return Row(
        "Flows",
        (
            lines(
                "Time lag",
                "How long the longest waiting record of each flow has waited.",
                "s",
                Query(q.lag_seconds_by_flow(), FLOW),
                steps=BEHIND,
            ),
            lines(
                "Records waiting",
                "Log-end offsets on the source minus replicated offsets.",
                "short",
                Query(q.lag_records_by_flow(), FLOW),
            ),
            lines(
                "Bytes copied",
                "Bytes of record batches written to the target, as compressed.",
                "Bps",
                Query(q.copied_bytes(), FLOW),
            ),
        ),
    )


def _each_flow() -> Row:
    """Return the row that repeats for each flow."""
    return Row(
        "Flow $flow",
        (
            lines(
                "Records in and copied",
                "Records per second: produced to the source, acknowledged by the target.",
                "cps",
                Query(q.produced(where=q.ONE_FLOW), "produced"),
                Query(q.copied(where=q.ONE_FLOW), "copied"),
            ),
            lines(
                "Replication latency",
                "Time from a record's timestamp to the target's acknowledgement. No value while no record is copied: compare it "
                "with the time lag.",
                "s",
                Query(q.latency_by_flow("p50", q.ONE_FLOW), "p50"),
                Query(q.latency_by_flow("p99", q.ONE_FLOW), "p99"),
            ),
            Panel(
                kind="stack",
                title="Partitions by status",
                unit="short",
                description="WARN: falling behind. UNKNOWN: no recent measurement. STOP: the flow reports nothing. "
                "STALL: no progress. REWIND: the position went back. LOST: records deleted before they were copied. "
                "ABSENT: not on the target.",
                queries=(Query(q.partitions_by_status(q.ONE_FLOW), "{{status}}"),),
            ),
        ),
        each_flow=True,
    )


def _upkeep() -> Row:
    """Return the row "Heartbeats, checkpoints and drift"."""
    return Row(
        "Heartbeats, checkpoints and drift",
        (
            lines(
                "Heartbeat age",
                "How long ago the target last acknowledged a heartbeat, which shows that it accepts writes even if there are "
                "no records to replicate.",
                "s",
                Query(q.heartbeat_age(), FLOW),
                may_be_empty=NO_HEARTBEAT,
            ),
            lines(
                "Checkpoint age",
                "How long ago the offsets of consumer groups were last translated.",
                "s",
                Query(q.checkpoint_age(), FLOW),
                may_be_empty=NO_GROUP,
            ),
            lines(
                "Drift",
                "Settings of remote topics that differ from the source topics', and missing ACLs.",
                "short",
                Query(q.settings_that_differ(), f"{FLOW} settings"),
                Query(q.acls_missing(), f"{FLOW} ACLs"),
                may_be_empty=NOT_COMPARED,
            ),
        ),
    )


def _where_to_look() -> Row:
    """Return the row "Where to look"."""
    return Row(
        "Where to look",
        (
            Panel(
                kind="table",
                title="The 20 partitions with the largest time lag",
                width=16,
                height=10,
                description="A topic links to its dashboard, a partition to the lag inspector.",
                queries=(
                    Query(q.worst_now("lag_seconds"), column="time lag", unit="s"),
                    Query(q.worst_now("lag_records"), column="records waiting", unit=COUNT),
                    Query(q.worst_now("partition_status"), column="status"),
                ),
            ),
            lines(
                "Retention headroom, the five shortest",
                "Time until the source may delete the first waiting record.",
                "s",
                Query(q.headroom(), TOPIC),
                may_be_empty=NO_DELETION,
            ),
        ),
    )
