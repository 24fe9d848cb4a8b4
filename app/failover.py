"""Page: failover check of each flow, its switches and drills, and its gap ledger."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from app.failovers import answers
from app.ledger import draw_ledgers
from app.links import address
from app.session import live, plain
from app.switches import draw_switches
from mirror.lag.failover import FailoverReadiness, Objective, Planned
from mirror.lag.flow_summary import summaries
from mirror.lag.snapshot import Snapshot


def page() -> None:
    """Draw the page."""
    st.title("Failover", anchor=False)
    live(_draw)


def _draw(snapshot: Snapshot) -> None:
    for answer in sorted(
        answers(snapshot, summaries(snapshot)), key=lambda each: (each.answer, -(each.records or 0), each.flow)
    ):
        _answers(answer)
    st.markdown(f"[Where each consumer group would resume]({address('groups')})")
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
