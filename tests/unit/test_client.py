"""The client of the wire protocol: connections, versions, time-outs, metadata, coordinators, whatever a broker does."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
import uvloop

from metrics.error_kind import ErrorKind
from mirror.config.clients import ClientOptions, client_options
from mirror.config.sasl import Login
from mirror.kafka import client as clients
from mirror.kafka.client import FIRST_S, Client, CoordinatorType, Purpose
from mirror.kafka.errors import (
    BrokerError,
    DisconnectedError,
    ErrorCode,
    KafkaError,
    MalformedError,
    NoAnswerError,
    NotConnectedError,
    UnsupportedError,
    source_error_kind,
    target_error_kind,
)
from mirror.kafka.messages import Request, make
from mirror.kafka.metadata import Metadata, PartitionState, id_of, id_text, request_for
from mirror.kafka.transaction_requests import init_producer_id
from tests.unit.fake_broker import METADATA, BrokerInAThread, FakeBroker, answer_kinds

pytestmark = pytest.mark.usefixtures("virtual_clock")

Scene = Callable[[FakeBroker, Client], Awaitable[None]]
INIT = 22
TURNS_S = 0.001  # more than the turns of a loop between an attempt to connect and its end
REAL_WAIT = threading.Event().wait


def producer_id(_: Any, version: int, *, throttle_ms: int = 0) -> Any:
    return make(
        answer_kinds(INIT, version).InitProducerIdResponse,
        throttle_time=timedelta(milliseconds=throttle_ms),
        error_code=ErrorCode.none,
        producer_id=7,
        producer_epoch=0,
    )


def options(broker: FakeBroker, **changes: Any) -> ClientOptions:
    given = {"bootstrap": (broker.address,), "request_timeout_s": 2.0, "retry_backoff_s": 0.01}
    return ClientOptions(**{**given, **changes})


def on_loop(run: Callable[[], Coroutine[Any, Any, None]], *, of_workers: bool = False) -> None:
    """Run it on asyncio's loop, on the virtual clock; if asked for, also on uvloop's, which workers have."""
    asyncio.run(asyncio.wait_for(run(), 20))
    if of_workers:
        uvloop.run(asyncio.wait_for(run(), 20))
    gc.collect()  # what nobody retrieved would be logged now


def played(
    scene: Scene, *, broker: Callable[[], FakeBroker] = FakeBroker, of_workers: bool = False, **changes: Any
) -> None:
    """Play a scene with a broker and a client of it that is open."""

    async def run() -> None:
        async with broker() as server:
            server.handlers.setdefault(INIT, producer_id)
            client = await Client.opened(options(server, **changes))
            try:
                await scene(server, client)
            finally:
                await client.close()

    on_loop(run, of_workers=of_workers)


def test_requests_in_flight_share_one_connection_and_keep_their_order(caplog):
    async def scene(server: FakeBroker, client: Client) -> None:
        answers = await asyncio.gather(*(client.ask(1, init_producer_id(None, n)) for n in range(50)))
        assert {answer.producer_id for answer in answers} == {7}
        timeouts = [request.transaction_timeout for api, _, request in server.asked if api == INIT]
        assert timeouts == [timedelta(milliseconds=n) for n in range(50)]
        assert len(server.connects_s) == 2, "one to bootstrap, one to broker 1"

    played(scene, of_workers=True)
    assert caplog.text == ""


@pytest.mark.parametrize("size", [100, 63 << 10, 65 << 10, 300 << 10])
def test_an_answer_of_any_size_arrives_whole_however_it_is_cut(size):
    async def scene(server: FakeBroker, client: Client) -> None:
        server.topics = {f"topic-{n}": 1 for n in range(size // 50)}
        await client.follow(server.topics)
        assert client.metadata.topics.keys() == server.topics.keys()

    played(scene, of_workers=True)


def test_requests_use_the_highest_common_version_or_are_refused_by_name():
    async def scene(server: FakeBroker, client: Client) -> None:
        await client.ask(1, init_producer_id(None, 0))
        assert next(version for api, version, _ in server.asked if api == INIT) == 2
        with pytest.raises(UnsupportedError, match=r"versions 0 to 2 of API 22, expected 3 to 4"):
            await client.ask(1, Request(INIT, 3, 4, init_producer_id(None, 0).build))

    played(scene, broker=lambda: FakeBroker(api_versions={INIT: (0, 2)}))


def test_a_broker_too_old_for_api_versions_is_named():
    class Old(FakeBroker):
        def _versions(self, request: Any, version: int) -> Any:
            if not version:
                return super()._versions(request, version)
            answer = answer_kinds(18, 0)
            keys = tuple(
                answer.ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in self.api_versions.items()
            )
            return answer.ApiVersionsResponse(error_code=ErrorCode.unsupported_version, api_keys=keys)

    async def scene(server: FakeBroker, client: Client) -> None:
        assert (await client.ask(1, init_producer_id(None, 0))).producer_id == 7

    played(scene, broker=Old)


def test_an_unsent_request_differs_from_one_with_unknown_outcome(caplog):
    async def scene(server: FakeBroker, client: Client) -> None:
        await client.ask(1, init_producer_id(None, 0))
        server.held = asyncio.Event()
        asked = asyncio.create_task(client.ask(1, init_producer_id(None, 0)))
        await asyncio.sleep(0.05)
        server.cut()
        with pytest.raises(DisconnectedError, match="closed"):
            await asked
        server.held.set()
        server.held, server.refuses = None, True
        with pytest.raises(NotConnectedError):
            await client.ask(1, init_producer_id(None, 0))

    played(scene, of_workers=True)
    assert caplog.text == ""


def test_a_late_response_closes_the_connection():
    async def scene(server: FakeBroker, client: Client) -> None:
        await client.ask(1, init_producer_id(None, 0))
        server.held = asyncio.Event()
        asked = [asyncio.create_task(client.ask(1, init_producer_id(None, 0), within_s=s)) for s in (5.0, 0.1)]
        for one in asked:
            with pytest.raises(NoAnswerError):
                await one
        server.held = None
        assert (await client.ask(1, init_producer_id(None, 0))).producer_id == 7

    played(scene)


def test_a_time_that_is_over_before_a_timer_can_ring_ends_the_connection_too():
    """Where less than 1 ms is left, uvloop gives handles that do not say when they are due."""

    async def scene(server: FakeBroker, client: Client) -> None:
        await client.ask(1, init_producer_id(None, 0))
        server.held = asyncio.Event()
        asked = [asyncio.create_task(client.ask(1, init_producer_id(None, 0), within_s=s)) for s in (0.0004, 5.0)]
        for one in asked:
            with pytest.raises(NoAnswerError):
                await one

    played(scene, of_workers=True)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_answer_that_came_while_the_loop_stood_still_is_read(new_loop):
    """As that of a worker does between two windows."""
    with BrokerInAThread() as server:
        server.broker.handlers[INIT] = producer_id
        loop = new_loop()

        async def asks() -> tuple[Client, asyncio.Task[Any], int]:
            client = await Client.opened(options(server.broker))
            await client.ask(1, init_producer_id(None, 0))
            before = server.broker.answers
            asked = asyncio.create_task(client.ask(1, init_producer_id(None, 0), within_s=0.2))
            await asyncio.sleep(0)
            return client, asked, before

        try:
            client, asked, before = loop.run_until_complete(asks())
            while server.broker.answers == before:
                REAL_WAIT(0.01)
            REAL_WAIT(0.3)  # the response has come, its time limit passes, and the loop does not run
            assert loop.run_until_complete(asked).producer_id == 7
            loop.run_until_complete(client.close())
        finally:
            loop.close()


def test_a_cancelled_request_disturbs_no_other_request():
    async def scene(server: FakeBroker, client: Client) -> None:
        server.held = asyncio.Event()
        first = asyncio.create_task(client.ask(1, init_producer_id(None, 0)))
        second = asyncio.create_task(client.ask(1, init_producer_id(None, 0)))
        await asyncio.sleep(0.05)
        first.cancel()
        server.held.set()
        assert (await second).producer_id == 7

    played(scene)


@pytest.mark.parametrize(
    "answer", [b"\0\0\0\x63" + b"\0" * 40, b"HTTP/1.1 400 Bad Request"], ids=["another's answer", "no answer"]
)
def test_a_malformed_response_ends_the_request(answer):
    async def scene(server: FakeBroker, client: Client) -> None:
        server.handlers[INIT] = lambda *_: answer
        with pytest.raises(MalformedError, match="sends an unexpected response"):
            await client.ask(1, init_producer_id(None, 0))

    played(scene, of_workers=True)


def test_an_answer_that_ends_too_early_fails_its_request_alone():
    async def scene(server: FakeBroker, client: Client) -> None:
        await client.ask(1, init_producer_id(None, 0))

        def short(_: Any, version: int) -> bytes:
            return struct.pack(">ib", 3, 0) + b"\0\0\0"  # the third request of the connection

        server.handlers[INIT] = short
        with pytest.raises(MalformedError, match="cannot be read"):
            await client.ask(1, init_producer_id(None, 0))
        server.handlers[INIT] = producer_id
        assert (await client.ask(1, init_producer_id(None, 0))).producer_id == 7
        assert len(server.connects_s) == 2

    played(scene, of_workers=True)


def test_a_broker_that_asks_to_wait_is_sent_nothing_meanwhile():
    """KIP-219."""

    async def scene(server: FakeBroker, client: Client) -> None:
        loop = asyncio.get_running_loop()
        server.handlers[INIT] = lambda request, version: producer_id(request, version, throttle_ms=300)
        began_s = loop.time()
        await client.ask(1, init_producer_id(None, 0))
        await client.ask(1, init_producer_id(None, 0))
        assert round(loop.time() - began_s, 3) >= 0.3  # the loop counts whole milliseconds
        assert client.throttled_s == pytest.approx(0.6)

    played(scene)


def test_connection_attempts_back_off_and_succeed_when_the_broker_returns(monkeypatch):
    """Four that ask without end make one attempt at a time, with pauses that double up to the longest."""
    monkeypatch.setattr(clients, "LONGEST_S", 4 * FIRST_S)

    async def scene(server: FakeBroker, client: Client) -> None:
        server.cut()
        server.refuses = True
        before = len(server.connects_s)

        async def asks() -> None:
            while True:
                try:
                    await client.ask(1, init_producer_id(None, 0))
                except KafkaError:
                    await asyncio.sleep(0)
                else:
                    return

        everybody = [asyncio.create_task(asks()) for _ in range(4)]
        while len(server.connects_s) < before + 9:
            await asyncio.sleep(0.01)
        server.refuses = False
        await asyncio.gather(*everybody)
        pauses = [after - one for one, after in pairwise(server.connects_s[before:])]
        for pause, doubled in zip(pauses, (1, 2, 4, 4, 4, 4, 4, 4), strict=False):
            assert pause >= doubled * FIRST_S - TURNS_S

    played(scene)


def answers_logins(server: FakeBroker, **answer: Any) -> None:
    """Have a broker answer each login with PLAIN by these fields."""
    server.handlers[17] = lambda _, version: answer_kinds(17, version).SaslHandshakeResponse(
        error_code=ErrorCode.none, mechanisms=("PLAIN",)
    )
    server.handlers[36] = lambda _, version: make(
        answer_kinds(36, version).SaslAuthenticateResponse, auth_bytes=b"", **answer
    )


def test_a_refused_login_is_reported_without_the_password():
    async def run() -> None:
        async with FakeBroker(api_versions={17: (0, 1), 36: (0, 2)}) as server:
            answers_logins(server, error_code=ErrorCode.sasl_authentication_failed, error_message="wrong hunter2")
            with pytest.raises(NotConnectedError, match="PLAIN: SASL_AUTHENTICATION_FAILED") as found:
                await Client.opened(options(server, login=Login("PLAIN", "me", "hunter2")))
            assert "hunter2" not in str(found.value)

    on_loop(run, of_workers=True)


def test_a_new_connection_replaces_an_expiring_login_without_losing_requests():
    """KIP-368."""

    async def run() -> None:
        async with FakeBroker(api_versions={17: (0, 1), 36: (0, 2)}) as server:
            holds = timedelta(milliseconds=200)
            answers_logins(server, error_code=ErrorCode.none, error_message=None, session_lifetime=holds)
            server.handlers[INIT] = producer_id
            client = await Client.opened(options(server, login=Login("PLAIN", "me", "hunter2")))
            try:
                before = len(server.connects_s)
                for _ in range(60):
                    assert (await client.ask(1, init_producer_id(None, 0))).producer_id == 7
                    await asyncio.sleep(0.01)
                assert 3 <= len(server.connects_s) - before <= 8
            finally:
                await client.close()

    on_loop(run)


def test_metadata_requests_create_no_topics_and_report_missing_ones():
    async def scene(server: FakeBroker, client: Client) -> None:
        server.topics = {"there": 2}
        await client.follow(["there", "gone"])
        request = [message for api, _, message in server.asked if api == METADATA][-1]
        assert request.allow_auto_topic_creation is False
        assert list(client.metadata.partitions("there")) == [0, 1]
        assert client.metadata.leader("there", 1) == 1
        assert client.metadata.leader("gone", 0) is None
        assert client.metadata.errors == {"gone": ErrorCode.unknown_topic_or_partition}

    played(scene)


def test_many_who_ask_for_metadata_at_once_are_answered_by_one_request():
    async def scene(server: FakeBroker, client: Client) -> None:
        before = len(server.asked)
        await asyncio.gather(*(client.refresh() for _ in range(20)))
        assert [api for api, *_ in server.asked[before:]].count(METADATA) == 1

    played(scene)


def test_metadata_that_are_asked_for_after_topics_were_named_have_them():
    """Another request may be under way, which does not."""

    async def scene(server: FakeBroker, client: Client) -> None:
        server.topics = {"new": 1}
        server.held = asyncio.Event()
        under_way = asyncio.create_task(client.refresh())
        await asyncio.sleep(0.05)
        followed = asyncio.create_task(client.follow(["new"]))
        await asyncio.sleep(0.05)
        server.held.set()
        await asyncio.gather(under_way, followed)
        assert client.metadata.has("new", 0)

    played(scene)


def test_a_cluster_with_new_brokers_is_found_by_its_bootstrap_addresses():
    async def scene(server: FakeBroker, client: Client) -> None:
        client.metadata.brokers = {9: client.metadata.brokers[1]._replace(port=1)}
        await client.refresh()
        assert client.metadata.brokers.keys() == {1}

    played(scene)


def test_if_no_broker_responds_the_error_has_the_reason_of_the_last_address():
    async def run() -> None:
        with pytest.raises(NotConnectedError, match=r"no broker answers: 127\.0\.0\.1:1: .*(refused|failed)"):
            await Client.opened(ClientOptions(bootstrap=("127.0.0.1:1",)))

    on_loop(run, of_workers=True)


def test_a_coordinator_is_looked_up_once_until_it_is_forgotten():
    async def scene(server: FakeBroker, client: Client) -> None:
        for _ in range(3):
            assert await client.coordinator(CoordinatorType.GROUP, "g") == 1
        client.forget_coordinator(CoordinatorType.GROUP, "g")
        assert await client.coordinator(CoordinatorType.GROUP, "g") == 1
        assert [api for api, *_ in server.asked].count(10) == 2

    played(scene)


def test_idle_connections_are_closed_and_opened_again_when_needed():
    async def scene(server: FakeBroker, client: Client) -> None:
        await client.ask(1, init_producer_id(None, 0))
        connects = len(server.connects_s)
        await asyncio.sleep(1.0)
        assert (await client.ask(1, init_producer_id(None, 0))).producer_id == 7
        assert len(server.connects_s) == connects + 1

    played(scene, idle_s=0.4)


def test_an_aborted_connection_fails_its_requests_and_no_others():
    async def scene(server: FakeBroker, client: Client) -> None:
        await client.ask(1, init_producer_id(None, 0), Purpose.RETRY)
        server.held = asyncio.Event()
        asked = asyncio.create_task(client.ask(1, init_producer_id(None, 0)))
        await asyncio.sleep(0.05)
        client.abort(1, Purpose.DATA)
        with pytest.raises(DisconnectedError):
            await asked
        server.held.set()
        assert (await client.ask(1, init_producer_id(None, 0), Purpose.RETRY)).producer_id == 7

    played(scene)


def test_a_closed_client_sends_no_request():
    async def scene(server: FakeBroker, client: Client) -> None:
        await client.close()
        with pytest.raises(NotConnectedError, match="closed"):
            await client.ask(1, init_producer_id(None, 0))
        client.refresh_soon()

    played(scene)


def test_a_caller_that_waits_for_metadata_of_a_closed_client_gets_an_error():
    async def scene(server: FakeBroker, client: Client) -> None:
        server.held = asyncio.Event()
        waiting, cancelled = (asyncio.create_task(client.refresh()) for _ in range(2))
        await asyncio.sleep(TURNS_S)
        cancelled.cancel()
        await client.close()
        with pytest.raises(NotConnectedError, match="closed"):
            await waiting
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    played(scene)


def test_metadata_with_an_older_leader_epoch_changes_nothing():
    """KIP-320: brokers learn of a new leader one after the other."""
    metadata = Metadata()
    module = answer_kinds(METADATA, 12)

    def answer(leader: int, epoch: int, topic_id: str = "AAAAAAAAAAAAAAAAAAAAAQ") -> Any:
        part = module.MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=0,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=(1, 2),
            isr_nodes=(1,),
            offline_replicas=(),
        )
        topic = module.MetadataResponseTopic(
            error_code=ErrorCode.none, name="t", topic_id=id_of(topic_id), partitions=(part,)
        )
        brokers = tuple(module.MetadataResponseBroker(node_id=n, host="h", port=n) for n in (1, 2))
        return module.MetadataResponse(throttle_time=timedelta(0), brokers=brokers, topics=(topic,))

    metadata.update(answer(1, 5))
    metadata.update(answer(2, 4))
    assert metadata.leader("t", 0) == 1

    def refusal(leader: int, epoch: int) -> Any:
        return SimpleNamespace(current_leader=SimpleNamespace(leader_id=leader, leader_epoch=epoch))

    metadata.update_leader("t", 0, refusal(2, 6), [])
    metadata.update(answer(1, 5))
    assert (metadata.leader("t", 0), metadata.epoch("t", 0)) == (2, 6)
    for said in (refusal(1, 5), refusal(-1, 9), refusal(3, 9), SimpleNamespace()):
        metadata.update_leader("t", 0, said, [])
        assert metadata.leader("t", 0) == 2, "older, none, unknown, or not given"
    metadata.update_leader("t", 0, refusal(3, 9), [SimpleNamespace(node_id=3, host="h", port=3, rack=None)])
    assert metadata.leader("t", 0) == 3
    metadata.update(answer(1, 0, "AAAAAAAAAAAAAAAAAAAAAg"))  # another topic of that name: its epochs are its own
    assert metadata.topics["t"].partitions[0] == PartitionState(1, 0, 1)
    assert id_text(metadata.topic_id("t")) == "AAAAAAAAAAAAAAAAAAAAAg"
    assert id_of("no id") is None
    assert str(confluent_kafka.Uuid(1 << 62 | 0x3E, -2)) == id_text(id_of("QAAAAAAAAD7//////////g")), "as librdkafka"


def test_every_topic_is_asked_for_where_none_is_named():
    module = __import__("kio.schema.metadata.v12.request", fromlist=["x"])
    assert request_for(None).build(module, 12).topics is None
    assert request_for([]).build(module, 12).topics == ()


def test_a_refusal_has_kafkas_name_for_it():
    assert str(BrokerError(ErrorCode.not_leader_or_follower, "t-0")) == "t-0: NOT_LEADER_OR_FOLLOWER"
    assert BrokerError(ErrorCode.not_leader_or_follower).has_stale_metadata
    assert not BrokerError(ErrorCode.message_too_large).is_retriable


def test_socket_buffers_have_the_sizes_of_the_settings():
    java = {"send.buffer.bytes": "300000", "receive.buffer.bytes": "200000"}

    async def sizes(server: FakeBroker, changes: dict[str, str]) -> list[int]:
        client = await Client.opened(client_options({"bootstrap.servers": server.address, **changes}))
        try:
            await client.warm([1])
            (connection,) = client._connections.values()
            made = connection._transport.get_extra_info("socket")
            return [made.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
        finally:
            await client.close()

    async def run() -> None:
        async with FakeBroker() as server:
            assert await sizes(server, java) == [600_000, 400_000], "Linux doubles what it is asked for"
            assert await sizes(server, {"send.buffer.bytes": "-1"}) == await sizes(server, {})

    on_loop(run, of_workers=True)


@pytest.mark.parametrize(
    ("code", "of_target", "of_source"),
    [
        (ErrorCode.message_too_large, ErrorKind.RECORD_TOO_LARGE, ErrorKind.OTHER),
        (ErrorCode.record_list_too_large, ErrorKind.RECORD_TOO_LARGE, ErrorKind.OTHER),
        (
            ErrorCode.topic_authorization_failed,
            ErrorKind.TARGET_NOT_AUTHORIZED,
            ErrorKind.SOURCE_NOT_AUTHORIZED,
        ),
        (ErrorCode.invalid_record, ErrorKind.OTHER, ErrorKind.OTHER),
    ],
)
def test_a_refusal_has_a_kind_by_its_code(code, of_target, of_source):
    assert target_error_kind(BrokerError(code)) is of_target
    assert source_error_kind(code) is of_source
    assert target_error_kind(None) is ErrorKind.OTHER
