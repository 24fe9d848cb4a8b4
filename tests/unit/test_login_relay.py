"""The relay that logs in for librdkafka: who may use it, what it changes, what it says when a broker refuses."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mirror.config.clients import ClientOptions, Relayed, confluent_options
from mirror.config.sasl import Login
from mirror.kafka import login_relay
from mirror.kafka.client import Client, CoordinatorType
from mirror.kafka.errors import ErrorCode, NotConnectedError
from mirror.kafka.login_relay import LoginRelay
from tests.unit.fake_broker import FakeBroker
from tests.unit.test_client import answers_logins, init_producer_id, producer_id

Scene = Callable[[FakeBroker, Relayed], Awaitable[None]]
INIT = 22
ALLOWED = {"error_code": ErrorCode.none, "error_message": None}


def played(scene: Scene, **answer: Any) -> None:
    """Play a scene with a broker that answers logins so, and a relay to it."""

    async def run() -> None:
        async with FakeBroker(api_versions={17: (0, 1), 36: (0, 2)}) as server:
            answers_logins(server, **{**ALLOWED, **answer})
            server.handlers[INIT] = producer_id
            options = ClientOptions(
                bootstrap=(server.address,), request_timeout_s=2.0, login=Login("PLAIN", "mirror", "hunter2")
            )
            relay = await asyncio.to_thread(LoginRelay, options)
            await scene(server, relay.relayed)

    asyncio.run(asyncio.wait_for(run(), 20))


def through(relayed: Relayed, **changes: Any) -> ClientOptions:
    """How a client connects to the relay, as librdkafka does."""
    login = Login("PLAIN", relayed.username, changes.pop("password", relayed.password))
    return ClientOptions(**{"bootstrap": relayed.bootstrap, "request_timeout_s": 2.0, "login": login, **changes})


def test_requests_reach_the_broker_only_through_the_relay():
    async def scene(server: FakeBroker, relayed: Relayed) -> None:
        server.topics = {"orders": 3}
        client = await Client.opened(through(relayed), ["orders"])
        try:
            (broker,) = client.metadata.brokers.values()
            assert f"{broker.host}:{broker.port}" in relayed.bootstrap
            assert await client.coordinator(CoordinatorType.GROUP, "g") == 1
            assert {f"{one.host}:{one.port}" for one in client.metadata.brokers.values()} == set(relayed.bootstrap)
            found = await asyncio.gather(*(client.ask(1, init_producer_id(None, n)) for n in range(200)))
            assert {answer.producer_id for answer in found} == {7}
        finally:
            await client.close()
        asked = [request.auth_bytes for api, _, request in server.asked if api == 36]
        assert set(asked) == {b"\0mirror\0hunter2"}

    played(scene)


@pytest.mark.parametrize("password", ["", "hunter2", "x" * 43])
def test_a_client_without_the_password_of_the_process_reaches_no_broker(password):
    async def scene(server: FakeBroker, relayed: Relayed) -> None:
        with pytest.raises(NotConnectedError):
            await Client.opened(through(relayed, password=password))
        with pytest.raises(NotConnectedError):
            await Client.opened(through(relayed, login=None))
        assert {api for api, _, _ in server.asked} <= {18}

    played(scene)


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">ihhi", 8, 3, 0, 1),  # a question before any login
        struct.pack(">ihhih", 10, 36, 0, 1, -1),  # a login that ends too early
        struct.pack(">ihhih", 10, 17, 9, 1, -1),  # in a version that nobody has
        struct.pack(">ihhi", login_relay.FIRST_BYTES + 1, 36, 0, 1),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_an_invalid_login_closes_the_connection_silently(sent, caplog):
    async def scene(server: FakeBroker, relayed: Relayed) -> None:
        reader, writer = await asyncio.open_connection(*relayed.bootstrap[0].split(":"))
        writer.write(sent)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert {api for api, _, _ in server.asked} <= {18}

    played(scene)
    assert caplog.text == ""


def test_a_refused_login_logs_the_brokers_reason_without_the_password():
    async def scene(server: FakeBroker, relayed: Relayed) -> None:
        with pytest.raises(NotConnectedError) as found:
            await Client.opened(through(relayed))
        assert "SASL_AUTHENTICATION_FAILED" in str(found.value)
        assert "hunter2" not in str(found.value)

    played(scene, error_code=ErrorCode.sasl_authentication_failed, error_message="wrong hunter2")


def test_librdkafka_connects_only_to_the_relay_with_any_tls_setting():
    java = {"bootstrap.servers": "far:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    options = confluent_options(java, relayed=Relayed(("127.0.0.1:7",), "relay", "secret"))
    assert (options["bootstrap.servers"], options["security.protocol"]) == ("127.0.0.1:7", "SASL_PLAINTEXT")
    assert (options["sasl.mechanism"], options["sasl.password"]) == ("PLAIN", "secret")
