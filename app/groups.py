"""Page: failover check of each flow, and cost of a failover by consumer group."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pandas as pd
import streamlit as st

from app.failovers import answers
from app.inspection import process_status, settings
from app.ledger import draw_ledgers
from app.session import live, plain, warn
from app.switches import draw_switches
from app.tables import failovers, readiness_table
from mirror.lag.failover import FailoverReadiness, Objective, Planned
from mirror.lag.flow_summary import at_least, summaries
from mirror.lag.snapshot import Snapshot
from mirror.lag.text import duration


def page() -> None:
    """Draw the page."""
    st.title("Failover", anchor=False)
    live(_draw)


def _draw(snapshot: Snapshot) -> None:
    for answer in sorted(
        answers(snapshot, summaries(snapshot)), key=lambda each: (each.answer, -(each.records or 0), each.flow)
    ):
        _answers(answer)
    _groups(snapshot)
    up = {alias for alias, is_up in snapshot.clusters if is_up}
    draw_switches(up=up)
    draw_ledgers(up=up)


def _answers(found: FailoverReadiness) -> None:
    """Draw both answers of a flow, next to each other."""
    st.subheader(plain(found.flow), anchor=False)
    planned, lost = st.columns(2)
    with planned:
        draw = st.success if found.planned is Planned.READY else st.error
        draw(f"Planned switch: **{found.planned_text}**" + _listed(found.blockers))
    with lost:
        draw = {Objective.WITHIN: st.success, Objective.BEYOND: st.error, Objective.UNKNOWN: st.warning}[
            found.objective
        ]
        source = plain(found.flow.partition("->")[0])
        groups = f"Consumer groups: {found.groups_text}"
        draw(f"If {source} is lost now: **{plain(found.loss_text)}**" + _listed((groups, *found.unknowns)))


def _listed(sentences: Iterable[str]) -> str:
    return "".join(f"\n- {plain(sentence)}" for sentence in sentences)


def _groups(snapshot: Snapshot) -> None:
    """Draw the cost of a failover now for each consumer group."""
    found = failovers(snapshot)
    silent = [alias for alias, is_up in snapshot.clusters if not is_up]
    if not found and silent:
        st.warning(f"Consumer groups of {plain(', '.join(silent))} are unknown: no response.")
        return
    if not found:
        st.info("No consumer group of a source reads a topic that a flow replicates.")
        return
    st.write(
        "Consumer groups that read a replicated topic on its source: records that a group has not read yet, and how many of "
        "them are not on the target yet. After a failover, the group misses these until the source is back."
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
        columns=["Group", "Flow", "Topics", "Unread", "Not yet on target", "Oldest"],
    )
    st.dataframe(frame, hide_index=True, alt="Consumer groups and the cost of a failover now for each")
    _readiness()
    st.caption(
        "In a terminal: kafka-mirror translate FILE 'A->B' --group NAME. Over time: the failover dashboard in Grafana."
    )


def _readiness() -> None:
    """Draw the checkpoints of each group, which only the process knows."""
    st.subheader("Where each group would resume", anchor=False)
    address = settings().mirror.metrics_address
    try:
        frame = readiness_table(process_status(), time.time())
    except OSError as error:
        warn(f"Unknown: the process at {address} does not respond.", error)
        return
    st.write(
        "Offsets of each group by state (translated and synced are healthy; docs/offsets.md explains the others), and the age "
        "of its last checkpoint. A failover just before that checkpoint would have re-read the records of the last column."
    )
    st.dataframe(frame, hide_index=True, alt="Checkpoints of each consumer group")
