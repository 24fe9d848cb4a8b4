"""Whose a batch is, told by the id of its producer: never wrong, and not told where the registry cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from mirror.kafka.errors import BrokerError, ErrorCode, KafkaError
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Fetched, Source
from mirror.kafka.protocol import EARLIEST
from mirror.model.record_batches import NO_PRODUCER, Packer, batches, producer_ids, with_producer_state
from mirror.model.records import body_of
from mirror.model.topic_partition import TopicPartition
from mirror.replication import producer_registry
from mirror.replication.producer_registry import ProducerRegistry

TOPIC = "mm2-producers.b.internal"


def batch(producer: int, *keys: bytes, base: int = 0) -> bytes:
    packer = Packer(0, 1 << 30)
    for index, key in enumerate(keys):
        packer.append(0, body_of(key, b"b->a"), index)
    data = bytearray(b"".join(with_producer_state(packer.build().data, producer, 0, 0, transactional=False)))
    data[:8] = base.to_bytes(8, "big")
    return bytes(data)


class Cluster:
    """Has a registry, and counts how often it is read."""

    def __init__(self, *ids: int) -> None:
        self.ids = list(ids)
        self.start = 0
        self.id = "one"
        self.is_there = True
        self.failure: KafkaError | None = None
        self.looks = self.reads = 0

    def knows(self, *_: object) -> bool:
        return self.is_there

    async def refresh(self) -> None:
        pass

    def topic_id(self, _: str) -> str:
        return self.id

    def leader(self, *_: object) -> int:
        return 1

    async def offsets(
        self, wanted: Mapping[TopicPartition, int], *, isolation_level: int
    ) -> dict[TopicPartition, int | KafkaError]:
        await asyncio.sleep(0)
        self.looks += 1
        bound = {at: self.start if at == EARLIEST else self.start + len(self.ids) for at in wanted.values()}
        return {place: self.failure or bound[at] for place, at in wanted.items()}

    async def read(self, _: int, wanted: Mapping[TopicPartition, FetchPosition], __: FetchLimits) -> list[Fetched]:
        self.reads += 1
        at = wanted[TOPIC, 0].offset
        keys = [str(each).encode() for each in self.ids[at - self.start :]][:2]  # two at a time
        records = batch(99, *keys, base=at) if keys else b""
        return [Fetched(TOPIC, 0, ErrorCode.none, at, 0, [], records)]


def written_by(registry: ProducerRegistry, cluster: Cluster, ids: Iterable[int]) -> frozenset[int]:
    return asyncio.run(registry.written_by(cast(Source, cluster), ids))


def test_a_registered_producer_is_found_over_any_number_of_reads():
    cluster, registry = Cluster(3, 5, 7, 11, 13), ProducerRegistry(TOPIC)
    assert written_by(registry, cluster, [3, 4, 13, NO_PRODUCER]) == {3, 13}
    assert (cluster.reads, written_by(registry, cluster, [5, 11])) == (3, {5, 11})
    assert cluster.looks == 2, "what is known is asked for once: first and end"


def test_an_unknown_producer_is_looked_up_after_its_batch():
    """B: it may have registered since the registry was read last."""
    cluster, registry = Cluster(3), ProducerRegistry(TOPIC)
    assert written_by(registry, cluster, [4]) == frozenset()
    cluster.ids.append(6)
    assert written_by(registry, cluster, [4, 6]) == {6}
    assert cluster.reads == 2, "what was read before is not read again"


def test_two_concurrent_lookups_each_get_their_producers():
    cluster, registry = Cluster(*range(10)), ProducerRegistry(TOPIC)

    async def both() -> list[frozenset[int]]:
        source = cast(Source, cluster)
        return await asyncio.gather(registry.written_by(source, [1, 50]), registry.written_by(source, [9, 51]))

    assert asyncio.run(both()) == [{1}, {9}]


def test_a_batch_without_a_producer_id_has_no_registered_producer():
    cluster = Cluster(3)
    cluster.is_there = False
    assert written_by(ProducerRegistry(TOPIC), cluster, [NO_PRODUCER]) == frozenset()


@pytest.mark.parametrize(
    ("is_there", "failure"),
    [
        pytest.param(False, None, id="no topic"),
        pytest.param(True, BrokerError(ErrorCode.topic_authorization_failed), id="denied"),
        pytest.param(True, BrokerError(ErrorCode.offset_not_available), id="a leader that does not know its end yet"),
    ],
)
def test_an_unreadable_registry_is_an_error_and_not_empty(is_there, failure):
    """C: not knowing is no answer, and is asked for again."""
    cluster, registry = Cluster(3), ProducerRegistry(TOPIC)
    cluster.is_there, cluster.failure = is_there, failure
    with pytest.raises(KafkaError):
        written_by(registry, cluster, [3])
    told = asyncio.run(registry.told(cast(Source, cluster), [batch(3, b"k")]))
    assert "cannot be distinguished" in told.unknown
    cluster.is_there, cluster.failure = True, None
    assert written_by(registry, cluster, [3]) == {3}


def test_a_recreated_registry_is_read_from_its_start():
    cluster, registry = Cluster(1, 2, 3), ProducerRegistry(TOPIC)
    assert written_by(registry, cluster, [3]) == {3}
    cluster.ids, cluster.id = [8, 9, 10, 11], "two"
    assert written_by(registry, cluster, [3, 8]) == {3, 8}, "a cluster gives no id twice"


def test_others_are_forgotten_before_they_are_too_many(monkeypatch):
    monkeypatch.setattr(producer_registry, "MOST_OTHERS", 2)
    cluster, registry = Cluster(3), ProducerRegistry(TOPIC)
    for other in (10, 11, 12):
        written_by(registry, cluster, [other])
    looks = cluster.looks
    assert written_by(registry, cluster, [11, 12]) == frozenset()
    assert cluster.looks == looks
    assert written_by(registry, cluster, [10]) == frozenset()
    assert cluster.looks > looks


def test_a_producer_that_registers_late_is_found_by_the_next_window():
    """A flow that was one way goes on with the numbers that it had."""
    cluster, registry = Cluster(3), ProducerRegistry(TOPIC)
    assert written_by(registry, cluster, [7]) == frozenset()
    cluster.ids.append(7)
    registry.doubt_others()
    assert written_by(registry, cluster, [7]) == {7}


def test_batches_are_sifted_by_who_wrote_them():
    cluster, registry = Cluster(3), ProducerRegistry(TOPIC)
    found = [*batches(batch(3, b"ours")), *batches(batch(4, b"theirs")), *batches(batch(NO_PRODUCER, b"plain"))]
    source: Any = cluster
    assert asyncio.run(registry.only(source, found)) == found[:1]
    assert asyncio.run(registry.without(source, found)) == found[1:]


def test_ids_are_read_from_whole_batches():
    one, other = batch(3, b"k"), batch(NO_PRODUCER, b"k", b"l")
    assert producer_ids(b"") == set()
    assert producer_ids(one + other) == {3, NO_PRODUCER}
    assert producer_ids(one + other[:-1]) == {3}
