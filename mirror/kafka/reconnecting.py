"""Have aiokafka's clients raise no errors but Kafka's, and pause between attempts to connect."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from functools import partial
from typing import Any

import aiokafka.client
import aiokafka.conn
from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.conn import AIOKafkaProtocol
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import TopicPartition

# A broker with auto.create.topics.enable, Kafka's default, creates each topic that a metadata request names, unless the request
# forbids it. aiokafka's do not: a topic that its owner deletes would come back for as long as we follow it.
aiokafka.client.MetadataRequest = partial(MetadataRequest, allow_auto_topic_creation=False)


class _Protocol(AIOKafkaProtocol):  # type: ignore[misc]  # aiokafka has no types
    """Takes the error that ends a connection: asyncio complains of it in the log where nobody waits for the stream's close."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the requests under way, as ever; each of them fails with the error."""
        super().connection_lost(exc)
        if self._closed.done() and not self._closed.cancelled():
            self._closed.exception()


aiokafka.conn.AIOKafkaProtocol = _Protocol

# Java's reconnect.backoff.ms and its max: a broker that is down or refuses the login is not asked hundreds of times.
FIRST_S, LONGEST_S = 0.05, 1.0


# Nothing that is sent may arrive when others take the sender for dead: the kernel gives an unanswered connection up by then.
UNANSWERED_MS = 5_000
_NO_LINGER = struct.pack("ii", 1, 0)  # a close sends RST and drops what was not sent: also when the process is killed


def guarded(client: AIOKafkaClient, *, is_abortive: bool = False) -> AIOKafkaClient:
    """Have a client fail as Kafka's do, and wait before it connects again where it could not just now.

    An abortive one leaves nothing in the kernel that is sent after its connection was closed.
    """
    client.send = _sending(client.send)
    client.coordinator_lookup = _looking_up(client.coordinator_lookup)
    client._metadata_update = _updating(client._metadata_update)
    client._get_conn = _Connects(client, is_abortive=is_abortive).connected
    return client


def abort_connections(client: AIOKafkaClient, group: int | None = None, node: int | None = None) -> None:
    """End a client's connections now, or those of a connection group or to a broker, without sending what they still hold."""
    for (to_node, of_group), connection in tuple(client._conns.items()):
        if group in (None, of_group) and node in (None, to_node) and connection._writer is not None:
            connection._writer.transport.abort()
            connection.close()


def leader_of(cluster: Any, where: TopicPartition) -> int | None:
    """Return the broker that leads a topic-partition, None while the metadata name none."""
    node = cluster.leader_for_partition(where)
    return None if node in (None, -1) else int(node)


def _let_go_at_once(connection: Any) -> None:
    transport = connection._writer and connection._writer.get_extra_info("socket")
    if transport is None:
        return
    with contextlib.suppress(OSError):  # it was closed just now
        transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            transport.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)


def _sending(send: Any) -> Any:
    async def sent(*arguments: Any, **named: Any) -> Any:
        """Of a connection that closed just now uvloop says RuntimeError, and aiokafka KeyError where two requests timed out."""
        try:
            return await send(*arguments, **named)
        except kafka_errors.KafkaError:
            raise  # it is a RuntimeError too
        except (RuntimeError, KeyError) as error:
            raise kafka_errors.KafkaConnectionError(repr(error)) from error

    return sent


def _looking_up(coordinator_lookup: Any) -> Any:
    async def looked_up(*arguments: Any) -> Any:
        """Raise NodeNotReadyError while a cluster that comes back names no broker: aiokafka asserts that there is one."""
        try:
            return await coordinator_lookup(*arguments)
        except AssertionError as error:
            raise kafka_errors.NodeNotReadyError("the cluster tells of no broker") from error

    return looked_up


def _updating(metadata_update: Any) -> Any:
    async def updated(*arguments: Any) -> bool:
        """Tell of no update where the connection closed just now: an error would end aiokafka's task, and all later updates."""
        try:
            return bool(await metadata_update(*arguments))
        except kafka_errors.KafkaError:
            raise
        except RuntimeError:
            return False

    return updated


class _Connects:
    """Connections of one client, by node; of several that wait for one node's turn to be tried again, one tries."""

    def __init__(self, client: AIOKafkaClient, *, is_abortive: bool = False) -> None:
        self._client = client
        self._connect = client._get_conn
        self._is_abortive = is_abortive
        self._failed: dict[Any, tuple[float, float]] = {}  # when it may be tried again, and the pause before that

    async def connected(self, node: Any, *, group: Any = ConnectionGroup.DEFAULT, **named: Any) -> Any:
        """Return an open connection, None where there is none to be had."""
        open_one = self._client._conns.get((node, group))
        failed = self._failed.get(node)
        if failed is not None and (open_one is None or not open_one.connected()):
            await asyncio.sleep(max(0.0, failed[0] - asyncio.get_running_loop().time()))
            if self._failed.get(node, failed) is not failed:
                return None  # somebody else tries, or has tried, meanwhile
            self._put_off(node, failed)
        found = await self._connect(node, group=group, **named)
        if self._is_abortive and found is not None and found is not open_one:
            _let_go_at_once(found)
        if found is None:
            self._put_off(node, failed)
        else:
            self._failed.pop(node, None)
        return found

    def _put_off(self, node: Any, failed: tuple[float, float] | None) -> None:
        pause_s = min(2 * failed[1], LONGEST_S) if failed is not None else FIRST_S
        self._failed[node] = (asyncio.get_running_loop().time() + pause_s, pause_s)
