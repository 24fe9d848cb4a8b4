"""Define the data about a flow that the checkpoint stream needs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror.config.settings import CheckpointSettings
from mirror.model.flow_plan import FlowPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """One flow whose groups are followed. Clients are Java properties."""

    flow: FlowPlan
    back: FlowPlan | None  # the reverse flow, whose topics the source's groups may read
    settings: CheckpointSettings
    checkpoints_topic: str
    offset_syncs_topic: str | None  # None: none are written
    source_client: Mapping[str, str] = field(repr=False)
    target_client: Mapping[str, str] = field(repr=False)
    offset_syncs_client: Mapping[str, str] = field(repr=False)
