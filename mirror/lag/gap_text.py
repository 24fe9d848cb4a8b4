"""Write a ledger of gaps as a table, as CSV and as JSON. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from mirror.lag.text import csv_safe, utc
from mirror.model.gaps import Gap
from mirror.runtime.text_columns import aligned

COLUMNS = ("found", "effect", "topic", "partition", "first", "last", "offsets", "what happened")
FIELDS = ("found", "effect", "cause", "topic", "partition", "first", "last", "offsets", "said", "topic_id")


def cells(gap: Gap) -> tuple[str, ...]:
    """Return what a person reads of a gap, by COLUMNS; "?" where nobody knows."""
    numbers = ("?" if number is None else str(number) for number in (gap.first, gap.last, gap.offsets))
    return (utc(gap.at_ms / 1000), gap.effect.value, gap.topic, str(gap.partition), *numbers, gap.said)


def gap_table(gaps: Sequence[Gap], width: int | None = None) -> str:
    """Return a line for each gap, or several where it does not fit into so many characters."""
    return aligned([COLUMNS, *map(cells, gaps)], right=range(3, 7), width=width) + "\n"


def gap_csv(gaps: Sequence[Gap]) -> str:
    """Return every field of every gap as CSV with a heading; what is not known is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for gap in gaps:
        found = {**gap.plain(), "found": utc(gap.at_ms / 1000)}
        writer.writerow({name: csv_safe(value) for name, value in found.items()})
    return out.getvalue()


def gap_json(flow: str, gaps: Sequence[Gap]) -> str:
    """Return the gaps of a flow as JSON; what is not known is null."""
    return json.dumps({"flow": flow, "gaps": [gap.plain() for gap in gaps]}, indent=1)
