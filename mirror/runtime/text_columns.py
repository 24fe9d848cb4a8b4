"""Align text in columns, each row on its line. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

GAP, INDENT = "  ", "    "
LEAST_TEXT = 24  # least width of a text in the last column


def one_line(text: str) -> str:
    """Return `text` with each character escaped that would end its line or control a terminal.

    Kafka restricts neither group ids nor client ids, so strangers can choose text that appears in a log or a table.
    """
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    )


def aligned(rows: Sequence[Sequence[str]], *, right: Collection[int], width: int | None = None) -> str:
    """Return the rows as aligned columns; the columns in `right` are flush right.

    Each row is one line. If a row exceeds `width`, its last columns continue on indented lines, and the text in the very last
    column is wrapped between words.
    """
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [range(len(widths))] if width is None else _lines(widths, width)
    return "\n".join(
        _set(row, line, widths, right, width, is_first=line.start == 0).rstrip() for row in rows for line in lines
    )


def _lines(widths: Sequence[int], width: int) -> list[range]:
    """Return the columns of each line. The last column gets the rest of its line."""
    found, begin, used = [], 0, 0
    for column, wide in enumerate(widths):
        least = min(wide, LEAST_TEXT) if column == len(widths) - 1 else wide
        if column > begin and used + len(GAP) + least > width:
            found.append(range(begin, column))
            begin, used = column, len(INDENT)
        used += (len(GAP) if column > begin else 0) + least
    return [*found, range(begin, len(widths))]


def _set(
    row: Sequence[str],
    line: range,
    widths: Sequence[int],
    right: Collection[int],
    width: int | None,
    *,
    is_first: bool,
) -> str:
    cells = [
        row[column].rjust(widths[column]) if column in right else row[column].ljust(widths[column]) for column in line
    ]
    indent = "" if is_first else INDENT
    if width is None or line.stop < len(widths):
        return indent + GAP.join(cells)
    before = indent + "".join(cell + GAP for cell in cells[:-1])
    pieces = textwrap.wrap(row[-1], max(LEAST_TEXT, width - len(before))) or [""]
    return ("\n" + " " * len(before)).join((before + pieces[0], *pieces[1:]))
