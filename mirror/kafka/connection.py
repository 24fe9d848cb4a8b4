"""One connection to a broker: frames, requests in flight, timeouts, versions, the login.

A broker responds to the requests of a connection in order. If one response is late or unreadable, the connection is closed,
because the meaning of later bytes is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from math import inf
from types import ModuleType
from typing import Any, NamedTuple, cast

from mirror import __version__
from mirror.config.clients import ClientOptions
from mirror.config.sasl import Login
from mirror.kafka import messages
from mirror.kafka.errors import (
    DisconnectedError,
    ErrorCode,
    KafkaError,
    LoginError,
    MalformedError,
    NoAnswerError,
    NotConnectedError,
    name_of,
)
from mirror.kafka.login import log_in
from mirror.kafka.messages import Request
from mirror.kafka.protocol import ApiKey
from mirror.model.codecs import Bytes

CONNECT_S = 10.0  # socket.connection.setup.timeout.ms of Kafka's client
STAGING_BYTES = 64 << 10
LATE_S = 0.1
MOST_FRAME_BYTES = 1 << 29  # no broker sends a larger response: the bytes are not Kafka's
# Sent data must not arrive after other processes consider this one dead: by then, the kernel drops an unanswered connection.
UNANSWERED_MS = 5_000
_NO_LINGER = struct.pack("ii", 1, 0)  # closing sends RST and drops unsent data, also when the process is killed
_SIZE = struct.Struct(">i")
_CORRELATIONS = 1 << 31
RENEW_AT = 0.85  # of the lifetime of a login: then a new connection replaces this one


class _Asked(NamedTuple):
    """A request in flight."""

    correlation: int
    api: int | None  # None: another client reads the response
    version: int
    answer: asyncio.Future[Any]
    due_s: float  # by the loop's clock


class Connection(asyncio.BufferedProtocol):
    """A connection. It is open until `failure` has the reason why it was closed.

    Attributes:
        spoken: Lowest and highest version that the broker supports, by API key.
        features: Level of each feature that the cluster has finalized (KIP-584).
    """

    def __init__(self, name: str, client_id: str, on_throttle: Callable[[float], None]) -> None:
        """Take the address, for error texts, and a callback for brokers' throttle times."""
        self._name = name
        self._client_id = client_id.encode()
        self._on_throttle = on_throttle
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._asked: deque[_Asked] = deque()
        self._correlation = 0
        self._timer: asyncio.Handle | None = None
        self._looks_s = inf  # when the timer is due: uvloop's handles do not report it less than 1 ms ahead
        self._staging = memoryview(bytearray(STAGING_BYTES))
        self._staged = 0
        self._frame: memoryview | None = None  # an incomplete frame, larger than the staging buffer
        self._filled = 0
        self._muted_until_s = 0.0
        self._renew_s = inf
        self.api_versions: dict[int, tuple[int, int]] = {ApiKey.API_VERSIONS: (0, 3)}
        self.features: dict[str, int] = {}
        self.failure: KafkaError | None = None
        self.used_s = self._loop.time()

    @property
    def is_usable(self) -> bool:
        """True while requests may be sent."""
        return self.failure is None and self._loop.time() < self._renew_s

    @property
    def is_idle(self) -> bool:
        """True when every request has its response."""
        return not self._asked

    async def ask(self, request: Request, within_s: float, on_sent: Callable[[], None] = lambda: None) -> Any:
        """Send a request and return the broker's response.

        Args:
            request: The request.
            within_s: Limit of the response time; after that the connection is closed.
            on_sent: Called just before the request is sent, which a quota may delay. If the call raises, nothing is sent.

        Raises:
            NotConnectedError: the connection is closed; nothing was sent.
            DisconnectedError, NoAnswerError: the broker may have executed the request.
            UnsupportedError: the broker supports no version of the request.
        """
        while (muted_s := self._muted_until_s - self._loop.time()) > 0 and self.failure is None:
            await asyncio.sleep(muted_s)
        if self.failure is not None or self._transport is None:
            raise NotConnectedError(f"connection to {self._name} closed")
        version = messages.negotiate_version(request, self.api_versions)
        self._correlation = (self._correlation + 1) % _CORRELATIONS
        pieces = messages.encoded(request, version, self._correlation, self._client_id)
        on_sent()
        return await self._sent(pieces, request.api, version, within_s)

    def forward_raw(self, frame: bytes, within_s: float) -> asyncio.Future[memoryview]:
        """Send another client's request; return a future for the response.

        Correlation ids are not changed.

        Args:
            frame: The request without its size field.
            within_s: As in `ask`.

        Raises:
            NotConnectedError: the connection is closed; nothing was sent.
        """
        if self.failure is not None or self._transport is None:
            raise NotConnectedError(f"connection to {self._name} closed")
        (self._correlation,) = _SIZE.unpack_from(frame, _SIZE.size)  # after API key and version
        return self._sent([_SIZE.pack(len(frame)) + frame], None, 0, within_s)

    def _sent(self, pieces: list[Bytes], api: int | None, version: int, within_s: float) -> asyncio.Future[Any]:
        assert self._transport is not None
        answer: asyncio.Future[Any] = self._loop.create_future()
        self.used_s = self._loop.time()
        asked = _Asked(self._correlation, api, version, answer, self.used_s + within_s)
        self._asked.append(asked)
        self._watch(asked.due_s)
        try:
            self._transport.writelines(pieces)
        except RuntimeError as error:  # uvloop raises this if the transport was closed just now
            self.close()
            raise NotConnectedError(f"connection to {self._name} closed") from error
        return answer

    def close(self, why: KafkaError | None = None) -> None:
        """Close the connection now and drop unsent data; requests in flight fail."""
        if self.failure is not None:
            return
        self.failure = why or DisconnectedError(f"connection to {self._name} closed")
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        asked, self._asked = self._asked, deque()
        for one in asked:
            if not one.answer.done():
                one.answer.set_exception(self.failure)
                one.answer.exception()  # retrieved now, because the caller may no longer wait

    # --- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests in flight."""
        reason = f" ({exc})" if exc is not None else ""
        self.close(DisconnectedError(f"connection to {self._name} closed{reason}"))

    def eof_received(self) -> bool:
        """Return False, so that asyncio closes the transport."""
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes. A large response is received directly into its own buffer."""
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._staging[self._staged :]

    def buffer_updated(self, nbytes: int) -> None:
        """Parse the received bytes."""
        if self._frame is not None:
            self._filled += nbytes
            if self._filled == len(self._frame):
                frame, self._frame = self._frame, None
                self._answered(frame.toreadonly())
            return
        self._staged += nbytes
        at = 0
        while self._staged - at >= _SIZE.size and self.failure is None:
            (size,) = _SIZE.unpack_from(self._staging, at)
            begin, end = at + _SIZE.size, at + _SIZE.size + size
            if not _SIZE.size <= size <= MOST_FRAME_BYTES:
                self.close(MalformedError(f"{self._name} does not speak Kafka's protocol, or only over TLS"))
            elif end <= self._staged:
                self._answered(memoryview(bytes(self._staging[begin:end])))
                at = end
            else:
                self._frame = memoryview(bytearray(size))
                self._filled = self._staged - begin
                self._frame[: self._filled] = self._staging[begin : self._staged]
                self._staged = at = 0
                return
        self._staging[: self._staged - at] = bytes(self._staging[at : self._staged])
        self._staged -= at

    def _answered(self, frame: memoryview) -> None:
        (correlation,) = _SIZE.unpack_from(frame)
        if not self._asked or self._asked[0].correlation != correlation:
            self.close(MalformedError(f"{self._name} sends an unexpected response"))
            return
        asked = self._asked.popleft()
        if asked.answer.done():
            return  # the caller has given up
        if asked.api is None:
            asked.answer.set_result(frame)
            return
        try:
            answer = messages.decoded(asked.api, asked.version, frame)
        except KafkaError as error:
            asked.answer.set_exception(error)
            return
        if throttle := getattr(answer, "throttle_time", None):
            self._throttled(throttle.total_seconds())
        asked.answer.set_result(answer)

    def _throttled(self, seconds: float) -> None:
        """Send no more requests for as long as a quota requires (KIP-219)."""
        self._muted_until_s = max(self._muted_until_s, self._loop.time() + seconds)
        self._on_throttle(seconds)

    def _watch(self, due_s: float) -> None:
        """Close the connection if a response does not arrive in time.

        One timer serves all requests in flight.
        """
        if self._looks_s <= due_s:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._looks_s = due_s
        self._timer = self._loop.call_at(due_s, self._look)

    def _look(self) -> None:
        now_s = self._loop.time()
        late_s = now_s - self._looks_s
        self._timer, self._looks_s = None, inf
        if not self._asked:
            return
        due_s = min(asked.due_s for asked in self._asked)
        if due_s <= now_s and late_s > LATE_S:
            self._watch(now_s + LATE_S)  # the loop was blocked: received bytes may not be read yet
        elif due_s <= now_s:
            self.close(NoAnswerError(f"no answer from {self._name} in time"))
        else:
            self._watch(due_s)

    # --- the first requests --------------------------------------------------------------------------------------

    async def handshake(self, options: ClientOptions) -> None:
        """Agree on API versions and log in.

        Raises:
            KafkaError: the broker refuses, or does not respond.
            OSError: there is no token for the login.
        """
        within_s = min(CONNECT_S, options.request_timeout_s)
        found = await self.ask(_versions(), within_s)
        self.api_versions = {one.api_key: (one.min_version, one.max_version) for one in found.api_keys}
        self.features = {one.name: one.max_version_level for one in getattr(found, "finalized_features", None) or ()}
        if options.login is not None:
            await self.log_in(options.login, within_s)

    async def log_in(self, login: Login, within_s: float) -> None:
        """Log in; each response may take `within_s`. Raises the same errors as `handshake`."""
        began_s, holds_s = self._loop.time(), 0.0
        found = await self.ask(_handshake(login.mechanism), within_s)
        if found.error_code is not ErrorCode.none:
            known = ", ".join(found.mechanisms or ())
            raise LoginError(f"{self._name}: {login.mechanism}: {name_of(found.error_code)}; it has {known}")

        async def exchange(message: bytes) -> bytes:
            nonlocal holds_s
            answer = await self.ask(_authenticate(message), within_s)
            if answer.error_code is not ErrorCode.none:
                raise LoginError(f"{self._name}: {login.mechanism}: {name_of(answer.error_code)}")
            holds = getattr(answer, "session_lifetime", None)  # in version 1 and later
            holds_s = holds.total_seconds() if holds is not None else 0.0
            return bytes(answer.auth_bytes)

        await log_in(login, self._name.rpartition(":")[0], exchange)
        if holds_s:
            self._renew_s = began_s + holds_s * RENEW_AT


def _versions() -> Request:
    def build(module: ModuleType, _: int) -> Any:
        return module.ApiVersionsRequest(client_software_name="kafka-mirror", client_software_version=__version__)

    return Request(ApiKey.API_VERSIONS, 3, 3, build)


def _handshake(mechanism: str) -> Request:
    return Request(ApiKey.SASL_HANDSHAKE, 1, 1, lambda module, _: module.SaslHandshakeRequest(mechanism=mechanism))


def _authenticate(message: bytes) -> Request:
    return Request(ApiKey.SASL_AUTHENTICATE, 0, 2, lambda module, _: module.SaslAuthenticateRequest(auth_bytes=message))


async def connected(
    host: str, port: int, options: ClientOptions, *, is_abortive: bool, on_throttle: Callable[[float], None]
) -> Connection:
    """Return an open connection, logged in.

    Args:
        host: Host of the broker.
        port: Port of the broker.
        options: How to connect.
        is_abortive: When the connection is closed, drop the unsent data in the kernel.
        on_throttle: Called with the time for which the broker throttles this client.

    Raises:
        NotConnectedError: no connection can be made.
    """
    name = f"{host}:{port}"
    options = options.renewed()
    connection: Connection | None = None
    try:
        async with asyncio.timeout(min(CONNECT_S, options.request_timeout_s)):
            transport, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(name, options.client_id, on_throttle),
                host,
                port,
                ssl=options.tls,
                server_hostname=host if options.tls is not None else None,
            )
            _set_up(transport, options, is_abortive=is_abortive)
            await connection.handshake(options)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, NotConnectedError) or not isinstance(error, (KafkaError, OSError, TimeoutError)):
            raise
        reason = str(error) or "no answer in time"
        raise NotConnectedError(reason if name in reason else f"{name}: {reason}") from error
    return connection


def _set_up(transport: asyncio.Transport, options: ClientOptions, *, is_abortive: bool) -> None:
    found = transport.get_extra_info("socket")
    if found is None:
        return
    with contextlib.suppress(OSError):  # the socket was closed just now
        for option, size in (
            (socket.SO_SNDBUF, options.send_buffer_bytes),
            (socket.SO_RCVBUF, options.receive_buffer_bytes),
        ):
            if size is not None:
                found.setsockopt(socket.SOL_SOCKET, option, size)
        if not is_abortive:
            return
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)
