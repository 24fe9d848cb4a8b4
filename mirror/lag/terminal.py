"""Format flows and rows as cells and lines of a live terminal view. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from metrics.lag_row import LagRow, RowKey
from metrics.partition_status import Sample, Status
from metrics.trend import Point
from mirror.lag.flow_summary import FlowSummary, at_least, worst_first
from mirror.lag.text import duration, level_in
from mirror.runtime.text_columns import one_line

BLOCKS = "▁▂▃▄▅▆▇█"
COLUMNS = (
    "Status",
    "Group",
    "Topic",
    "Part",
    "Lag",
    "Change",
    "Trend",
    "Time lag",
    "In/s",
    "Out/s",
    "Caught up in",
    "Why",
)
NUMBERS = frozenset({"Part", "Lag", "Change", "In/s", "Out/s"})
# Rich's names of colours; a status without an entry is red.
COLOURS = {Status.IDLE: "bright_black", Status.OK: "green", Status.WARN: "yellow", Status.UNKNOWN: "magenta"}

SORTS: dict[str, Callable[[Iterable[LagRow]], list[LagRow]]] = {
    "worst first": worst_first,
    "by lag": lambda rows: sorted(rows, key=lambda row: -(row.lag or 0)),
    "by time lag": lambda rows: sorted(rows, key=lambda row: -(row.lag_seconds or 0.0)),
    "by records/s": lambda rows: sorted(rows, key=lambda row: -(row.records_per_s or 0.0)),
    "by name": lambda rows: sorted(rows, key=lambda row: (row.group, row.topic, row.partition)),
}


def colour(status: Status) -> str:
    """Return the colour of a status."""
    return COLOURS.get(status, "red")


def blocks(values: Sequence[float | None], *, width: int = 10) -> str:
    """Return the last `width` values as blocks, the largest full, " " for unknown."""
    shown = list(values)[-width:]
    most = max((value for value in shown if value is not None), default=0.0)

    def block(value: float | None) -> str:
        if value is None:
            return " "
        return BLOCKS[round(value / most * (len(BLOCKS) - 1))] if most else BLOCKS[0]

    return "".join(block(value) for value in shown)


def cells(row: LagRow, before: Mapping[RowKey, int], samples: Sequence[Sample]) -> tuple[str, ...]:
    """Return the cells of a row.

    Args:
        row: The row.
        before: The lags of the previous poll, by key.
        samples: The row's polls.
    """

    def rate(per_s: float | None) -> str:
        return "" if per_s is None else f"{per_s:,.1f}"

    was = before.get(row.key)
    change = "" if was is None or row.lag is None or was == row.lag else f"{row.lag - was:+,}"
    return (
        row.status.name,
        one_line(row.group),
        row.topic,
        str(row.partition),
        "unknown" if row.lag is None else f"{row.lag:,}",
        change,
        blocks([sample.lag for sample in samples]),
        duration(row.lag_seconds) or "unknown",
        rate(row.written_per_s),
        rate(row.records_per_s),
        level_in(row),
        row.reason,
    )


def flow_line(flow: FlowSummary, points: Sequence[Point]) -> str:
    """Return a flow in a line: status, waiting records, rates, its last hour."""

    def rate(per_s: float | None) -> str:
        return "unknown" if per_s is None else f"{per_s:,.0f}/s"

    waits = at_least(flow.lag, flow.unknown)
    hour = blocks([point.waits_s for point in points], width=60)
    return (
        f"{flow.worst.name:<8}{one_line(flow.name)}   waiting {waits}, longest {flow.waits}   "
        f"in {rate(flow.in_per_s)}, out {rate(flow.out_per_s)}   {hour}"
    )


def filtered(rows: Iterable[LagRow], part: str) -> list[LagRow]:
    """Return the rows whose names or status contain `part`."""
    wanted = part.lower()
    return [row for row in rows if wanted in f"{row.group} {row.topic} {row.remote_topic} {row.status.name}".lower()]
