"""Where a window begins on a topic-partition: at its position, or elsewhere when it is another topic by now."""

from __future__ import annotations

import logging

from mirror.replication import told
from mirror.replication.note import Note
from mirror.replication.partition import Partition
from mirror.replication.plan import Assigned, FlowPlan, Window
from mirror.replication.recreated import OnRecreated, TopicIds
from mirror.replication.reports import Tally
from mirror.replication.tail import Tail
from mirror.replication.wire import EARLIEST, LATEST

log = logging.getLogger("mirror")

HOUR_MS = 3_600_000  # what is not to expire is committed again each hour


def placed(
    plan: FlowPlan, window: Window, assigned: Assigned, committed: tuple[int, str] | None, *, from_earliest: bool
) -> Partition:
    """Return a topic-partition at its position (offset and metadata, None when it has none)."""
    now = TopicIds(assigned.topic_id, assigned.remote_id)
    if committed is None:
        begins = EARLIEST if from_earliest or assigned.is_late else LATEST
        # Which topic it is on the target, the next window says: this plan may be older than the topic.
        return Partition(assigned, begins=begins, ids=assigned.topic_id)
    offset, metadata = committed
    ids, tail = Note.parse(metadata)
    known = TopicIds.parse(ids)
    side = known.other_than(now)
    if not side:
        return Partition(assigned, offset, offset, ids=str(known.updated(now)), tail=Tail(tail))
    return _recreated(plan, window, assigned, offset, tail, known, side)


def _recreated(
    plan: FlowPlan, window: Window, assigned: Assigned, offset: int, tail: str, known: TopicIds, side: str
) -> Partition:
    """Do what the flow's policy says about a topic that was deleted and created anew."""
    now = TopicIds(assigned.topic_id, assigned.remote_id)
    topic = assigned.topic if side == "source" else assigned.remote_topic
    what = f"{topic} was deleted and created anew on the {side} (topic id {getattr(now, side)}, was {getattr(known, side)})"
    where = f"{plan.name}: {assigned.topic}-{assigned.partition}"
    if plan.on_recreated is OnRecreated.STOP:
        reason = f"{what}; it rests until its position is set (kafka-mirror positions)"
        if told.is_news(plan.name, assigned, reason):
            log.error("%s: %s", where, reason)
        # Written again once an hour, lest it expires; more often would undo what an operator sets.
        return Partition(
            assigned, offset, offset, ids=str(known), tail=Tail(tail), reason=reason, resume_s=float("inf"),
            committed=None if window.is_first_of(HOUR_MS) else offset,
        )  # fmt: skip
    ids = str(known.updated(now))
    if plan.on_recreated is OnRecreated.CONTINUE:
        log.error("%s: %s; going on at offset %d", where, what, offset)
        return Partition(assigned, offset, offset, ids=ids, tail=Tail(begins_at=offset), tally=Tally(rewinds=1))
    log.error("%s: %s; replicating it from its start, the last position was %d", where, what, offset)
    return Partition(assigned, begins=EARLIEST, ids=ids, tally=Tally(rewinds=1))
