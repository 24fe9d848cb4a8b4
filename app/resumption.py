"""Describe where each consumer group would resume after a failover, and why. No Streamlit, no clock."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from app.tables import GroupFailover
from metrics.lag_row import LagRow
from metrics.process_status import ProcessStatus, flow_of
from mirror.checkpoints.rules import State
from mirror.lag.failover import NO_WAY
from mirror.lag.flow_summary import at_least
from mirror.lag.text import duration, pluralized
from mirror.model.mm2_records import Checkpoint

_STATES = "kafka_mirror_group_partitions"
_CHECKPOINTED = "kafka_mirror_last_checkpoint_timestamp_seconds"
_REREAD = "kafka_mirror_failover_reread_records"
OFFSETS = ("Resumes at", "Offset on the source", "Unread", "Read since the checkpoint")  # columns of place_table
# The states with their reasons, worst first; docs/offsets.md describes what to do.
REASONS = {
    State.REFUSED: "a cluster refuses the group's offset, or hides the group",
    State.UNSUPPORTED: "its protocol is that of Kafka Streams or of share groups, whose offsets are not read",
    State.NO_MAP: "its offset is older than the offset map",
    State.PAST_END: "the target's log ends before its offset",
    State.SHARED: "another flow writes to the same partitions on the target",
    State.UNREACHABLE: "the target does not report the log end",
    State.NOTHING_YET: "no record of the partition is replicated yet",
    State.AHEAD: "it has read records that are not on the target yet, and reads them again",
    State.ACTIVE: "a consumer reads with this group on the target, so it is not moved",
    State.TARGET_AHEAD: "its offset on the target is further ahead and is kept",
    State.TRANSLATED: "its offset on the target is known; group sync is off, so set it with the command below",
    State.SYNCED: "the group on the target is at its offset",
}


@dataclass(slots=True)
class Resumption:
    """The process' report about one group and one flow."""

    group: str
    flow: str
    states: dict[State, int] = field(default_factory=dict)  # partitions by state of the group's offset
    reread: int = 0  # records that the group would read again if the source were lost now
    checkpoint_s: float | None = None  # time of the last checkpoint, epoch seconds

    @property
    def outcome(self) -> str:
        """What a failover now would mean for the group."""
        if any(self.states.get(state) for state in NO_WAY):
            return "✖ cannot resume"
        if not self.states:
            return "? unknown"
        return f"▲ re-reads {pluralized(self.reread, 'record')}" if self.reread else "● exact"

    @property
    def why(self) -> str:
        """The reason for the worst state."""
        worst = next((state for state in REASONS if self.states.get(state)), None)
        if worst is None:
            return "the process reports no checkpoint of it"
        if self.reread and worst is State.SYNCED:
            return "it has read on since its last checkpoint"
        return REASONS[worst]

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """Sort key: groups that cannot resume come first."""
        return "✖?▲●".index(self.outcome[0]), -self.reread, self.group, self.flow


def resumptions(status: ProcessStatus | None, costs: Iterable[GroupFailover]) -> list[Resumption]:
    """Return each group that has checkpoints or reads a replicated topic, worst first."""
    found = {(cost.group, cost.flow): Resumption(cost.group, cost.flow) for cost in costs}
    for sample in status.samples((_STATES, _CHECKPOINTED, _REREAD)) if status else ():
        key = sample.labels["group"], flow_of(sample.labels)
        own = found.setdefault(key, Resumption(*key))
        if sample.name == _STATES:
            own.states[State(sample.labels["state"])] = int(sample.value)
        elif sample.name == _REREAD:
            own.reread = int(sample.value)
        else:
            own.checkpoint_s = sample.value
    return sorted(found.values(), key=lambda each: each.rank)


def group_table(found: Sequence[Resumption], costs: Iterable[GroupFailover], now_s: float) -> pd.DataFrame:
    """Return one line per group and flow: what a failover now means for the group, and why."""
    by_key = {(cost.group, cost.flow): cost for cost in costs}
    content = [
        (
            each.outcome,
            each.group,
            each.flow,
            each.why,
            *_cost(by_key.get((each.group, each.flow))),
            ", ".join(f"{state} {count:,}" for state, count in sorted(each.states.items())),
            "" if each.checkpoint_s is None else duration(max(0.0, now_s - each.checkpoint_s)),
        )
        for each in found
    ]
    names = ["After a failover", "Group", "Flow", "Why", "Unread", "Of them not on target", "Oldest"]
    return pd.DataFrame(content, columns=[*names, "Partitions by state", "Checkpoint age"]).astype({"Unread": "Int64"})


def _cost(cost: GroupFailover | None) -> tuple[int | None, str, str]:
    if cost is None:
        return None, "unknown", "unknown"
    oldest = "unknown" if cost.unknown else duration(cost.missing_s)
    return cost.unread, at_least(cost.missing, cost.unknown), oldest


def place_table(rows: Iterable[LagRow], checkpoints: Iterable[Checkpoint], names: Mapping[str, str]) -> pd.DataFrame:
    """Return one line per partition of a group: its source offset, and the target offset to resume at.

    `names`: the remote topic of each source topic.
    """
    last = {(each.topic, each.partition): each for each in checkpoints}
    content = []
    for row in rows:
        remote = names.get(row.topic)
        if remote is None:
            continue
        there = last.get((remote, row.partition))
        read = None if there is None or row.offset is None else max(0, row.offset - there.upstream)
        content.append((remote, row.partition, there and there.downstream, row.topic, row.offset, row.lag, read))
    resumes, *others = OFFSETS
    columns = ["Topic on the target", "Partition", resumes, "Topic", *others]
    return pd.DataFrame(content, columns=columns).astype(dict.fromkeys(OFFSETS, "Int64"))


def translate_command(file: str, flow: str, group: str) -> str:
    """Return the command that prints the exact offsets of a group on the target."""
    return f"kafka-mirror translate {shlex.quote(file)} {shlex.quote(flow)} --group {shlex.quote(group)}"
