"""Collect the events for one partition's chart: pauses, errors, leader changes, restarts. No Streamlit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from app.past import RESTARTS, spans
from metrics.lag_row import LagRow
from metrics.last_errors import LastError
from mirror.lag.leader_changes import NO_LEADER, LeaderChange
from mirror.lag.text import utc
from mirror.runtime.prometheus import Prometheus


class Mark(NamedTuple):
    """An event at one time."""

    time_s: float  # epoch seconds
    kind: str  # pause, resumed, leader, restart, process
    what: str


def of_errors(errors: Iterable[LastError], row: LagRow) -> list[Mark]:
    """Return the start and the end of the last pause of a flow's partition."""
    found = []
    for error in errors:
        if error.concerns(row.key):
            found.append(Mark(error.since_s, "pause", error.reason))
            if error.until_s is not None:
                found.append(Mark(error.until_s, "resumed", "the pause ended"))
    return found


def of_leaders(changes: Iterable[LeaderChange]) -> list[Mark]:
    """Return the leader changes that polls have seen."""
    return [
        Mark(each.time_s, "leader", f"{each.cluster}: from {_broker(each.before)} to {_broker(each.after)}")
        for each in changes
    ]


def _broker(number: int) -> str:
    return "no leader" if number == NO_LEADER else f"broker {number}"


def of_process(changes: Iterable[tuple[float, bool]]) -> list[Mark]:
    """Return when the process stopped responding, and when it responded again."""
    return [
        Mark(time_s, "process", "the process responds again" if is_up else "the process does not respond")
        for time_s, is_up in changes
    ]


def of_prometheus(prometheus: Prometheus, flow: str, *, start_s: float, end_s: float, step_s: float) -> list[Mark]:
    """Return the restarts of processes and the takeovers of a flow.

    Raises:
        MirrorError: The Prometheus server does not respond, or refuses.
    """
    found = spans(prometheus, start_s=start_s, end_s=end_s, step_s=step_s, happened=RESTARTS)
    return [
        Mark(span.from_s, span.said.lane, span.said.what)
        for span in found
        if span.said.lane != "takeover" or span.said.what == flow
    ]


def table(marks: Iterable[Mark]) -> pd.DataFrame:
    """Return a table of the events, newest first."""
    content = [(utc(mark.time_s), mark.kind, mark.what) for mark in sorted(marks, reverse=True)]
    return pd.DataFrame(content, columns=["Time", "Event", "What happened"])
