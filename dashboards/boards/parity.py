"""Lay out the dashboard for users of MirrorMaker 2."""

from __future__ import annotations

from dashboards import queries as q
from dashboards.boards.words import FLOW, NO_GROUP, TOPIC
from dashboards.panels import INFO, Board, Panel, Query, Row, lines, stat
from dashboards.recording import LAG


def parity() -> Board:
    """Return the dashboard for users of MirrorMaker 2: its metrics in its order."""
    return Board(
        uid="kafka-mirror-mm2",
        title="Kafka mirror: as MirrorMaker 2",
        question="Where are the metrics of my MirrorMaker 2 dashboard?",
        variables=("topic",),
        rows=(_mirrormaker(), _tasks()),
    )


def _mirrormaker() -> Row:
    """Return the row "As MirrorMaker 2 shows it"."""
    return Row(
        "As MirrorMaker 2 shows it",
        (
            stat(
                "Total record rate",
                "MirrorMaker's record-rate, all topics.",
                f"sum({q.of('record_rate', q.TOPIC)})",
                "cps",
                ((None, INFO),),
            ),
            stat(
                "Total byte rate",
                "MirrorMaker's byte-rate, all topics; of complete batches, as compressed.",
                f"sum({q.of('byte_rate', q.TOPIC)})",
                "Bps",
                ((None, INFO),),
            ),
            stat(
                "Record count",
                "MirrorMaker's record-count, in the time range.",
                f"sum(increase({q.of('record_count_total', q.TOPIC)}[$__range]))",
                "short",
                ((None, INFO),),
            ),
            stat(
                "Consumer lag",
                "Waiting records; in MirrorMaker the lag of its consumer.",
                f"sum({q.of('lag_records', q.TOPIC)})",
                "short",
                ((None, INFO),),
            ),
            stat(
                "Replication latency",
                "MirrorMaker's replication-latency-ms, the largest of the last windows.",
                f"max({q.of('replication_latency_ms', q.TOPIC)})",
                "ms",
                ((None, INFO),),
            ),
            stat(
                "Record age",
                "MirrorMaker's record-age-ms, the largest of the last windows.",
                f"max({q.of('record_age_ms', q.TOPIC)})",
                "ms",
                ((None, INFO),),
            ),
            lines(
                "Consumer Lag",
                "Waiting records, the five worst topics.",
                "short",
                Query(q.worst_topics(LAG, joined="sum"), TOPIC),
                width=12,
            ),
            lines(
                "Bytes per second",
                "Bytes copied per second, by topic.",
                "Bps",
                Query(q.copied_bytes("topic", q.TOPIC), TOPIC),
                width=12,
            ),
            _spread("Record Age", "record_age_ms"),
            _spread("Replication Latency", "replication_latency_ms"),
            _table(
                "Consumer Group Offset Sync Latency",
                "checkpoint_latency_ms",
                "of changed checkpoints, by group and partition",
                f"{q.BY_GROUP}, topic, partition",
                {"": "last", "_avg": "average", "_min": "smallest", "_max": "largest"},
                NO_GROUP,
            ),
        ),
    )


def _tasks() -> Row:
    """Return the row "As Connect shows its tasks"."""
    return Row(
        "As Connect shows its tasks",
        (
            lines(
                "Polled and written",
                "Connect's source-record-poll-rate and source-record-write-rate. A task is a slot.",
                "cps",
                Query(q.of_slots("slot_poll_rate"), f"{FLOW} slot {{{{slot}}}} polled"),
                Query(q.of_slots("slot_write_rate"), f"{FLOW} slot {{{{slot}}}} written"),
            ),
            lines(
                "Active records",
                "Connect's source-record-active-count: records read and not acknowledged when the last window ended.",
                "short",
                Query(q.of_slots("read_ahead_records"), f"{FLOW} slot {{{{slot}}}}"),
            ),
            lines(
                "Time of polls",
                "Connect's poll-batch-avg-time-ms and -max-time-ms: of fetches that returned records, waiting included.",
                "ms",
                Query(q.of_slots("slot_poll_ms_avg"), f"{FLOW} slot {{{{slot}}}} average"),
                Query(q.of_slots("slot_poll_ms_max"), f"{FLOW} slot {{{{slot}}}} longest"),
                may_be_empty="no record was read recently",
            ),
        ),
    )


def _table(title: str, short: str, of_what: str, by: str, parts: dict[str, str], may_be_empty: str) -> Panel:
    """Return the table of a measure, with one column per part of the measure."""
    return Panel(
        kind="table",
        title=title,
        width=24,
        description=f"MirrorMaker's {short.replace('_', '-')} {of_what}: the 20 largest.",
        queries=tuple(
            Query(q.worst_now(short + part, by=by, ranked=short, where=q.TOPIC), column=column, unit="ms")
            for part, column in parts.items()
        ),
        may_be_empty=may_be_empty,
    )


def _spread(title: str, short: str) -> Panel:
    """Return the table of a measure by partition."""
    columns = {"": "last", "_avg": "average", "_min": "smallest", "_max": "largest"}
    return _table(title, short, "by partition", q.BY_PARTITION, columns, "no record was copied recently")
