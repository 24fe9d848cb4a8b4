"""Transactions: what enters them, what ends them, and what is done about one that does not end."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import errors as kafka_errors
from aiokafka.client import CoordinationType

from mirror.kafka import producer as producing
from mirror.kafka import transactional_producer as transacting
from mirror.kafka.producer import NotAppendedError, UncertainError
from mirror.kafka.transactional_producer import StuckError, TransactionalProducer
from mirror.model.record_batches import HEADER, Outgoing, of_values

ID = "mirror.A->B.0"
OK, FEW_REPLICAS, TIMED_OUT, DENIED, NOT_ATTEMPTED, CONCURRENT, FENCED = 0, 19, 7, 29, 55, 51, 47


def batch(*values: str) -> Outgoing:
    (made,) = of_values([(b"", value.encode()) for value in values], timestamp_ms=0)
    return made


class Cluster:
    """A coordinator and the logs of one broker, as aiokafka's client; its attributes say what it refuses."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace(
            leader_for_partition=lambda where: None if where.partition in self.leaderless else 1
        )
        self.leaderless: set[int] = set()
        self.answers: dict[int, int] = {}  # by partition: the error of a produce request
        self.denied: set[str] = set()
        self.stuck: set[str] = set()  # transactional ids whose last transaction does not end
        self.epochs: dict[str, int] = defaultdict(lambda: -1)
        self.open: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self.ended: list[tuple[str, bool, set[tuple[str, int]]]] = []
        self.logs: dict[tuple[str, int], list[int]] = defaultdict(list)  # sequence numbers
        self.offsets: dict[tuple[str, int], int] = {}
        self._conns: dict[object, object] = {}

    def force_metadata_update(self) -> None: ...

    async def coordinator_lookup(self, kind: int, key: str) -> int:
        assert key in (ID, "g") or key.startswith(f"{ID}.spare-"), key
        assert (kind == CoordinationType.GROUP) == (key == "g")
        return 1

    async def send(self, node: int, request: Any, *, group: int = 0) -> Any:
        await asyncio.sleep(0)
        return getattr(self, type(request).__name__)(request)

    def InitProducerIdRequest(self, request: Any) -> Any:  # noqa: N802 - Kafka's name, as those below
        name = request._transactional_id
        if name in self.stuck:
            return SimpleNamespace(error_code=CONCURRENT)
        self.epochs[name] += 1
        self.open.pop(name, None)
        return SimpleNamespace(error_code=OK, producer_id=hash(name) % 1000, producer_epoch=self.epochs[name])

    def _code(self, request: Any) -> int:
        name = request._transactional_id
        if request._producer_epoch != self.epochs[name]:
            return FENCED
        return CONCURRENT if name in self.stuck else OK

    def AddPartitionsToTxnRequest(self, request: Any) -> Any:  # noqa: N802
        asked = [(topic, part) for topic, parts in request._topics for part in parts]
        is_refused = any(topic in self.denied for topic, _ in asked)
        errors = defaultdict(list)
        for topic, part in asked:
            code = DENIED if topic in self.denied else NOT_ATTEMPTED if is_refused else self._code(request)
            errors[topic].append((part, code))
            if code == OK:
                self.open[request._transactional_id].add((topic, part))
        return SimpleNamespace(errors=list(errors.items()))

    def AddOffsetsToTxnRequest(self, request: Any) -> Any:  # noqa: N802
        return SimpleNamespace(error_code=self._code(request))

    def TxnOffsetCommitRequest(self, request: Any) -> Any:  # noqa: N802
        self.offsets |= {(topic, part): offset for topic, parts in request._topics for part, offset, _ in parts}
        return SimpleNamespace(errors=[(topic, [(part, OK) for part, *_ in parts]) for topic, parts in request._topics])

    def EndTxnRequest(self, request: Any) -> Any:  # noqa: N802
        code = self._code(request)
        if code == OK:
            name = request._transactional_id
            self.ended.append((name, request._transaction_result, self.open.pop(name, set())))
        return SimpleNamespace(error_code=code)

    def ProduceRequest(self, request: Any) -> Any:  # noqa: N802
        topics = defaultdict(list)
        for topic, parts in request._topics:
            for part, data in parts:
                assert (topic, part) in self.open[request._transactional_id], "it did not enter the transaction"
                code = self.answers.get(part, OK)
                if code in (OK, TIMED_OUT):
                    self.logs[topic, part].append(HEADER.unpack_from(data)[-2])
                topics[topic].append((part, code, 0))
        return SimpleNamespace(topics=list(topics.items()))


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """What takes seconds takes milliseconds."""
    monkeypatch.setattr(producing, "TAKE_BACK_S", 0.03)
    monkeypatch.setattr(producing, "DECIDES_S", 0.3)
    monkeypatch.setattr(transacting, "STUCK_S", 0.03)
    monkeypatch.setattr(transacting, "MARKERS_S", 0.002)
    monkeypatch.setattr(transacting, "FENCE_AGAIN_S", 0.01)


def made(cluster: Cluster) -> TransactionalProducer:
    return TransactionalProducer(
        cluster,
        request_bytes=1 << 20,
        request_timeout_ms=1000,
        retry_s=0.001,
        transactional_id=ID,
        transaction_timeout_ms=60_000,
    )


async def opened(cluster: Cluster) -> TransactionalProducer:
    producer = made(cluster)
    await producer.open()
    producer.begin()
    return producer


def test_batches_and_offsets_are_committed_together_and_an_empty_transaction_costs_nothing():
    async def run():
        cluster = Cluster()
        producer = await opened(cluster)
        await producer.commit("g", {})
        assert cluster.ended == []
        producer.begin()
        assert await producer.send(batch(*"ab"), "t", 0) == 0
        await producer.commit("g", {("t", 0): (2, "")})
        assert cluster.ended == [(ID, True, {("t", 0)})]
        assert cluster.offsets == {("t", 0): 2}
        producer.begin()
        await producer.send(batch("c"), "t", 0)
        await producer.abort()
        assert cluster.ended[1:] == [(ID, False, {("t", 0)})]
        assert cluster.logs["t", 0] == [0, 2]

    asyncio.run(run())


def test_nothing_is_sent_outside_of_a_transaction():
    async def run():
        producer = await opened(Cluster())
        await producer.abort()
        with pytest.raises(kafka_errors.InvalidTxnState, match="no transaction"):
            producer.send(batch("a"), "t", 0)

    asyncio.run(run())


def test_a_topic_that_is_denied_keeps_no_other_out_and_costs_no_transaction():
    async def run():
        cluster = Cluster()
        cluster.denied = {"secret"}
        producer = await opened(cluster)
        sent = [producer.send(batch("a"), topic, 0) for topic in ("t", "secret", "u")]
        assert await sent[0] == await sent[2] == 0
        with pytest.raises(kafka_errors.TopicAuthorizationFailedError):
            await sent[1]
        await producer.commit("g", {})
        assert cluster.ended == [(ID, True, {("t", 0), ("u", 0)})]

    asyncio.run(run())


@pytest.mark.parametrize("why", ["no leader", "too few replicas"])
def test_what_takes_no_writes_is_left_out_and_without_a_leader_it_does_not_even_enter(why):
    async def run():
        cluster = Cluster()
        if why == "no leader":
            cluster.leaderless = {1}
        else:
            cluster.answers = {1: FEW_REPLICAS}
        producer = await opened(cluster)
        sent = [producer.send(batch("a"), "t", part) for part in (0, 1)]
        assert await sent[0] == 0
        with pytest.raises(NotAppendedError):
            await sent[1]
        await producer.commit("g", {("t", 0): (1, "")})
        assert cluster.ended == [(ID, True, {("t", 0)} if why == "no leader" else {("t", 0), ("t", 1)})]

    asyncio.run(run())


def test_a_batch_without_an_outcome_ends_its_transaction_by_a_new_epoch_that_counts_anew():
    async def run():
        cluster = Cluster()
        cluster.answers = {1: TIMED_OUT}
        producer = await opened(cluster)
        sent = [producer.send(batch("a"), "t", part) for part in (0, 1)]
        await sent[0]
        with pytest.raises(UncertainError):
            await sent[1]
        await producer.abort()
        assert cluster.ended == []
        assert cluster.epochs[ID] == 1
        producer.begin()
        cluster.answers = {}
        cluster.logs.clear()
        await asyncio.gather(*(producer.send(batch("a"), "t", part) for part in (0, 1)))
        await producer.commit("g", {})
        assert cluster.logs == {("t", 0): [0], ("t", 1): [0]}

    asyncio.run(run())


def test_a_batch_whose_replicas_do_not_answer_is_undone_when_the_cluster_has_decided_and_not_before():
    """A marker that is appended before would wait for the dead replica, and every other marker of that broker behind it."""

    async def run():
        cluster = Cluster()
        cluster.answers = {0: TIMED_OUT}
        producer = await opened(cluster)
        sent = producer.send(batch("a"), "t", 0)
        await asyncio.sleep(5 * producing.TAKE_BACK_S)
        assert not sent.done()
        cluster.answers = {0: FEW_REPLICAS}
        with pytest.raises(UncertainError):
            await asyncio.wait_for(sent, producing.TAKE_BACK_S)

    asyncio.run(run())


def test_a_transaction_with_a_batch_without_an_outcome_cannot_be_committed():
    async def run():
        cluster = Cluster()
        cluster.answers = {0: TIMED_OUT}
        producer = await opened(cluster)
        producer.send(batch("a"), "t", 0)
        with pytest.raises(kafka_errors.InvalidTxnState):
            await producer.commit("g", {})
        assert cluster.ended == []

    asyncio.run(run())


def test_where_a_transaction_does_not_end_the_next_one_has_a_spare_id_which_is_told_before():
    async def run():
        cluster, told = Cluster(), []

        async def rotated(spare: int) -> None:
            assert ID + f".spare-{spare}" not in cluster.epochs
            told.append(spare)

        producer = made(cluster)
        await producer.open(0, rotated)
        producer.begin()
        await producer.send(batch("a"), "t", 0)
        await producer.commit("g", {})
        cluster.stuck = {ID, f"{ID}.spare-1"}
        producer.begin()
        await asyncio.gather(*(producer.send(batch("b"), "t", part) for part in (0, 1)))
        await producer.commit("g", {})
        assert told == [1, 2]
        assert cluster.ended[1:] == [(f"{ID}.spare-2", True, {("t", 0), ("t", 1)})]
        # A successor begins with that id, and fences the one before as soon as that has ended.
        successor = made(cluster)
        await successor.open(2, rotated)
        assert cluster.epochs[f"{ID}.spare-2"] == 1
        cluster.stuck.clear()
        await asyncio.sleep(0.05)
        assert cluster.epochs[f"{ID}.spare-1"] == 0
        producer.begin()
        with pytest.raises(kafka_errors.KafkaError):
            await producer.send(batch("c"), "t", 0)
        successor.close()

    asyncio.run(run())


def test_without_anybody_to_tell_a_transaction_that_does_not_end_is_an_error():
    async def run():
        cluster = Cluster()
        cluster.stuck = {ID}
        with pytest.raises(StuckError):
            await made(cluster).open()

    asyncio.run(run())
