"""Page: every group and partition, filtered and ordered by the parameters in the address.

Alerts and dashboards link to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import streamlit as st

from app.inspection import watch
from app.links import of_row
from app.session import ROW_HEIGHT, columns, live, search_field, with_sparklines
from app.tables import narrowed, totals
from app.watch import Watch
from metrics.lag_row import LagRow
from metrics.partition_status import Status
from mirror.lag.flow_summary import worst_first
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import checker_text, csv_text, json_text

TEXTS = ("source", "target", "group", "topic", "partition", "search")
LINES: dict[str, Callable[[LagRow], tuple[str, str]] | None] = {
    "partitions": None,
    "topics": lambda row: (row.group, row.topic),
    "groups": lambda row: (row.group, ""),
}
# Largest first; unknown values come before all others. Rows with the same value stay worst first.
ORDERS: dict[str, Callable[[LagRow], float] | None] = {
    "status": None,
    "lag": lambda row: _descending(row.lag),
    "time lag": lambda row: _descending(row.lag_seconds),
    "in/s": lambda row: _descending(row.written_per_s),
}
# Of the exported files: name, type and text.
FORMATS: dict[str, tuple[str, str, Callable[[Snapshot, list[LagRow]], str]]] = {
    "CSV": ("lag.csv", "text/csv", lambda _, rows: csv_text(rows)),
    "JSON": ("lag.json", "application/json", json_text),
    "Text": ("lag.txt", "text/plain", lambda _, rows: checker_text(rows)),
}


def page() -> None:
    """Draw the page."""
    st.title("Partitions", anchor=False)
    _filters(watch().latest())
    chosen = _chosen()
    live(partial(_draw, chosen))
    _exports(watch(), chosen)


def _filters(snapshot: Snapshot) -> None:
    """Draw the filters.

    The address contains their values. A viewer can also type names that do not exist at present.
    """
    groups = sorted({row.group for row in snapshot.rows})
    topics = sorted({name for row in snapshot.rows for name in (row.topic, row.remote_topic) if name})
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        for label, key, names in (("Group", "group", groups), ("Topic", "topic", topics)):
            given = st.query_params.get(key)
            options = ["", *names] if given in (None, *names) else ["", given, *names]
            st.selectbox(
                label, options, key=key, bind="query-params", placeholder="all", accept_new_options=True, width=220
            )
        st.text_input("Partition", key="partition", bind="query-params", width=80)
        search_field()
        statuses = ["", *(each.name for each in Status)]
        st.selectbox("Status", statuses, key="status", bind="query-params", placeholder="all", width=130)
        st.selectbox("Group rows by", list(LINES), key="lines", bind="query-params", width=130)
        st.selectbox("Sort rows by", list(ORDERS), key="sort", bind="query-params", width=130)
        st.toggle("Only lagging", key="only_lagging", bind="query-params")


class Chosen(NamedTuple):
    """The filters and the order that the viewer has chosen."""

    texts: Mapping[str, str]
    status: str
    only_lagging: bool
    sort: str
    lines: str

    def rows(self, snapshot: Snapshot) -> list[LagRow]:
        """Return the rows of a snapshot that match, in order."""
        rows = worst_first(narrowed(snapshot.rows, **self.texts, status=self.status, only_lagging=self.only_lagging))
        if order := ORDERS[self.sort]:
            rows.sort(key=order)
        return rows


def _chosen() -> Chosen:
    state, given = st.session_state, st.query_params
    return Chosen(
        texts={name: str(state.get(name) or given.get(name) or "") for name in TEXTS},
        status=state.get("status") or "",
        only_lagging=bool(state.get("only_lagging")),
        sort=state.get("sort") or "status",
        lines=state.get("lines") or "partitions",
    )


def _draw(chosen: Chosen, snapshot: Snapshot) -> None:
    rows = chosen.rows(snapshot)
    st.caption(f"{len(rows):,} of {len(snapshot.rows):,} rows")
    by = LINES[chosen.lines]
    if by is None:
        _rows(rows)
    else:
        st.dataframe(
            totals(rows, by),
            hide_index=True,
            column_config=columns(),
            placeholder="unknown",
            row_height=ROW_HEIGHT,
            alt="Totals of the selected rows, worst first",
        )


def _descending(value: float | None) -> float:
    return -math.inf if value is None else -value


def _rows(rows: Sequence[LagRow]) -> None:
    chosen = st.dataframe(
        with_sparklines(rows),
        hide_index=True,
        key="rows",
        on_select="rerun",
        selection_mode="single-row",
        column_config=columns(),
        placeholder="unknown",
        row_height=ROW_HEIGHT,
        height="content" if len(rows) <= 20 else 620,
        alt="Offsets, log ends and lag of groups by partition, worst first",
    )
    for number in chosen.selection.rows[:1]:
        if number < len(rows):
            st.link_button("Why? Details of the selected partition", of_row(rows[number]), icon=":material/search:")


def _exports(watched: Watch, chosen: Chosen) -> None:
    """Draw a button for each format; a click exports the newest rows.

    They are not drawn again with the rows: Streamlit refuses a click on a button that it has replaced meanwhile.
    """
    with st.container(horizontal=True):
        for label, (name, mime, text) in FORMATS.items():
            # A callable: the text of ten thousand rows is created on a click.
            exported = partial(_exported, text, watched, chosen)
            st.download_button(label, exported, name, mime, on_click="ignore", key=f"export_{label}")


def _exported(text: Callable[[Snapshot, list[LagRow]], str], watched: Watch, chosen: Chosen) -> str:
    snapshot = watched.latest()
    return text(snapshot, chosen.rows(snapshot))
