"""Transactions: what enters them, what ends them, and what is done about one that does not end."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.kafka import producer as producing
from mirror.kafka import transaction_coordinators as coordinators
from mirror.kafka.client import CoordinatorType, Purpose
from mirror.kafka.errors import BrokerError, ErrorCode, KafkaError
from mirror.kafka.messages import Request
from mirror.kafka.producer import NotAppendedError, UncertainError
from mirror.kafka.transaction_coordinators import StuckError
from mirror.kafka.transactional_producer import TransactionalProducer, TransactionStateError
from mirror.model.record_batches import HEADER, Outgoing, of_values
from tests.unit.fakes import FakeClient

pytestmark = pytest.mark.usefixtures("virtual_clock")

ID = "mirror.A->B.0"
OK, FEW_REPLICAS, TIMED_OUT = ErrorCode.none, ErrorCode.not_enough_replicas, ErrorCode.request_timed_out
NOT_LEADER = ErrorCode.not_leader_or_follower
DENIED, NOT_ATTEMPTED = ErrorCode.topic_authorization_failed, ErrorCode.operation_not_attempted
CONCURRENT, FENCED = ErrorCode.concurrent_transactions, ErrorCode.invalid_producer_epoch


def batch(*values: str) -> Outgoing:
    (made,) = of_values([(b"", value.encode()) for value in values], timestamp_ms=0)
    return made


class Cluster(FakeClient):
    """A coordinator and the logs of one broker, as a client of them; its attributes say what it refuses."""

    def __init__(self, version: int = 1) -> None:
        self.version = version  # of the transaction protocol
        self.metadata = SimpleNamespace(
            leader=lambda _, part: None if part in self.leaderless else 1, update_leader=lambda *_: None
        )
        self.leaderless: set[int] = set()
        self.answers: dict[int, ErrorCode] = {}  # by partition: the error of a produce request
        self.denied: set[str] = set()
        self.stuck: set[str] = set()  # transactional ids whose last transaction does not end
        self.busy = 0  # requests refused before the last transaction has ended
        self.epochs: dict[str, int] = defaultdict(lambda: -1)
        self.open: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self.ended: list[tuple[str, bool, set[tuple[str, int]]]] = []
        self.logs: dict[tuple[str, int], list[int]] = defaultdict(list)  # sequence numbers
        self.offsets: dict[tuple[str, int], int] = {}
        self.most_ms = 900_000  # transaction.max.timeout.ms

    async def coordinator(self, kind: CoordinatorType, key: str) -> int:
        assert key in (ID, "g") or key.startswith(f"{ID}.spare-"), key
        assert (kind is CoordinatorType.GROUP) == (key == "g")
        return 1

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None: ...

    async def feature(self, node: int, name: str, purpose: Purpose = Purpose.DATA) -> int:
        return {"transaction.version": self.version}[name]

    async def answered(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return getattr(self, type(message).__name__)(message)

    def InitProducerIdRequest(self, request: Any) -> Any:  # noqa: N802 - Kafka's name, as those below
        name = request.transactional_id
        if name in self.stuck:
            return SimpleNamespace(error_code=CONCURRENT)
        if request.transaction_timeout > timedelta(milliseconds=self.most_ms):
            return SimpleNamespace(error_code=ErrorCode.invalid_transaction_timeout)
        self.epochs[name] += 1
        self.open.pop(name, None)
        return SimpleNamespace(error_code=OK, producer_id=hash(name) % 1000, producer_epoch=self.epochs[name])

    def _code(self, name: str, epoch: int) -> ErrorCode:
        if epoch != self.epochs[name]:
            return FENCED
        if self.busy:
            self.busy -= 1
            return CONCURRENT
        return CONCURRENT if name in self.stuck else OK

    def AddPartitionsToTxnRequest(self, request: Any) -> Any:  # noqa: N802
        name = request.v3_and_below_transactional_id
        asked = [(topic.name, part) for topic in request.v3_and_below_topics for part in topic.partitions]
        is_refused = any(topic in self.denied for topic, _ in asked)
        results = []
        for topic, part in asked:
            known = self._code(name, request.v3_and_below_producer_epoch)
            code = DENIED if topic in self.denied else NOT_ATTEMPTED if is_refused else known
            answer = SimpleNamespace(partition_index=part, partition_error_code=code)
            results.append(SimpleNamespace(name=topic, results_by_partition=[answer]))
            if code is OK:
                self.open[name].add((topic, part))
        return SimpleNamespace(results_by_topic_v3_and_below=results)

    def AddOffsetsToTxnRequest(self, request: Any) -> Any:  # noqa: N802
        return SimpleNamespace(error_code=self._code(request.transactional_id, request.producer_epoch))

    def TxnOffsetCommitRequest(self, request: Any) -> Any:  # noqa: N802
        parts = [(topic.name, part) for topic in request.topics for part in topic.partitions]
        self.offsets |= {(topic, part.partition_index): part.committed_offset for topic, part in parts}
        answers = [
            SimpleNamespace(
                name=topic, partitions=[SimpleNamespace(partition_index=part.partition_index, error_code=OK)]
            )
            for topic, part in parts
        ]
        return SimpleNamespace(topics=answers)

    def EndTxnRequest(self, request: Any) -> Any:  # noqa: N802
        name = request.transactional_id
        code = self._code(name, request.producer_epoch)
        if code is OK:
            self.ended.append((name, request.committed, self.open.pop(name, set())))
            if self.version == 2:
                self.epochs[name] += 1
        return SimpleNamespace(error_code=code, producer_id=hash(name) % 1000, producer_epoch=self.epochs[name])

    def ProduceRequest(self, request: Any) -> Any:  # noqa: N802
        answers = []
        # In the second version the leader has the coordinator add all of a request, or none.
        is_refused = self.version == 2 and any(topic.name in self.denied for topic in request.topic_data)
        for topic in request.topic_data:
            for part in topic.partition_data:
                where = (topic.name, part.index)
                usual = DENIED if topic.name in self.denied else NOT_ATTEMPTED if is_refused else OK
                code = self.answers.get(part.index, usual)
                if self.version == 2:
                    known = self._code(request.transactional_id, HEADER.unpack_from(part.records)[-3])
                    code = known if known is not OK else code
                    if code in (OK, TIMED_OUT, NOT_LEADER):
                        self.open[request.transactional_id].add(where)
                else:
                    assert where in self.open[request.transactional_id], "it did not enter the transaction"
                if code in (OK, TIMED_OUT, NOT_LEADER):
                    self.logs[where].append(HEADER.unpack_from(part.records)[-2])
                answer = SimpleNamespace(index=part.index, error_code=code, base_offset=0)
                answers.append(SimpleNamespace(name=topic.name, partition_responses=[answer]))
        return SimpleNamespace(responses=answers)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """What takes seconds takes milliseconds."""
    monkeypatch.setattr(producing, "TAKE_BACK_S", 0.03)
    monkeypatch.setattr(producing, "DECIDES_S", 0.3)
    monkeypatch.setattr(coordinators, "STUCK_S", 0.03)
    monkeypatch.setattr(coordinators, "MARKERS_S", 0.002)
    monkeypatch.setattr(coordinators, "FENCE_AGAIN_S", 0.01)


def made(cluster: Cluster, **options: Any) -> TransactionalProducer:
    return TransactionalProducer(
        cluster,
        request_bytes=1 << 20,
        request_timeout_ms=1000,
        retry_s=0.001,
        transactional_id=ID,
        transaction_timeout_ms=60_000,
        **options,
    )


async def opened(cluster: Cluster) -> TransactionalProducer:
    producer = made(cluster)
    await producer.open()
    producer.begin()
    return producer


@pytest.fixture(params=[1, 2])
def version(request) -> int:
    """Of the transaction protocol."""
    return request.param


def test_batches_and_offsets_are_committed_together(version):
    async def run():
        cluster = Cluster(version)
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
        assert cluster.logs["t", 0] == [0, 2 if version == 1 else 0], (
            "in the second version each transaction has an epoch"
        )

    asyncio.run(run())


def test_nothing_is_sent_outside_of_a_transaction(version):
    async def run():
        producer = await opened(Cluster(version))
        await producer.abort()
        with pytest.raises(TransactionStateError, match="no transaction"):
            producer.send(batch("a"), "t", 0)

    asyncio.run(run())


def test_a_topic_that_is_denied_keeps_no_other_out_and_costs_no_transaction(version):
    async def run():
        cluster = Cluster(version)
        cluster.denied = {"secret"}
        producer = await opened(cluster)
        sent = [producer.send(batch("a"), topic, 0) for topic in ("t", "secret", "u")]
        assert await sent[0] == await sent[2] == 0
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            await sent[1]
        await producer.commit("g", {})
        assert cluster.ended == [(ID, True, {("t", 0), ("u", 0)})]

    asyncio.run(run())


@pytest.mark.parametrize("why", ["no leader", "too few replicas"])
def test_a_partition_without_writes_or_a_leader_stays_out_of_the_transaction(why, version):
    async def run():
        cluster = Cluster(version)
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
        assert cluster.ended == [(ID, True, {("t", 0)} if why == "no leader" or version == 2 else {("t", 0), ("t", 1)})]

    asyncio.run(run())


@pytest.mark.parametrize("answer", [TIMED_OUT, NOT_LEADER])
def test_a_batch_without_an_outcome_ends_its_transaction_with_a_new_epoch(version, answer):
    """A leader that appended the batch and moved before its replicas had it answers NOT_LEADER_OR_FOLLOWER."""

    async def run():
        cluster = Cluster(version)
        cluster.answers = {1: answer}
        producer = await opened(cluster)
        sent = [producer.send(batch("a"), "t", part) for part in (0, 1)]
        await sent[0]
        with pytest.raises(UncertainError):
            await sent[1]
        await producer.abort()
        assert cluster.ended == ([] if version == 1 else [(ID, False, {("t", 0), ("t", 1)})])
        assert cluster.epochs[ID] == 1
        producer.begin()
        cluster.answers = {}
        cluster.logs.clear()
        await asyncio.gather(*(producer.send(batch("a"), "t", part) for part in (0, 1)))
        await producer.commit("g", {})
        assert cluster.logs == {("t", 0): [0], ("t", 1): [0]}

    asyncio.run(run())


def test_an_unreplicated_batch_is_undone_after_the_cluster_has_decided(version):
    """A marker that is appended before would wait for the dead replica, and every other marker of that broker behind it."""

    async def run():
        cluster = Cluster(version)
        cluster.answers = {0: TIMED_OUT}
        producer = await opened(cluster)
        sent = producer.send(batch("a"), "t", 0)
        await asyncio.sleep(5 * producing.TAKE_BACK_S)
        assert not sent.done()
        cluster.answers = {0: FEW_REPLICAS}
        with pytest.raises(UncertainError):
            await asyncio.wait_for(sent, producing.TAKE_BACK_S)

    asyncio.run(run())


def test_a_transaction_with_a_batch_without_an_outcome_cannot_be_committed(version):
    async def run():
        cluster = Cluster(version)
        cluster.answers = {0: TIMED_OUT}
        producer = await opened(cluster)
        producer.send(batch("a"), "t", 0)
        with pytest.raises(TransactionStateError):
            await producer.commit("g", {})
        assert cluster.ended == []

    asyncio.run(run())


def test_after_a_stuck_transaction_the_next_one_uses_a_recorded_spare_id(version):
    async def run():
        cluster, shown = Cluster(version), []

        async def rotated(spare: int) -> None:
            assert ID + f".spare-{spare}" not in cluster.epochs
            shown.append(spare)

        producer = made(cluster)
        await producer.open(0, rotated)
        producer.begin()
        await producer.send(batch("a"), "t", 0)
        await producer.commit("g", {})
        cluster.stuck = {ID, f"{ID}.spare-1"}
        producer.begin()
        await asyncio.gather(*(producer.send(batch("b"), "t", part) for part in (0, 1)))
        await producer.commit("g", {})
        assert shown == [1, 2]
        assert cluster.ended[1:] == [(f"{ID}.spare-2", True, {("t", 0), ("t", 1)})]
        # A successor begins with that id, and fences the one before as soon as that has ended.
        successor = made(cluster)
        await successor.open(2, rotated)
        assert cluster.epochs[f"{ID}.spare-2"] == version
        cluster.stuck.clear()
        await asyncio.sleep(0.05)
        assert cluster.epochs[f"{ID}.spare-1"] == 0
        producer.begin()
        with pytest.raises(KafkaError):
            await producer.send(batch("c"), "t", 0)
        successor.close()

    asyncio.run(run())


@pytest.mark.parametrize("ends", [False, True])
def test_a_spare_id_is_used_only_after_the_responses_of_batches_in_flight(ends):
    class Slow(Cluster):
        """Has two brokers; the leader of partition 1 answers when it is told to."""

        def __init__(self) -> None:
            super().__init__(2)
            self.metadata = SimpleNamespace(leader=lambda _, part: part + 1)
            self.answers_now = asyncio.Event()

        async def ask(self, node: int, request: Request, *args: Any, **kwargs: Any) -> Any:
            if node == 2:
                await self.answers_now.wait()
            return await super().ask(node, request, *args, **kwargs)

    async def run():
        cluster, shown = Slow(), []

        async def rotated(spare: int) -> None:
            shown.append(spare)

        producer = made(cluster)
        await producer.open(0, rotated)
        cluster.stuck = {ID}
        producer.begin()
        sent = [producer.send(batch("a"), "t", part) for part in (0, 1)]
        queued = producer.send(batch("b"), "t", 1)
        await asyncio.sleep(3 * coordinators.STUCK_S)
        assert shown == []
        assert not any(future.done() for future in sent)
        if ends:
            cluster.stuck.clear()
        cluster.answers_now.set()
        await asyncio.gather(*sent, queued)
        await producer.commit("g", {})
        name = ID if ends else f"{ID}.spare-1"
        assert shown == ([] if ends else [1])
        assert cluster.ended == [(name, True, {("t", 0), ("t", 1)})]
        assert cluster.logs == {("t", 0): [0], ("t", 1): [0, 1]}

    asyncio.run(run())


def test_the_wait_for_one_transaction_does_not_count_for_the_next(version):
    async def run():
        cluster = Cluster(version)
        producer = made(cluster, stuck_s=0.05)
        await producer.open()
        for _ in range(3):
            cluster.busy = 1
            producer.begin()
            await producer.send(batch("a"), "t", 0)
            await producer.commit("", {})
            await asyncio.sleep(0.07)  # longer than one wait may take, shorter than two
        assert len(cluster.ended) == 3

    asyncio.run(run())


def test_without_anybody_to_tell_a_transaction_that_does_not_end_is_an_error(version):
    async def run():
        cluster = Cluster(version)
        cluster.stuck = {ID}
        with pytest.raises(StuckError):
            await made(cluster).open()

    asyncio.run(run())


def test_a_producer_without_spare_ids_may_wait_as_long_as_its_last_transaction_takes(version):
    async def run():
        cluster = Cluster(version)
        cluster.stuck = {ID}
        producer = made(cluster, stuck_s=math.inf)
        opening = asyncio.ensure_future(producer.open())
        await asyncio.sleep(3 * coordinators.STUCK_S)
        assert not opening.done()
        cluster.stuck.clear()
        await opening
        cluster.stuck = {ID}
        producer.begin()
        sent = producer.send(batch("a"), "t", 0)
        await asyncio.sleep(3 * coordinators.STUCK_S)
        assert not sent.done()
        cluster.stuck.clear()
        await sent
        await producer.commit("", {})
        assert cluster.logs == {("t", 0): [0]}
        assert cluster.ended == [(ID, True, {("t", 0)})]

    asyncio.run(run())


@pytest.mark.parametrize(("most_ms", "expected"), [(60_000, []), (20_000, [30_000, 15_000])])
def test_a_target_that_allows_only_shorter_transactions_gets_them(caplog, most_ms, expected):
    coordinators._tell_of_time_out.cache_clear()
    cluster = Cluster()
    cluster.most_ms = most_ms
    asyncio.run(opened(cluster))
    assert [record.args[-1] for record in caplog.records] == expected
    assert all("transaction.max.timeout.ms" in message for message in caplog.messages)


def test_a_refused_transaction_timeout_is_reported_with_its_error():
    cluster = Cluster()
    cluster.most_ms = 1_000
    with pytest.raises(BrokerError, match="INVALID_TRANSACTION_TIMEOUT"):
        asyncio.run(opened(cluster))
