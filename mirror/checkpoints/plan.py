"""What the checkpoint stream needs to know about a flow, and the rows it consists of. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror.checkpoints.rules import State
from mirror.config.keys import CheckpointSettings
from mirror.model.flow_plan import FlowPlan

SCHEMA = (
    "source string, target string, group string, topic string, partition int, "
    "upstream bigint, downstream bigint, state string, "
    "reread bigint, "  # what the group has read since its last checkpoint; null at the first one
    "latency_ms double, "  # null where the checkpoint had not changed
    "failure string, foreign bigint"  # of the flow: in a row of its own, where all from `group` on is null
)


class CheckpointReport(NamedTuple):
    """One row: a group on one topic-partition, or (group None) a flow: why its round failed, which records were skipped."""

    source: str
    target: str
    group: str | None = None
    topic: str | None = None  # the remote name
    partition: int | None = None
    upstream: int | None = None
    downstream: int | None = None
    state: State | None = None
    reread: int | None = None
    latency_ms: float | None = None
    failure: str | None = None
    foreign: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """One flow whose groups are followed. Clients are Java properties."""

    flow: FlowPlan
    back: FlowPlan | None  # the flow the other way, whose topics the source's groups may read
    settings: CheckpointSettings
    checkpoints_topic: str
    offset_syncs_topic: str | None  # None: none are written
    source_client: Mapping[str, str] = field(repr=False)
    target_client: Mapping[str, str] = field(repr=False)
    offset_syncs_client: Mapping[str, str] = field(repr=False)
