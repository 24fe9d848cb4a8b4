"""Lay out the board of the appliance itself."""

from __future__ import annotations

from dashboards import queries as q
from dashboards.boards.words import FLOW
from dashboards.panels import COUNT, WARN, Board, Panel, Query, Row, lines, none_wanted, stat

NO_CLOCK = "no cluster tells its clock (Kafka before 3.3, or without KRaft, or no leave to DESCRIBE the cluster)"
NO_VERIFY = "no kafka-mirror verify --every is scraped"


def engine() -> Board:
    """Return the board of the appliance itself."""
    return Board(
        uid="kafka-mirror-engine",
        title="Kafka mirror: engine",
        question="Is the appliance itself well, and what does it cost?",
        variables=("instance",),
        rows=(_spark(), _slots(), _verification(), _collector(), _cost()),
    )


def _spark() -> Row:
    """Return the row "Spark"."""
    return Row(
        "Spark",
        (
            lines(
                "Processes up",
                "Of the processes that Prometheus is to scrape, those that answer.",
                "short",
                Query(q.processes_up(), "up"),
                Query(q.processes_known(), "of"),
            ),
            lines("Lanes running", "1 while a streaming query runs.", "short", Query(q.query_active(), "{{query}}")),
            lines(
                "Length of windows",
                "Mean of Spark's addBatch: the window's own length, and what it overruns.",
                "s",
                Query(q.window_seconds(), "{{query}}"),
            ),
            lines(
                "What Spark adds, p99",
                "Phases of a micro-batch beside the window itself.",
                "s",
                Query(q.phase_p99(), "{{phase}}"),
            ),
            lines(
                "Listener events",
                "What Spark tells the listener, per second; no progress means no counts.",
                "cps",
                Query(q.listener_events(), "{{event}}"),
            ),
            lines(
                "Report age",
                "How old the newest replication report of a flow is: about a window.",
                "s",
                Query(q.report_age(), FLOW),
            ),
            stat(
                "Restarts",
                "Streaming queries started again, in the time shown.",
                q.restarts(),
                "short",
                none_wanted(WARN),
            ),
            stat(
                "Unread events",
                "Progress events that the listener failed to read.",
                q.listener_errors(),
                "short",
                none_wanted(),
            ),
        ),
    )


def _slots() -> Row:
    """Return the row "Slots"."""
    return Row(
        "Slots",
        (
            lines(
                "Windows served per minute",
                "By slot; one that falls to 0 is served by nobody.",
                "short",
                Query(q.windows_per_minute(), f"{FLOW} slot {{{{slot}}}}"),
            ),
            lines(
                "Wait for the lease",
                "Nothing of the slot is copied while its window waits for its predecessor.",
                "s",
                Query(q.turn_wait(), f"{FLOW} slot {{{{slot}}}}"),
            ),
            lines(
                "What limits us",
                "Shares of the slots' time: waiting for records of the source, for the target, packing batches, waiting for the "
                "lease. Behind, and nearly all on the target: the target or the way to it is the bottleneck; on the source: "
                "the source is; on packing: more slots or processes help.",
                "percentunit",
                Query(q.spent_on(), f"{FLOW} {{{{spent_on}}}}"),
            ),
            lines(
                "Read ahead",
                "The most that a slot held in its last window; it never holds more than 48 MiB.",
                "bytes",
                Query(q.read_ahead(), f"{FLOW} slot {{{{slot}}}}"),
            ),
            lines(
                "Read and written by slot",
                "Records per second. A slot that reads more than it writes reads again what a window's end left over.",
                "cps",
                Query(q.rate_of_slots("slot_polled_records_total"), f"{FLOW} slot {{{{slot}}}} read"),
                Query(q.rate_of_slots("slot_written_records_total"), f"{FLOW} slot {{{{slot}}}} written"),
            ),
            lines(
                "Throttled",
                "Seconds per second for which brokers ask a flow to wait, by their quotas; its slots add up.",
                "s",
                Query(q.throttled(), f"{FLOW} by {{{{cluster}}}}"),
            ),
            lines(
                "Slots by process",
                "Together they are all slots of the flow; otherwise some are served by nobody.",
                "short",
                Query(q.slots_by_process(), f"{FLOW} {{{{instance}}}}"),
                Query(q.slots(), f"{FLOW} all"),
            ),
            lines(
                "Processes",
                "That share a flow, and 1 while their settings differ.",
                "short",
                Query(q.processes(), FLOW),
                Query(q.conflicts(), f"{FLOW} settings differ"),
            ),
            lines(
                "Late hand-overs and take-overs",
                "Windows that began a second late, or whose predecessor hung.",
                "short",
                Query(q.handovers("late_handovers_total"), f"{FLOW} slot {{{{slot}}}} late"),
                Query(q.handovers("takeovers_total"), f"{FLOW} slot {{{{slot}}}} take-over"),
            ),
        ),
    )


def _verification() -> Row:
    """Return the row "Verification"."""
    return Row(
        "Verification",
        (
            lines(
                "Records compared and equal",
                "By kafka-mirror verify --every, per second.",
                "cps",
                Query(q.verified(), FLOW),
                may_be_empty=NO_VERIFY,
            ),
            lines(
                "Different or missing",
                "What it found to be wrong; its output names the first.",
                "short",
                Query(q.verify_differences(), f"{FLOW} {{{{topic}}}}"),
                may_be_empty=NO_VERIFY,
            ),
            lines(
                "Waiting to be compared",
                "It grows where --rate is less than what comes.",
                "short",
                Query(q.verify_waiting(), FLOW),
                may_be_empty=NO_VERIFY,
            ),
        ),
    )


def _collector() -> Row:
    """Return the row "Collector"."""
    return Row(
        "Collector",
        (
            lines(
                "Poll",
                "What reading offsets costs, and how old the last ones are.",
                "s",
                Query(q.poll_seconds(), f"{FLOW} took"),
                Query(q.poll_age(), f"{FLOW} age"),
            ),
            lines(
                "Failed polls",
                "Lag is as old as the last good one.",
                "short",
                Query(q.poll_errors(), FLOW),
                may_be_empty="no poll has failed yet",
            ),
            lines("Clusters", "1 while a cluster answers.", "short", Query(q.cluster_up(), "{{cluster}}")),
            lines(
                "Clocks",
                "How far the clock of each cluster's controller is ahead of a process' own; and how far records came from the "
                "future. A cluster without a line has not answered with its clock.",
                "s",
                Query(q.cluster_clocks(), f"{FLOW} {{{{cluster}}}}, seen by {{{{instance}}}}"),
                Query(q.future_timestamps(), f"{FLOW} records"),
                may_be_empty=NO_CLOCK,
            ),
        ),
    )


def _cost() -> Row:
    """Return the row "Cost"."""
    return Row(
        "Cost",
        (
            lines("Scrape", "What Prometheus waits for /metrics.", "s", Query(q.scrape_seconds(), "{{instance}}")),
            lines(
                "Series",
                "Exposed, and folded away by the cap.",
                "short",
                Query(q.series("exposed_series"), "exposed"),
                Query(q.series("dropped_series"), "dropped"),
            ),
            lines(
                "Driver's processor",
                "Of its Python process; Spark's JVM and workers are beside it.",
                "percentunit",
                Query(q.driver_cpu(), "{{instance}}"),
            ),
            lines(
                "Driver's memory",
                "Resident memory of the driver's Python process.",
                "bytes",
                Query(q.driver_memory(), "{{instance}}"),
            ),
            Panel(
                kind="table",
                title="What runs",
                description="Versions of the appliances that are scraped.",
                width=16,
                queries=(Query(q.builds(), column="appliances", unit=COUNT),),
            ),
        ),
    )
