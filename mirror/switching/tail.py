"""Find the divergent tail of a lost source's logs: records that were never replicated."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any, TextIO

from mirror.config.clients import ClientOptions, client_options
from mirror.errors import ClusterUnavailable, MirrorError
from mirror.flows.stored_positions import read_positions
from mirror.kafka.errors import KafkaError
from mirror.kafka.internal_topics import read_topic
from mirror.lag.text import pluralized
from mirror.model.flow_plan import Absent, PlannedPartition
from mirror.model.records import Record
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import describe, first_few
from mirror.runtime.state_folder import keep_private
from mirror.switching import fence
from mirror.switching.scope import Scope
from mirror.switching.work import StepContext, StepResult

TOPICS, TAILS = "topics", "tails"  # facts of the step TAIL


def write_tail(work: StepContext) -> StepResult:
    """Write the records that were never replicated to a file, one line of JSON each.

    Their topics stay paused until an operator decides.
    """
    back = work.scope.reversed()  # the flow whose source was lost
    tails = _tails(back)
    if not tails:
        return StepResult([f"{back.source.alias} has no record that was not replicated"])
    work.journal.confirm()  # if an operator has resumed the topics, the file would lack records
    keep_private()
    file = work.folder / f"{work.run.id}-tail.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    options = client_options(back.flow.consumer)
    try:
        with file.open("w") as out:
            counts = {
                place: asyncio.run(_written(options, place, *bounds, out)) for place, bounds in sorted(tails.items())
            }
    except (KafkaError, OSError, TimeoutError) as error:
        raise ClusterUnavailable(
            f"the tail of {back.source.alias} cannot be read or written ({describe(error)}).", cluster=back.source.alias
        ) from error
    topics = sorted({topic for topic, _ in tails})
    return StepResult(
        [
            f"{pluralized(sum(counts.values()), 'record')} of {back.source.alias} were never mirrored: {fence.named(counts)}",
            f"they are in {file}",
            f"their topics stay paused in {back.flow.name}: 'kafka-mirror positions resume' replicates them",
        ],
        {TOPICS: topics, TAILS: [[*place, *bounds] for place, bounds in sorted(tails.items())], "file": str(file)},
    )


def _tails(back: Scope) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset and the log end of each partition with unreplicated records.

    If a partition is not on the target, or is empty there, none of its records was replicated. An unknown offset never counts as
    0.

    Raises:
        MirrorError: the position of a partition, or a bound of its log, is unknown.
    """
    plan = back.plan()
    places: list[PlannedPartition | Absent] = [*back.partitions(plan), *back.absent(plan)]
    remote = {place.on_source: place.on_target for place in places}
    positions = read_positions(back.flow)
    new = [place for place in remote if remote[place] not in positions]
    on_target = back.target.end_offsets(
        [remote[each.on_source] for each in back.partitions(plan) if each.on_source in new]
    )
    absent = {place.on_source for place in back.absent(plan)}
    if lost := [place for place in new if place not in absent and on_target.get(remote[place]) != 0]:
        raise MirrorError(
            f"replication progress of {_named(lost)} is unknown: {back.target.alias} has records and no position. 'kafka-mirror "
            "run' restores positions from the offset map. If it does not, stop it and use 'kafka-mirror positions set'. Then run "
            "the same command again."
        )
    starts, ends = back.source.start_offsets(new), back.source.end_offsets(remote)
    if silent := [place for place in remote if place not in ends or (place in new and place not in starts)]:
        raise MirrorError(
            f"{back.source.alias} does not report the bounds of {_named(silent)}, so its unreplicated records are unknown. "
            "Wait until each partition has a leader, and run the same command again."
        )
    first = {place: starts[place] if place in new else positions[remote[place]].offset for place in remote}
    return {place: (first[place], ends[place]) for place in remote if ends[place] > first[place]}


def _named(places: Sequence[TopicPartition]) -> str:
    return first_few([f"{topic}-{partition}" for topic, partition in places])


async def _written(options: ClientOptions, place: TopicPartition, start: int, end: int, out: TextIO) -> int:
    count = 0
    async for offset, record in read_topic(options, place[0], start, place[1]):
        if start <= offset < end:
            out.write(json.dumps(plain(place, offset, record)) + "\n")
            count += 1
    return count


def plain(place: TopicPartition, offset: int, record: Record) -> dict[str, Any]:
    """Return a record as a JSON object: bytes in base64, None for null."""

    def text(content: bytes | None) -> str | None:
        return None if content is None else base64.b64encode(content).decode()

    return {
        "topic": place[0],
        "partition": place[1],
        "offset": offset,
        "timestamp": record.timestamp,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[name if isinstance(name, str) else text(name), text(value)] for name, value in record.headers],
    }
