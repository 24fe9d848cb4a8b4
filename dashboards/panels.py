"""Describe dashboards independently of Grafana; dashboards/grafana.py converts them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

WIDTH = 24  # columns of Grafana's grid
COUNT = "locale"  # the unit of counts in tables, for 18,000 instead of 18 K


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression.

    `legend` is Grafana's template for a line; `column` and `unit` apply to the value in a table.
    """

    expr: str
    legend: str = ""
    column: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel. `unit` is Grafana's id for all values, except in tables.

    `steps` are (from value, colour), lowest first. `may_be_empty` is the reason why the panel of a healthy mirror may be empty,
    so that a check can distinguish that from a mistake in the query.
    """

    kind: Literal["stat", "lines", "stack", "table", "heatmap", "statuses", "timeline"]
    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = ""
    width: int = 8
    height: int = 8
    steps: tuple[tuple[float | None, str], ...] = ()
    words: tuple[tuple[int, str, str], ...] = ()  # for a number that is a code: value, word, colour
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading, from left to right.

    With `each_flow`, the row is repeated for each flow under a separate heading.

    The queries of such a row select by `queries.ONE_FLOW`, and its title may contain `$flow`.
    """

    title: str
    panels: tuple[Panel, ...]
    each_flow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard for one question.

    `variables` are added to datasource, job, source and target. The variables in `chosen` have no All.
    """

    uid: str
    title: str
    question: str
    rows: tuple[Row, ...]
    variables: tuple[str, ...] = field(default=())
    chosen: tuple[str, ...] = field(default=())


GOOD, BAD, WARN, INFO = "green", "red", "orange", "blue"


def stat(
    title: str,
    description: str,
    query: str,
    unit: str,
    steps: tuple[tuple[float | None, str], ...],
    may_be_empty: str = "",
    words: tuple[tuple[int, str, str], ...] = (),
) -> Panel:
    """Return a panel with a number coloured by its steps, or a code's word."""
    return Panel(
        kind="stat",
        title=title,
        description=description,
        queries=(Query(query),),
        unit=unit,
        width=4,
        height=4,
        steps=steps,
        words=words,
        may_be_empty=may_be_empty,
    )


def lines(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    width: int = 8,
    steps: tuple[tuple[float | None, str], ...] = (),
    may_be_empty: str = "",
) -> Panel:
    """Return a panel with lines over time; a step is a horizontal line."""
    return Panel(
        kind="lines",
        title=title,
        description=description,
        queries=queries,
        unit=unit,
        width=width,
        steps=steps,
        may_be_empty=may_be_empty,
    )


def none_wanted(bad: str = BAD) -> tuple[tuple[float | None, str], ...]:
    """Return steps for a count that should be zero."""
    return ((None, GOOD), (1, bad))
