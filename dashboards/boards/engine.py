"""Lay out the dashboard of the processes."""

from __future__ import annotations

from dashboards import queries as q
from dashboards.boards.words import FLOW
from dashboards.panels import COUNT, WARN, Board, Panel, Query, Row, lines, none_wanted, stat

NO_CLOCK = "no cluster reports its clock (needs KRaft, Kafka 3.3 and DESCRIBE on the cluster)"
NO_VERIFY = "no kafka-mirror verify --every is scraped"


def engine() -> Board:
    """Return the dashboard of the processes."""
    return Board(
        uid="kafka-mirror-engine",
        title="Kafka mirror: engine",
        question="Are the kafka-mirror processes healthy, and what do they cost?",
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
                "Processes that respond to Prometheus, of all in the scrape job.",
                "short",
                Query(q.processes_up(), "up"),
                Query(q.processes_known(), "of"),
            ),
            lines("Lanes running", "1 while a streaming query runs.", "short", Query(q.query_active(), "{{query}}")),
            lines(
                "Duration of windows",
                "Mean duration of Spark's addBatch phase: the length of the window plus its overrun.",
                "s",
                Query(q.window_seconds(), "{{query}}"),
            ),
            lines(
                "Spark's overhead, p99",
                "Phases of a micro-batch other than the window itself.",
                "s",
                Query(q.phase_p99(), "{{phase}}"),
            ),
            lines(
                "Listener events",
                "Spark's streaming events per second. Without progress events there are no counts.",
                "cps",
                Query(q.listener_events(), "{{event}}"),
            ),
            lines(
                "Report age",
                "Age of the newest replication report of a flow; normally up to the length of a window.",
                "s",
                Query(q.report_age(), FLOW),
            ),
            stat(
                "Restarts",
                "Streaming queries that were restarted, in the time range.",
                q.restarts(),
                "short",
                none_wanted(WARN),
            ),
            stat(
                "Unread events",
                "Progress events that could not be read.",
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
                "By slot. If the value is 0, no process serves the slot.",
                "short",
                Query(q.windows_per_minute(), f"{FLOW} slot {{{{slot}}}}"),
            ),
            lines(
                "Wait for the lease",
                "Time for which a window waits for its predecessor's lease. Nothing of the slot is copied meanwhile.",
                "s",
                Query(q.turn_wait(), f"{FLOW} slot {{{{slot}}}}"),
            ),
            lines(
                "Where slots spend their time",
                "Shares of the slots' time: waiting for the source, for the target, packing batches, waiting for the lease. "
                "If a flow lags, the largest share is the bottleneck: the target or the network to it, the source, or the "
                "CPU (packing), for which more slots or processes help.",
                "percentunit",
                Query(q.spent_on(), f"{FLOW} {{{{spent_on}}}}"),
            ),
            lines(
                "Read ahead",
                "Largest amount that a slot's last window had read and the target had not acknowledged. The limit is 48 MiB.",
                "bytes",
                Query(q.read_ahead(), f"{FLOW} slot {{{{slot}}}}"),
            ),
            lines(
                "Read and written by slot",
                "Records per second. A slot that reads more than it writes re-reads records that were unsent at a window's end.",
                "cps",
                Query(q.rate_of_slots("slot_polled_records_total"), f"{FLOW} slot {{{{slot}}}} read"),
                Query(q.rate_of_slots("slot_written_records_total"), f"{FLOW} slot {{{{slot}}}} written"),
            ),
            lines(
                "Throttled",
                "Seconds per second for which the brokers' quotas throttle a flow, summed over its slots.",
                "s",
                Query(q.throttled(), f"{FLOW} by {{{{cluster}}}}"),
            ),
            lines(
                "Slots by process",
                "If the sum is below the flow's slots, no process serves some slots.",
                "short",
                Query(q.slots_by_process(), f"{FLOW} {{{{instance}}}}"),
                Query(q.slots(), f"{FLOW} all"),
            ),
            lines(
                "Processes",
                "Processes that share a flow, and 1 while their settings differ.",
                "short",
                Query(q.processes(), FLOW),
                Query(q.conflicts(), f"{FLOW} settings differ"),
            ),
            lines(
                "Late handovers and takeovers",
                "Windows that acquired their lease more than a second late, or from a predecessor that never released it.",
                "short",
                Query(q.handovers("late_handovers_total"), f"{FLOW} slot {{{{slot}}}} late"),
                Query(q.handovers("takeovers_total"), f"{FLOW} slot {{{{slot}}}} takeover"),
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
                "Records per second that kafka-mirror verify --every found equal.",
                "cps",
                Query(q.verified(), FLOW),
                may_be_empty=NO_VERIFY,
            ),
            lines(
                "Different or missing",
                "Records that kafka-mirror verify --every found different or missing. The command's output names the first one.",
                "short",
                Query(q.verify_differences(), f"{FLOW} {{{{topic}}}}"),
                may_be_empty=NO_VERIFY,
            ),
            lines(
                "Waiting to be compared",
                "Replicated records that are not compared yet. Grows if --rate is lower than the rate of new records.",
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
                "Duration of a poll of offsets, and age of the last one.",
                "s",
                Query(q.poll_seconds(), f"{FLOW} took"),
                Query(q.poll_age(), f"{FLOW} age"),
            ),
            lines(
                "Failed polls",
                "Lag is as old as the last successful poll.",
                "short",
                Query(q.poll_errors(), FLOW),
                may_be_empty="no poll has failed yet",
            ),
            lines("Clusters", "1 while a cluster responds.", "short", Query(q.cluster_up(), "{{cluster}}")),
            lines(
                "Clocks",
                "How far the clock of each cluster's controller is ahead of a process' clock, and how far record timestamps are "
                "ahead of it. A cluster without a line has not reported its clock.",
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
            lines("Scrape", "Duration of a scrape of /metrics.", "s", Query(q.scrape_seconds(), "{{instance}}")),
            lines(
                "Series",
                "Series that are exposed, and that mirror.metrics.max.series dropped.",
                "short",
                Query(q.series("exposed_series"), "exposed"),
                Query(q.series("dropped_series"), "dropped"),
            ),
            lines(
                "Driver CPU",
                "CPU of the driver's Python process, without Spark's JVM and workers.",
                "percentunit",
                Query(q.driver_cpu(), "{{instance}}"),
            ),
            lines(
                "Driver memory",
                "Resident memory of the driver's Python process, without Spark's JVM and workers.",
                "bytes",
                Query(q.driver_memory(), "{{instance}}"),
            ),
            Panel(
                kind="table",
                title="Versions",
                description="Versions of the scraped processes.",
                width=16,
                queries=(Query(q.builds(), column="processes", unit=COUNT),),
            ),
        ),
    )
