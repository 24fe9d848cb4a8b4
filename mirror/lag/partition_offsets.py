"""Hold the offsets of topic-partitions, position, log start and log end, and what follows from them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from metrics.verdict import LONG_AGO_S
from mirror.model.flow_plan import FlowPlan
from mirror.model.topic_partition import TopicPartition


class Positions(NamedTuple):
    """The next source offset of each topic-partition that has one, and when they were read, epoch seconds."""

    offsets: Mapping[TopicPartition, int]
    read_s: float


class LogBounds(NamedTuple):
    """First offset and log end of each topic-partition that answered, and when they were asked for, epoch seconds.

    `stable` and `open` are of flows that read committed records only: the last stable offsets, and whose transaction is open.
    """

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    read_s: float = 0.0
    stable: Mapping[TopicPartition, int] = MappingProxyType({})
    open: Mapping[TopicPartition, str] = MappingProxyType({})


NO_POSITIONS = Positions({}, LONG_AGO_S)
NO_BOUNDS = LogBounds({}, {})


class PartitionOffsets(NamedTuple):
    """Where one topic-partition stands: its position or its group's offset, log start, log end. None is not known."""

    position: int | None = None
    log_start: int | None = None
    log_end: int | None = None

    @property
    def lag(self) -> int | None:
        """Records behind, never below 0; None while either end is unknown."""
        return None if self.position is None or self.log_end is None else max(0, self.log_end - self.position)

    @property
    def first_unreplicated(self) -> int | None:
        """Offset of the first record that waits: at the position, or where the log begins now; None where none waits."""
        if self.position is None or self.log_end is None or self.log_end <= self.position:
            return None
        return max(self.position, self.log_start or 0)


@dataclass(frozen=True, slots=True)
class FlowOffsets:
    """What one poll knows of a flow.

    Attributes:
        positions: From the target, or what was known of them before.
        is_target_read: Whether the target answered this poll with them.
        logs: The source's logs; None where it did not answer.
        of: Where each topic-partition of the flow stands.
    """

    positions: Positions
    is_target_read: bool
    logs: LogBounds | None
    of: Mapping[TopicPartition, PartitionOffsets]

    @property
    def held(self) -> dict[TopicPartition, str]:
        """Whose open transaction is what holds up a topic-partition: nothing that is decided waits."""
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
        """The first offset that waits, of each topic-partition that is behind."""
        return {key: at for key, own in self.of.items() if (at := own.first_unreplicated) is not None}

    @property
    def seen_s(self) -> float:
        """When both positions and log ends were known: what is level was replicated up to then. Epoch seconds."""
        return min(self.logs.read_s, self.positions.read_s) if self.logs is not None else self.positions.read_s


def joined(plan: FlowPlan, positions: Positions, logs: LogBounds | None, *, is_target_read: bool) -> FlowOffsets:
    """Join positions and log bounds. An answer may be older than the plan, and have other topic-partitions than it.

    Where the target has no such topic-partition, all records of the source's log wait.
    """
    starts, ends, *_ = logs or NO_BOUNDS
    at = {
        **{p.on_source: positions.offsets.get(p.on_source) for p in plan.partitions},
        **{p.on_source: starts.get(p.on_source) for p in plan.absent},
    }
    of = {key: PartitionOffsets(position, starts.get(key), ends.get(key)) for key, position in at.items()}
    return FlowOffsets(positions, is_target_read, logs, of)


def time_lag_s(lag: int | None, until_s: float | None, now_s: float) -> float | None:
    """Return how long the first unreplicated record waits: 0 where none waits, None where it is not known.

    Args:
        lag: Records behind.
        until_s: When the first unreplicated record was written, epoch seconds; None where nobody knows.
        now_s: The present, epoch seconds.
    """
    if lag == 0:
        return 0.0
    return None if until_s is None else max(0.0, now_s - until_s)
