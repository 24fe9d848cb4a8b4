"""Lay out the board that an on-call opens first."""

from __future__ import annotations

from dashboards import queries as q
from dashboards.boards.words import BEHIND, FLOW, NO_DELETION, NO_GROUP, NO_HEARTBEAT, NOT_COMPARED, SHARE, TOPIC
from dashboards.panels import COUNT, INFO, Board, Panel, Query, Row, lines, none_wanted, stat
from metrics.objective import FRESH_S


def overview() -> Board:
    """Return the board that an on-call opens first."""
    return Board(
        uid="kafka-mirror-overview",
        title="Kafka mirror: overview",
        question="Is anything behind, what, and since when?",
        rows=(_verdict(), _flows(), _each_flow(), _beside_the_records(), _where_to_look()),
    )


def _verdict() -> Row:
    """Return the row "Verdict"."""
    return Row(
        "Verdict",
        (
            Panel(
                kind="timeline",
                title="Flows",
                unit="short",
                width=24,
                height=5,
                description="The worst verdict of each flow's topic-partitions; UNKNOWN while nobody tells of it.",
                queries=(Query(q.worst_verdict_by_flow(), FLOW),),
            ),
            stat(
                "Fresh",
                f"Share of topic-partitions whose first unreplicated record waits no longer than {FRESH_S} s.",
                q.fresh_ratio(),
                "percentunit",
                SHARE,
            ),
            stat(
                "Not OK",
                "Topic-partitions with a verdict other than OK.",
                q.partitions_not_ok(),
                "short",
                none_wanted(),
            ),
            stat("Time lag", "How long the longest waiting record waits.", q.lag_seconds_max(), "s", BEHIND),
            stat(
                "Records waiting",
                "Produced at the source, not yet on the target.",
                q.lag_records_total(),
                "short",
                ((None, INFO),),
            ),
            stat(
                "Down",
                "Processes that cannot be scraped, streaming queries that have ended, clusters that do not answer.",
                q.out_of_order(),
                "short",
                none_wanted(),
            ),
            stat("Alerts", "Alerts of the mirror that fire now.", q.alerts_firing(), "short", none_wanted()),
        ),
    )


def _flows() -> Row:
    """Return the row "Flows"."""
    return Row(
        "Flows",
        (
            lines(
                "Time lag",
                "How long the longest waiting record of each flow waits.",
                "s",
                Query(q.lag_seconds_by_flow(), FLOW),
                steps=BEHIND,
            ),
            lines(
                "Records waiting",
                "Log ends at the source minus replicated offsets.",
                "short",
                Query(q.lag_records_by_flow(), FLOW),
            ),
            lines(
                "Bytes copied",
                "Record batches as written to the target, compressed as they are.",
                "Bps",
                Query(q.copied_bytes(), FLOW),
            ),
        ),
    )


def _each_flow() -> Row:
    """Return the row that is there once for each flow."""
    return Row(
        "Flow $flow",
        (
            lines(
                "Records in and copied",
                "Per second: produced at the source, acknowledged by the target.",
                "cps",
                Query(q.produced(where=q.ONE_FLOW), "produced"),
                Query(q.copied(where=q.ONE_FLOW), "copied"),
            ),
            lines(
                "Replication latency",
                "From a record's timestamp to the target's acknowledgement. Silent when "
                "nothing arrives: read it beside the time lag.",
                "s",
                Query(q.latency_by_flow("p50", q.ONE_FLOW), "p50"),
                Query(q.latency_by_flow("p99", q.ONE_FLOW), "p99"),
            ),
            Panel(
                kind="stack",
                title="Topic-partitions by verdict",
                unit="short",
                description="WARN falls behind, UNKNOWN nobody knows, STALL stands, STOP is silent, REWIND went back, "
                "LOST deleted, ABSENT not on the target.",
                queries=(Query(q.partitions_by_status(q.ONE_FLOW), "{{status}}"),),
            ),
        ),
        each_flow=True,
    )


def _beside_the_records() -> Row:
    """Return the row "Beside the records"."""
    return Row(
        "Beside the records",
        (
            lines(
                "Heartbeat age",
                "How long ago the target last took one: that it can be written to, also when nothing "
                "is to be mirrored.",
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
                "Settings of remote topics, and ACLs, that are not what the source's say.",
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
                title="The 20 topic-partitions that lag longest",
                width=16,
                height=10,
                description="A click on a topic opens its board; on a partition the lag inspector.",
                queries=(
                    Query(q.worst_now("lag_seconds", 20), column="time lag", unit="s"),
                    Query(q.worst_now("lag_records", 20), column="records waiting", unit=COUNT),
                    Query(q.worst_now("partition_status", 20), column="status"),
                ),
            ),
            lines(
                "Retention headroom, the five nearest",
                "Until the source may delete the first record that waits.",
                "s",
                Query(q.headroom(), TOPIC),
                may_be_empty=NO_DELETION,
            ),
        ),
    )
