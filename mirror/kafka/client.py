"""A client of one cluster: connections to its brokers, its metadata, its coordinators.

Every call raises KafkaError if the cluster refuses or does not respond. If a broker cannot be reached or refuses the login, the
client reconnects after growing pauses. The number of waiting callers does not matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import IntEnum
from types import ModuleType
from typing import Any, Self, TypeVar

from mirror.config.clients import ClientOptions
from mirror.kafka.connection import Connection, connected
from mirror.kafka.errors import KafkaError, NotConnectedError, check
from mirror.kafka.messages import Request, make
from mirror.kafka.metadata import Broker, Metadata, request_for
from mirror.kafka.protocol import ApiKey

log = logging.getLogger("mirror")
Result = TypeVar("Result")

# Like Java's reconnect.backoff.ms and its maximum: a broker that is down or refuses the login is not tried hundreds of times.
FIRST_S, LONGEST_S = 0.05, 1.0
WARM_S = 2.0
METADATA_S = 10.0  # a broker that hangs must not keep this client from asking the other brokers
IDLE_LOOKS = 4  # how often the idle connections are checked, per idle time limit


class Purpose(IntEnum):
    """The purpose of a connection.

    A broker serves one request per connection at a time, so requests that may wait have a separate connection.
    """

    DATA = 0
    COORDINATION = 1
    IDLE_FETCH = 2
    RETRY = 3


class CoordinatorType(IntEnum):
    """What a coordinator coordinates."""

    GROUP = 0
    TRANSACTION = 1


class _BackOff:
    """The growing pauses between attempts to connect to one broker."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.failures = 0
        self.last: NotConnectedError | None = None
        self._not_before_s = 0.0
        self._pause_s = 0.0

    async def wait(self) -> None:
        """Wait until this client may connect to the broker again."""
        await asyncio.sleep(max(0.0, self._not_before_s - asyncio.get_running_loop().time()))

    def failed(self, error: NotConnectedError) -> None:
        """Double the pause."""
        self.failures += 1
        self.last = error
        self._pause_s = min(2 * self._pause_s, LONGEST_S) if self._pause_s else FIRST_S
        self._not_before_s = asyncio.get_running_loop().time() + self._pause_s

    def succeeded(self) -> None:
        """End the pauses."""
        self._pause_s = self._not_before_s = 0.0


class Client:
    """Sends requests to the brokers of one cluster.

    Attributes:
        metadata: Topics, leaders and brokers of the cluster.
        throttled_s: Time for which brokers have throttled the client by quotas.
    """

    def __init__(self, options: ClientOptions, *, is_abortive: bool = False) -> None:
        """Connect to nothing yet.

        Args:
            options: How to connect.
            is_abortive: When a connection is closed, drop the unsent data in the kernel.
        """
        self.options = options
        self.metadata = Metadata()
        self.throttled_s = 0.0
        self._is_abortive = is_abortive
        self._connections: dict[tuple[int, Purpose], Connection] = {}
        self._opening: dict[tuple[int, Purpose], asyncio.Task[Connection]] = {}
        self._back_offs: dict[Any, _BackOff] = defaultdict(_BackOff)  # by node id, or by bootstrap address
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._topics: set[str] = set()
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_s = float("-inf")
        self._keeper: asyncio.Task[None] | None = None
        self._metadata_s = min(METADATA_S, options.request_timeout_s)
        self._is_closed = False

    @property
    def is_connecting(self) -> bool:
        """True while a connection is being opened. A login may take longer than the request that waits for it."""
        return bool(self._opening)

    @classmethod
    async def opened(cls, options: ClientOptions, topics: Iterable[str] = ()) -> Self:
        """Return a client that knows the cluster's brokers, and the leaders of `topics`."""
        client = cls(options)
        try:
            await client.open(topics)
        except BaseException:
            await client.close()
            raise
        return client

    async def open(self, topics: Iterable[str] = ()) -> None:
        """Request metadata of the brokers and of `topics`, which replace the earlier topics."""
        self._topics = set(topics)
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep())
        await self._fresh()

    async def close(self) -> None:
        """Close all connections at once. A half-open connection would never confirm an orderly close."""
        self._is_closed = True
        tasks = [task for task in (self._keeper, self._refreshing, *self._opening.values()) if task is not None]
        for task in tasks:
            task.cancel()
        self.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.abort()

    def abort(self, node: int | None = None, purpose: Purpose | None = None) -> None:
        """Abort all connections, or those to one node or for one purpose; drop unsent data."""
        for (to, use), connection in tuple(self._connections.items()):
            if node in (None, to) and purpose in (None, use):
                del self._connections[to, use]
                connection.close()

    # --- asking --------------------------------------------------------------------------------------------------

    async def ask(
        self,
        node: int,
        request: Request,
        purpose: Purpose = Purpose.DATA,
        *,
        within_s: float | None = None,
        on_sent: Callable[[], None] = lambda: None,
    ) -> Any:
        """Send a request to a broker and return its response.

        Args:
            node: The broker's id.
            request: The request.
            purpose: Selects the connection to the broker.
            within_s: Limit of the response time, by default request.timeout.ms; after that the connection is closed.
            on_sent: Called just before the request is sent; if it raises, nothing is sent.

        Raises:
            NotConnectedError: nothing was sent.
            DisconnectedError, NoAnswerError: the broker may have executed the request.
            UnsupportedError: the broker supports no version of the request.
        """
        connection = await self._connected(node, purpose)
        return await connection.ask(request, within_s or self.options.request_timeout_s + request.waits_s, on_sent)

    async def warm(self, nodes: Iterable[int], purposes: Iterable[Purpose] = (Purpose.DATA,)) -> None:
        """Open the connections that the first requests will use, without waiting for slow ones."""
        loop = asyncio.get_running_loop()
        opening = {loop.create_task(self._warm(node, purpose)) for node in nodes for purpose in purposes}
        if opening:
            await asyncio.wait(opening, timeout=WARM_S)

    async def _warm(self, node: int, purpose: Purpose) -> None:
        with contextlib.suppress(KafkaError):  # the first request will report it
            await self._connected(node, purpose)

    async def speaks(self, node: int, api: int, version: int, purpose: Purpose = Purpose.DATA) -> bool:
        """Return whether a broker supports a version of an API."""
        lowest, highest = (await self._connected(node, purpose)).api_versions.get(api, (0, -1))
        return lowest <= version <= highest

    async def feature(self, node: int, name: str, purpose: Purpose = Purpose.DATA) -> int:
        """Return the finalized level of a cluster's feature (KIP-584), 0 if it has none."""
        return (await self._connected(node, purpose)).features.get(name, 0)

    async def ask_any(self, request: Request) -> Any:
        """Send a request to any broker and return its response."""
        for node in self._nodes():
            with contextlib.suppress(NotConnectedError):
                return await self.ask(node, request)
        await self._fresh()  # no known broker responds: the bootstrap addresses may lead to others
        return await self.ask(next(iter(self._nodes())), request)

    async def coordinator(self, kind: CoordinatorType, key: str) -> int:
        """Return the node that coordinates a group or a transactional id."""
        known = self._coordinators.get((kind, key))
        if known is not None and known in self.metadata.brokers:
            return known
        answer = await self.ask_any(_coordinator_of(kind, key))
        check(answer.error_code, key)
        if answer.node_id not in self.metadata.brokers:
            self.metadata.brokers[answer.node_id] = Broker(answer.host, answer.port)
        self._coordinators[kind, key] = answer.node_id
        return int(answer.node_id)

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """Make the next call look up the coordinator."""
        self._coordinators.pop((kind, key), None)

    def _nodes(self) -> list[int]:
        """Return the brokers in the order to try them: those with an open connection first."""
        nodes = list(self.metadata.brokers)
        random.shuffle(nodes)
        is_open = {node for (node, _), connection in self._connections.items() if connection.is_usable}
        return sorted(nodes, key=lambda node: node not in is_open)

    # --- connections ---------------------------------------------------------------------------------------------

    async def _connected(self, node: int, purpose: Purpose) -> Connection:
        connection = self._connections.get((node, purpose))
        if connection is not None and connection.is_usable:
            return connection
        if self._is_closed:
            raise NotConnectedError("this client is closed")
        opening = self._opening.get((node, purpose))
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(node, purpose))
            opening.add_done_callback(lambda task: self._on_open(node, purpose, task))
            self._opening[node, purpose] = opening
        return await _shielded(opening)

    def _on_open(self, node: int, purpose: Purpose, task: asyncio.Task[Connection]) -> None:
        self._opening.pop((node, purpose), None)
        if not task.cancelled():
            task.exception()  # retrieved now, because the caller may no longer wait

    async def _open(self, node: int, purpose: Purpose) -> Connection:
        broker = self.metadata.brokers.get(node)
        if broker is None:
            raise NotConnectedError(f"the cluster has no broker {node}")
        connection = await self._reached(broker.host, broker.port, node)
        before = self._connections.get((node, purpose))
        if before is not None and before.failure is None:
            self._retire(before)
        self._connections[node, purpose] = connection
        return connection

    async def _reached(self, host: str, port: int, key: Any) -> Connection:
        back_off = self._back_offs[key]
        failures = back_off.failures
        async with back_off.turn:
            if back_off.failures > failures and back_off.last is not None:
                raise back_off.last  # another caller has tried and failed meanwhile
            await back_off.wait()
            try:
                connection = await connected(
                    host, port, self.options, is_abortive=self._is_abortive, on_throttle=self._throttled
                )
            except NotConnectedError as error:
                back_off.failed(error)
                raise
            back_off.succeeded()
        if self._is_closed:
            connection.close()
            raise NotConnectedError("this client is closed")
        return connection

    def _throttled(self, seconds: float) -> None:
        self.throttled_s += seconds

    @staticmethod
    def _retire(connection: Connection) -> None:
        """Close a connection whose login has expired, as soon as its requests have their responses."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            if connection.is_idle:
                connection.close()
            elif connection.failure is None:
                loop.call_later(FIRST_S, look)

        look()

    # --- metadata ------------------------------------------------------------------------------------------------

    async def follow(self, topics: Iterable[str]) -> None:
        """Request the leaders of these topics, and follow them instead of the earlier topics."""
        wanted = set(topics)
        is_known = wanted <= self._topics and wanted <= self.metadata.topics.keys()
        self._topics = wanted
        if not is_known:
            await self._fresh()

    async def refresh(self) -> None:
        """Request metadata and wait for the response."""
        await _shielded(self._refresh())

    def refresh_soon(self) -> None:
        """Request metadata without waiting for the response."""
        if not self._is_closed:
            self._refresh()

    async def _fresh(self) -> None:
        """Wait for metadata that were requested after this call."""
        if self._refreshing is not None:
            with contextlib.suppress(KafkaError):
                await _shielded(self._refreshing)
        await _shielded(self._refresh())

    def _refresh(self) -> asyncio.Task[None]:
        if self._refreshing is None:
            if self._is_closed:
                raise NotConnectedError("this client is closed")
            self._refreshing = asyncio.get_running_loop().create_task(self._update())
            self._refreshing.add_done_callback(self._was_refreshed)
        return self._refreshing

    def _was_refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("no metadata: %s", error)

    async def _update(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._refreshed_s + self.options.retry_backoff_s - loop.time()))
        self._refreshed_s = loop.time()
        self.metadata.update(await self._ask_for_metadata())

    async def _ask_for_metadata(self) -> Any:
        """Request metadata from the known brokers, one after the other, then from those of bootstrap.servers."""
        for node in self._nodes():
            with contextlib.suppress(KafkaError):
                return await self.ask(node, request_for(sorted(self._topics)), within_s=self._metadata_s)
        failure: KafkaError | None = None
        for address in random.sample(self.options.bootstrap, len(self.options.bootstrap)):
            host, _, port = address.rpartition(":")
            try:
                connection = await self._reached(host.strip("[]"), int(port), address)
                try:
                    answer = await connection.ask(request_for(sorted(self._topics)), self._metadata_s)
                finally:
                    connection.close()
            except KafkaError as error:
                failure = error
            else:
                if answer.brokers:
                    return answer
                failure = NotConnectedError(f"{address} names no broker of its cluster")
        raise NotConnectedError(f"no broker answers: {failure}") from failure

    async def _keep(self) -> None:
        """Refresh metadata periodically, and close idle connections."""
        loop = asyncio.get_running_loop()
        idle_s = self.options.idle_s
        age_s = self.options.metadata_max_age_s
        while True:
            await asyncio.sleep(max(0.1, min(age_s, idle_s / IDLE_LOOKS if idle_s is not None else age_s)))
            if loop.time() > self._refreshed_s + age_s:
                with contextlib.suppress(KafkaError):
                    await self.refresh()
            for key, connection in tuple(self._connections.items()):
                is_old = idle_s is not None and connection.is_idle and loop.time() > connection.used_s + idle_s
                if connection.failure is not None or is_old:
                    del self._connections[key]
                    connection.close()


async def _shielded(task: asyncio.Task[Result]) -> Result:
    """Return a task's result; if the caller is cancelled, the task continues.

    Raises:
        NotConnectedError: the task was cancelled, because its client was closed.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if (caller := asyncio.current_task()) is not None and caller.cancelling():
            raise
        raise NotConnectedError("this client is closed") from None


def _coordinator_of(kind: CoordinatorType, key: str) -> Request:
    def build(module: ModuleType, _: int) -> Any:
        return make(module.FindCoordinatorRequest, key=key, key_type=int(kind))

    return Request(ApiKey.FIND_COORDINATOR, 1, 3, build)
