"""The mirror's own records: appended once, refusals with the right to grant, and one writer at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from threading import Timer
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from mirror.errors import ClusterRefuses, ClusterUnavailable
from mirror.kafka import appender, producer, transaction_coordinators
from mirror.kafka.appender import FencedError, NoTopicError
from mirror.kafka.cluster import Cluster
from mirror.kafka.messages import answers, make
from mirror.model.record_batches import HEADER, batches, records
from tests.unit.fake_broker import METADATA, BrokerInAThread, FakeBroker
from tests.wire import ADD_PARTITIONS, END_TXN, INIT_PRODUCER_ID, PRODUCE

OK = ErrorCode.none


class Log:
    """The partitions of a broker, with the rules for producers that the broker keeps."""

    def __init__(self, broker: FakeBroker) -> None:
        self.codes: list[ErrorCode] = []  # of the next Produce requests
        self.records: list[tuple[int, int, bytes | None, bytes | None]] = []  # partition, timestamp, key, value
        self.producers: list[int] = []  # the producer id of each batch
        self.epoch = -1  # of the transactional id
        self.ended: list[bool] = []  # by transaction: whether it was committed
        self.ids = 0
        self.stuck = 0  # how often a transactional id is busy with its last transaction
        broker.api_versions |= {PRODUCE: (3, 11), ADD_PARTITIONS: (0, 3), END_TXN: (0, 3)}
        broker.handlers |= {
            PRODUCE: self._produce,
            INIT_PRODUCER_ID: self._producer_id,
            ADD_PARTITIONS: self._add,
            END_TXN: self._end,
        }

    def _produce(self, request: Any, version: int) -> Any:
        module = answers(PRODUCE, version)
        (topic,) = request.topic_data
        (part,) = topic.partition_data
        code = self.codes.pop(0) if self.codes else self._code(HEADER.unpack_from(part.records)[-3], request)
        if code is OK:
            for batch in batches(part.records):
                self.producers.append(HEADER.unpack_from(batch.data)[-4])
                self.records += [(part.index, r.timestamp, r.key, r.value) for r in records(batch.data)]
        answer = make(
            module.PartitionProduceResponse,
            index=part.index,
            error_code=code,
            base_offset=0,
            log_append_time=None,
            log_start_offset=0,
            record_errors=(),
            error_message=None,
        )
        topics = (module.TopicProduceResponse(name=topic.name, partition_responses=(answer,)),)
        return make(module.ProduceResponse, responses=topics, throttle_time=timedelta(0))

    def _code(self, epoch: int, request: Any) -> ErrorCode:
        fenced = getattr(request, "transactional_id", None) is not None and epoch != self.epoch
        return ErrorCode.invalid_producer_epoch if fenced else OK

    def _producer_id(self, request: Any, version: int) -> Any:
        epoch, code = 0, OK
        if request.transactional_id is not None and self._is_busy():
            code = ErrorCode.concurrent_transactions
        elif request.transactional_id is None:
            self.ids += 1
        else:
            self.epoch = epoch = self.epoch + 1
        kind = answers(INIT_PRODUCER_ID, version).InitProducerIdResponse
        return make(kind, throttle_time=timedelta(0), error_code=code, producer_id=self.ids, producer_epoch=epoch)

    def _is_busy(self) -> bool:
        self.stuck = max(0, self.stuck - 1)
        return self.stuck > 0

    def _add(self, request: Any, version: int) -> Any:
        module = answers(ADD_PARTITIONS, version)
        code = self._code(request.v3_and_below_producer_epoch, request)
        if self._is_busy():
            code = ErrorCode.concurrent_transactions
        topics = tuple(
            module.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    module.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                    for number in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
        return make(module.AddPartitionsToTxnResponse, throttle_time=timedelta(0), results_by_topic_v3_and_below=topics)

    def _end(self, request: Any, version: int) -> Any:
        self.ended.append(request.committed)
        return make(answers(END_TXN, version).EndTxnResponse, throttle_time=timedelta(0), error_code=OK)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with BrokerInAThread() as server:
        server.broker.topics["t"] = 2
        yield server.broker


@pytest.fixture
def log(broker) -> Log:
    return Log(broker)


@pytest.fixture
def cluster(broker) -> Iterator[Cluster]:
    with closing(another(broker)) as cluster:
        yield cluster


def another(broker: FakeBroker) -> Cluster:
    return Cluster("B", {"bootstrap.servers": broker.address, "retry.backoff.ms": "1"})


def test_records_are_appended_by_one_producer_with_their_timestamp(cluster, log):
    cluster.append("t", [(b"k", b"v"), (b"k", None)], timestamp_ms=42)
    cluster.append("t", [(b"l", b"w")], partition=1, timestamp_ms=43)
    assert log.records == [(0, 42, b"k", b"v"), (0, 42, b"k", None), (1, 43, b"l", b"w")]
    assert set(log.producers) == {1}


def test_an_append_waits_for_replicas(cluster, log, monkeypatch):
    monkeypatch.setattr(producer, "TAKE_BACK_S", 0.01)
    log.codes = [ErrorCode.not_enough_replicas] * 50  # longer than the producer retries
    cluster.append("t", [(b"k", b"v")])
    assert [value for *_, value in log.records] == [b"v"]


def test_an_append_ends_with_an_error_if_another_thread_closes_the_cluster(cluster, broker):
    broker.handlers[METADATA] = lambda request, version: None
    Timer(0.3, cluster.close).start()
    with pytest.raises(ClusterUnavailable, match="closed"):
        cluster.append("t", [(b"k", b"v")])


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (ErrorCode.topic_authorization_failed, ClusterRefuses, "Grant this client WRITE on the topic t."),
        (
            ErrorCode.invalid_record,
            ClusterUnavailable,
            r"^cluster B \(\S+\): t accepts no record \(t-0: INVALID_RECORD\)",
        ),
        (ErrorCode.not_enough_replicas, ClusterUnavailable, r"t accepts no record .*NOT_ENOUGH_REPLICAS"),
    ],
)
def test_a_refusal_has_its_reason_and_is_not_the_end(cluster, log, monkeypatch, code, kind, text):
    monkeypatch.setattr(producer, "TAKE_BACK_S", 0.01)
    log.codes = [code] * 999
    with pytest.raises(kind, match=text):
        cluster.append("t", [(b"k", b"v")], within_s=1.0)
    log.codes = []
    cluster.append("t", [(b"k", b"w")])
    assert [value for *_, value in log.records] == [b"w"]


def test_a_missing_topic_is_named_and_a_new_one_awaited(cluster, broker, log, monkeypatch):
    monkeypatch.setattr(appender, "NEW_TOPIC_S", 0.0)
    with pytest.raises(NoTopicError, match="topic u does not exist"):
        cluster.append("u", [(b"k", b"v")])
    monkeypatch.undo()
    Timer(0.3, broker.topics.update, [{"v": 1}]).start()
    cluster.append("v", [(b"k", b"v")])
    assert len(log.records) == 1


def test_a_cluster_that_is_closed_opens_again(cluster, log):
    cluster.append("t", [(b"k", b"v")])
    cluster.close()
    cluster.append("t", [(b"k", b"w")])
    assert [value for *_, value in log.records] == [b"v", b"w"]
    assert log.producers == [1, 2]


def test_a_fence_waits_for_the_transaction_of_a_writer_that_died(cluster, log, monkeypatch):
    monkeypatch.setattr(transaction_coordinators, "STUCK_S", 0.05)
    log.stuck = 30  # 5 ms apart
    cluster.fence("mine")
    cluster.append("t", [(b"k", b"v")])
    assert (log.stuck, log.ended) == (0, [True])


def test_an_append_waits_for_the_transaction_before_it(cluster, log, monkeypatch):
    """A busy broker may need seconds to write its marker."""
    monkeypatch.setattr(transaction_coordinators, "STUCK_S", 0.05)
    cluster.fence("mine")
    cluster.append("t", [(b"k", b"1")])
    log.stuck = 30
    cluster.append("t", [(b"k", b"2")])
    monkeypatch.setattr(appender, "LAST_ENDS_S", 0.1)
    cluster.fence("yours")
    log.stuck = 999
    with pytest.raises(ClusterUnavailable, match=r"t accepts no record \(yours: its last transaction does not end\)"):
        cluster.append("t", [(b"k", b"3")])
    assert [value for *_, value in log.records] == [b"1", b"2"]


def test_after_a_fence_each_append_is_a_transaction_until_another_writer_fences(cluster, broker, log):
    cluster.fence("mine")
    cluster.append("t", [(b"k", b"1"), (b"l", b"2")])
    cluster.append("t", [(b"k", b"3")])
    assert log.ended == [True, True]
    with closing(another(broker)) as successor:
        successor.fence("mine")
        with pytest.raises(FencedError):
            cluster.append("t", [(b"k", b"late")])
        with pytest.raises(ClusterUnavailable, match="t accepts no record"):  # a new producer would fence the successor
            cluster.append("t", [(b"k", b"late")])
        successor.append("t", [(b"k", b"4")])
    assert log.epoch == 1
    assert [value for *_, value in log.records] == [b"1", b"2", b"3", b"4"]
