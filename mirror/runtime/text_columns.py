"""Align text in columns, each row on its line. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def one_line(text: str) -> str:
    """Return `text` with every character that would end its line, or command a terminal, written as an escape.

    Kafka restricts neither group ids nor client ids, so strangers choose what stands in a log and in a table.
    """
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    )


def aligned(rows: Sequence[Sequence[str]], *, right: Collection[int]) -> str:
    """Return one line per row, every column as wide as its widest cell; the columns in `right` are set flush right."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
