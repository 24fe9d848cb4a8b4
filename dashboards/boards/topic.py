"""Lay out the dashboard of one or more topics."""

from __future__ import annotations

from dashboards import queries as q
from dashboards.boards.words import BEHIND, HEADROOM, NO_DELETION, NOT_COMPARED, PARTITION, TOPIC
from dashboards.panels import INFO, WARN, Board, Panel, Query, Row, lines, none_wanted, stat


def topic() -> Board:
    """Return the dashboard of one or more topics."""
    return Board(
        uid="kafka-mirror-topic",
        title="Kafka mirror: topic",
        question="How is this topic replicated, partition by partition?",
        variables=("topic", "partition"),
        chosen=("topic",),
        rows=(_now(), _lag_and_rate(), _latency(), _partitions_and_settings()),
    )


def _now() -> Row:
    """Return the row "Now"."""
    return Row(
        "Now",
        (
            stat(
                "Time lag",
                "How long the longest waiting record has waited.",
                q.lag_seconds_max(q.PARTITION),
                "s",
                BEHIND,
            ),
            stat(
                "Records waiting",
                "Records not yet on the target.",
                q.lag_records_total(q.PARTITION),
                "short",
                ((None, INFO),),
            ),
            stat("Paused", "Partitions that are paused after an error.", q.paused(), "short", none_wanted()),
            stat(
                "Lost",
                "Records that retention deleted before they were copied, in the time range.",
                q.lost(q.PARTITION),
                "short",
                none_wanted(),
            ),
            stat(
                "Rewinds",
                "Positions that were reset because a log was truncated or a topic created again, in the time range.",
                q.rewinds(q.PARTITION),
                "short",
                none_wanted(WARN),
            ),
            stat(
                "Headroom",
                "Time until the source may delete the first waiting record.",
                f"min({q.headroom_by_topic()})",
                "s",
                HEADROOM,
                may_be_empty=NO_DELETION,
            ),
        ),
    )


def _lag_and_rate() -> Row:
    """Return the row "Lag and rate"."""
    return Row(
        "Lag and rate",
        (
            lines(
                "Time lag, the five worst",
                "How long the first unreplicated record has waited.",
                "s",
                Query(q.worst(q.of("lag_seconds", q.PARTITION), 5), PARTITION),
                steps=BEHIND,
            ),
            lines(
                "Records waiting, the five worst",
                "Log-end offset on the source minus replicated offset.",
                "short",
                Query(q.worst(q.of("lag_records", q.PARTITION), 5), PARTITION),
            ),
            lines(
                "Time to catch up",
                "Time until lag 0 at the present rates; no value while the topic is not catching up.",
                "s",
                Query(q.catch_up_seconds(), TOPIC),
                may_be_empty="no topic is catching up",
            ),
            lines(
                "Records in and copied",
                "Records per second: produced to the source, acknowledged by the target.",
                "cps",
                Query(q.produced("topic", q.TOPIC), f"{TOPIC} produced"),
                Query(q.copied("topic", q.TOPIC), f"{TOPIC} copied"),
            ),
            lines(
                "Bytes copied",
                "Bytes per second of record batches written to the target.",
                "Bps",
                Query(q.copied_bytes("topic", q.TOPIC), TOPIC),
            ),
            lines(
                "Retention headroom",
                "Time until the source may delete the first waiting record.",
                "s",
                Query(q.headroom_by_topic(), TOPIC),
                may_be_empty=NO_DELETION,
            ),
        ),
    )


def _band(title: str, about: str, measure: str) -> Panel:
    """Return the panel of a measure's smallest, average and largest values."""
    queries = (Query(q.band(measure, part), part) for part in ("min", "avg", "max"))
    return lines(title, about, "ms", *queries, may_be_empty="no record was copied recently")


def _latency() -> Row:
    """Return the row "Latency"."""
    return Row(
        "Latency",
        (
            _band(
                "Age when read",
                "MirrorMaker's record-age-ms of the last windows: smallest, average, largest.",
                "record_age_ms",
            ),
            _band(
                "Latency when acknowledged",
                "MirrorMaker's replication-latency-ms of the last windows: smallest, average, largest.",
                "replication_latency_ms",
            ),
            Panel(
                kind="heatmap",
                title="Latency of records",
                unit="s",
                description="Records per second by replication latency.",
                queries=(Query(q.heat("replication_latency_seconds"), "{{le}}"),),
            ),
        ),
    )


def _partitions_and_settings() -> Row:
    """Return the row "Partitions and settings"."""
    return Row(
        "Partitions and settings",
        (
            Panel(
                kind="statuses",
                title="Status of each partition",
                unit="short",
                width=16,
                description="The 20 worst: 1 OK, 2 WARN, 3 UNKNOWN, 4 STOP, 5 STALL, 6 REWIND, 7 LOST, 8 ABSENT.",
                queries=(Query(q.status_of_partitions(), PARTITION),),
            ),
            lines(
                "Settings that differ",
                "Settings of the remote topic that differ from the source topic's.",
                "short",
                Query(q.settings_that_differ("topic", q.TOPIC), TOPIC),
                may_be_empty=NOT_COMPARED,
            ),
        ),
    )
