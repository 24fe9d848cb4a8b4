"""The producer: whatever brokers and networks do, each batch has one outcome, and the outcome is what is in the log."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.kafka import producer as producing
from mirror.kafka.errors import BrokerError, DisconnectedError, ErrorCode, KafkaError, NoAnswerError, NotConnectedError
from mirror.kafka.messages import Request
from mirror.kafka.producer import (
    NO_OFFSET,
    REQUESTS_UNDER_WAY,
    NotAppendedError,
    Producer,
    ProducerClosedError,
    UncertainError,
    WithdrawnError,
)
from mirror.model.record_batches import HEADER, Outgoing, of_values
from mirror.model.sequences import NextSequence
from tests import wire
from tests.unit.fakes import FakeClient

pytestmark = pytest.mark.usefixtures("virtual_clock")

OK, NOT_LEADER, TOO_LARGE = ErrorCode.none, ErrorCode.not_leader_or_follower, ErrorCode.message_too_large
TIMED_OUT, FEW_REPLICAS = ErrorCode.request_timed_out, ErrorCode.not_enough_replicas


def batch(*values: str) -> Outgoing:
    (made,) = of_values([(b"", value.encode()) for value in values], timestamp_ms=0)
    return made


class Broker(FakeClient):
    """Logs of one broker with an idempotent producer's rules, as a client of it; `acts` says what becomes of a request."""

    def __init__(self, acts: Callable[[str, int], str | ErrorCode] = lambda *_: OK, *, leader: int | None = 1) -> None:
        self.acts = acts
        self.metadata = SimpleNamespace(leader=lambda *_: self.leader, update_leader=lambda *_: None)
        self.leader = leader
        self.logs: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)  # (sequence, records)
        self.requests: list[dict[tuple[str, int], bytes]] = []
        self.most_under_way = self._under_way = self.refreshes = 0
        self.holds: asyncio.Event | None = None
        self.mutes: asyncio.Event | None = None  # as a quota does: nothing is sent before that
        self.loads: list[ErrorCode] = []  # errors of requests for a producer id

    def refresh_soon(self) -> None:
        self.refreshes += 1

    async def ask_any(self, request: Request) -> Any:
        assert request.api == wire.INIT_PRODUCER_ID
        return SimpleNamespace(error_code=self.loads.pop() if self.loads else OK, producer_id=7, producer_epoch=0)

    async def held_back(self) -> None:
        if self.mutes is not None:
            await self.mutes.wait()

    async def answered(self, message: Any) -> Any:
        sent = {
            (topic.name, part.index): bytes(part.records)
            for topic in message.topic_data
            for part in topic.partition_data
        }
        self.requests.append(sent)
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
        try:
            await (self.holds.wait() if self.holds is not None else asyncio.sleep(0))
            return self._answer(sent)
        finally:
            self._under_way -= 1

    def _answer(self, sent: dict[tuple[str, int], bytes]) -> Any:
        topics = []
        for (topic, part), data in sent.items():
            act = self.acts(topic, part)
            if act == "no connection":
                raise NotConnectedError("refused")
            if act == "lost":
                raise DisconnectedError("reset")
            code, base = (
                (act, NO_OFFSET) if isinstance(act, ErrorCode) and act is not OK else self._append((topic, part), data)
            )
            if act == "appended, no answer":
                raise NoAnswerError("none in time")
            answer = SimpleNamespace(index=part, error_code=code, base_offset=base)
            topics.append(SimpleNamespace(name=topic, partition_responses=[answer]))
        return SimpleNamespace(responses=topics)

    def _append(self, where: tuple[str, int], data: bytes) -> tuple[ErrorCode, int]:
        *_, producer_id, epoch, sequence, count = HEADER.unpack_from(data)
        assert (producer_id, epoch) == (7, 0)
        log = self.logs[where]
        if (sequence, count) in log[-5:]:
            return OK, sum(n for _, n in log[: log.index((sequence, count))])
        if sequence != sum(n for _, n in log):
            return ErrorCode.out_of_order_sequence_number, NO_OFFSET
        base = sequence
        log.append((sequence, count))
        return OK, base


async def opened(broker: Broker, *, request_bytes: int = 1 << 20) -> Producer:
    made = Producer(broker, request_bytes=request_bytes, request_timeout_ms=1000, retry_s=0.001)
    await made.open()
    return made


@pytest.fixture
def impatient(monkeypatch):
    """Batches are taken back after some milliseconds."""
    monkeypatch.setattr(producing, "TAKE_BACK_S", 0.02)


def test_batches_of_a_partition_are_sent_in_turn_and_return_target_offsets():
    async def run():
        broker = Broker()
        producer = await opened(broker)
        sent = [
            producer.send(batch(*"abc"), "t", 0),
            producer.send(batch("d"), "t", 0),
            producer.send(batch("e"), "t", 1),
        ]
        assert await asyncio.gather(*sent) == [0, 3, 0]
        assert broker.logs == {("t", 0): [(0, 3), (3, 1)], ("t", 1): [(0, 1)]}
        assert len(broker.requests) == 2, "the second batch of t-0 waits for the first one"

    asyncio.run(run())


def test_sequence_numbers_continue_at_0_after_the_last_one():
    async def run():
        broker = Broker(lambda *_: "no check")
        broker._append = lambda where, data: (broker.logs[where].append(HEADER.unpack_from(data)[-2:]), (OK, 0))[1]
        producer = await opened(broker)
        producer._sequences["t", 0] = (1 << 31) - 2
        for _ in range(2):
            await producer.send(batch(*"abc"), "t", 0)
        assert broker.logs["t", 0] == [((1 << 31) - 2, 3), (1, 3)]

    asyncio.run(run())


def test_requests_are_bounded_in_size_and_number():
    """Forty batches of about 1,000 bytes, 4,500 a request: ten requests, five at most without an answer."""

    async def run():
        broker = Broker()
        broker.holds = asyncio.Event()
        producer = await opened(broker, request_bytes=4_500)
        sent = [producer.send(batch("x" * 1000), "t", n) for n in range(40)]
        await asyncio.sleep(0.01)
        assert len(broker.requests) == REQUESTS_UNDER_WAY
        broker.holds.set()
        await asyncio.gather(*sent)
        assert broker.most_under_way == REQUESTS_UNDER_WAY
        assert {len(request) for request in broker.requests} == {4}
        assert max(sum(map(len, request.values())) for request in broker.requests) <= 4_500

    asyncio.run(run())


def test_batches_that_arrive_during_a_request_share_the_next_one():
    async def run():
        broker = Broker()
        broker.holds = asyncio.Event()
        producer = await opened(broker)
        sent = [producer.send(batch("a"), "t", 0)]
        await asyncio.sleep(0)
        for n in range(1, 9):
            await asyncio.sleep(0)
            sent.append(producer.send(batch("a"), "t", n))
        broker.holds.set()
        await asyncio.gather(*sent)
        assert [len(request) for request in broker.requests] == [1, 8]

    asyncio.run(run())


def test_a_batch_that_is_larger_than_a_request_goes_alone():
    async def run():
        broker = Broker()
        producer = await opened(broker, request_bytes=500)
        await asyncio.gather(*(producer.send(batch("x" * 1000), "t", n) for n in range(3)))
        assert [len(request) for request in broker.requests] == [1, 1, 1]

    asyncio.run(run())


def test_a_refused_batch_uses_no_sequence_number():
    async def run():
        answers = iter([TOO_LARGE, OK])
        broker = Broker(lambda *_: next(answers))
        producer = await opened(broker)
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await producer.send(batch(*"abc"), "t", 0)
        assert await producer.send(batch("d"), "t", 0) == 0
        assert broker.logs["t", 0] == [(0, 1)]

    asyncio.run(run())


@pytest.mark.parametrize("act", [NOT_LEADER, FEW_REPLICAS, "no connection", None])
def test_a_batch_that_is_certainly_not_there_is_taken_back_and_the_others_flow(impatient, act):
    """t-0 has no leader, or one that appends nothing, all the while; t-1 is well."""

    async def run():
        broker = Broker(lambda _, part: act if part == 0 and act is not None else OK)
        broker.metadata.leader = lambda _, part: None if act is None and part == 0 else 1 + part
        producer = await opened(broker)
        stuck = producer.send(batch("a"), "t", 0)
        for n in range(20):
            assert await producer.send(batch("b"), "t", 1) == n
        with pytest.raises(NotAppendedError) as found:
            await stuck
        assert isinstance(found.value.why, KafkaError)
        await producer.until_idle()
        broker.acts = lambda *_: OK
        broker.metadata.leader = lambda *_: 1
        assert await producer.send(batch("c"), "t", 0) == 0, "its sequence number is free again"

    asyncio.run(run())


@pytest.mark.parametrize("first", ["lost", "appended, no answer", TIMED_OUT])
def test_a_batch_that_may_be_appended_is_never_withdrawn(impatient, first):
    """Afterwards the target appends nothing for long, which says nothing about the first attempt; at last it tells."""

    async def run():
        acts = iter([first, *[FEW_REPLICAS] * 40])
        broker = Broker(lambda *_: next(acts, OK))
        producer = await opened(broker)
        assert await producer.send(batch("a"), "t", 0) == 0
        assert broker.logs["t", 0] == [(0, 1)], "and it is there once"
        assert {request["t", 0] for request in broker.requests} == {broker.requests[0]["t", 0]}, (
            "the same bytes each time"
        )

    asyncio.run(run())


def test_a_refusal_after_a_lost_response_has_unknown_outcome():
    async def run():
        acts = iter(["appended, no answer", TOO_LARGE])
        producer = await opened(Broker(lambda *_: next(acts)))
        with pytest.raises(UncertainError, match="MESSAGE_TOO_LARGE"):
            await producer.send(batch("a"), "t", 0)

    asyncio.run(run())


def test_unsent_batches_are_withdrawn_and_free_their_sequence_numbers():
    """Requests that were sent are waited for; what was not sent frees its sequence number."""

    async def run():
        broker = Broker()
        broker.holds = asyncio.Event()
        producer = await opened(broker)
        sent = producer.send(batch("a"), "t", 0)
        await asyncio.sleep(0.01)
        broker.mutes = asyncio.Event()
        producer._request_bytes = 1  # each batch goes alone, beside those under way
        held = [producer.send(batch(*"ab"), "t", part) for part in range(1, 8)]
        await asyncio.sleep(0.01)
        producer.withdraw()
        assert all(isinstance(one.exception(), WithdrawnError) for one in held)
        assert not sent.done()
        broker.holds.set()
        broker.mutes.set()
        assert await sent == 0
        await producer.until_idle()
        assert broker.logs == {("t", 0): [(0, 1)]}
        assert await asyncio.gather(*(producer.send(batch("c"), "t", part) for part in range(3))) == [1, 0, 0]
        assert broker.logs == {("t", 0): [(0, 1), (1, 1)], ("t", 1): [(0, 1)], ("t", 2): [(0, 1)]}

    asyncio.run(run())


def test_a_batch_that_may_be_in_the_log_is_not_withdrawn():
    async def run():
        acts = iter(["appended, no answer"])
        broker = Broker(lambda *_: next(acts, OK))
        producer = await opened(broker)
        sent = producer.send(batch("a"), "t", 0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        broker.mutes = asyncio.Event()
        await asyncio.sleep(0.01)
        producer.withdraw()
        assert not sent.done()
        broker.mutes.set()
        assert await sent == 0
        assert broker.logs == {("t", 0): [(0, 1)]}

    asyncio.run(run())


def test_closing_the_producer_gives_each_batch_an_outcome(caplog):
    async def run():
        broker = Broker(lambda _, part: NOT_LEADER if part == 1 else OK)
        broker.holds = asyncio.Event()
        producer = await opened(broker)
        sent = [producer.send(batch("a"), "t", n % 3) for n in range(6)]
        await asyncio.sleep(0.01)
        before = len(broker.requests)
        producer.close()
        producer.withdraw()
        broker.holds.set()
        await asyncio.sleep(0.01)
        assert all(isinstance(one.exception(), ProducerClosedError) for one in sent)
        await producer.until_idle()
        with pytest.raises(ProducerClosedError):
            producer.send(batch("a"), "t", 0)
        assert len(broker.requests) == before
        assert not broker.logs

    asyncio.run(run())
    assert caplog.text == ""


ACTS = st.sampled_from(
    [OK, OK, OK, NOT_LEADER, FEW_REPLICAS, TIMED_OUT, TOO_LARGE, "lost", "appended, no answer", "no connection"]
)


@pytest.mark.parametrize("act", ["appended, no answer", NOT_LEADER])
def test_a_batch_with_possibly_expired_numbers_is_not_sent_again(act):
    """A broker that restarts forgets a producer a day behind its last batch's timestamp, however lately it appended that."""

    async def scene(age_s: float) -> tuple[BaseException | None, int]:
        broker = Broker(lambda *_: act if len(broker.requests) == 1 else OK)
        producer = await opened(broker)
        (old,) = of_values([(b"", b"v")], timestamp_ms=int((time.time() - age_s) * 1000))
        sent = producer.send(old, "t", 0, NextSequence(7, 0, 0))
        await asyncio.wait({sent})
        return sent.exception(), sum(count for _, count in broker.logs["t", 0])

    error, records = asyncio.run(scene(86_400))
    assert isinstance(error, UncertainError)
    assert records == (0 if act is NOT_LEADER else 1)
    assert asyncio.run(scene(60)) == (None, 1), "of records that are not old, it remembers the batch"


@given(acts=st.lists(ACTS, max_size=60), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_the_log_has_exactly_the_acknowledged_batches_once_and_in_order(acts, sizes):
    """Twelve batches at most to each of two topic-partitions; one that failed is sent again, as the mirror does it."""

    async def run():
        script = iter(acts)
        broker = Broker(lambda *_: next(script, OK))
        producer = await opened(broker, request_bytes=400)
        expected: dict[int, list[int]] = defaultdict(list)
        uncertain: set[int] = set()

        async def writes(part: int) -> None:
            for count in sizes:
                while True:
                    try:
                        await producer.send(batch(*["x"] * count), "t", part)
                    except (NotAppendedError, BrokerError):
                        continue
                    except UncertainError:
                        uncertain.add(part)
                        return
                    expected[part].append(count)
                    break

        await asyncio.gather(writes(0), writes(1))
        for part in {0, 1} - uncertain:
            assert [count for _, count in broker.logs["t", part]] == expected[part] == sizes

    patience, producing.TAKE_BACK_S = producing.TAKE_BACK_S, 0.0
    try:
        asyncio.run(run())
    finally:
        producing.TAKE_BACK_S = patience


def test_a_producer_id_is_requested_again_and_a_refusal_is_raised():
    async def run():
        broker = Broker()
        broker.loads = [ErrorCode.coordinator_load_in_progress] * 2
        producer = await opened(broker)
        assert await producer.send(batch("a"), "t", 0) == 0
        broker.loads = [ErrorCode.cluster_authorization_failed]
        with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await opened(broker)

    asyncio.run(run())
