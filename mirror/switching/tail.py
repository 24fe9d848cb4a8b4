"""Find what a source that was lost has, and never gave away: the divergent tail of its logs."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any, TextIO

from mirror.config.clients import ClientOptions, client_options
from mirror.errors import ClusterUnavailable
from mirror.flows.stored_positions import read_positions
from mirror.kafka.errors import KafkaError
from mirror.kafka.internal_topics import read_topic
from mirror.lag.cluster_offsets import log_ends
from mirror.lag.text import pluralized
from mirror.model.records import Record
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import describe
from mirror.runtime.state_folder import keep_private
from mirror.switching import fence
from mirror.switching.work import StepContext, StepResult

TOPICS, TAILS = "topics", "tails"  # facts of the step TAIL


def write_tail(work: StepContext) -> StepResult:
    """Write the records that never crossed into a file, a line of JSON each; their topics stay paused until somebody decides."""
    back = work.scope.reversed()  # the flow whose source was lost
    plan = back.plan()
    places = back.partitions(plan)
    positions = read_positions(back.flow, plan.group)
    ends = log_ends(back.source, [assigned.on_source for assigned in places])
    tails: dict[TopicPartition, tuple[int, int]] = {}
    for assigned in places:
        at = positions.get(assigned.on_target)
        position, end = at.offset if at is not None else 0, ends.get(assigned.on_source, 0)
        if end > position:
            tails[assigned.on_source] = (position, end)
    if not tails:
        return StepResult([f"{back.source.alias} has nothing that did not cross"])
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
            f"{pluralized(sum(counts.values()), 'record')} of {back.source.alias} never crossed: {fence.named(counts)}",
            f"they are in {file}",
            f"their topics stay paused in {back.flow.name}: 'kafka-mirror positions resume' lets them cross",
        ],
        {TOPICS: topics, TAILS: [[*place, *bounds] for place, bounds in sorted(tails.items())], "file": str(file)},
    )


async def _written(options: ClientOptions, place: TopicPartition, start: int, end: int, out: TextIO) -> int:
    count = 0
    async for offset, record in read_topic(options, place[0], start, place[1]):
        if start <= offset < end:
            out.write(json.dumps(plain(place, offset, record)) + "\n")
            count += 1
    return count


def plain(place: TopicPartition, offset: int, record: Record) -> dict[str, Any]:
    """Return a record for JSON: bytes in base64, None for null."""

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
