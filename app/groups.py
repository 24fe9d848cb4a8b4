"""Page: how each consumer group would resume after a failover, the reason, and the command that prints its offsets."""

from __future__ import annotations

import time
from collections.abc import Sequence

import streamlit as st

from app.inspection import file_name, process_status, settings, watch
from app.links import MIRROR
from app.resumption import OFFSETS, Resumption, group_table, place_table, resumptions, translate_command
from app.session import ROW_HEIGHT, live, plain, warn
from app.tables import failovers
from metrics.process_status import ProcessStatus
from mirror.config.clients import client_options
from mirror.errors import MirrorError
from mirror.flows.selection import flow_named
from mirror.kafka.internal_topics import answered, read_checkpoints
from mirror.lag.snapshot import Snapshot
from mirror.model.mm2_records import Checkpoint

KEPT_S = 15.0  # how long the same checkpoints are shown to all viewers


def page() -> None:
    """Draw the page."""
    st.title("Groups", anchor=False)
    known = sorted({cost.group for cost in failovers(watch().latest())})
    given = st.query_params.get("group")
    names = ["", *known] if given in (None, "", *known) else ["", given, *known]
    st.selectbox(
        "Group", names, key="group", bind="query-params", placeholder="all", accept_new_options=True, width=320
    )
    live(_draw)


def _draw(snapshot: Snapshot) -> None:
    costs = failovers(snapshot)
    group = str(st.session_state.get("group") or "")
    found = [each for each in resumptions(_status(), costs) if group in ("", each.group)]
    if not found:
        _nothing(snapshot)
        return
    st.write(
        "The result of a failover now for each consumer group of a source. Unread records that are not on the target are missing "
        "until the source is back."
    )
    st.dataframe(
        group_table(found, costs, time.time()),
        hide_index=True,
        row_height=ROW_HEIGHT,
        placeholder="unknown",
        alt="Consumer groups and what a failover now means for each, worst first",
    )
    if not group:
        st.caption("Choose a group to see the offset where it would resume on each partition, and the command.")
        return
    for each in found:
        _places(each, snapshot)


def _status() -> ProcessStatus | None:
    """Return the status that the process reports; show a warning if it does not respond."""
    try:
        return process_status()
    except OSError as error:
        address = settings().mirror.metrics_address
        warn(f"Where groups would resume is unknown: the process at {address} does not respond.", error)
        return None


def _nothing(snapshot: Snapshot) -> None:
    silent = [alias for alias, is_up in snapshot.clusters if not is_up]
    if silent:
        warn(f"Consumer groups of {', '.join(silent)} are unknown: no response.")
    else:
        st.info("No consumer group of a source reads a topic that a flow replicates.")


def _places(found: Resumption, snapshot: Snapshot) -> None:
    """Draw where a group resumes on each partition of the target."""
    st.subheader(f"{plain(found.group)} over {plain(found.flow)}: {plain(found.outcome)}", anchor=False)
    st.write(f"**Why:** {plain(found.why)}.")
    try:
        checkpoints = _checkpoints(MIRROR.get(), found.flow)
    except MirrorError as error:
        warn(f"The checkpoints of {found.flow} cannot be read.", error)
        checkpoints = []
    source = found.flow.partition("->")[0]
    names = {row.topic: row.remote_topic for row in snapshot.rows if row.is_flow and row.group == found.flow}
    rows = [row for row in snapshot.rows if not row.is_flow and (row.group, row.cluster) == (found.group, source)]
    st.dataframe(
        place_table(rows, [each for each in checkpoints if each.group == found.group], names),
        hide_index=True,
        row_height=ROW_HEIGHT,
        column_config={name: st.column_config.NumberColumn(name, format="localized") for name in OFFSETS},
        placeholder="unknown",
        alt="Offset on the target where the group resumes, by partition",
    )
    st.write("The exact offsets now, from the offset map:")
    st.code(translate_command(file_name(), found.flow, found.group), language=None)


@st.cache_data(ttl=KEPT_S, show_spinner=False)
def _checkpoints(mirror: str, name: str) -> Sequence[Checkpoint]:
    flow = flow_named(settings(mirror), name, command="app")
    topic = flow.policy.checkpoints_topic(flow.source.alias)
    reading = read_checkpoints(client_options(flow.target_admin), topic)
    what = f"the checkpoints of {name} cannot be read"
    return answered(reading, cluster=flow.target.alias, what=what)[0]
