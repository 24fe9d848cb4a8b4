"""Write rows as text: the consumer offset checker's table, a wider one, CSV and JSON. Pure."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Sequence
from typing import Any

from metrics.lag_row import LagRow
from metrics.partition_status import Status
from mirror.lag.snapshot import Snapshot
from mirror.model.gaps import Gap
from mirror.runtime.text_columns import aligned, one_line

# kafka.tools.ConsumerOffsetChecker of Kafka 0.8 to 0.10
CHECKER = "%-15s %-30s %-3s %-15s %-15s %-15s %s"
HEADINGS = ("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner")
WIDE = (*HEADINGS, "Cluster", "Time lag", "Status", "Records/s", "Caught up in", "Offsets", "Why")
# of CSV, JSON and the inspector's API: programs read them by name and by position
ROW_FIELDS = (
    *("group", "cluster", "topic", "partition", "offset", "log_end", "owner", "is_flow", "remote_topic", "lag_seconds"),
    *("status", "reason", "records_per_s", "written_per_s", "level_in_s", "lag", "offsets"),
)
_NUMBERS = {HEADINGS.index(name) for name in ("Pid", "Offset", "logSize", "Lag")}


def checker_text(rows: Sequence[LagRow]) -> str:
    """Return the table of the consumer offset checker: its columns, its widths, and its "unknown"."""
    return "\n".join([CHECKER % HEADINGS, *(CHECKER % tuple(map(one_line, _checker(row))) for row in rows)]) + "\n"


def wide_text(rows: Sequence[LagRow], width: int | None = None) -> str:
    """Return the checker's columns and more, folded to lines of `width` characters if given."""
    table = [WIDE, *((*_checker(row), *_ours(row)) for row in rows)]
    return aligned(table, right=_NUMBERS, width=width) + "\n"


def csv_text(rows: Sequence[LagRow]) -> str:
    """Return every field of every row as CSV with a heading; unknown values are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, ROW_FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_safe(value) for name, value in _plain_fields(row).items()} for row in rows)
    return out.getvalue()


def poll_fields(snapshot: Snapshot) -> dict[str, Any]:
    """Return the time of a poll, its clusters and its problems as JSON values."""
    return {
        "time": snapshot.time_s,
        "clusters": dict(snapshot.clusters),
        "problems": [str(problem) for problem in snapshot.problems],
    }


def json_text(snapshot: Snapshot, rows: Sequence[LagRow]) -> str:
    """Return the rows, the time of their poll and its problems as JSON."""
    content = {**poll_fields(snapshot), "rows": [_plain_fields(row) for row in rows]}
    return json.dumps(content, indent=1) + "\n"


def duration(seconds: float | None) -> str:
    """Return a duration as text, "" if unknown."""
    if seconds is None:
        return ""
    for scale, word in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * scale:
            return f"{seconds / scale:.1f} {word}"
    return f"{seconds:.1f} s" if seconds else "0 s"


def utc(time_s: float) -> str:
    """Return a time (epoch seconds) as text: 2026-01-02 03:04:05 UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_s))


def pluralized(number: int, what: str) -> str:
    """Return a number with its noun: 1 record, 2 records."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _checker(row: LagRow) -> tuple[str, ...]:
    def known(value: int | None) -> str:
        return "unknown" if value is None else str(value)

    owner = row.owner or "none"
    return row.group, row.topic, str(row.partition), known(row.offset), known(row.log_end), known(row.lag), owner


def _ours(row: LagRow) -> tuple[str, ...]:
    rate = "" if row.records_per_s is None else f"{row.records_per_s:,.1f}"
    waits = duration(row.lag_seconds) or "unknown"
    return row.cluster, waits, row.status.name, rate, level_in(row), row.offsets, row.reason


def level_in(row: LagRow) -> str:
    """Return the time until lag 0 at the present rates, or a word."""
    if row.lag is None or row.status is Status.UNKNOWN:
        return "unknown"
    if row.lag == 0:
        return "caught up"
    return duration(row.level_in_s) or ("keeps pace" if row.status is Status.OK else "not at this rate")


def _plain_fields(row: LagRow) -> dict[str, Any]:
    return {**{name: getattr(row, name) for name in ROW_FIELDS}, "status": row.status.name}


def csv_safe(value: Any) -> Any:
    """Return a text that no spreadsheet reads as a formula.

    Group ids are chosen by strangers.
    """
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


COLUMNS = ("found", "effect", "topic", "partition", "first", "last", "offsets", "what happened")
FIELDS = ("found", "effect", "cause", "topic", "partition", "first", "last", "offsets", "said", "topic_id")


def cells(gap: Gap) -> tuple[str, ...]:
    """Return the cells of a gap, by COLUMNS; "?" for unknown."""
    numbers = ("?" if number is None else str(number) for number in (gap.first, gap.last, gap.offsets))
    return (utc(gap.at_ms / 1000), gap.effect.value, gap.topic, str(gap.partition), *numbers, gap.said)


def gap_table(gaps: Sequence[Gap], width: int | None = None) -> str:
    """Return a table of gaps, folded to lines of `width` characters if given."""
    return aligned([COLUMNS, *map(cells, gaps)], right=range(3, 7), width=width) + "\n"


def gap_csv(gaps: Sequence[Gap]) -> str:
    """Return every field of every gap as CSV with a heading; unknown values are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for gap in gaps:
        found = {**gap.plain(), "found": utc(gap.at_ms / 1000)}
        writer.writerow({name: csv_safe(value) for name, value in found.items()})
    return out.getvalue()


def gap_json(flow: str, gaps: Sequence[Gap]) -> str:
    """Return the gaps of a flow as JSON; unknown values are null."""
    return json.dumps({"flow": flow, "gaps": [gap.plain() for gap in gaps]}, indent=1)
