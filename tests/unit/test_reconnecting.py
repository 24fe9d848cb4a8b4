"""aiokafka's client, guarded: what it may raise, and how often it connects."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import struct
from itertools import pairwise

import pytest
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError, RequestTimedOutError

from mirror.kafka.reconnecting import FIRST_S, guarded


class Client:
    """A client whose requests fail as they are told to, and whose connections do until `is_up`."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.is_up = False
        self.connects_s: list[float] = []
        self._conns: dict[object, object] = {}

    async def _metadata_update(self) -> bool:
        return True

    async def send(self, node: int, request: object, *, group: int) -> object:
        assert self.failure is not None
        raise self.failure

    async def coordinator_lookup(self) -> None: ...

    async def _get_conn(self, node: int, *, group: int) -> object:
        self.connects_s.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        return "a connection" if self.is_up else None


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed"),
        KeyError((1, 0)),
    ],
)
def test_a_connection_that_closed_just_now_is_a_network_failure(failure):
    with pytest.raises(KafkaConnectionError, match=re.escape(str(failure))):
        asyncio.run(guarded(Client(failure)).send(1, object(), group=0))


def test_metadata_that_cannot_be_asked_for_just_now_are_not_updated_and_nobody_waits_for_ever():
    """The task that keeps the metadata would end with the error, and with it all further updates."""

    async def run() -> bool:
        client = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")

        async def fails(*_: object) -> bool:
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

        client._metadata_update = fails
        guarded(client)
        keeper = client._sync_task = asyncio.create_task(client._md_synchronizer())
        try:
            for _ in range(2):
                assert not await asyncio.wait_for(client.force_metadata_update(), 5)
            return keeper.done()
        finally:
            await client.close()

    assert asyncio.run(run()) is False


def test_what_kafka_itself_refuses_stays_what_it_is():
    with pytest.raises(RequestTimedOutError):
        asyncio.run(guarded(Client(RequestTimedOutError())).send(1, object(), group=0))


def test_a_cluster_that_tells_of_no_broker_is_a_network_failure():
    async def run():
        await guarded(AIOKafkaClient(bootstrap_servers="127.0.0.1:1")).coordinator_lookup(CoordinationType.GROUP, "g")

    with pytest.raises(NodeNotReadyError, match="no broker"):
        asyncio.run(run())


def test_who_cannot_connect_waits_longer_and_longer_whoever_asks_and_is_let_in_when_it_can(monkeypatch):
    """Four that ask without end make one attempt at a time, with pauses that double up to the longest."""
    monkeypatch.setattr("mirror.kafka.reconnecting.LONGEST_S", 4 * FIRST_S)

    async def run() -> list[float]:
        client = Client()
        guarded(client)
        loop = asyncio.get_running_loop()

        async def asks() -> None:
            while await client._get_conn(1, group=0) is None:
                await asyncio.sleep(0)

        everybody = [loop.create_task(asks()) for _ in range(4)]
        while len(client.connects_s) < 11:
            await asyncio.sleep(0.01)
        client.is_up = True
        await asyncio.gather(*everybody)
        return client.connects_s

    connects = asyncio.run(run())[3:]  # the first of each
    pauses = [round(after - before, 2) for before, after in pairwise(connects)][:6]
    assert all(after > 0.8 * before for before, after in pairwise(pauses)), "a busy machine adds some ms to any of them"
    assert pauses[0] >= FIRST_S
    assert pauses[-1] >= 4 * FIRST_S


def test_a_connection_that_its_peer_resets_leaves_no_error_that_asyncio_complains_of(monkeypatch):
    """asyncio's own guard, its protocol's end, was seen to fail after a cut: it is out of the way here."""
    monkeypatch.setattr(asyncio.StreamReaderProtocol, "__del__", lambda _: None)
    complaints: list[object] = []

    async def resets(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
        async with await asyncio.start_server(resets, "127.0.0.1", 0) as server:
            with pytest.raises(KafkaConnectionError):
                await create_conn(*server.sockets[0].getsockname())
            await asyncio.sleep(0)  # the peer's end of it

    asyncio.run(run())
    gc.collect()
    assert complaints == []
