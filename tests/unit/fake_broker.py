"""A server that speaks as much of Kafka's protocol as a test of the client needs."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Self

from kio.schema.errors import ErrorCode

from mirror.kafka.messages import answered, make, request_of
from mirror.kafka.messages import answers as answer_kinds

API_VERSIONS, METADATA, COORDINATOR = 18, 3, 10
TURNS_OF_ACCEPT = 10  # more than asyncio takes from an accepted socket to its server's callback
Handler = Callable[[Any, int], Any]  # (request, version) -> its answer, or bytes, or None for silence


class FakeBroker:
    """Broker 1 of a cluster of one; a context manager. `handlers` answer what it does not know by itself."""

    def __init__(self, *, api_versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.api_versions = {
            API_VERSIONS: (0, 4),
            METADATA: (0, 13),
            COORDINATOR: (0, 6),
            0: (0, 13),
            1: (0, 18),
            22: (0, 6),
        }
        self.api_versions |= api_versions or {}
        self.handlers: dict[int, Handler] = {}
        self.asked: list[tuple[int, int, Any]] = []  # API, version, request
        self.answers = 0  # responses that have been written
        self.connects_s: list[float] = []
        self.topics: dict[str, int] = {}
        self.refusals: dict[str, ErrorCode] = {}  # by topic: what metadata responses have instead
        self.refuses = False  # closes each connection at once
        self.held: asyncio.Event | None = None  # nothing is answered until then
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.host, self.port = self._server.sockets[0].getsockname()[:2]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.held is not None:
            self.held.set()
        self._server.close()
        self.cut()
        self.refuses = (
            True  # a connection that was accepted just now is served, and closed, some turns of the loop later
        )
        for _ in range(TURNS_OF_ACCEPT):
            await asyncio.sleep(0)
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def cut(self) -> None:
        """End all connections."""
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connects_s.append(asyncio.get_running_loop().time())
        self._writers.append(writer)
        if self.refuses:
            writer.transport.abort()
            return
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = await self._answered(await reader.readexactly(size))
                if answer is not None:
                    writer.write(struct.pack(">i", len(answer)) + answer)
                    self.answers += 1
        except (asyncio.IncompleteReadError, OSError, RuntimeError):  # uvloop's word for what is closed
            writer.transport.abort()

    async def _answered(self, frame: bytes) -> bytes | None:
        api, version, correlation = struct.unpack_from(">hhi", frame)
        request = request_of(frame)
        self.asked.append((api, version, request))
        if self.held is not None and api != API_VERSIONS:
            await self.held.wait()
        own: dict[int, Handler] = {
            API_VERSIONS: self._versions,
            METADATA: self._metadata,
            COORDINATOR: self._coordinator,
        }
        answer = {**own, **self.handlers}[api](request, version)
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer is None or isinstance(answer, bytes):
            return answer
        return answered(api, correlation, answer)

    def _versions(self, _: Any, version: int) -> Any:
        module = answer_kinds(API_VERSIONS, version)
        keys = tuple(
            module.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.api_versions.items()
        )
        return make(module.ApiVersionsResponse, error_code=ErrorCode.none, api_keys=keys, throttle_time=timedelta(0))

    def _metadata(self, request: Any, version: int) -> Any:
        module = answer_kinds(METADATA, version)
        topics = tuple(self._topic(module, one.name) for one in request.topics or ())
        return make(
            module.MetadataResponse,
            throttle_time=timedelta(0),
            brokers=(make(module.MetadataResponseBroker, node_id=1, host=self.host, port=self.port, rack=None),),
            controller_id=1,
            topics=topics,
        )

    def _topic(self, module: Any, name: str) -> Any:
        count = self.topics.get(name)
        parts = tuple(
            make(
                module.MetadataResponsePartition,
                error_code=ErrorCode.none,
                partition_index=number,
                leader_id=1,
                leader_epoch=0,
                replica_nodes=(1,),
                isr_nodes=(1,),
                offline_replicas=(),
            )
            for number in range(count or 0)
        )
        absent = self.refusals.get(name, ErrorCode.unknown_topic_or_partition)
        code = ErrorCode.none if count is not None else absent
        return make(module.MetadataResponseTopic, error_code=code, name=name, topic_id=None, partitions=parts)

    def _coordinator(self, request: Any, version: int) -> Any:
        module = answer_kinds(COORDINATOR, version)
        return make(
            module.FindCoordinatorResponse,
            throttle_time=timedelta(0),
            error_code=ErrorCode.none,
            error_message=None,
            node_id=1,
            host=self.host,
            port=self.port,
        )


class BrokerInAThread:
    """A broker with a loop of its own, for tests whose loop stands still; a context manager."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.broker.__aenter__(), self._loop).result(5)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.broker.__aexit__(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
