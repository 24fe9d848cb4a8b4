"""Make one flow's checkpoints: read groups, translate offsets, write, and move the target's groups."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metrics.reports import CheckpointReport
from mirror.checkpoints.moves import GroupMoves
from mirror.checkpoints.plan import CheckpointPlan
from mirror.checkpoints.rules import State, Translated, translated, translated_of_two
from mirror.config.clients import client_options
from mirror.flows.offset_maps import FlowMaps
from mirror.flows.set_offsets import SetOffsets
from mirror.kafka.errors import KafkaError
from mirror.kafka.groups import HIDDEN, UNSUPPORTED, Group, read_groups_once, warn_of_left_out
from mirror.kafka.internal_topics import TopicsById, read_checkpoints, starts, write, writer
from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, is_own_group
from mirror.model.mm2_records import Checkpoint, OffsetSync
from mirror.model.offset_map import OffsetMap
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.clock import now_ms

log = logging.getLogger("mirror")

FORGET_EVERY_S = 600.0
MOST_RUNS = 4_000_000  # per flow, for all its offset maps, at 24 bytes each
SYNCED_RUNS = 64  # per partition and round: MirrorMaker's tools keep only this many of the syncs that they read


@dataclass(slots=True)
class FlowCheckpoints:
    """The state of a flow's checkpoints between rounds."""

    plan: CheckpointPlan
    maps: FlowMaps = field(init=False)
    moves: GroupMoves = field(init=False)
    set_on_source: SetOffsets = field(init=False)  # offsets of groups on the source that the reverse flow has set
    back: FlowMaps | None = field(init=False, default=None)
    groups: frozenset[str] | None = None  # the first listing, if new groups are not followed
    written: dict[tuple[str, TopicPartition], Checkpoint] | None = None  # by group and remote partition
    synced: dict[TopicPartition, int] = field(default_factory=dict)  # source offset of the last offset sync
    forgot_at_s: float = float("-inf")
    # the remote partition of each source partition
    along: dict[TopicPartition, TopicPartition] = field(default_factory=dict)
    # the target's own partition for each partition on the source that came from the target
    home: dict[TopicPartition, TopicPartition] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)  # groups that may not be read, already logged
    foreign: int = 0
    refused_syncs: str = ""
    topics: TopicsById = field(init=False)

    def __post_init__(self) -> None:
        self.maps = FlowMaps(self.plan.flow, MOST_RUNS)
        self.moves = GroupMoves(self.plan)
        self.topics = TopicsById(self.plan.flow.name)
        self.set_on_source = SetOffsets(self.plan.flow.group_offsets_topic_back)
        self.follow(self.plan)

    def follow(self, plan: CheckpointPlan) -> None:
        """Follow a new plan: other topics, other clients."""
        self.plan = self.moves.plan = plan
        self.along = {p.on_source: p.on_target for p in plan.flow.partitions}
        back = plan.back.partitions if plan.back is not None else ()
        self.home = {p.on_target: p.on_source for p in back}
        self.maps.flow = plan.flow
        if plan.back is None:
            self.back = None
        elif self.back is None:
            self.back = FlowMaps(plan.back, MOST_RUNS)
        else:
            self.back.flow = plan.back

    async def checkpoint(self) -> list[CheckpointReport]:
        """Do one round; return a report per group and partition."""
        plan, began_ms = self.plan, now_ms()
        groups = await read_groups_once(plan.source_client, self._follows)
        warn_of_left_out(groups, plan.flow.source, self.hidden)
        if not plan.settings.lists_new_groups and self.groups is None:
            self.groups = frozenset(group.name for group in groups)
        await self.set_on_source.refresh(client_options(plan.source_client))
        if self.back is not None:
            await self.back.refresh(plan.source_client)
        if self.written is None:
            self.written = await self._read_written()
        before = dict(self.written)
        unwritten: KafkaError | TimeoutError | None = None  # why no checkpoints were written; all else is done
        topics = {plan.checkpoints_topic, plan.flow.offset_map_topic, plan.flow.group_offsets_topic}
        async with writer(plan.flow.producer, topics) as target:
            await self._refresh_maps(target)
            found = {group.name: self._translated(group) for group in groups}
            gone = await self._forgotten()
            fresh = self._fresh(found, target)
            try:
                await write(target, plan.checkpoints_topic, (checkpoint.encode() for checkpoint in fresh))
                self.written |= {(c.group, TopicPartition(c.topic, c.partition)): c for c in fresh}
                self.topics.register(target, plan.checkpoints_topic)
                await write(target, plan.flow.offset_map_topic, ((key, None) for key in gone))
            except (KafkaError, TimeoutError) as error:
                unwritten = error
            acked_ms = now_ms()
            try:
                await self.moves.move_if_due(target, found)
            except (KafkaError, TimeoutError) as error:
                unwritten = unwritten or error
        await self._write_offset_syncs()
        if unwritten is not None:
            raise unwritten
        changed = {(c.group, TopicPartition(c.topic, c.partition)) for c in fresh}
        own = CheckpointReport(plan.flow.source, plan.flow.target, foreign=self.foreign + self.maps.foreign)
        self.foreign = self.maps.foreign = 0
        return [own, *not_followed(plan.flow, groups)] + [
            CheckpointReport(
                source=plan.flow.source,
                target=plan.flow.target,
                group=group,
                topic=place[0],
                partition=place[1],
                upstream=at.upstream,
                downstream=at.downstream,
                state=at.state,
                reread=_reread(before.get((group, place)), at),
                latency_ms=acked_ms - began_ms if (group, place) in changed else None,
            )
            for group, places in found.items()
            for place, at in places.items()
        ]

    async def _refresh_maps(self, target: Target) -> None:
        """Read new records of the map's topic. If the topic was recreated, write the whole map to it.

        If a window writes to the topic at the same time, the topic may lack newer runs. Then groups re-read some records, but
        skip none.
        """
        topic = self.plan.flow.offset_map_topic
        if is_another := self.topics.is_another(target, topic):
            await self.maps.read_again(self.plan.target_client)
        await self.maps.refresh(self.plan.target_client)
        if is_another:
            await write(target, topic, self.maps.written_out())
        self.topics.register(target, topic)

    async def _forgotten(self) -> list[bytes]:
        """Periodically drop runs of deleted source records; return the keys to remove from the topic."""
        if time.monotonic() < self.forgot_at_s + FORGET_EVERY_S:
            return []
        self.forgot_at_s = time.monotonic()
        places = [p.on_source for p in self.plan.flow.partitions]
        return self.maps.forget_before(await starts(client_options(self.plan.source_client), places))

    def _follows(self, group: str) -> bool:
        is_wanted = self.plan.settings.groups.matches(group) and not is_own_group(group)
        return is_wanted and (self.groups is None or group in self.groups)

    def _translated(self, group: Group) -> dict[TopicPartition, Translated]:
        """Return the group's offsets by the target partition to which they translate.

        Offsets that the reverse flow has set are left out: they came from the target, and would rewind the group on the target.
        """
        found = {}
        set_by_mirror = self.set_on_source.of(group)
        for key, offset in group.offsets.items():  # not over the plan, which may be a thousand times as long
            if key in set_by_mirror:
                continue
            metadata = group.metadata.get(key, "")
            if (place := self.along.get(key)) is not None:
                found[place] = translated(offset, self.maps.maps.get(key), self.maps.positions.get(key), metadata)
            if (place := self.home.get(key)) is not None and self.back is not None:
                # The group reads a topic that came from the target: the reverse flow's map translates the offset.
                way = self.back.maps.get(place)
                home = way.reverse(offset) if way is not None else None
                if not self.plan.flow.is_bidirectional:
                    state = State.NO_MAP if home is None else State.TRANSLATED
                    found[place] = Translated(offset, home, state, metadata)
                elif place in found and place in self.back.positions:  # else the reverse flow lacks it
                    found[place] = translated_of_two(found[place], self.maps.maps.get(key), home or 0)
        return found

    def _fresh(self, found: Mapping[str, Mapping[TopicPartition, Translated]], target: Target) -> list[Checkpoint]:
        """Return the checkpoints that the topic lacks, or all if the topic was recreated."""
        if self.topics.is_another(target, self.plan.checkpoints_topic):
            self.written = {}
        written = self.written or {}
        checkpoints = (
            Checkpoint(group, *place, at.upstream, at.downstream, at.metadata)
            for group, places in found.items()
            for place, at in places.items()
            if at.downstream is not None
        )
        return [c for c in checkpoints if written.get((c.group, TopicPartition(c.topic, c.partition))) != c]

    async def _read_written(self) -> dict[tuple[str, TopicPartition], Checkpoint]:
        """Read the checkpoints topic at the start, like MirrorMaker: its records need no rewrite."""
        topic = self.plan.checkpoints_topic
        checkpoints, foreign = await read_checkpoints(client_options(self.plan.target_client), topic)
        if foreign:
            log.warning("%s: a record in %s is no checkpoint: it %s; skipped", self.plan.flow.name, topic, foreign[0])
        self.foreign += len(foreign)
        return {(c.group, TopicPartition(c.topic, c.partition)): c for c in checkpoints}

    # --- for MirrorMaker's tools ----------------------------------------------------------------------------------

    async def _write_offset_syncs(self) -> None:
        """Write offset syncs for the records replicated since the last syncs, for MirrorMaker only."""
        topic = self.plan.offset_syncs_topic
        if topic is None:
            return
        maps = self.maps.maps
        latest = {key: last.source + max(0, last.records - 1) for key, m in maps.items() if (last := m.last)}
        try:
            async with writer(self.plan.offset_syncs_client, {topic}) as cluster:
                if self.topics.is_another(cluster, topic):
                    self.synced = {}
                syncs = (sync for key, m in maps.items() for sync in offset_syncs(*key, m, self.synced.get(key)))
                await write(cluster, topic, (sync.encode() for sync in syncs))
                self.topics.register(cluster, topic)
        except (KafkaError, OSError, TimeoutError) as error:
            if str(error) != self.refused_syncs:
                log.warning("%s: offset syncs cannot be written to %s: %r", self.plan.flow.name, topic, error)
            self.refused_syncs = str(error)
            return
        self.refused_syncs = ""
        self.synced = latest


def not_followed(flow: FlowPlan, groups: Iterable[Group]) -> list[CheckpointReport]:
    """Return a report for each group whose offsets cannot be read: it has no offset to resume from."""
    states = {UNSUPPORTED: State.UNSUPPORTED, HIDDEN: State.REFUSED}
    return [
        CheckpointReport(flow.source, flow.target, group=group.name, state=states[group.state])
        for group in groups
        if group.state in states
    ]


def offset_syncs(topic: str, partition: int, offsets: OffsetMap, last: int | None) -> list[OffsetSync]:
    """Return MirrorMaker's syncs for a map: start and end of the newest runs after `last`.

    If `last` is None, return those of the newest run. MirrorMaker translates the offset of a sync exactly, and any
    later offset to one record after the sync.
    """
    newest = offsets.last
    runs = offsets.since(last + 1) if last is not None else ([newest] if newest is not None else [])
    found = []
    for run in deque(runs, maxlen=SYNCED_RUNS):
        if run.records:
            found.append(OffsetSync(topic, partition, run.source, run.target))
        if run.records > 1:
            behind = run.records - 1
            found.append(OffsetSync(topic, partition, run.source + behind, run.target + behind))
    return found


def _reread(before: Checkpoint | None, now: Translated) -> int | None:
    return None if before is None else max(0, now.upstream - before.upstream)
