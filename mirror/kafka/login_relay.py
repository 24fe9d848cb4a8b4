"""Relay librdkafka's connections and log in for it, because its Python packages lack GSSAPI.

librdkafka connects to the loopback interface with a password that only this process knows. The relay connects to the broker,
over TLS if required, logs in with a ticket, and forwards data in both directions. It changes only responses that name brokers:
it replaces the brokers' addresses with its own.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Any

from mirror.config.clients import ClientOptions, Relayed, client_options, confluent_options
from mirror.kafka.connection import CONNECT_S, MOST_FRAME_BYTES, Connection, connected
from mirror.kafka.errors import ErrorCode, KafkaError
from mirror.kafka.messages import answered, answers, decoded, make, request_of
from mirror.kafka.protocol import ApiKey
from mirror.runtime import background

HERE, NAME = "127.0.0.1", "relay"
WITHIN_S = 3_600.0  # librdkafka has its own time limits, and closes its connection
ADMITTED_WITHIN_S = 3 * CONNECT_S  # librdkafka gives up after 30 s, too
UNDER_WAY = 64  # most requests in flight per connection
FIRST_BYTES = 1 << 16  # largest request from a client that is not authenticated yet
_HEAD = struct.Struct(">hhi")  # API key, version, correlation id
_SIZE = struct.Struct(">i")
_NAMES_BROKERS = {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER}
# The highest versions that the relay allows: those in which kio reads the responses with addresses, and a Fetch response does
# not name a new leader's address (KIP-951). No librdkafka client produces through the relay.
_HIGHEST: dict[int, int] = {
    ApiKey.FETCH: 15,
    ApiKey.METADATA: 13,
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.DESCRIBE_CLUSTER: 2,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.SASL_AUTHENTICATE: 2,
}
_VERSIONS_HIGHEST = 3

log = logging.getLogger(__name__)


class _NotAllowed(Exception):
    """The bytes are not from this process' librdkafka."""


def librdkafka_options(java: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration for confluent_kafka's clients; with GSSAPI, start a relay for them.

    Raises:
        ClientError: a property is not supported.
    """
    options = client_options(java)
    if options.login is None or options.login.kerberos is None:
        return confluent_options(java)
    return confluent_options(java, relayed=_relay(tuple(sorted(java.items())), os.getpid()).relayed)


@cache
def _relay(java: tuple[tuple[str, str], ...], pid: int) -> LoginRelay:
    """Return the relay of a cluster for all clients of this process. A forked process needs its own relay."""
    return LoginRelay(client_options(dict(java)))


class LoginRelay:
    """A relay to one cluster. It runs in the background (mirror.runtime.background) until the process ends.

    Attributes:
        relayed: The addresses and the login with which librdkafka connects to the relay.
    """

    def __init__(self, options: ClientOptions) -> None:
        """Listen."""
        self._options = options
        self._secret = secrets.token_urlsafe(32)
        self._ports: dict[tuple[str, int], int] = {}  # local port by the broker's address
        self._opening = asyncio.Lock()
        bootstrap = background.run(self._listen())
        self.relayed = Relayed(bootstrap, NAME, self._secret)

    async def _listen(self) -> tuple[str, ...]:
        found = []
        for address in self._options.bootstrap:
            host, _, port = address.rpartition(":")
            found.append(f"{HERE}:{await self._port_of(host.strip('[]'), int(port))}")
        return tuple(found)

    async def _port_of(self, host: str, port: int) -> int:
        """Return the local port for a broker; listen on it."""
        async with self._opening:
            if (host, port) not in self._ports:
                server = await asyncio.start_server(lambda r, w: self._serve(host, port, r, w), HERE, 0)
                self._ports[host, port] = server.sockets[0].getsockname()[1]
            return self._ports[host, port]

    async def _serve(self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of librdkafka until either side closes it."""
        passage = _Passage(_Broker(host, port, self._options), reader, writer, self._secret, self._renamed)
        try:
            await passage.run()
        except* (KafkaError, OSError, EOFError, _NotAllowed) as errors:
            log.debug("a connection to %s:%d ends: %s", host, port, errors.exceptions)
        finally:
            passage.close()

    async def _renamed(self, message: Any) -> Any:
        """Return a response in which this relay's listeners replace the brokers."""
        if hasattr(message, "brokers"):
            return replace(message, brokers=tuple([await self._moved(one) for one in message.brokers]))
        if hasattr(message, "coordinators"):
            return replace(message, coordinators=tuple([await self._moved(one) for one in message.coordinators]))
        return await self._moved(message)

    async def _moved(self, broker: Any) -> Any:
        if not broker.host or broker.port <= 0:  # the response is an error
            return broker
        return replace(broker, host=HERE, port=await self._port_of(broker.host, broker.port))


class _Broker:
    """The connection to a broker. A new one replaces it before its login expires."""

    def __init__(self, host: str, port: int, options: ClientOptions) -> None:
        self._host, self._port = host, port
        self._options = options
        self._connection: Connection | None = None
        self._before: list[Connection] = []  # their logins have expired; responses may still arrive

    async def open(self) -> Connection:
        """Open a connection and return it before the login."""
        self._connection = await self._connected(replace(self._options, login=None))
        return self._connection

    async def log_in(self) -> None:
        """Log in; raises KafkaError."""
        assert self._connection is not None
        assert self._options.login is not None
        await self._connection.log_in(self._options.login, min(CONNECT_S, self._options.request_timeout_s))

    async def forward_raw(self, frame: bytes) -> asyncio.Future[memoryview]:
        """Send a request; raises KafkaError."""
        assert self._connection is not None
        if self._connection.failure is None and not self._connection.is_usable:
            self._before.append(self._connection)
            self._connection = await self._connected(self._options)
            for one in (one for one in tuple(self._before) if one.is_idle):
                one.close()
                self._before.remove(one)
        return self._connection.forward_raw(frame, WITHIN_S)

    async def _connected(self, options: ClientOptions) -> Connection:
        return await connected(self._host, self._port, options, is_abortive=False, on_throttle=lambda _: None)

    def close(self) -> None:
        """End all connections."""
        for one in (*self._before, self._connection):
            if one is not None:
                one.close()


@dataclass(frozen=True, slots=True)
class _Passed:
    """A request that was passed on."""

    api: int
    version: int
    correlation: int
    answer: asyncio.Future[memoryview] = field(repr=False)


class _Passage:
    """A connection of librdkafka, and the relay's connection to the broker."""

    def __init__(
        self,
        broker: _Broker,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        secret: str,
        renamed: Callable[[Any], Awaitable[Any]],
    ) -> None:
        """Take both ends, librdkafka's password, and the function that renames brokers in responses."""
        self._broker = broker
        self._reader = reader
        self._writer = writer
        self._expected = f"\0{NAME}\0{secret}".encode()
        self._renamed = renamed
        self._most_bytes = FIRST_BYTES
        self._under_way: asyncio.Queue[_Passed] = asyncio.Queue(UNDER_WAY)

    async def run(self) -> None:
        """Authenticate librdkafka, then forward data in both directions until one side ends; raise its error."""
        async with asyncio.timeout(ADMITTED_WITHIN_S):
            await self._admit(await self._broker.open())
        self._most_bytes = MOST_FRAME_BYTES
        async with asyncio.TaskGroup() as both:
            both.create_task(self._pass_on())
            both.create_task(self._answer())

    def close(self) -> None:
        """Close both sides."""
        self._broker.close()
        self._writer.transport.abort()

    async def _admit(self, broker: Connection) -> None:
        """Respond to librdkafka's first requests, up to its login, which also triggers the relay's login.

        Raises:
            _NotAllowed: the client is not librdkafka in this process.
            KafkaError: the broker refuses the login.
        """
        api: int = ApiKey.API_VERSIONS
        while api != ApiKey.SASL_AUTHENTICATE:
            api, version, correlation, frame = await self._request()
            failure: KafkaError | None = None
            if api == ApiKey.API_VERSIONS:
                answer = _versions(broker, version)
            elif api == ApiKey.SASL_HANDSHAKE and version <= _HIGHEST[api]:
                answer = answers(api, version).SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=("PLAIN",))
            elif api == ApiKey.SASL_AUTHENTICATE and version <= _HIGHEST[api] and self._knows_us(frame):
                try:
                    await self._broker.log_in()
                except KafkaError as error:
                    failure = error
                answer = _authenticated(version, failure)
            else:
                raise _NotAllowed
            await self._send(answered(api, correlation, answer))
            if failure is not None:
                raise failure

    def _knows_us(self, frame: bytes) -> bool:
        return hmac.compare_digest(request_of(frame).auth_bytes, self._expected)

    async def _pass_on(self) -> None:
        while True:
            api, version, correlation, frame = await self._request()
            await self._under_way.put(_Passed(api, version, correlation, await self._broker.forward_raw(frame)))

    async def _answer(self) -> None:
        while True:
            passed = await self._under_way.get()
            answer: bytes | memoryview = await passed.answer
            if passed.api in _NAMES_BROKERS:
                message = await self._renamed(decoded(passed.api, passed.version, answer))
                answer = answered(passed.api, passed.correlation, message)
            await self._send(answer)

    async def _request(self) -> tuple[int, int, int, bytes]:
        """Return a request's API key, version and correlation id, and its bytes without the size."""
        (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
        if not _HEAD.size <= size <= self._most_bytes:
            raise _NotAllowed
        frame = await self._reader.readexactly(size)
        return *_HEAD.unpack_from(frame), frame

    async def _send(self, frame: bytes | memoryview) -> None:
        self._writer.writelines((_SIZE.pack(len(frame)), frame))
        await self._writer.drain()


def _versions(broker: Connection, version: int) -> Any:
    is_known = version <= _VERSIONS_HIGHEST
    module = answers(ApiKey.API_VERSIONS, version if is_known else 0)
    keys = tuple(
        make(module.ApiVersion, api_key=key, min_version=low, max_version=min(high, _HIGHEST.get(key, high)))
        for key, (low, high) in broker.api_versions.items()
    )
    code = ErrorCode.none if is_known else ErrorCode.unsupported_version
    return make(module.ApiVersionsResponse, error_code=code, api_keys=keys, throttle_time=timedelta(0))


def _authenticated(version: int, failure: KafkaError | None) -> Any:
    code = ErrorCode.none if failure is None else ErrorCode.sasl_authentication_failed
    module = answers(ApiKey.SASL_AUTHENTICATE, version)
    return make(
        module.SaslAuthenticateResponse,
        error_code=code,
        error_message=None if failure is None else str(failure),
        auth_bytes=b"",
        session_lifetime=timedelta(0),
    )
