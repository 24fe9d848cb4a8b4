"""Define the plan of a flow, the assignment of slots, and the arithmetic of windows. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from metrics.series import Labels
from mirror.model.slot_ownership import SlotLayout
from mirror.model.topic_partition import TopicPartition
from mirror.model.transforms import Transforms
from mirror.policy.recreated import OnRecreated

PREFIX = "mirror-drill-"


def canary(source: str, target: str) -> str:
    """Return the name of a drill's canary topic (on both clusters) and consumer group."""
    return f"{PREFIX}{source}-{target}"


def is_canary(name: str) -> bool:
    """Return whether a name is that of a drill's group or topic, without a prefix."""
    return name.startswith(PREFIX)


# MirrorMaker's naming rule makes these topics internal, so no mirror copies them.
LEASE_TOPIC = "mm2-batons.{source}.internal"
SLOTS_TOPIC = "mm2-slots.{source}.{slots}.internal"  # one partition per slot, without records: processes share them
OFFSET_MAP_TOPIC = "mm2-offset-map.{source}.internal"
GAPS_TOPIC = "mm2-gaps.{source}.internal"
GROUP_OFFSETS_TOPIC = "mm2-group-offsets.{source}.internal"
PRODUCERS_TOPIC = "mm2-producers.{source}.internal"


def own_group(flow: str) -> str:
    """Return the group on the target that has the positions and leases of a flow."""
    return f"mirror.{flow}"


def paused_key(source: str) -> TopicPartition:
    """Return the partition whose offset in a flow's group carries the paused topics."""
    return TopicPartition(OFFSET_MAP_TOPIC.format(source=source), 0)


def is_own_group(name: str) -> bool:
    """Return whether a consumer group belongs to a mirror, as its positions or its drill.

    The offsets of such a group are not those of a consumer.
    """
    return is_canary(name) or (name.startswith(own_group("")) and "->" in name)


class PlannedPartition(NamedTuple):
    """One partition of a flow, with the ids of its topics. A recreated topic has another id.

    `is_late`: it appeared after the flow had begun, so it is replicated from its start, and auto.offset.reset is ignored.
    `spread_over`: number of partitions of the remote topic if it differs from the source's; else 0.
    `upstream`: ids of the topics that its records came from. `is_loop`: one of these is on the target, so it is not replicated:
    its records would go round in a loop. `transforms`: the transforms of its records. `is_hidden`: the source no
    longer lists its topic for this client. `is_identical`: its records have the same offsets on both clusters.
    """

    topic: str
    remote_topic: str
    partition: int
    topic_id: str
    is_late: bool = False
    spread_over: int = 0
    remote_id: str = ""
    upstream: tuple[str, ...] = ()
    is_loop: bool = False
    transforms: Transforms = ()
    is_hidden: bool = False
    is_identical: bool = False

    @property
    def on_source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def on_target(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.remote_topic, self.partition)

    @property
    def keeps_partition(self) -> bool:
        """True if its records go to the partition of the same number, else by key.

        If true, the remote partition has no other records of the flow.
        """
        return self.spread_over == 0


class Absent(NamedTuple):
    """A partition that matches a flow's settings but does not exist on the target."""

    topic: str
    remote_topic: str
    partition: int
    reason: str

    @property
    def on_source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def on_target(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.remote_topic, self.partition)


@dataclass(frozen=True, kw_only=True)
class FlowPlan:
    """All partitions of one flow, with the data that a task needs about the flow.

    `partitions` are replicated; `absent` ones would be replicated if they existed on the target.
    """

    source: str
    target: str
    tasks_max: int
    consumer: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)
    partitions: tuple[PlannedPartition, ...]
    absent: tuple[Absent, ...] = ()
    source_group: str = ""  # group on the source that shows the positions; "": the same name as on the target
    on_recreated: OnRecreated = OnRecreated.RESTART
    transaction_ms: int = 0  # maximum duration of a transaction; 0: no transactions, at-least-once delivery
    is_bidirectional: bool = False  # topics have the same names both ways, and each record is replicated once

    @property
    def name(self) -> str:
        """`source->target`."""
        return f"{self.source}->{self.target}"

    @property
    def group(self) -> str:
        """Group on the target whose offsets are the flow's positions and leases."""
        return own_group(self.name)

    @property
    def source_group_id(self) -> str:
        """Group on the source that shows the positions to lag tools."""
        return self.source_group or self.group

    @property
    def is_exactly_once(self) -> bool:
        """True when records and positions are written in transactions."""
        return self.transaction_ms > 0

    @property
    def places(self) -> tuple[PlannedPartition | Absent, ...]:
        """All partitions that match the flow's settings: the replicated ones, then the absent ones."""
        return *self.partitions, *self.absent

    @cached_property
    def labels(self) -> Mapping[TopicPartition, Labels]:
        """Return the metric labels of each partition, by source topic and partition."""
        return {p.on_source: (self.source, self.target, p.remote_topic, str(p.partition)) for p in self.places}

    @cached_property
    def sides(self) -> tuple[tuple[TopicPartition, TopicPartition], ...]:
        """Return each replicated partition on the source and on the target."""
        return tuple((p.on_source, p.on_target) for p in self.partitions)

    def __getstate__(self) -> dict[str, Any]:
        """Return the content of the plan file, without the fields that workers do not use."""
        return {name: value for name, value in vars(self).items() if name not in ("labels", "sides", "absent")}

    def back(self) -> FlowPlan:
        """Return the known part of the reverse flow, for identity names in both directions.

        The known part is its names and partitions.
        """
        swapped = (p._replace(topic_id=p.remote_id, remote_id=p.topic_id, upstream=()) for p in self.partitions)
        return replace(
            self,
            source=self.target,
            target=self.source,
            consumer=self.producer,
            producer=self.consumer,
            partitions=tuple(swapped),
            absent=(),
            source_group="",
        )

    def layout(self, window: Window) -> SlotLayout:
        """Return the layout of the process that serves a window."""
        return SlotLayout(window.slots, self.tasks_max, window.window_ms, window.lanes)

    def members_group(self, layout: SlotLayout) -> str:
        """Group on the target whose members, the processes that run the flow, share its slots."""
        return f"{self.group}.{layout.text()}"

    def of_slots(self, mine: Collection[int], *, slots: int) -> FlowPlan:
        """Return the plan with only the partitions of `mine`, some of all `slots` slots."""

        def is_mine(place: PlannedPartition | Absent) -> bool:
            return self.slot_of(place, slots=slots) in mine

        return replace(
            self, partitions=tuple(filter(is_mine, self.partitions)), absent=tuple(filter(is_mine, self.absent))
        )

    def shares(self, slots: int) -> list[FlowPlan]:
        """Return the plan of each slot, in one pass over the partitions."""
        found: list[list[PlannedPartition]] = [[] for _ in range(slots)]
        for assigned in self.partitions:
            found[self.slot_of(assigned, slots=slots)].append(assigned)
        return [replace(self, partitions=tuple(partitions), absent=()) for partitions in found]

    def slot_of(self, place: PlannedPartition | Absent, *, slots: int) -> int:
        """Return the slot that replicates a partition."""
        return slot_of(self.name, place.topic, place.partition, tasks_max=self.tasks_max, slots=slots)

    def transactional_id(self, slot: int) -> str:
        """Transactional id of a slot's producer. Opening the producer fences the earlier one."""
        return f"{self.group}.{slot}"

    def filler_id(self, slot: int) -> str:
        """Transactional id with which a slot occupies offsets without a record."""
        return f"{self.transactional_id(slot)}.offsets"

    def producer_id(self, slot: int) -> str | None:
        """Return a slot's transactional id, None if it uses no transactions."""
        return self.transactional_id(slot) if self.is_exactly_once else None

    @property
    def lease_topic(self) -> str:
        """Internal topic on the target, without records: its partitions are the keys of leases and owners."""
        return LEASE_TOPIC.format(source=self.source)

    @property
    def offset_map_topic(self) -> str:
        """Compacted internal topic on the target that maps source offsets to target offsets."""
        return OFFSET_MAP_TOPIC.format(source=self.source)

    @property
    def gaps_topic(self) -> str:
        """Compacted internal topic on the target: the ledger of lost, skipped, repeated or refused records."""
        return GAPS_TOPIC.format(source=self.source)

    @property
    def group_offsets_topic(self) -> str:
        """Compacted internal topic on the target: the offsets that the flow has set for consumer groups."""
        return GROUP_OFFSETS_TOPIC.format(source=self.source)

    @property
    def group_offsets_topic_back(self) -> str:
        """The group offsets topic of the reverse flow. It is on the source."""
        return GROUP_OFFSETS_TOPIC.format(source=self.target)

    @property
    def topics_read(self) -> set[str]:
        """Return the topics on the source that windows read."""
        return {p.topic for p in self.partitions} | ({self.producers_topic_back} if self.is_bidirectional else set())

    @property
    def producers_topic(self) -> str:
        """Compacted internal topic on the target: the ids of the flow's producers, if it is bidirectional."""
        return PRODUCERS_TOPIC.format(source=self.source)

    @property
    def producers_topic_back(self) -> str:
        """The producers topic of the reverse flow. It is on the source."""
        return PRODUCERS_TOPIC.format(source=self.target)

    @property
    def paused_key(self) -> TopicPartition:
        """The partition whose offset in the flow's group carries the paused topics (mirror.model.paused_topics) as metadata."""
        return paused_key(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One window of one slot, which a task serves.

    `run_id` identifies the run of the process. If `lanes` is 1, no other window takes over. `gone`: earlier runs with the same
    state folder, which have ended. `is_retry`: an earlier attempt at the window died.
    """

    number: int
    window_ms: int
    lanes: int
    slots: int
    slot: int
    run_id: int
    gone: frozenset[int] = frozenset()
    is_retry: bool = False

    @property
    def start_ms(self) -> int:
        """Start of the window, epoch ms."""
        return self.number * self.window_ms

    @property
    def lane(self) -> int:
        """Lane that serves the window."""
        return self.number % self.lanes

    def is_first_of(self, every_ms: int) -> bool:
        """Return whether this window is the first one in a period of that length."""
        return self.start_ms // every_ms != (self.start_ms - self.window_ms) // every_ms

    @property
    def end_ms(self) -> int:
        """End of the window, epoch ms."""
        return self.start_ms + self.window_ms


def slot_of(flow: str, topic: str, partition: int, *, tasks_max: int, slots: int) -> int:
    """Return the slot that replicates a partition: the same in every lane and window."""
    first = zlib.crc32(flow.encode())
    used = min(tasks_max, slots)
    return (first + (zlib.crc32((flow + topic).encode()) + partition) % used) % slots


def window_at(now_ms: float, window_ms: int) -> int:
    """Return the window that contains `now_ms` (epoch); window k is [k*W, (k+1)*W)."""
    return int(now_ms // window_ms)


def next_window(start: int, now_ms: float, *, window_ms: int, lanes: int) -> int:
    """Return a lane's first window, not before `start`, that has not ended at `now_ms`."""
    current = window_at(now_ms, window_ms)
    if start >= current:
        return start
    return current + (start - current) % lanes
