"""Lay out the board to read before a fail-over."""

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
    """Return the board to read before a fail-over."""
    return Board(
        uid="kafka-mirror-failover",
        title="Kafka mirror: fail-over",
        question="If we fail over now, what is missing on the target, and which consumer groups may go?",
        variables=("topic", "group"),
        rows=(_source_gone(), _by_topic(), _groups(), _by_group(), _drills(), _ledger()),
    )


def _source_gone() -> Row:
    """Return the row "If the source were gone now"."""
    return Row(
        "If the source were gone now",
        (
            Panel(
                kind="stat",
                title="May we go?",
                unit="short",
                width=24,
                height=4,
                description="The worst answer of the flows shown. kafka-mirror failover-check FILE says why, and "
                "what it would cost.",
                queries=(Query(q.failover_answer()),),
                steps=((None, BAD), (1, WARN), (2, GOOD)),
                words=((0, "NO", BAD), (1, "GO WITH LOSS", WARN), (2, "GO", GOOD)),
            ),
            stat(
                "Seconds missing", "The longest waiting record of all topics.", q.lag_seconds_max(q.TOPIC), "s", BEHIND
            ),
            stat(
                "Records missing",
                "Produced at the source, not on the target.",
                q.lag_records_total(q.TOPIC),
                "short",
                ((None, GOOD), (1, WARN)),
            ),
            stat(
                "Topics behind",
                f"Topics with a record that waits longer than {FRESH_S} s.",
                q.topics_behind(),
                "short",
                none_wanted(),
            ),
            stat(
                "Lost for good",
                "Records that retention deleted before they were copied, in the time shown.",
                q.lost(where=q.TOPIC),
                "short",
                none_wanted(),
            ),
            stat(
                "Age of these numbers",
                "When offsets were last read: older than a minute, do not trust them.",
                f"max({q.poll_age()})",
                "s",
                BEHIND,
            ),
            stat("Clusters down", "Clusters that do not answer the mirror.", q.clusters_down(), "short", none_wanted()),
        ),
    )


def _by_topic() -> Row:
    """Return the row "By topic"."""
    return Row(
        "By topic",
        (
            Panel(
                kind="table",
                title="What is missing",
                width=24,
                height=10,
                description="Seconds and records missing by topic, and how old its newest record on the target is.",
                queries=(
                    Query(q.lag_seconds_by_topic(), column="time missing", unit="s"),
                    Query(q.lag_records_by_topic(), column="records missing", unit=COUNT),
                    Query(q.silence_by_topic(), column="age of the newest record", unit="s"),
                ),
            ),
            lines(
                "Time missing, the five worst",
                "By topic.",
                "s",
                Query(q.worst_topics(LAG_SECONDS), TOPIC),
                width=12,
                steps=BEHIND,
            ),
            lines(
                "Records missing, the five worst",
                "By topic.",
                "short",
                Query(q.worst_topics(LAG, joined="sum"), TOPIC),
                width=12,
            ),
        ),
    )


def _groups() -> Row:
    """Return the row "May the groups fail over now"."""
    return Row(
        "May the groups fail over now",
        (
            stat(
                "Oldest checkpoint",
                "How long ago a group's offsets were last translated: what it read since, it reads again.",
                f"max({q.checkpoint_age(where=q.GROUP)})",
                "s",
                CHECKPOINT,
                may_be_empty=NO_GROUP,
            ),
            stat(
                "Cannot fail over",
                "Topic-partitions on which a group has no offset to go on from on the target.",
                f"sum({q.cannot_fail_over()})",
                "short",
                none_wanted(),
                may_be_empty=NO_GROUP,
            ),
            stat(
                "Read again",
                "Records that all groups together would have read again, just before the last checkpoint.",
                f"sum({q.reread()})",
                "short",
                ((None, INFO),),
                may_be_empty=NO_GROUP,
            ),
            stat(
                "Failed rounds",
                "Rounds of checkpoints that failed, in the time shown.",
                f"sum({q.checkpoints('checkpoint_errors_total', '$__range')})",
                "short",
                none_wanted(WARN),
                may_be_empty=NO_CHECKPOINT,
            ),
            stat(
                "ACLs missing",
                "ACLs of source topics that clients will not find on the target.",
                f"sum({q.acls_missing()})",
                "short",
                none_wanted(WARN),
                may_be_empty=NOT_COMPARED,
            ),
            stat(
                "Settings that differ",
                "Of remote topics, from what the source's say they should be.",
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
                description="How old a group's checkpoint is, its topic-partitions, those with no way to go on, and "
                "what it would read again.",
                queries=(
                    Query(q.checkpoint_age(q.BY_GROUP, q.GROUP), column="age of the checkpoint", unit="s"),
                    Query(q.followed(), column="topic-partitions", unit=COUNT),
                    Query(q.cannot_fail_over(), column="cannot fail over", unit=COUNT),
                    Query(q.reread(), column="records read again", unit=COUNT),
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
                "Topic-partitions by what became of the group's offset, where it is neither translated nor synced.",
                "short",
                Query(q.not_synced(), f"{GROUP} {{{{state}}}}"),
                may_be_empty="every offset is translated or synced",
            ),
            lines(
                "Read again, the five most",
                "Records that the group would have read again, just before its last checkpoint.",
                "short",
                Query(q.worst_groups("failover_reread_records"), GROUP),
                may_be_empty=NO_GROUP,
            ),
            lines(
                "Checkpoint latency, the five slowest",
                "From reading the groups' offsets to the target's "
                "acknowledgement, the slowest topic-partition of each group.",
                "ms",
                Query(q.worst_groups("checkpoint_latency_ms"), GROUP),
                width=12,
                may_be_empty=NO_GROUP,
            ),
            lines(
                "Checkpoints",
                "Written because a group's offset had changed, rounds that failed, and records that "
                "somebody else wrote into the flow's own topics.",
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
                "Whether it came to its end with each record read once; the worst of the flows shown.",
                f"min({q.of('drill_passed')})",
                "short",
                ((None, BAD), (1, GOOD)),
                may_be_empty=NO_DRILL,
                words=((0, "FAILED", BAD), (1, "PASSED", GOOD)),
            ),
            stat(
                "Last one that passed",
                "How long ago; the longest of the flows shown.",
                f"time() - min({q.of('drill_last_success_timestamp_seconds')})",
                "s",
                ((None, INFO),),
                may_be_empty=NO_DRILL,
            ),
            stat(
                "RPO",
                "The most records that the source would have taken with it, under the drill's load.",
                f"max({q.of('drill_rpo_records')})",
                "short",
                ((None, INFO),),
                may_be_empty=NO_DRILL,
            ),
            stat(
                "RTO",
                "From the fence until the drill's group read on the target what was written there.",
                f"max({q.of('drill_rto_seconds')})",
                "s",
                ((None, INFO),),
                may_be_empty=NO_DRILL,
            ),
            lines(
                "Steps of the drill",
                "How long each took, over and back.",
                "s",
                Query(q.drill_steps(), f"{FLOW} {{{{run}}}} {{{{step}}}}"),
                may_be_empty=NO_DRILL,
            ),
        ),
    )


def _ledger() -> Row:
    """Return the row "Ledger of gaps"."""
    return Row(
        "Ledger of gaps",
        (
            Panel(
                kind="table",
                title="What was ever lost, skipped, repeated, kept or refused",
                width=16,
                height=8,
                description="Ranges of records in the flows' ledgers since those were begun. kafka-mirror gaps FILE 'A->B' "
                "prints each with its cause and time.",
                queries=(
                    Query(q.gaps(), column="gaps", unit=COUNT),
                    Query(q.gap_offsets(), column="offsets that are known", unit=COUNT),
                ),
                may_be_empty=NO_LEDGER,
            ),
            stat(
                "Last gap",
                "How long ago it was found; the newest of the flows shown.",
                f"time() - max({q.of('last_gap_timestamp_seconds')})",
                "s",
                ((None, INFO),),
                may_be_empty=NO_GAP,
            ),
        ),
    )
