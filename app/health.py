"""Page: the health of the process, with its checks as sentences, and its metrics."""

from __future__ import annotations

import time

import streamlit as st

from app.findings import Finding, findings
from app.inspection import last_errors, process_status, settings
from app.session import ROW_HEIGHT, live, plain, warn
from app.statuses import coloured
from app.tables import health_table
from metrics.partition_status import Status
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import pluralized


def page() -> None:
    """Draw the page."""
    st.title("Health", anchor=False)
    live(_draw)


def _draw(_: Snapshot) -> None:
    address = settings().mirror.metrics_address
    try:
        status = process_status()
    except OSError as error:
        warn(f"The process at {address} does not respond: its health is unknown. Lag is read from the clusters.", error)
        return
    try:
        errors = last_errors()
    except (OSError, ValueError) as error:
        errors = []
        warn(f"The reasons of paused partitions are unknown: {address}/errors cannot be read.", error)
    found = findings(status, time.time(), errors)
    failed = [finding for finding in found if finding.status is not Status.OK]
    if not failed:
        st.success(f"The process at {plain(address)} is healthy.", icon=":material/check_circle:")
    elif max(finding.status for finding in failed) is Status.WARN:
        st.warning(f"Warnings in {len(failed)} of {len(found)} checks; none failed.", icon=":material/warning:")
    else:
        st.error(f"{len(failed)} of {len(found)} checks failed.", icon=":material/error:")
    for finding in failed:
        st.markdown(_line(finding))
    passed = [finding for finding in found if finding.status is Status.OK]
    with st.expander(f"{pluralized(len(passed), 'check')} passed", expanded=False):
        st.markdown("  \n".join(map(_line, passed)))
    with st.expander("Metrics", expanded=False):
        st.dataframe(
            health_table(status),
            hide_index=True,
            row_height=ROW_HEIGHT,
            alt="Metrics of the process with their meanings",
        )


def _line(finding: Finding) -> str:
    return f"{coloured(finding.status)} {plain(finding.sentence)}"
