"""Show each flow's gap ledger: records that were ever lost, skipped, repeated, kept or refused."""

from __future__ import annotations

from collections.abc import Sequence, Set

import pandas as pd
import streamlit as st

from app.inspection import settings
from app.links import MIRROR
from app.session import ROW_HEIGHT, plain, warn
from mirror.errors import MirrorError
from mirror.flows.gaps import GapLedger
from mirror.flows.selection import flow_named
from mirror.lag.text import COLUMNS, cells, gap_csv, pluralized
from mirror.model.gaps import Gap

KEPT_S = 15.0  # how long the same result is shown to all viewers
MOST = 1_000  # lines of the table; the downloaded file has all gaps


def draw_ledgers(*, up: Set[str]) -> None:
    """Draw the ledgers of the flows whose target (by alias) is `up`."""
    st.subheader("Gap ledger", anchor=False)
    for flow in settings().flows:
        if flow.target.alias not in up:
            st.caption(f"{plain(flow.target.alias)}, which keeps the ledger of {plain(flow.name)}, does not respond.")
            continue
        try:
            found = _read(MIRROR.get(), flow.name)
        except MirrorError as error:
            warn(f"The gap ledger of {flow.name} cannot be read from {flow.target.alias}.", error)
            continue
        if not found:
            st.caption(f"{plain(flow.name)}: no record was ever lost, skipped, repeated or refused.")
            continue
        with st.expander(f"{plain(flow.name)}: {pluralized(len(found), 'gap')}", expanded=False):
            frame = ledger_table(found)
            st.dataframe(frame, hide_index=True, row_height=ROW_HEIGHT, alt=f"Gaps of {flow.name}, newest first")
            name = f"gaps-{flow.source.alias}-{flow.target.alias}.csv"
            st.download_button("CSV", gap_csv(found), name, "text/csv", key=name, icon=":material/download:")


def ledger_table(gaps: Sequence[Gap]) -> pd.DataFrame:
    """Return one line per gap, newest first; an unknown value is "?"."""
    columns = [column.capitalize() for column in COLUMNS]
    return pd.DataFrame([cells(gap) for gap in gaps[: -MOST - 1 : -1]], columns=columns)


@st.cache_data(ttl=KEPT_S, show_spinner=False)
def _read(mirror: str, flow: str) -> list[Gap]:
    return GapLedger(flow_named(settings(mirror), flow, command="app")).refresh()
