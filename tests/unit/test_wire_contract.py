"""What mirror.replication.wire relies on inside aiokafka: a new version must keep it or fail here."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.structs import TopicPartition

from mirror.replication.batches import Outgoing
from mirror.replication.wire import KafkaError, PreparedBatch, Target, complained


def methods_used_on_a_builder() -> set[str]:
    """Names that the queue and the sender call on a batch's builder."""
    source = inspect.getsource(MessageBatch) + inspect.getsource(MessageAccumulator)
    called = {name for name in dir(BatchBuilder) if f"_builder.{name}(" in source}
    return called - {"append"}  # only for records added one by one, which ours never are


def test_a_prepared_batch_has_every_method_that_is_called_on_a_builder():
    used = methods_used_on_a_builder()
    assert {"record_count", "_set_producer_state", "_build"} <= used
    assert {name for name in used if not hasattr(PreparedBatch, name)} == set()


def test_the_queue_numbers_batches_by_their_records_and_takes_them_prepared():
    """Two batches of 3 and 2 records get sequences 0 and 3; taking one back frees its numbers."""

    async def run():
        producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", enable_idempotence=True)
        manager: TransactionManager = producer._txn_manager
        manager.set_pid_and_epoch(5, 0)
        accumulator = producer._message_accumulator
        where = TopicPartition("t", 0)
        for count in (3, 2):
            prepared = PreparedBatch(Outgoing(bytes(80), count, count, 0, 0, 0.0))
            accumulator._append_batch(prepared, where)
            batch = accumulator._pop_batch(where)
            assert batch._builder is prepared
            batch.done(0)
        first = prepared._state
        manager._sequence_numbers[where] -= 2
        producer._closed = True
        await asyncio.sleep(0)
        return first, manager.sequence_number(where)

    assert asyncio.run(run()) == ((5, 0, 3), 3)


def test_a_retry_sends_the_very_same_bytes():
    prepared = PreparedBatch(Outgoing(bytes(80), 1, 1, 0, 0, 0.0))
    prepared._set_producer_state(1, 2, 3)
    assert prepared._build() is prepared._build()


def test_a_transaction_is_opened_before_anything_is_sent_and_tells_when_it_can_only_be_aborted():
    """A batch outside of a transaction is refused by us; one that the manager has given up says why."""

    async def run():
        asyncio.get_running_loop().set_exception_handler(complained)
        target = Target({"bootstrap_servers": "127.0.0.1:1"}, request_bytes=1 << 20, transactional_id="mirror.A->B.0")
        manager: TransactionManager = target._producer._txn_manager
        manager.set_pid_and_epoch(5, 0)
        outgoing = Outgoing(bytes(80), 1, 1, 0, 0, 0.0)
        with pytest.raises(KafkaError, match="no transaction is open"):
            target.send(outgoing, "t", 0)
        target.begin_transaction()
        assert target.transaction_failure is None
        sent = target.send(outgoing, "t", 0)
        assert not sent.done()
        assert TopicPartition("t", 0) in manager.partitions_to_add()
        manager.error_transaction(KafkaError("denied"))
        with pytest.raises(KafkaError, match="denied"):
            target.send(outgoing, "t", 1)
        target._producer._message_accumulator.fail_all(KafkaError("over"))
        assert isinstance(sent.exception(), KafkaError)
        target._producer._closed = True

    asyncio.run(run())


def test_a_sender_that_fails_without_a_transaction_leaves_no_trace_but_its_error(monkeypatch):
    """aiokafka tells whoever waits for a transaction's end, of whom a producer without transactions has none."""

    async def nothing(*_: object) -> None:
        return None

    async def fails() -> None:
        raise KafkaError("it ended")

    async def run():
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        target = Target({"bootstrap_servers": "127.0.0.1:1"}, request_bytes=1 << 20)
        sender = target._producer._sender
        monkeypatch.setattr(target._client, "bootstrap", nothing)
        monkeypatch.setattr(target._client, "set_topics", nothing)
        monkeypatch.setattr(sender, "_maybe_wait_for_pid", nothing)
        monkeypatch.setattr(sender, "_sender_routine", fails)
        await target.open([])
        await asyncio.wait({sender.sender_task})
        await asyncio.sleep(0)
        with pytest.raises(KafkaError, match="it ended"):
            target.send(Outgoing(bytes(80), 1, 1, 0, 0, 0.0), "t", 0)
        await target.close()
        return complaints

    assert asyncio.run(run()) == []


def test_a_batch_that_waits_to_be_sent_again_when_its_producer_is_closed_fails_and_leaves_no_trace_but_its_error(
    caplog,
):
    """aiokafka takes each failed batch out of those under way; this one it has taken out already."""

    async def run():
        asyncio.get_running_loop().set_exception_handler(complained)
        target = Target({"bootstrap_servers": "127.0.0.1:1"}, request_bytes=1 << 20)
        accumulator = target._producer._message_accumulator
        target._producer._txn_manager.set_pid_and_epoch(5, 0)
        target._producer._sender._sender_task = asyncio.get_running_loop().create_future()
        sent = target.send(Outgoing(bytes(80), 1, 1, 0, 0, 0.0), "t", 0)
        accumulator.reenqueue(accumulator._pop_batch(TopicPartition("t", 0)))
        await target.close()
        await asyncio.sleep(0)
        assert isinstance(sent.exception(), KafkaError)

    asyncio.run(run())
    assert caplog.text == ""


def test_what_kafka_failed_and_nobody_waited_for_is_no_news_but_all_else_is(caplog):
    loop = asyncio.new_event_loop()
    try:
        for failure in (KafkaError("fenced"), ValueError("a mistake of ours")):
            complained(loop, {"message": "Future exception was never retrieved", "exception": failure})
    finally:
        loop.close()
    assert "a mistake of ours" in caplog.text
    assert "fenced" not in caplog.text
