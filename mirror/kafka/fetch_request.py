"""Build a fetch request in each of its versions."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from mirror.kafka import packing
from mirror.kafka.fetch_session import Delta, FetchPosition
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import CONSUMER, ApiKey
from mirror.model.codecs import Bytes
from mirror.model.topic_partition import TopicPartition

_OLDEST, _NAMES, _IDS = 4, 12, 17  # versions: the first, the last with topic names, the last with topic ids

Topic = str | uuid.UUID | None


class FetchLimits(NamedTuple):
    """The limits of a fetch, and the consumer's rack (consumer settings)."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack: str = ""


def fetch_request(delta: Delta, limits: FetchLimits) -> Request:
    """Return the request for a delta, with topic ids if possible, else with names.

    Ids are possible if all of them are known and the broker supports them.
    """
    return Request(
        ApiKey.FETCH,
        _OLDEST,
        _IDS if delta.has_ids else _NAMES,
        partial(_built, delta, limits),
        waits_s=limits.max_wait_ms / 1000,
        packs=partial(_packed, delta, limits),
    )


def _wanted(delta: Delta, *, has_ids: bool) -> dict[Any, list[tuple[int, int, int, int]]]:
    """Return (partition, offset, epoch of the record before it, max bytes) by topic."""
    topics: dict[Topic, list[tuple[int, int, int, int]]] = defaultdict(list)
    for (topic, partition), at in delta.wanted.items():
        topics[at.topic_id if has_ids else topic].append((partition, at.offset, at.last_epoch, at.max_bytes))
    return topics


def _forgotten(delta: Delta, *, has_ids: bool) -> dict[Any, list[int]]:
    """Return the partitions to remove from the session, by topic. By name, a replaced topic is still wanted."""
    topics: dict[Topic, list[int]] = defaultdict(list)
    gone: Mapping[TopicPartition, FetchPosition] = {**delta.forgotten, **delta.replaced} if has_ids else delta.forgotten
    for (topic, partition), at in gone.items():
        topics[at.topic_id if has_ids else topic].append(partition)
    return topics


def _packed(delta: Delta, limits: FetchLimits, version: int) -> list[Bytes] | None:
    has_ids = version in packing.FETCH_IDS
    if not has_ids and version not in packing.FETCH_NAMES:
        return None
    return packing.fetch(
        version,
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation_level,
        session=(delta.session_id, delta.epoch),
        wanted=_wanted(delta, has_ids=has_ids),
        forgotten=_forgotten(delta, has_ids=has_ids),
        rack=limits.rack,
    )


def _built(delta: Delta, limits: FetchLimits, module: ModuleType, version: int) -> Any:
    has_ids = version > _NAMES
    return make(
        module.FetchRequest,
        replica_id=CONSUMER,
        max_wait=timedelta(milliseconds=limits.max_wait_ms),
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation_level,
        session_id=delta.session_id,
        session_epoch=delta.epoch,
        topics=tuple(
            make(module.FetchTopic, topic=topic, topic_id=topic, partitions=tuple(_place(module, *at) for at in places))
            for topic, places in _wanted(delta, has_ids=has_ids).items()
        ),
        # The message has this field from version 7 on; kio's class has it only in the versions that use it.
        forgotten_topics_data=tuple(
            make(module.ForgottenTopic, topic=topic, topic_id=topic, partitions=tuple(partitions))
            for topic, partitions in _forgotten(delta, has_ids=has_ids).items()
        ),
        rack_id=limits.rack,
    )


def _place(module: ModuleType, partition: int, offset: int, last_epoch: int, max_bytes: int) -> Any:
    return make(
        module.FetchPartition,
        partition=partition,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=max_bytes,
    )
