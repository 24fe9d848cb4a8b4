"""Page: is the appliance well? What it says of itself, in sentences; the numbers behind them below."""

from __future__ import annotations

import time

import streamlit as st

from app.findings import findings
from app.inspection import last_errors, process_status, settings, unread
from app.session import ROW_HEIGHT, live, plain
from app.tables import health_table
from app.verdicts import coloured
from metrics.verdict import Status
from mirror.lag.snapshot import Snapshot


def page() -> None:
    """Draw the page."""
    st.title("Health of the mirror", anchor=False)
    live(_draw)


def _draw(_: Snapshot) -> None:
    address = settings().mirror.metrics_address
    try:
        status = process_status()
    except OSError as error:
        st.warning(f"The appliance does not answer at {plain(address)} ({plain(str(error))}). Lag is read without it.")
        return
    try:
        errors = last_errors()
    except (OSError, ValueError) as error:
        errors = []
        st.warning(f"Why topic-partitions were paused is not known: {plain(unread('/errors', error))}.")
    found = findings(status, time.time(), errors)
    ill = [finding for finding in found if finding.status is not Status.OK]
    if not ill:
        st.success(f"The appliance at {plain(address)} is well.", icon=":material/check_circle:")
    else:
        st.error(f"{len(ill)} of {len(found)} things are not well.", icon=":material/error:")
    for finding in found:
        st.markdown(f"{coloured(finding.status)} {plain(finding.sentence)}")
    with st.expander("The numbers", expanded=False):
        st.dataframe(
            health_table(status),
            hide_index=True,
            row_height=ROW_HEIGHT,
            alt="What the appliance says of itself, with the meaning of each number",
        )
