"""Move idle groups on a flow's target to the translated offsets of the source's groups."""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from mirror.checkpoints.plan import CheckpointPlan
from mirror.checkpoints.rules import State, Translated, moved
from mirror.config.clients import client_options
from mirror.flows.fan_in import read_shared
from mirror.flows.set_offsets import GroupPlace, Offsets, SetOffsets, removed
from mirror.kafka.errors import ErrorCode, KafkaError, is_code
from mirror.kafka.group_offsets import commit_with_metadata
from mirror.kafka.groups import HIDDEN, Group, is_idle, read_groups_once
from mirror.kafka.internal_topics import TopicsById
from mirror.kafka.internal_topics import ends as log_ends
from mirror.kafka.target import Target
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import first_few

log = logging.getLogger("mirror")

Found = dict[str, dict[TopicPartition, Translated]]  # by group and target partition
Wanted = dict[TopicPartition, tuple[int, str]]  # offset and metadata by partition


@dataclass(slots=True)
class GroupMoves:
    """Moves the groups on one flow's target, and keeps the result of the last round."""

    plan: CheckpointPlan
    set_offsets: SetOffsets = field(init=False)
    states: dict[tuple[str, TopicPartition], State] = field(default_factory=dict)
    moved_at_s: float = float("-inf")
    topics: TopicsById = field(init=False)
    # by partition: the group of another flow that also writes to it
    shared: dict[TopicPartition, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.set_offsets = SetOffsets(self.plan.flow.group_offsets_topic)
        self.topics = TopicsById(self.plan.flow.name)

    async def move_if_due(self, target: Target, found: Found) -> None:
        """Move idle groups and set each partition's state; between two moves, keep the last state."""
        if not self._is_due():
            self._recall(found)
            return
        await self._move(target, found)
        self.states = {(g, place): at.state for g, places in found.items() for place, at in places.items()}

    def _is_due(self) -> bool:
        settings = self.plan.settings
        if not settings.sync_groups or time.monotonic() < self.moved_at_s + settings.sync_interval_s * 0.9:
            return False
        self.moved_at_s = time.monotonic()
        return True

    def _recall(self, found: Found) -> None:
        for group, places in found.items():
            for place, at in places.items():
                if at.state == State.TRANSLATED:
                    places[place] = at._replace(state=self.states.get((group, place), at.state))

    async def _move(self, target: Target, found: Found) -> None:
        options = client_options(self.plan.target_client)
        there = {g.name: g for g in await read_groups_once(self.plan.target_client, found.__contains__)}
        ends = await log_ends(options, {p for places in found.values() for p in places})
        await self._find_shared({place for places in found.values() for place in places})
        before = self.set_offsets.read_again() if self.topics.is_another(target, self.set_offsets.topic) else {}
        changed = await self.set_offsets.refresh(options)
        # A new note may belong to an offset that another process is about to set.
        notes = removed(set(self.set_offsets.outdated(there)) - changed)
        notes |= {
            at: note for at, note in before.items() if at not in changed and _is_at(there.get(at.group), at, note)
        }
        moves: dict[str, Wanted] = {}
        for name, places in found.items():
            group = there.get(name, Group(name, ""))
            if wanted := _wanted(group, places, ends, self.shared):
                moves[name] = wanted
                notes |= self.set_offsets.before(group, {place: offset for place, (offset, _) in wanted.items()})
        await self._note(target, notes)
        self.topics.register(target, self.set_offsets.topic)
        for name, wanted in moves.items():
            await self._commit(target, name, found[name], wanted)

    async def _find_shared(self, places: Container[TopicPartition]) -> None:
        """Find the partitions that other flows also write to; log changes."""
        flow = self.plan.flow
        ours = [assigned for assigned in flow.partitions if assigned.on_target in places]
        found = await read_shared(client_options(self.plan.target_client), flow.group, ours)
        if new := found.keys() - self.shared.keys():
            log.warning(
                "%s: groups are not moved on %s: %s write there too, and an offset of one source would skip unread records of "
                "the other",
                flow.name,
                first_few(sorted(f"{topic}-{partition}" for topic, partition in new)),
                first_few(sorted({found[place] for place in new})),
            )
        self.shared = found

    async def _note(self, target: Target, notes: Mapping[GroupPlace, Offsets]) -> None:
        known = self.set_offsets.offsets
        await self.set_offsets.write(target, {at: note for at, note in notes.items() if known.get(at, ()) != note})

    async def _commit(
        self, target: Target, group: str, places: dict[TopicPartition, Translated], wanted: Wanted
    ) -> None:
        try:
            await commit_with_metadata(target, group, wanted)
        except KafkaError as error:
            came_alive = is_code(error, ErrorCode.unknown_member_id)
            if not came_alive:
                log.warning(
                    "%s: offsets of group %s cannot be set on %s: %r",
                    self.plan.flow.name,
                    group,
                    self.plan.flow.target,
                    error,
                )
            for place in wanted:
                places[place] = places[place]._replace(state=State.ACTIVE if came_alive else State.REFUSED)


def _is_at(group: Group | None, place: GroupPlace, note: Offsets) -> bool:
    """Return whether a group is at an offset of a note."""
    return group is not None and group.offsets.get(TopicPartition(place.topic, place.partition)) in note


def _wanted(
    group: Group,
    places: dict[TopicPartition, Translated],
    ends: Mapping[TopicPartition, int],
    shared: Container[TopicPartition] = (),
) -> Wanted:
    """Return the offsets to commit for a target's group; set its places' resulting states. Pure."""
    wanted = {}
    for place, at in places.items():
        if at.downstream is None:
            continue
        if not is_idle(group.state):
            places[place] = at._replace(state=State.REFUSED if group.state == HIDDEN else State.ACTIVE)
            continue
        why_not = State.SHARED if place in shared else moved(group.offsets.get(place), at.downstream, ends.get(place))
        if why_not is None:
            wanted[place] = (at.downstream, at.metadata)
        elif group.has_earlier_mark(place):  # a consumer of the group may fail on this metadata
            wanted[place] = (group.offsets[place], at.metadata if why_not is State.SYNCED else "")
        done = why_not or State.SYNCED
        if at.state != State.AHEAD or done != State.SYNCED:
            places[place] = at._replace(state=done)
    return wanted
