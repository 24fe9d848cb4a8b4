"""The boards: few, linked, one question each. Only layout and words here; the queries are in dashboards/queries.py."""

from __future__ import annotations

from dashboards import queries as q
from dashboards.alerts import CHECKPOINT_STALE_S
from dashboards.panels import BAD, COUNT, GOOD, INFO, WARN, Board, Panel, Query, Row, lines, none_wanted, stat
from dashboards.recording import LAG, LAG_SECONDS
from metrics.objective import FRESH_S, OBJECTIVE

BEHIND = ((None, GOOD), (30.0, WARN), (float(FRESH_S), BAD))
SHARE = ((None, BAD), (0.99, WARN), (OBJECTIVE, GOOD))
CHECKPOINT = ((None, GOOD), (120.0, WARN), (float(CHECKPOINT_STALE_S), BAD))
HEADROOM = ((None, BAD), (1800.0, WARN), (7200.0, GOOD))
FLOW = "{{source}}->{{target}}"
GROUP = f"{FLOW} {{{{group}}}}"
TOPIC = "{{topic}}"
PARTITION = "{{topic}}-{{partition}}"
NO_DELETION = "topics whose retention deletes nothing have no headroom"
NO_ALERT = "nothing fires while all is well"
NO_GROUP = "no consumer group of the source has offsets on a mirrored topic"
NO_CHECKPOINT = "none are made with emit.checkpoints.enabled = false"
NOT_COMPARED = "nothing was compared yet"
NO_HEARTBEAT = "none are written with emit.heartbeats.enabled = false"


def boards() -> tuple[Board, ...]:
    """Return all boards, the one to open first first."""
    return overview(), topic(), failover(), engine(), slo(), parity()


def overview() -> Board:
    """Return the board that an on-call opens first."""
    return Board(
        uid="kafka-mirror-overview",
        title="Kafka mirror: overview",
        question="Is anything behind, what, and since when?",
        rows=(
            Row(
                "Verdict",
                (
                    Panel(kind="timeline", title="Flows", unit="short", width=24, height=5,
                          description="The worst verdict of each flow's topic-partitions; UNKNOWN while nobody tells of it.",
                          queries=(Query(q.worst_verdict_by_flow(), FLOW),)),
                    stat(
                        "Fresh", f"Share of topic-partitions whose first unreplicated record waits no longer than {FRESH_S} s.",
                        q.fresh_ratio(), "percentunit", SHARE,
                    ),
                    stat("Not OK", "Topic-partitions with a verdict other than OK.", q.partitions_not_ok(), "short",
                         none_wanted()),
                    stat("Time lag", "How long the longest waiting record waits.", q.lag_seconds_max(), "s", BEHIND),
                    stat("Records waiting", "Produced at the source, not yet on the target.", q.lag_records_total(), "short",
                         ((None, INFO),)),
                    stat("Down", "Processes that cannot be scraped, streaming queries that have ended, clusters that do not "
                         "answer.", q.out_of_order(), "short", none_wanted()),
                    stat("Alerts", "Alerts of the mirror that fire now.", q.alerts_firing(), "short", none_wanted()),
                ),
            ),
            Row(
                "Flows",
                (
                    lines("Time lag", "How long the longest waiting record of each flow waits.", "s",
                          Query(q.lag_seconds_by_flow(), FLOW), steps=BEHIND),
                    lines("Records waiting", "Log ends at the source minus replicated offsets.", "short",
                          Query(q.lag_records_by_flow(), FLOW)),
                    Panel(kind="stack", title="Topic-partitions by verdict", unit="short",
                          description="WARN falls behind, UNKNOWN nobody knows, STALL stands, STOP is silent, REWIND went back, "
                          "LOST deleted.",
                          queries=(Query(q.partitions_by_status(), "{{status}}"),)),
                    lines("Records in and copied", "Per second: produced at the source, acknowledged by the target.", "cps",
                          Query(q.produced(), f"{FLOW} produced"), Query(q.copied(), f"{FLOW} copied")),
                    lines("Bytes copied", "Record batches as written to the target, compressed as they are.", "Bps",
                          Query(q.copied_bytes(), FLOW)),
                    lines("Replication latency", "From a record's timestamp to the target's acknowledgement. Silent when "
                          "nothing arrives: read it beside the time lag.", "s",
                          Query(q.latency_by_flow("p50"), f"{FLOW} p50"), Query(q.latency_by_flow("p99"), f"{FLOW} p99")),
                ),
            ),
            Row(
                "Beside the records",
                (
                    lines("Heartbeat age", "How long ago the target last took one: that it can be written to, also when nothing "
                          "is to be mirrored.", "s", Query(q.heartbeat_age(), FLOW), may_be_empty=NO_HEARTBEAT),
                    lines("Checkpoint age", "How long ago the offsets of consumer groups were last translated.", "s",
                          Query(q.checkpoint_age(), FLOW), may_be_empty=NO_GROUP),
                    lines("Drift", "Settings of remote topics, and ACLs, that are not what the source's say.", "short",
                          Query(q.settings_that_differ(), f"{FLOW} settings"), Query(q.acls_missing(), f"{FLOW} ACLs"),
                          may_be_empty=NOT_COMPARED),
                ),
            ),
            Row(
                "Where to look",
                (
                    Panel(kind="table", title="The 20 topic-partitions that lag longest", width=16, height=10,
                          description="A click on a topic opens its board; on a partition the lag inspector.",
                          queries=(Query(q.worst_now("lag_seconds", 20), column="time lag", unit="s"),
                                   Query(q.worst_now("lag_records", 20), column="records waiting", unit=COUNT),
                                   Query(q.worst_now("partition_status", 20), column="status"))),
                    lines("Retention headroom, the five nearest", "Until the source may delete the first record that waits.", "s",
                          Query(q.headroom(), TOPIC), may_be_empty=NO_DELETION),
                ),
            ),
        ),
    )  # fmt: skip


def topic() -> Board:
    """Return the board of one or more topics."""
    return Board(
        uid="kafka-mirror-topic",
        title="Kafka mirror: topic",
        question="What happens in this topic, partition by partition?",
        variables=("topic", "partition"),
        chosen=("topic",),
        rows=(
            Row(
                "Now",
                (
                    stat("Time lag", "How long the longest waiting record waits.", q.lag_seconds_max(q.PARTITION), "s", BEHIND),
                    stat("Records waiting", "Not yet on the target.", q.lag_records_total(q.PARTITION), "short", ((None, INFO),)),
                    stat("Paused", "Topic-partitions that rest after an error.", q.paused(), "short", none_wanted()),
                    stat("Lost", "Records that retention deleted before they were copied, in the time shown.",
                         q.lost(where=q.PARTITION), "short", none_wanted()),
                    stat("Rewinds", "Positions that had to move, in the time shown.", q.rewinds(q.PARTITION), "short",
                         none_wanted(WARN)),
                    stat("Headroom", "How long until the source may delete the first record that waits.",
                         f"min({q.headroom_by_topic()})", "s", HEADROOM, may_be_empty=NO_DELETION),
                ),
            ),
            Row(
                "Lag and rate",
                (
                    lines("Time lag, the five worst", "Now minus the timestamp of the first record that is not replicated.", "s",
                          Query(q.worst(q.of("lag_seconds", q.PARTITION), 5), PARTITION), steps=BEHIND),
                    lines("Records waiting, the five worst", "Source log end minus replicated offset.", "short",
                          Query(q.worst(q.of("lag_records", q.PARTITION), 5), PARTITION)),
                    lines("Time to catch up", "At the present rates; a gap where the topic is not catching up.", "s",
                          Query(q.catch_up_seconds(), TOPIC), may_be_empty="level topics need not catch up"),
                    lines("Records in and copied", "Per second.", "cps",
                          Query(q.produced("topic", q.TOPIC), f"{TOPIC} produced"),
                          Query(q.copied("topic", q.TOPIC), f"{TOPIC} copied")),
                    lines("Bytes copied", "Record batches as written to the target.", "Bps",
                          Query(q.copied_bytes("topic", q.TOPIC), TOPIC)),
                    lines("Retention headroom", "How long until the source may delete the first record that waits.", "s",
                          Query(q.headroom_by_topic(), TOPIC), may_be_empty=NO_DELETION),
                ),
            ),
            Row(
                "Latency",
                (
                    lines("Age when read", "MirrorMaker's record-age-ms of the last windows: smallest, average, largest.", "ms",
                          Query(q.band("record_age_ms", "min"), "min"), Query(q.band("record_age_ms", "avg"), "avg"),
                          Query(q.band("record_age_ms", "max"), "max"), may_be_empty="nothing was copied lately"),
                    lines("Latency when acknowledged", "MirrorMaker's replication-latency-ms of the last windows.", "ms",
                          Query(q.band("replication_latency_ms", "min"), "min"),
                          Query(q.band("replication_latency_ms", "avg"), "avg"),
                          Query(q.band("replication_latency_ms", "max"), "max"), may_be_empty="nothing was copied lately"),
                    Panel(kind="heatmap", title="Latency of records", unit="s",
                          description="How many records a second arrive with which latency.",
                          queries=(Query(q.heat("replication_latency_seconds"), "{{le}}"),)),
                ),
            ),
            Row(
                "Partitions and settings",
                (
                    Panel(kind="statuses", title="Verdict of each topic-partition", unit="short", width=16,
                          description="The 20 worst: 1 OK, 2 WARN, 3 UNKNOWN, 4 STOP, 5 STALL, 6 REWIND, 7 LOST.",
                          queries=(Query(q.status_of_partitions(), PARTITION),)),
                    lines("Settings that differ", "Of the remote topic, from what the source's say they should be.", "short",
                          Query(q.settings_that_differ("topic", q.TOPIC), TOPIC), may_be_empty=NOT_COMPARED),
                ),
            ),
        ),
    )  # fmt: skip


def failover() -> Board:
    """Return the board to read before a fail-over."""
    return Board(
        uid="kafka-mirror-failover",
        title="Kafka mirror: fail-over",
        question="If we fail over now, what is missing on the target, and which consumer groups may go?",
        variables=("topic", "group"),
        rows=(
            Row(
                "If the source were gone now",
                (
                    Panel(kind="stat", title="May we go?", unit="short", width=24, height=4,
                          description="The worst answer of the flows shown. kafka-mirror failover-check FILE says why, and "
                          "what it would cost.",
                          queries=(Query(q.failover_answer()),), steps=((None, BAD), (1, WARN), (2, GOOD)),
                          words=((0, "NO", BAD), (1, "GO WITH LOSS", WARN), (2, "GO", GOOD))),
                    stat("Seconds missing", "The longest waiting record of all topics.", q.lag_seconds_max(q.TOPIC), "s", BEHIND),
                    stat("Records missing", "Produced at the source, not on the target.", q.lag_records_total(q.TOPIC), "short",
                         ((None, GOOD), (1, WARN))),
                    stat("Topics behind", f"Topics with a record that waits longer than {FRESH_S} s.", q.topics_behind(), "short",
                         none_wanted()),
                    stat("Lost for good", "Records that retention deleted before they were copied, in the time shown.",
                         q.lost(where=q.TOPIC), "short", none_wanted()),
                    stat("Age of these numbers", "When offsets were last read: older than a minute, do not trust them.",
                         f"max({q.poll_age()})", "s", BEHIND),
                    stat("Clusters down", "Clusters that do not answer the mirror.", q.clusters_down(), "short", none_wanted()),
                ),
            ),
            Row(
                "By topic",
                (
                    Panel(kind="table", title="What is missing", width=24, height=10,
                          description="Seconds and records missing by topic, and how old its newest record on the target is.",
                          queries=(Query(q.lag_seconds_by_topic(), column="time missing", unit="s"),
                                   Query(q.lag_records_by_topic(), column="records missing", unit=COUNT),
                                   Query(q.silence_by_topic(), column="age of the newest record", unit="s"))),
                    lines("Time missing, the five worst", "By topic.", "s", Query(q.worst_topics(LAG_SECONDS), TOPIC), width=12,
                          steps=BEHIND),
                    lines("Records missing, the five worst", "By topic.", "short",
                          Query(q.worst_topics(LAG, joined="sum"), TOPIC), width=12),
                ),
            ),
            Row(
                "May the groups fail over now",
                (
                    stat("Oldest checkpoint", "How long ago a group's offsets were last translated: what it read since, it reads "
                         "again.", f"max({q.checkpoint_age(where=q.GROUP)})", "s", CHECKPOINT, may_be_empty=NO_GROUP),
                    stat("Cannot fail over", "Topic-partitions on which a group has no offset to go on from on the target.",
                         f"sum({q.cannot_fail_over()})", "short", none_wanted(), may_be_empty=NO_GROUP),
                    stat("Read again", "Records that all groups together would have read again, just before the last checkpoint.",
                         f"sum({q.reread()})", "short", ((None, INFO),), may_be_empty=NO_GROUP),
                    stat("Failed rounds", "Rounds of checkpoints that failed, in the time shown.",
                         f"sum({q.checkpoints('checkpoint_errors_total', '$__range')})", "short", none_wanted(WARN),
                         may_be_empty=NO_CHECKPOINT),
                    stat("ACLs missing", "ACLs of source topics that clients will not find on the target.",
                         f"sum({q.acls_missing()})", "short", none_wanted(WARN), may_be_empty=NOT_COMPARED),
                    stat("Settings that differ", "Of remote topics, from what the source's say they should be.",
                         f"sum({q.settings_that_differ(where=q.TOPIC)})", "short", none_wanted(WARN),
                         may_be_empty=NOT_COMPARED),
                ),
            ),
            Row(
                "By group",
                (
                    Panel(kind="table", title="Consumer groups", width=24, height=10,
                          description="How old a group's checkpoint is, its topic-partitions, those with no way to go on, and "
                          "what it would read again.",
                          queries=(Query(q.checkpoint_age(q.BY_GROUP, q.GROUP), column="age of the checkpoint", unit="s"),
                                   Query(q.followed(), column="topic-partitions", unit=COUNT),
                                   Query(q.cannot_fail_over(), column="cannot fail over", unit=COUNT),
                                   Query(q.reread(), column="records read again", unit=COUNT)),
                          may_be_empty=NO_GROUP),
                    lines("Checkpoint age, the five oldest", "How long ago the group's offsets were last translated.", "s",
                          Query(q.oldest_checkpoints(), GROUP), steps=CHECKPOINT, may_be_empty=NO_GROUP),
                    lines("Offsets that are not synced", "Topic-partitions by what became of the group's offset, where it is "
                          "neither translated nor synced.", "short",
                          Query(q.not_synced(), f"{GROUP} {{{{state}}}}"),
                          may_be_empty="every offset is translated or synced"),
                    lines("Read again, the five most", "Records that the group would have read again, just before its last "
                          "checkpoint.", "short", Query(q.worst_groups("failover_reread_records"), GROUP), may_be_empty=NO_GROUP),
                    lines("Checkpoint latency, the five slowest", "From reading the groups' offsets to the target's "
                          "acknowledgement, the slowest topic-partition of each group.", "ms",
                          Query(q.worst_groups("checkpoint_latency_ms"), GROUP), width=12, may_be_empty=NO_GROUP),
                    lines("Checkpoints", "Written because a group's offset had changed, rounds that failed, and records that "
                          "somebody else wrote into the flow's own topics.", "short",
                          Query(q.checkpoints("checkpoints_total"), f"{FLOW} written"),
                          Query(q.checkpoints("checkpoint_errors_total"), f"{FLOW} failed rounds"),
                          Query(q.checkpoints("foreign_records_total"), f"{FLOW} foreign records"), width=12,
                          may_be_empty=NO_CHECKPOINT),
                ),
            ),
        ),
    )  # fmt: skip


NO_CLOCK = "no cluster tells its clock (Kafka before 3.3, or without KRaft, or no leave to DESCRIBE the cluster)"
NO_VERIFY = "no kafka-mirror verify --every is scraped"


def engine() -> Board:
    """Return the board of the appliance itself."""
    return Board(
        uid="kafka-mirror-engine",
        title="Kafka mirror: engine",
        question="Is the appliance itself well, and what does it cost?",
        variables=("instance",),
        rows=(
            Row(
                "Spark",
                (
                    lines("Processes up", "Of the processes that Prometheus is to scrape, those that answer.", "short",
                          Query(q.processes_up(), "up"), Query(q.processes_known(), "of")),
                    lines("Lanes running", "1 while a streaming query runs.", "short", Query(q.query_active(), "{{query}}")),
                    lines("Length of windows", "Mean of Spark's addBatch: the window's own length, and what it overruns.", "s",
                          Query(q.window_seconds(), "{{query}}")),
                    lines("What Spark adds, p99", "Phases of a micro-batch beside the window itself.", "s",
                          Query(q.phase_p99(), "{{phase}}")),
                    lines("Listener events", "What Spark tells the listener, per second; no progress means no counts.", "cps",
                          Query(q.listener_events(), "{{event}}")),
                    lines("Report age", "How old the newest replication report of a flow is: about a window.", "s",
                          Query(q.report_age(), FLOW)),
                    stat("Restarts", "Streaming queries started again, in the time shown.", q.restarts(), "short",
                         none_wanted(WARN)),
                    stat("Unread events", "Progress events that the listener failed to read.", q.listener_errors(), "short",
                         none_wanted()),
                ),
            ),
            Row(
                "Slots",
                (
                    lines("Windows served per minute", "By slot; one that falls to 0 is served by nobody.", "short",
                          Query(q.windows_per_minute(), f"{FLOW} slot {{{{slot}}}}")),
                    lines("Wait for the lease", "Nothing of the slot is copied while its window waits for its predecessor.", "s",
                          Query(q.turn_wait(), f"{FLOW} slot {{{{slot}}}}")),
                    lines("Slots by process", "Together they are all slots of the flow; otherwise some are served by nobody.",
                          "short", Query(q.slots_by_process(), f"{FLOW} {{{{instance}}}}"), Query(q.slots(), f"{FLOW} all")),
                    lines("Processes", "That share a flow, and 1 while their settings differ.", "short",
                          Query(q.processes(), FLOW), Query(q.conflicts(), f"{FLOW} settings differ")),
                    lines("Late hand-overs and take-overs", "Windows that began a second late, or whose predecessor hung.",
                          "short", Query(q.handovers("late_handovers_total"), f"{FLOW} slot {{{{slot}}}} late"),
                          Query(q.handovers("takeovers_total"), f"{FLOW} slot {{{{slot}}}} take-over")),
                ),
            ),
            Row(
                "Verification",
                (
                    lines("Records compared and equal", "By kafka-mirror verify --every, per second.", "cps",
                          Query(q.verified(), FLOW), may_be_empty=NO_VERIFY),
                    lines("Different or missing", "What it found to be wrong; its output names the first.", "short",
                          Query(q.verify_differences(), f"{FLOW} {{{{topic}}}}"), may_be_empty=NO_VERIFY),
                    lines("Waiting to be compared", "It grows where --rate is less than what comes.", "short",
                          Query(q.verify_waiting(), FLOW), may_be_empty=NO_VERIFY),
                ),
            ),
            Row(
                "Collector",
                (
                    lines("Poll", "What reading offsets costs, and how old the last ones are.", "s",
                          Query(q.poll_seconds(), f"{FLOW} took"), Query(q.poll_age(), f"{FLOW} age")),
                    lines("Failed polls", "Lag is as old as the last good one.", "short", Query(q.poll_errors(), FLOW),
                          may_be_empty="no poll has failed yet"),
                    lines("Clusters", "1 while a cluster answers.", "short", Query(q.cluster_up(), "{{cluster}}")),
                    lines("Clocks", "How far the clock of each cluster's controller is ahead of a process' own; and "
                          "how far records came from the future. Who has no line has not told its clock.", "s",
                          Query(q.cluster_clocks(), f"{FLOW} {{{{cluster}}}}, seen by {{{{instance}}}}"),
                          Query(q.future_timestamps(), f"{FLOW} records"), may_be_empty=NO_CLOCK),
                ),
            ),
            Row(
                "Cost",
                (
                    lines("Scrape", "What Prometheus waits for /metrics.", "s", Query(q.scrape_seconds(), "{{instance}}")),
                    lines("Series", "Exposed, and folded away by the cap.", "short",
                          Query(q.series("exposed_series"), "exposed"),
                          Query(q.series("dropped_series"), "dropped")),
                    lines("Driver's processor", "Of its Python process; Spark's JVM and workers are beside it.", "percentunit",
                          Query(q.driver_cpu(), "{{instance}}")),
                    lines("Driver's memory", "Resident memory of the driver's Python process.", "bytes",
                          Query(q.driver_memory(), "{{instance}}")),
                    Panel(kind="table", title="What runs", description="Versions of the appliances that are scraped.",
                          width=16, queries=(Query(q.builds(), column="appliances", unit=COUNT),)),
                ),
            ),
        ),
    )  # fmt: skip


def slo() -> Board:
    """Return the board of the freshness objective."""
    return Board(
        uid="kafka-mirror-slo",
        title="Kafka mirror: objective",
        question=f"Are {OBJECTIVE:.1%} of topic-partitions fresh, and if not, when did we lose it?",
        rows=(
            Row(
                "Budget",
                (
                    stat("Fresh now", f"Share of topic-partitions not more than {FRESH_S} s behind.", q.fresh_ratio(),
                         "percentunit", SHARE),
                    stat("Budget left", "Of 30 days; below 0 it is overspent.", q.budget_left(), "percentunit",
                         ((None, BAD), (0.0, WARN), (0.5, GOOD))),
                    stat("Burn, 1 h", "1 is the allowance; above 14.4 somebody is woken.", f"max({q.burn('1h')})", "short",
                         ((None, GOOD), (1.0, WARN), (14.4, BAD))),
                    stat("Burn, 6 h", "Above 6 somebody is woken.", f"max({q.burn('6h')})", "short",
                         ((None, GOOD), (1.0, WARN), (6.0, BAD))),
                    stat("Burn, 1 d", "Above 3 is a warning.", f"max({q.burn('1d')})", "short",
                         ((None, GOOD), (1.0, WARN), (3.0, BAD))),
                    stat("Burn, 3 d", "Above 1 is a warning.", f"max({q.burn('3d')})", "short", ((None, GOOD), (1.0, WARN))),
                ),
            ),
            Row(
                "When",
                (
                    lines("Fresh topic-partitions", "By flow.", "percentunit", Query(q.fresh_by_flow(), FLOW), width=12),
                    lines("Burn rate", "Over an hour and six: how many times faster than allowed.", "short",
                          Query(q.burn("1h"), f"{FLOW} 1 h"), Query(q.burn("6h"), f"{FLOW} 6 h"), width=12),
                    lines("Latency, p99", "The second view: only of records that arrived.", "s",
                          Query(q.latency_by_flow("p99"), FLOW), width=12, may_be_empty="nothing was copied lately"),
                    Panel(kind="stack", title="Alerts", description="Firing, by name.", unit="short", width=12,
                          queries=(Query(q.alerts_by_name(), "{{alertname}}"),), may_be_empty=NO_ALERT),
                ),
            ),
        ),
    )  # fmt: skip


def parity() -> Board:
    """Return the board for people who come from MirrorMaker 2: its measures, in the order its users know."""

    def table(title: str, short: str, of_what: str, by: str, parts: dict[str, str], may_be_empty: str) -> Panel:
        return Panel(
            kind="table", title=title, width=24,
            description=f"MirrorMaker's {short.replace('_', '-')} {of_what}: the 20 where it is largest.",
            queries=tuple(
                Query(q.worst_now(short + part, 20, by=by, ranked=short, where=q.TOPIC), column=column, unit="ms")
                for part, column in parts.items()
            ),
            may_be_empty=may_be_empty,
        )  # fmt: skip

    def spread(title: str, short: str) -> Panel:
        columns = {"": "last", "_avg": "average", "_min": "smallest", "_max": "largest"}
        return table(title, short, "by topic-partition", q.BY_PARTITION, columns, "nothing was copied lately")

    return Board(
        uid="kafka-mirror-mm2",
        title="Kafka mirror: as MirrorMaker 2",
        question="Where is what I used to read on the MirrorMaker 2 board?",
        variables=("topic",),
        rows=(
            Row(
                "As MirrorMaker 2 shows it",
                (
                    stat("Total record rate", "MirrorMaker's record-rate, all topics.",
                         f"sum({q.of('record_rate', q.TOPIC)})", "cps", ((None, INFO),)),
                    stat("Total byte rate", "MirrorMaker's byte-rate, all topics; of whole batches, compressed as they are.",
                         f"sum({q.of('byte_rate', q.TOPIC)})", "Bps", ((None, INFO),)),
                    stat("Record count", "MirrorMaker's record-count, in the time shown.",
                         f"sum(increase({q.of('record_count_total', q.TOPIC)}[$__range]))", "short", ((None, INFO),)),
                    stat("Consumer lag", "Records that wait; in MirrorMaker the lag of its consumer.",
                         f"sum({q.of('lag_records', q.TOPIC)})", "short", ((None, INFO),)),
                    stat("Replication latency", "MirrorMaker's replication-latency-ms, the largest of the last windows.",
                         f"max({q.of('replication_latency_ms', q.TOPIC)})", "ms", ((None, INFO),)),
                    stat("Record age", "MirrorMaker's record-age-ms, the largest of the last windows.",
                         f"max({q.of('record_age_ms', q.TOPIC)})", "ms", ((None, INFO),)),
                    lines("Consumer Lag", "Records that wait, the five worst topics.", "short",
                          Query(q.worst_topics(LAG, joined="sum"), TOPIC), width=12),
                    lines("Bytes per second", "By topic.", "Bps", Query(q.copied_bytes("topic", q.TOPIC), TOPIC), width=12),
                    spread("Record Age", "record_age_ms"),
                    spread("Replication Latency", "replication_latency_ms"),
                    table("Consumer Group Offset Sync Latency", "checkpoint_latency_ms",
                          "of the last checkpoint that had changed, by group and topic-partition",
                          f"{q.BY_GROUP}, topic, partition", {"": "last"}, NO_GROUP),
                ),
            ),
        ),
    )  # fmt: skip
