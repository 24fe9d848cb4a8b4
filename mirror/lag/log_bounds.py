"""Where a flow's topic-partitions stand: positions on the target beside the bounds of the source's logs.

What the appliance's poller and the lag inspector both read, in the same order and with the same meaning of lag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mirror.config.clients import fetch_options
from mirror.kafka.admin import Admin
from mirror.model.flow_plan import FlowPlan, Key


class LogBounds(NamedTuple):
    """First offset and log end of each topic-partition that answered."""

    starts: Mapping[Key, int]
    ends: Mapping[Key, int]


def positions(plan: FlowPlan, target: Admin) -> dict[Key, int]:
    """Return the next source offset of each topic-partition that has one. To ask before `bounds`: no lag is negative then."""
    found = target.committed(plan.group, [(p.remote_topic, p.partition) for p in plan.partitions])
    return {
        (p.topic, p.partition): found[at] for p in plan.partitions if (at := (p.remote_topic, p.partition)) in found
    }


def shown(plan: FlowPlan, source: Admin) -> dict[Key, int]:
    """Return the positions that the source shows to lag tools, as they were committed there last."""
    return source.committed(plan.shown_as, [(p.topic, p.partition) for p in plan.partitions])


def bounds(plan: FlowPlan, source: Admin) -> LogBounds:
    """Return the logs' bounds; ends are last stable offsets where the flow reads committed records only."""
    places = [(p.topic, p.partition) for p in plan.partitions]
    read_committed = bool(fetch_options(plan.consumer).isolation_level)
    return LogBounds(source.start_offsets(places), source.end_offsets(places, read_committed=read_committed))


def lagging(at: Mapping[Key, int], logs: LogBounds) -> dict[Key, int]:
    """Return where each topic-partition that is behind goes on: at its position, or where its log begins now."""
    return {
        key: max(position, logs.starts.get(key, 0)) for key, position in at.items() if logs.ends.get(key, 0) > position
    }
