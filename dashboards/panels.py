"""Describe dashboards independently of Grafana; dashboards/grafana.py converts them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

WIDTH = 24  # columns of Grafana's grid
COUNT = "locale"  # the unit of counts in tables: 18,000 rather than 18 K


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression.

    `legend` is Grafana's template; `column` and `unit` are for the value in a table.
    """

    expr: str
    legend: str = ""
    column: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel. `unit` is Grafana's id, for all values but a table's.

    `steps` are (from value, colour), the lowest first. `may_be_empty` is the reason why the panel of a healthy mirror may be
    empty, so that a check can distinguish it from a typing error.
    """

    kind: Literal["stat", "lines", "stack", "table", "heatmap", "statuses", "timeline"]
    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = ""
    width: int = 8
    height: int = 8
    steps: tuple[tuple[float | None, str], ...] = ()
    words: tuple[tuple[int, str, str], ...] = ()  # of a number that is a code: value, word, colour
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading, from left to right.

    With `each_flow`, the row is repeated for each flow under its own heading.

    The queries of a row of `each_flow` select by `queries.ONE_FLOW`, and its title may name `$flow`.
    """

    title: str
    panels: tuple[Panel, ...]
    each_flow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard for one question.

    `variables` are those in addition to datasource, job, source and target; `chosen` ones have no All.
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
    """Return a number coloured by its steps, or the word of a code."""
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
    """Return lines over time; a step is a line across."""
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
