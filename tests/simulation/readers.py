"""A consumer group on the source, whose offsets the mirror translates and sets on the target.

The group there may skip no record that the group on the source has not read, at any time. In the end it stands exactly.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mirror.checkpoints.plan import CheckpointPlan
from mirror.config.settings import CheckpointSettings
from mirror.model.flow_plan import GROUP_OFFSETS_TOPIC, FlowPlan
from mirror.model.topic_partition import TopicPartition
from mirror.policy.filters import NameFilter

if TYPE_CHECKING:
    from tests.simulation.scenario import Stage

GROUP = "readers"
CHECKPOINTS_TOPIC = "A.checkpoints.internal"
ROUNDS_S = 1.0
METADATA = ("", "of a consumer")
SETTINGS = CheckpointSettings(
    enabled=True,
    interval_s=ROUNDS_S,
    groups=NameFilter(include=(GROUP,), exclude=()),
    lists_new_groups=True,
    replication_factor=1,
    sync_groups=True,
    sync_interval_s=ROUNDS_S,
)


class Readers:
    """The group on both clusters of a stage.

    Attributes:
        skipped: What the group on the target would not have read.
    """

    def __init__(self, stage: Stage) -> None:
        self.skipped: list[str] = []
        self._stage = stage
        self._dice: random.Random = stage.dice
        for cluster, other in ((stage.source, "B"), (stage.target, "A")):
            cluster.create(GROUP_OFFSETS_TOPIC.format(source=other), 1)
        stage.target.create(CHECKPOINTS_TOPIC, 1)
        stage.target.on_commit = self._set

    def plan(self, flow: FlowPlan) -> CheckpointPlan:
        """Return what a process needs to translate the group's offsets."""
        return CheckpointPlan(
            flow=flow,
            back=None,
            settings=SETTINGS,
            checkpoints_topic=CHECKPOINTS_TOPIC,
            offset_syncs_topic=None,
            source_client=flow.consumer,
            target_client=flow.producer,
            offset_syncs_client={},
        )

    def commit(self, every_s: tuple[float, float]) -> None:
        """Read some records of the source and commit, now and then, as long as records are written."""
        stage = self._stage
        if not stage.is_writing:
            return
        log = stage.source.logs[self._dice.choice(stage.written)]
        offsets, place = stage.source.group(GROUP).offsets, TopicPartition(log.topic, log.number)
        before, _ = offsets.get(place, (0, ""))
        readable = log.last_stable if stage.is_read_committed else log.high_watermark
        if readable > before:
            offsets[place] = self._dice.randint(before, readable), self._dice.choice(METADATA)
        stage.world.after(self._dice.uniform(*every_s), lambda: self.commit(every_s))

    def misplaced(self) -> list[str]:
        """Return the partitions in which the group on the target does not stand exactly."""
        stage = self._stage
        ours, theirs = (cluster.group(GROUP).offsets for cluster in (stage.source, stage.target))
        found = []
        for assigned in stage.plan.partitions:
            if (committed := ours.get(assigned.on_source)) is not None:
                at, _ = theirs.get(assigned.on_target, (None, ""))
                wrong = stage.sides.wrong_place(
                    assigned.on_source, committed[0], at, is_exact=not stage.has_lost_positions
                )
                found += [f"{GROUP}: {wrong}"] if wrong else []
        return found

    def _set(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        if group != GROUP:
            return
        read = self._stage.source.group(GROUP).offsets
        for assigned in self._stage.plan.partitions:
            if (new := offsets.get(assigned.on_target)) is not None:
                unread = self._stage.sides.first_unread(assigned.on_source, read[assigned.on_source][0])
                if unread is not None and unread < new[0]:
                    self.skipped.append(
                        f"{GROUP}: {assigned.topic}-{assigned.partition} set to {new[0]} after {unread}"
                    )
