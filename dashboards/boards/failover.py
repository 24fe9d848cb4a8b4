"""Lay out the dashboard to read before a failover."""

from __future__ import annotations

from dashboards import queries as q
from dashboards.boards.words import (
    BEHIND,
    CHECKPOINT,
    FLOW,
    GROUP,
    NO_CHECKPOINT,
    NO_DRILL,
    NO_GAP,
    NO_GROUP,
    NO_LEDGER,
    NOT_COMPARED,
    TOPIC,
)
from dashboards.panels import BAD, COUNT, GOOD, INFO, WARN, Board, Panel, Query, Row, lines, none_wanted, stat
from dashboards.recording import LAG, LAG_SECONDS
from metrics.objective import FRESH_S


def failover() -> Board:
    """Return the dashboard to read before a failover."""
    return Board(
        uid="kafka-mirror-failover",
        title="Kafka mirror: failover",
        question="How many records would a failover lose now, and which consumer groups can resume?",
        variables=("topic", "group"),
        rows=(_source_gone(), _by_topic(), _groups(), _by_group(), _drills(), _ledger()),
    )


def _source_gone() -> Row:
    """Return the row "Can the flows fail over now?"."""
    return Row(
        "Can the flows fail over now?",
        (
            Panel(
                kind="stat",
                title="Planned switch",
                unit="short",
                width=8,
                height=4,
                description="Whether a planned switch of every flow shown can start now. It loses nothing. kafka-mirror "
                "failover-check FILE prints what blocks it, and how long it takes.",
                queries=(Query(q.switch_ready()),),
                steps=((None, BAD), (1, GOOD)),
                words=((0, "NOT READY", BAD), (1, "READY", GOOD)),
            ),
            Panel(
                kind="stat",
                title="Loss if the source is lost now",
                unit="short",
                width=8,
                height=4,
                description="Whether the records that the target lacks have waited for no longer than "
                "mirror.rpo.objective.seconds, in every flow shown. No data: the loss is unknown.",
                queries=(Query(q.within_objective()),),
                steps=((None, BAD), (1, GOOD)),
                words=((0, "BEYOND OBJECTIVE", BAD), (1, "WITHIN OBJECTIVE", GOOD)),
            ),
            Panel(
                kind="stat",
                title="Failover check",
                unit="short",
                width=8,
                height=4,
                description="Both answers in one: GO (ready, and within the objective), GO WITH LOSS (the loss is beyond the "
                "objective or unknown), NO (not ready, or a group cannot resume). The worst of the flows shown.",
                queries=(Query(q.failover_answer()),),
                steps=((None, BAD), (1, WARN), (2, GOOD)),
                words=((0, "NO", BAD), (1, "GO WITH LOSS", WARN), (2, "GO", GOOD)),
            ),
            stat(
                "Time missing",
                "How long the longest waiting record has waited.",
                q.lag_seconds_max(q.TOPIC),
                "s",
                BEHIND,
            ),
            stat(
                "Records missing",
                "Records produced to the source and not on the target.",
                q.lag_records_total(q.TOPIC),
                "short",
                ((None, INFO),),  # under live traffic some records are always in flight
            ),
            stat(
                "Lagging topics",
                f"Topics with a record that has waited longer than {FRESH_S} s.",
                q.topics_behind(),
                "short",
                none_wanted(),
            ),
            stat(
                "Lost for good",
                "Records that retention deleted before they were copied, in the time range.",
                q.lost(q.TOPIC),
                "short",
                none_wanted(),
            ),
            stat(
                "Age of these values",
                "How long ago offsets were last read. Do not rely on values older than a minute.",
                f"max({q.poll_age()})",
                "s",
                BEHIND,
            ),
            stat("Clusters down", "Clusters that do not respond.", q.clusters_down(), "short", none_wanted()),
        ),
    )


def _by_topic() -> Row:
    """Return the row "By topic"."""
    return Row(
        "By topic",
        (
            Panel(
                kind="table",
                title="Missing on the target",
                width=24,
                height=10,
                description="For each topic: time lag, missing records, and the age of the newest record on the target.",
                queries=(
                    Query(q.lag_seconds_by_topic(), column="time missing", unit="s"),
                    Query(q.lag_records_by_topic(), column="records missing", unit=COUNT),
                    Query(q.silence_by_topic(), column="age of the newest record", unit="s"),
                ),
            ),
            lines(
                "Time missing, the five worst",
                "How long the first unreplicated record has waited, by topic.",
                "s",
                Query(q.worst_topics(LAG_SECONDS), TOPIC),
                width=12,
                steps=BEHIND,
            ),
            lines(
                "Records missing, the five worst",
                "Records not on the target, by topic.",
                "short",
                Query(q.worst_topics(LAG, joined="sum"), TOPIC),
                width=12,
            ),
        ),
    )


def _groups() -> Row:
    """Return the row "Failover of consumer groups"."""
    return Row(
        "Failover of consumer groups",
        (
            stat(
                "Oldest checkpoint",
                "Time since a group's offsets were last translated. After a failover, the group re-reads the records read since.",
                f"max({q.checkpoint_age(where=q.GROUP)})",
                "s",
                CHECKPOINT,
                may_be_empty=NO_GROUP,
            ),
            stat(
                "Cannot fail over",
                "Partitions on which a group has no offset to resume from on the target.",
                f"sum({q.cannot_fail_over()})",
                "short",
                none_wanted(),
                may_be_empty=NO_GROUP,
            ),
            stat(
                "Would re-read",
                "Records that all groups together would have re-read after a failover just before the last checkpoint.",
                f"sum({q.reread()})",
                "short",
                ((None, INFO),),
                may_be_empty=NO_GROUP,
            ),
            stat(
                "Failed rounds",
                "Rounds of checkpoints that failed, in the time range.",
                f"sum({q.checkpoints('checkpoint_errors_total', '$__range')})",
                "short",
                none_wanted(WARN),
                may_be_empty=NO_CHECKPOINT,
            ),
            stat(
                "ACLs missing",
                "ACLs of source topics that the target's topics lack.",
                f"sum({q.acls_missing()})",
                "short",
                none_wanted(WARN),
                may_be_empty=NOT_COMPARED,
            ),
            stat(
                "Settings that differ",
                "Settings of remote topics that differ from the source topics'.",
                f"sum({q.settings_that_differ(where=q.TOPIC)})",
                "short",
                none_wanted(WARN),
                may_be_empty=NOT_COMPARED,
            ),
        ),
    )


def _by_group() -> Row:
    """Return the row "By group"."""
    return Row(
        "By group",
        (
            Panel(
                kind="table",
                title="Consumer groups",
                width=24,
                height=10,
                description="Age of each group's checkpoint, its partitions, those without an offset to resume from, and the "
                "records that it would re-read.",
                queries=(
                    Query(q.checkpoint_age(q.BY_GROUP, q.GROUP), column="age of the checkpoint", unit="s"),
                    Query(q.followed(), column="partitions", unit=COUNT),
                    Query(q.cannot_fail_over(), column="cannot fail over", unit=COUNT),
                    Query(q.reread(), column="records to re-read", unit=COUNT),
                ),
                may_be_empty=NO_GROUP,
            ),
            lines(
                "Checkpoint age, the five oldest",
                "How long ago the group's offsets were last translated.",
                "s",
                Query(q.oldest_checkpoints(), GROUP),
                steps=CHECKPOINT,
                may_be_empty=NO_GROUP,
            ),
            lines(
                "Offsets that are not synced",
                "Partitions whose group offset is neither translated nor synced, by state of the offset.",
                "short",
                Query(q.not_synced(), f"{GROUP} {{{{state}}}}"),
                may_be_empty="every offset is translated or synced",
            ),
            lines(
                "Would re-read, the five most",
                "Records that the group would have re-read after a failover just before its last checkpoint.",
                "short",
                Query(q.worst_groups("failover_reread_records"), GROUP),
                may_be_empty=NO_GROUP,
            ),
            lines(
                "Checkpoint latency, the five slowest",
                "Time from reading the groups' offsets to the target's acknowledgement, for the slowest partition of each group.",
                "ms",
                Query(q.worst_groups("checkpoint_latency_ms"), GROUP),
                width=12,
                may_be_empty=NO_GROUP,
            ),
            lines(
                "Checkpoints",
                "Checkpoints that were written because a group's offset had changed, failed rounds, and records in the flow's "
                "own topics that another program wrote.",
                "short",
                Query(q.checkpoints("checkpoints_total"), f"{FLOW} written"),
                Query(q.checkpoints("checkpoint_errors_total"), f"{FLOW} failed rounds"),
                Query(q.checkpoints("foreign_records_total"), f"{FLOW} foreign records"),
                width=12,
                may_be_empty=NO_CHECKPOINT,
            ),
        ),
    )


def _drills() -> Row:
    """Return the row "Drills"."""
    return Row(
        "Drills",
        (
            stat(
                "Last drill",
                "Whether the last drill completed with each record read once; the worst of the flows shown.",
                f"min({q.of('drill_passed')})",
                "short",
                ((None, BAD), (1, GOOD)),
                may_be_empty=NO_DRILL,
                words=((0, "FAILED", BAD), (1, "PASSED", GOOD)),
            ),
            stat(
                "Last passed drill",
                "How long ago the last passed drill ended; the longest of the flows shown.",
                f"time() - min({q.of('drill_last_success_timestamp_seconds')})",
                "s",
                ((None, INFO),),
                may_be_empty=NO_DRILL,
            ),
            stat(
                "RPO in records",
                "Largest number of the drill's records that the target lacked at once: lost if the source had failed then.",
                f"max({q.of('drill_rpo_records')})",
                "short",
                ((None, INFO),),
                may_be_empty=NO_DRILL,
            ),
            stat(
                "RTO",
                "Time from the fence until the drill's group read a record on the target that was written there.",
                f"max({q.of('drill_rto_seconds')})",
                "s",
                ((None, INFO),),
                may_be_empty=NO_DRILL,
            ),
            lines(
                "Steps of the drill",
                "Duration of each step of the last drill, by run (switch, switch-back).",
                "s",
                Query(q.drill_steps(), f"{FLOW} {{{{run}}}} {{{{step}}}}"),
                may_be_empty=NO_DRILL,
            ),
        ),
    )


def _ledger() -> Row:
    """Return the row "Gap ledger"."""
    return Row(
        "Gap ledger",
        (
            Panel(
                kind="table",
                title="Records lost, skipped, repeated, kept or refused",
                width=16,
                height=8,
                description="All entries of the flows' gap ledgers. kafka-mirror gaps FILE 'A->B' prints each with its cause and "
                "time.",
                queries=(
                    Query(q.gaps(), column="gaps", unit=COUNT),
                    Query(q.gap_offsets(), column="known offsets", unit=COUNT),
                ),
                may_be_empty=NO_LEDGER,
            ),
            stat(
                "Last gap",
                "How long ago the last gap was found; the newest of the flows shown.",
                f"time() - max({q.of('last_gap_timestamp_seconds')})",
                "s",
                ((None, INFO),),
                may_be_empty=NO_GAP,
            ),
        ),
    )
