"""Collect the positions that a window commits, with the tails of their offset maps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, PlannedPartition, Window
from mirror.model.offset_map_tail import MapRecord
from mirror.model.position_metadata import PositionMetadata
from mirror.model.record_batches import of_values
from mirror.model.sequences import NextSequence
from mirror.model.slot_lease import LeaseState, WindowOutcome
from mirror.model.topic_partition import TopicPartition
from mirror.replication.partition import Partition
from mirror.runtime.clock import now_ms

MAP_EVERY_MS = 60_000  # the first window of each such interval writes the topic of the map
MAP_WRITE_S = 2.0
MAP_AGAIN_S = 30.0  # until the next attempt after a failure


def is_there(target: Target, assigned: PlannedPartition) -> bool:
    """Return whether the partition's remote partition exists, as far as the metadata show.

    A repartitioned topic needs no remote partition of the same number.
    """
    return not assigned.keeps_partition or target.knows(assigned.remote_topic, assigned.partition)


async def keep_alive(
    target: Target,
    plan: FlowPlan,
    partitions: Iterable[Partition],
    found: Mapping[TopicPartition, tuple[int, str]],
    *,
    is_paused: bool,
) -> None:
    """Commit positions again that no other commit renews, so that they do not expire.

    Call this right after reading them, to avoid overwriting an operator's changes.

    Args:
        target: Stores the positions.
        plan: The flow.
        partitions: Partitions of the window. Only the positions that an operator must set are committed.
        found: Positions with their metadata, as just read.
        is_paused: An operator has paused topics; their list is stored with the positions.

    Raises:
        KafkaError: the target refuses.
    """
    keys = [p.on_target for p in partitions if p.awaits_operator]
    if is_paused:
        keys.append(plan.paused_key)
    kept = {key: found[key] for key in keys if key in found}
    if kept:
        await target.commit(plan.group, kept)


class PendingPosition(NamedTuple):
    """A position in a pending commit, with its state at the time of the request."""

    partition: Partition
    acked: int
    changes: int  # Partition.changes
    sequence: NextSequence | None = None


class PendingCommit(NamedTuple):
    """Positions to commit, as (offset, metadata), with their partitions."""

    offsets: dict[TopicPartition, tuple[int, str]]
    written: list[PendingPosition]


class PositionCommits:
    """Prepares the commits of one flow's positions in one window. A pending commit counts after `completed`."""

    def __init__(self, plan: FlowPlan, window: Window, partitions: Sequence[Partition]) -> None:
        self._plan = plan
        self._partitions = partitions
        self._map_again_s = 0.0
        self.map_is_due = window.is_first_of(MAP_EVERY_MS)

    def pending(self, target: Target) -> PendingCommit:
        """Return the positions that differ from the committed ones.

        Positions of deleted remote topics are left out: a broker stores none for them. But if records arrived in this window, the
        position is committed even if the metadata lack the topic: without the position, the records would be copied again.
        """
        offsets: dict[TopicPartition, tuple[int, str]] = {}
        written: list[PendingPosition] = []
        for partition in self._partitions:
            if partition.start is not None or partition.acked == partition.committed:
                continue
            if partition.awaits_operator:
                continue  # writing the old position would overwrite the operator's change
            assigned = partition.assigned
            if partition.has_arrived or is_there(target, assigned):
                metadata = PositionMetadata(
                    partition.ids,
                    partition.tail.text(),
                    partition.outcome_unknown_until_ms,
                    partition.in_sync,
                    partition.sequence,
                    partition.epochs.at(partition.acked),
                    assigned.upstream,
                    partition.registered,
                )
                offsets[assigned.on_target] = (partition.acked, str(metadata))
                written.append(PendingPosition(partition, partition.acked, partition.changes, partition.sequence))
        return PendingCommit(offsets, written)

    def completed(self, pending: PendingCommit) -> None:
        """Record that the target has committed a pending commit."""
        for partition, acked, changes, sequence in pending.written:
            partition.record_commit(acked, changes, sequence)

    def write_all(self) -> None:
        """Put every position into the next commit.

        Group offsets expire, and a process that was suspended may have committed older ones.
        """
        for partition in self._partitions:
            partition.rewrite_position()

    async def move_tails(self, target: Target) -> None:
        """Write new and long tails to the map's topic; once a minute, all grown ones.

        If an operator deletes the group, only the topic shows that a partition has begun.

        Raises:
            KafkaError: the target refuses the write; the tails stay in the position metadata.
        """
        if time.monotonic() < self._map_again_s:
            return
        is_due, self.map_is_due = self.map_is_due, False
        growing = [
            (p, last)
            for p in self._partitions
            if (is_due or p.tail.is_unsaved or p.acked != p.committed)
            and (last := p.tail.runs.last) is not None
            and (p.tail.is_new or p.tail.is_long or (is_due and p.tail.is_unsaved))
        ]
        topic = self._plan.offset_map_topic
        if not growing or not target.knows(topic, 0):
            return
        records = (MapRecord(p.assigned.topic, p.assigned.partition, p.tail.runs, p.ids).encode() for p, _ in growing)
        self._map_again_s = time.monotonic() + MAP_AGAIN_S
        try:
            sent = [target.send(batch, topic, 0) for batch in of_values(records, timestamp_ms=int(now_ms()))]
            await asyncio.wait_for(asyncio.gather(*sent), MAP_WRITE_S)
        except TimeoutError:
            return  # the producer keeps retrying; the tails stay in the position metadata
        self._map_again_s = 0.0
        for partition, last in growing:
            partition.tail.moved(last)
            partition.rewrite_position()  # its tail is shorter now


@dataclass(kw_only=True, eq=False, repr=False)
class LeasedCommits:
    """Commits the positions of one window, always together with the lease.

    If a process commits positions late, its old lease is committed with them. A reader of these positions sees the old lease and
    compares the target's log.
    """

    plan: FlowPlan  # the flow
    window: Window  # who holds the lease
    own: TopicPartition  # where the lease is kept
    positions: PositionCommits  # those of the window
    pending: Callable[[Target], Awaitable[PendingCommit]]  # returns the positions for the next commit
    outcome: Callable[[], WindowOutcome]  # returns how the window ends, as far as known

    async def claim(self, target: Target) -> None:
        """Commit that the lease is held; raises KafkaError."""
        await self._write(target, await self.pending(target), is_released=False)

    async def commit(self, target: Target) -> None:
        """Commit the positions of new acknowledgements, if any; raises KafkaError."""
        pending = await self.pending(target)
        if pending.offsets:
            await self._write(target, pending, is_released=False)

    async def release(self, target: Target) -> None:
        """Commit the last positions and release the lease; raises KafkaError."""
        await self._write(target, await self.pending(target), is_released=True)

    async def _write(self, target: Target, pending: PendingCommit, *, is_released: bool) -> None:
        window = self.window
        lease = LeaseState(
            window.number,
            window.run_id,
            is_released=is_released,
            outcome=self.outcome(),
            layout=self.plan.layout(window),
        )
        await target.commit(self.plan.group, {**pending.offsets, self.own: lease.encode()})
        self.positions.completed(pending)
