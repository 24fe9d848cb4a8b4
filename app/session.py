"""Share what every page needs: refresh interval, banners, table of rows. Only this module and the pages use Streamlit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app.inspection import mirror_of, mirrors, settings, watch
from app.links import MIRROR, of_row
from app.statuses import colour, shown
from app.tables import table
from metrics.lag_row import LagRow
from metrics.partition_status import Status
from mirror.lag.snapshot import Snapshot

ROW_HEIGHT = 28  # px; small, so that a screen shows many rows
SPARKLINES = 500  # most rows with a sparkline; longer tables are for searching
STYLE = """<style>
.stMainBlockContainer { padding: 4.2rem 1.6rem 2rem; }
.stMainBlockContainer h1 { padding: 0 0 0.3rem; overflow-wrap: anywhere; }
[data-testid="stMetricValue"] { font-size: 1.3rem; }
@media (max-width: 640px) { .stMainBlockContainer { padding: 4rem 0.6rem 1rem; } }
</style>"""
REFRESH = {"2 s": 2, "5 s": 5, "15 s": 15, "60 s": 60, "off": None}


def dense() -> None:
    """Reduce the margins of the page."""
    st.html(STYLE)


def choose_mirror() -> None:
    """Let the viewer choose the mirror whose pages are shown.

    If an address names a flow but no mirror, as in alerts, the first mirror with this flow is chosen.
    """
    names, given = list(mirrors()), st.query_params
    if "mirror" not in given and "mirror" not in st.session_state:
        flow = f"{given.get('source')}->{given.get('target')}"
        if known := mirror_of(flow) or mirror_of(given.get("group", "")):
            st.session_state["mirror"] = known
    chosen = st.selectbox("Mirror", names, key="mirror", bind="query-params", label_visibility="collapsed", width=320)
    MIRROR.set(chosen or names[0])


def live(draw: Callable[[Snapshot], None]) -> None:
    """Draw with the newest snapshot now, and again at the chosen interval.

    Only this part of the page is drawn again.
    """
    every, mirror = REFRESH[st.session_state.get("refresh") or "5 s"], MIRROR.get()

    def drawn() -> None:
        MIRROR.set(mirror)  # a fragment may run in another thread than its page
        snapshot = watch().latest()
        with st.container():  # one container, so that later elements keep their place and none appears twice
            banners(snapshot)
        draw(snapshot)
        freshness(snapshot)

    st.fragment(drawn, run_every=every)()


def fields(*named: tuple[str, str]) -> None:
    """Draw a text field for each (key, label). The page's address contains its content."""
    for column, (key, label) in zip(st.columns(len(named)), named, strict=True):
        column.text_input(label, key=key, bind="query-params")


def field(key: str) -> str:
    """Return the content of a field."""
    return str(st.session_state.get(key) or "")


def search_field() -> None:
    """Draw a search field that filters while the viewer types."""
    st.text_input("Search", key="search", bind="query-params", placeholder="part of any name", live=True, width=180)


def columns(*, is_linked: bool = False) -> dict[str, Any]:
    """Return the configuration of the columns of the table of rows."""
    statuses = list(Status)
    labels = st.column_config.MultiselectColumn(
        "Status", options=[shown(each) for each in statuses], color=[colour(each) for each in statuses], pinned=True
    )
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    config: dict[str, Any] = {
        "Status": labels,
        "Group": text("Group", pinned=True),
        "Topic": text("Topic", pinned=True),
        "Partition": number("Part", pinned=True, width=50),
        "Last hour": st.column_config.AreaChartColumn(
            "Last hour", y_min=0, width=110, help="Largest lag of each minute"
        ),
        "Why": text("Why", width=380),
        "Caught up in": text("Caught up in", width=110),
        "Records waiting": text("Records waiting", width=120),
        "Why (worst)": text("Why (worst)", width=480),
        **{name: number(name, width=90) for name in ("Partitions", "Lagging")},
        **{name: number(name, format="localized", width=100) for name in ("Lag", "Offset", "Log end")},
        "Time lag s": number(
            "Time lag s",
            format="%.1f",
            width=90,
            help="Wait of the first unreplicated record; of other groups, estimated",
        ),
        "In/s": number("In/s", format="%.1f", width=90, help="Records written per second"),
        "Out/s": number("Out/s", format="%.1f", width=90, help="Records replicated or read per second"),
    }
    if is_linked:
        config["Details"] = st.column_config.LinkColumn("Details", display_text="why?", pinned=True)
    return config


def with_sparklines(rows: Sequence[LagRow]) -> pd.DataFrame:
    """Return the table of rows; if there are few, include their last hour's lag."""
    if len(rows) > SPARKLINES:
        return table(rows).drop(columns="Last hour")
    trends = watch().row_trends
    return table(rows, lambda row: sparkline([minute.lag for minute in trends.of(row)]))


def sparkline(values: list[int]) -> list[int]:
    """Return the values to draw: none for a single minute, which would fill the whole cell."""
    return values if len(values) > 1 else []


def explained(rows: Sequence[LagRow], *, alt: str) -> None:
    """Draw rows as a table in which each row has a link to its reason."""
    frame = with_sparklines(rows)
    frame.insert(1, "Details", [of_row(row) for row in rows])
    config = columns(is_linked=True)
    st.dataframe(frame, hide_index=True, column_config=config, placeholder="unknown", row_height=ROW_HEIGHT, alt=alt)


def banners(snapshot: Snapshot) -> None:
    """Draw a warning for each cluster or process whose values are missing or old."""
    for problem in watch().trouble(snapshot, time.time()):
        warn(problem.sentence, problem.detail)
    if {row.owner for row in snapshot.rows if row.is_flow} == {""}:
        address = settings().mirror.metrics_address
        warn(f"The process at {address} does not respond. The values below are read from the clusters.")


def freshness(snapshot: Snapshot) -> None:
    """Draw the age of the values, and which clusters respond."""
    states = [f"{plain(alias)} {'responds' if is_up else 'does not respond'}" for alias, is_up in snapshot.clusters]
    clusters = f" Clusters: {', '.join(states)}." if states else ""
    age_s = time.time() - snapshot.time_s
    st.caption(f"Polled {age_s:.0f} s ago, every {watch().every_s:g} s. This page is read-only.{clusters}")


def warn(sentence: str, detail: object = "") -> None:
    """Draw a warning: a plain sentence, and a folded detail from a library."""
    with st.container(gap="xxsmall"):
        st.warning(plain(sentence), icon=":material/warning:")
        if str(detail):
            with st.expander("Technical details", type="compact"):
                st.code(str(detail), language=None, wrap_lines=True)


def plain(text: str) -> str:
    """Return a text escaped for Markdown: strangers can choose ids."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]()<>#+-.!|$:~" else char for char in text)
