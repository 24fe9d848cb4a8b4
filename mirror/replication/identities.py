"""Determine the topics that a flow's partitions belong to, and where windows start.

A window starts at the committed position. If a topic was replaced, the flow's policy decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from mirror.kafka.fetcher import Source
from mirror.kafka.protocol import EARLIEST, LATEST
from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.model.gaps import Cause, Effect
from mirror.model.leader_epochs import LeaderEpochs
from mirror.model.offset_map_tail import Tail
from mirror.model.position_metadata import PositionMetadata
from mirror.model.reports import ABSENT, FORGOTTEN, HIDDEN, RESTS
from mirror.policy.recreated import OnRecreated, TopicIds
from mirror.replication.partition import Identity, Partition
from mirror.replication.pauses import LoggedReasons

log = logging.getLogger("mirror")

WITHIN_S = 3.0


class Identities:
    """Reads the ids of a flow's topics on both clusters. Brokers before 2.8 have none."""

    def __init__(self, plan: FlowPlan, source: Source, target: Target, logged_reasons: LoggedReasons) -> None:
        self._plan = plan
        self._source = source
        self._target = target
        self._logged_reasons = logged_reasons

    async def identify(self, partitions: Iterable[Partition]) -> dict[Partition, str]:
        """Verify each partition whose topics exist; return the reason for each partition that stays unverified.

        Raises:
            KafkaError: a cluster does not report its topics.
        """
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(self._source.refresh(), self._target.refresh())
        unclear = {}
        for partition in partitions:
            assigned = partition.assigned
            if not self._source.knows(assigned.topic, assigned.partition):
                unclear[partition] = HIDDEN
                continue
            ids = TopicIds(self._source.topic_id(assigned.topic), self._target.topic_id(assigned.remote_topic))
            is_there = self._target.shows(assigned.remote_topic)
            if not is_there and TopicIds.parse(partition.ids).target:
                unclear[partition] = f"{assigned.remote_topic} {ABSENT}"
            else:
                identified(self._plan, partition, ids, self._logged_reasons)
        return unclear


def placed(
    plan: FlowPlan,
    assigned: PlannedPartition,
    committed: tuple[int, str] | None,
    logged_reasons: LoggedReasons,
    *,
    from_earliest: bool,
    is_uncertain: bool,
) -> Partition:
    """Return a partition at its position (offset and metadata, None if it has no position).

    The partition's identity is unverified in three cases. The last window was uncertain of it. Or position and plan name
    different topics: one of the two is outdated, and only the clusters can show which. Or the partition has no position: when a
    topic is deleted, the broker deletes the positions of its partitions.
    """
    now = TopicIds(assigned.topic_id, assigned.remote_id)
    if committed is None:
        start = EARLIEST if from_earliest or assigned.is_late else LATEST
        return Partition(
            assigned,
            start=start,
            ids=str(now),
            identity=Identity.UNVERIFIED,
            registered=0 if plan.is_bidirectional else None,
        )
    offset, metadata = committed
    ids, tail, until_ms, in_sync, sequence, epoch, upstream, registered = PositionMetadata.parse(metadata)
    known, kept = TopicIds.parse(ids), Tail(tail)
    last, is_same_topic = kept.runs.last, not known.other_than(now)
    own_ids = str(known.updated(now)) if is_same_topic else ids
    own_registered = registered if plan.is_bidirectional else None
    is_unchanged = is_same_topic and (own_ids, assigned.upstream, own_registered) == (ids, upstream, registered)
    partition = Partition(
        assigned,
        offset,
        offset,
        ids=own_ids,
        committed=offset if is_unchanged else None,
        epochs=LeaderEpochs.before_position(offset, epoch),
        tail=kept,
        next_target_offset=last.target + last.records if last is not None else 0,
        outcome_unknown_until_ms=until_ms,
        in_sync=in_sync,
        sequence=sequence,
        announced=sequence,
        registered=own_registered,
    )
    if is_same_topic:
        if is_uncertain:
            partition.doubt()
    elif plan.on_recreated is OnRecreated.STOP:
        identified(plan, partition, now, logged_reasons, before=True)
    else:
        partition.doubt()
    return partition


def identified(
    plan: FlowPlan, partition: Partition, now: TopicIds, logged_reasons: LoggedReasons, *, before: bool = False
) -> None:
    """Record the topics of a partition; if they were replaced, apply the flow's policy.

    Args:
        plan: The flow, with its policy.
        partition: The partition; its `ids` are those of its position.
        now: The current ids of its topics.
        logged_reasons: The reasons that this process has logged for paused partitions.
        before: The plan shows the replacement too, so no later window needs to check.
    """
    known = TopicIds.parse(partition.ids)
    ids = known.updated(now)
    partition.verified()
    side = known.other_than(now)
    has_position = partition.start is None or partition.acked >= 0
    if not side or (side == "source" and not has_position):
        partition.identify(str(ids))
        return
    partition.start_over()
    if side == "target" and partition.registered is not None:
        partition.register(0)
        partition.begin_after(0)
    assigned, offset = partition.assigned, partition.acked
    topic = assigned.topic if side == "source" else assigned.remote_topic
    what = f"{topic} was deleted and created again on the {side} (topic id {getattr(now, side)}, was {getattr(known, side)})"
    where = f"{plan.name}: {assigned.topic}-{assigned.partition}"
    waits = plan.on_recreated is not OnRecreated.RESTART and not has_position
    if waits or plan.on_recreated is OnRecreated.STOP:
        partition.replaced(f"{what}; {FORGOTTEN if waits else RESTS}", before=before)
        if logged_reasons.record(plan.name, assigned, partition.pause.reason):
            log.error("%s: %s", where, partition.pause.reason)
        return
    cause = Cause.SOURCE_REPLACED if side == "source" else Cause.TARGET_REPLACED
    if plan.on_recreated is OnRecreated.CONTINUE:
        said = f"{what}; resuming at offset {offset}"
        partition.record_gap(Effect.SKIPPED, cause, None, offset - 1, said)
        partition.map_from(offset)
    else:
        last = f"the last position was {offset}" if has_position else "its position was deleted too"
        said = f"{what}; replicating it from its start, {last}"
        if side == "source":
            partition.record_gap(
                Effect.LOST, cause, offset, None, said
            )  # the records of the earlier topic after the position
        else:
            partition.record_gap(Effect.REPEATED, cause, None, offset - 1 if has_position else None, said)
        partition.restart()
    log.error("%s: %s", where, said)
    partition.identify(str(ids))
    partition.rewrite_position()
    partition.tally.rewinds += 1
