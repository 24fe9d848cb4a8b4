"""Handle batches with an unknown outcome: record them at a window's end, resolve them later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from mirror.config.clients import client_options
from mirror.handover.lease import NETWORK
from mirror.kafka.fetcher import Source
from mirror.model.flow_plan import FlowPlan
from mirror.model.reports import AWAITS
from mirror.model.topic_partition import TopicPartition
from mirror.replication.partition import Partition, Pause, named
from mirror.replication.pauses import LoggedReasons
from mirror.replication.producer_registry import ProducerRegistry
from mirror.replication.recovery import REPLICATED_WITHIN_S, ClusterPair, resume_after_tails
from mirror.runtime.clock import now_ms

log = logging.getLogger("mirror")

FOUND_WITHIN_S = 15.0


def in_question(
    partitions: Collection[Partition], forgotten: Collection[TopicPartition], *, is_unclean: bool, has_gap: bool
) -> list[Partition]:
    """Pause partitions whose batches may still arrive. Return the partitions whose targets may be ahead of their positions.

    Args:
        partitions: Partitions of the window, at their starts.
        forgotten: Partitions without a position, which the target may have deleted.
        is_unclean: The last window ended, or may have ended, without committing everything that it wrote.
        has_gap: Positions may be older than the target's records, so each partition whose position has an offset map is compared.
    """
    for partition in partitions:
        if partition.outcome_unknown_until_ms > now_ms():
            partition.pause.begin(Pause.OUTCOME_UNKNOWN, AWAITS)
        elif partition.remote_log is not None:
            partition.record_outcome()  # its logs are compared before its first write (mirror.replication.alignment)
    return [
        p
        for p in partitions
        if p.pause.kind is Pause.NONE
        and p.remote_log is None
        and (
            p.outcome_unknown_until_ms
            or is_unclean
            or (has_gap and p.tail.runs.last is not None)
            or p.on_source in forgotten
        )
    ]


async def find_outcomes(
    plan: FlowPlan,
    partitions: Sequence[Partition],
    source: Source,
    written_back: ProducerRegistry | None,
    *,
    isolation_level: int,
    is_transactional: bool,
    was_transactional: bool,
    is_patient: bool,
    logged_reasons: LoggedReasons,
    warn: Callable[[str, BaseException], None],
) -> bool:
    """Resume partitions after their last records on the target; pause those not comparable yet.

    Args:
        plan: The flow.
        partitions: As returned by `in_question`.
        source: Reads the source.
        written_back: Shows which records on the source the reverse flow wrote, if the flow is bidirectional.
        isolation_level: Isolation level with which the flow reads the source.
        is_transactional: This window writes in transactions.
        was_transactional: Earlier windows wrote in transactions.
        is_patient: Wait for leaders whose high watermark is behind their log end.
        logged_reasons: The reasons that this process has logged for paused partitions.
        warn: Called with what failed, and the error.

    Returns:
        False if nothing in the committed positions makes the next window compare again.
    """
    if not partitions:
        return True
    target, unsettled = Source(client_options(plan.producer)), set(partitions)
    own = None if written_back is None else ProducerRegistry(plan.producers_topic)
    sides = ClusterPair(source, target, written_back, own)
    read = {p.assigned.remote_topic for p in partitions} | ({plan.producers_topic} if own is not None else set())
    try:
        async with asyncio.timeout(FOUND_WITHIN_S):
            await target.open(read)
            await resume_after_tails(
                plan.name,
                unsettled,
                sides,
                isolation_level=isolation_level,
                is_transactional=is_transactional,
                was_transactional=was_transactional,
                patience_s=REPLICATED_WITHIN_S if is_patient else 0.0,
            )
    except NETWORK as error:
        warn("read what was written last", error)
    finally:
        await target.close()
    for partition in set(partitions) - unsettled:
        partition.record_outcome()
        if partition.sequence is not None and partition.sequence.is_doubted:
            partition.number(None)  # the target has no record after the position: its sequence numbers are obsolete
    _await_outcomes(plan, unsettled, logged_reasons)
    # Partitions without a position have no metadata for the next window.
    return all(p.start is None for p in unsettled)


def _await_outcomes(plan: FlowPlan, unsettled: Collection[Partition], logged_reasons: LoggedReasons) -> None:
    news = [p for p in unsettled if logged_reasons.record(plan.name, p.assigned, AWAITS)]
    if news:
        log.warning(
            "%s: %d partitions paused (%s): the outcome of their last batches is not visible on the target yet",
            plan.name,
            len(news),
            named(news),
        )
    for partition in unsettled:
        partition.pause.begin(Pause.OUTCOME_UNKNOWN, AWAITS)
        if not partition.outcome_unknown_until_ms:  # the next window must check again
            partition.hold_back(int(now_ms()))
