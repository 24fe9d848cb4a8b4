"""aiokafka's client for work that goes on for ever: no error but Kafka's comes out of it, and it pauses between connects."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient, ConnectionGroup

# Java's reconnect.backoff.ms and its max: a broker that is down or refuses the login is not asked hundreds of times.
FIRST_S, LONGEST_S = 0.05, 1.0


def guarded(client: AIOKafkaClient) -> AIOKafkaClient:
    """Have a client fail as Kafka's do, and wait before it connects again where it could not just now."""
    client.send = _sending(client.send)
    client.coordinator_lookup = _looking_up(client.coordinator_lookup)
    client._get_conn = _Connects(client).connected
    return client


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
        """A cluster that is coming back has told of no broker yet: aiokafka asserts that there is one."""
        try:
            return await coordinator_lookup(*arguments)
        except AssertionError as error:
            raise kafka_errors.NodeNotReadyError("the cluster tells of no broker") from error

    return looked_up


class _Connects:
    """Connections of one client, by node; of several that wait for one node's turn to be tried again, one tries."""

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client
        self._connect = client._get_conn
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
        if found is None:
            self._put_off(node, failed)
        else:
            self._failed.pop(node, None)
        return found

    def _put_off(self, node: Any, failed: tuple[float, float] | None) -> None:
        pause_s = min(2 * failed[1], LONGEST_S) if failed is not None else FIRST_S
        self._failed[node] = (asyncio.get_running_loop().time() + pause_s, pause_s)
