"""Hold the offsets of a flow from one poll, and values derived from them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from metrics.lag_row import lag_between
from metrics.partition_status import LONG_AGO_S
from mirror.model.flow_plan import FlowPlan
from mirror.model.topic_partition import TopicPartition


class Positions(NamedTuple):
    """The next source offset of each partition that has one."""

    offsets: Mapping[TopicPartition, int]
    read_s: float  # when they were requested, epoch seconds


class LogBounds(NamedTuple):
    """Log start and log end of each partition that the source returned.

    `stable` and `open` are filled if the flow reads committed records only.
    """

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    read_s: float = 0.0  # when they were requested, epoch seconds
    stable: Mapping[TopicPartition, int] = MappingProxyType({})  # last stable offsets
    open: Mapping[TopicPartition, str] = MappingProxyType({})  # whose transaction is open


NO_POSITIONS = Positions({}, LONG_AGO_S)


class PartitionOffsets(NamedTuple):
    """Offsets of one partition. None is unknown."""

    position: int | None = None  # of a flow, or the offset of a group
    log_start: int | None = None
    log_end: int | None = None

    @property
    def lag(self) -> int | None:
        """Records not yet read or replicated, never below 0; None while either end is unknown."""
        return lag_between(self.position, self.log_end)

    @property
    def first_unreplicated(self) -> int | None:
        """Offset of the first waiting record, never before the log start; None if none waits."""
        if self.position is None or self.log_end is None or self.log_end <= self.position:
            return None
        return max(self.position, self.log_start or 0)


@dataclass(frozen=True, slots=True)
class FlowOffsets:
    """The offsets of a flow from one poll."""

    positions: Positions  # from the target, or the last known ones
    is_target_read: bool  # whether the target returned them in this poll
    logs: LogBounds | None  # of the source; None if it did not respond
    of: Mapping[TopicPartition, PartitionOffsets]  # every partition of the plan
    replicated_until_s: Mapping[TopicPartition, float] = field(default_factory=dict)  # epoch; unknown ones are left out

    @property
    def is_whole(self) -> bool:
        """Whether both clusters responded."""
        return self.is_target_read and self.logs is not None

    @property
    def held(self) -> dict[TopicPartition, str]:
        """The open transaction that each held-up partition waits for: no decided record waits there."""
        logs = self.logs
        if logs is None:
            return {}
        return {
            key: logs.open.get(key, "an open transaction")
            for key, stable in logs.stable.items()
            if (at := self.of.get(key)) is not None and at.lag and (at.position or 0) >= stable
        }

    @property
    def first_unreplicated(self) -> dict[TopicPartition, int]:
        """The first offset that waits, of each partition that lags."""
        return {key: at for key, own in self.of.items() if (at := own.first_unreplicated) is not None}

    @property
    def seen_s(self) -> float | None:
        """Epoch seconds of the older reading: lag 0 means replicated up to then. None if that time is unknown."""
        read_s = min(self.logs.read_s, self.positions.read_s) if self.logs is not None else self.positions.read_s
        return read_s if read_s > LONG_AGO_S else None


def joined(plan: FlowPlan, positions: Positions, logs: LogBounds | None, *, is_target_read: bool) -> FlowOffsets:
    """Join positions and log bounds to the partitions of a plan.

    Both may be older than the plan. If the target lacks a partition, all records of the source's log wait.
    """
    starts, ends = (logs.starts, logs.ends) if logs is not None else ({}, {})
    at = {
        **{on_source: positions.offsets.get(on_source) for on_source, _ in plan.sides},
        **{p.on_source: starts.get(p.on_source) for p in plan.absent},
    }
    of = {key: PartitionOffsets(position, starts.get(key), ends.get(key)) for key, position in at.items()}
    return FlowOffsets(positions, is_target_read, logs, of)


def time_lag_s(lag: int | None, until_s: float | None, now_s: float) -> float | None:
    """Return how long the first unreplicated record has waited; 0: none waits, None: unknown.

    Args:
        lag: Records that wait.
        until_s: When the first unreplicated record was written, epoch seconds; None if unknown.
        now_s: The present, epoch seconds.
    """
    if lag == 0:
        return 0.0
    return None if until_s is None else max(0.0, now_s - until_s)
