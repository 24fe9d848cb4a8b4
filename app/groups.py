"""Page: consumer groups of the sources, and what a fail-over now would mean for each."""

from __future__ import annotations

import time

import pandas as pd
import streamlit as st

from app.failovers import answers
from app.inspection import process_status, settings
from app.ledger import draw_ledgers
from app.session import live, plain
from app.switches import draw_switches
from app.tables import failovers, readiness_table
from mirror.lag.failover import Answer
from mirror.lag.flow_summary import at_least, summaries
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import duration


def page() -> None:
    """Draw the page."""
    st.title("If we fail over now", anchor=False)
    live(_draw)


def _draw(snapshot: Snapshot) -> None:
    for answer in sorted(
        answers(snapshot, summaries(snapshot)), key=lambda each: (each.answer, -(each.records or 0), each.flow)
    ):
        draw = {Answer.GO: st.success, Answer.GO_WITH_LOSS: st.warning, Answer.NO: st.error}[answer.answer]
        reasons = [*answer.vetoes, *answer.costs, *answer.unknowns]
        draw(f"**{plain(answer.flow)}: {answer.answer.words}**" + "".join(f"\n- {plain(reason)}" for reason in reasons))
    _groups(snapshot)
    up = {alias for alias, is_up in snapshot.clusters if is_up}
    draw_switches(up=up)
    draw_ledgers(up=up)


def _groups(snapshot: Snapshot) -> None:
    """Draw what a fail-over would mean for each consumer group."""
    found = failovers(snapshot)
    silent = [alias for alias, is_up in snapshot.clusters if not is_up]
    if not found and silent:
        st.warning(f"Consumer groups of {plain(', '.join(silent))} are not known: no answer.")
        return
    if not found:
        st.info("No consumer group of a source reads a topic that a flow copies.")
        return
    st.write(
        "For each consumer group that reads a mirrored topic on its source: records that it has not read yet, and how many "
        "of those are not on the target either. These would be lost to it, or delayed until the source is back."
    )
    frame = pd.DataFrame(
        [
            (
                each.group,
                each.flow,
                each.topics,
                each.unread,
                at_least(each.missing, each.unknown),
                "unknown" if each.unknown else duration(each.missing_s),
            )
            for each in found
        ],
        columns=["Group", "Flow", "Topics", "Not read yet", "Missing on the target", "Longest wait of those"],
    )
    st.dataframe(frame, hide_index=True, alt="Consumer groups and what a fail-over now would mean for each")
    _readiness()
    st.caption(
        "In a terminal: kafka-mirror translate FILE 'A->B' --group NAME. Which groups may fail over now, over time: the board "
        "Fail-over."
    )


def _readiness() -> None:
    """Draw what the appliance's checkpoints say of each group, which only it knows."""
    st.subheader("Where they would go on", anchor=False)
    address = settings().mirror.metrics_address
    try:
        frame = readiness_table(process_status(), time.time())
    except OSError as error:
        st.info(f"The appliance does not answer at {plain(address)} ({plain(str(error))}); it would say so here.")
        return
    st.write(
        "Offsets of each group by what became of them (translated and synced are well; the others are explained in "
        "docs/offsets.md), how old its last checkpoint is, and the records that it would have read again, had it failed over "
        "just before that."
    )
    st.dataframe(frame, hide_index=True, alt="Checkpoints of each consumer group")
