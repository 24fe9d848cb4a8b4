"""Read a cluster's clock: that of its active controller, which a KRaft cluster tells to whoever may describe it.

The answer to DescribeQuorum says of each voter when it was last level with the leader, by the leader's clock (KIP-836). Of the
leader itself that is the moment of the answer. Nothing is written for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from mirror.config.client_values import ClientError
from mirror.config.clients import aiokafka_options
from mirror.kafka.protocol import KafkaError
from mirror.kafka.reconnecting import abort_connections, guarded

WITHIN_S = 5.0
ASKED = 3  # times; the quickest answer says most
TICK_S = 0.001  # what the answer tells is cut to milliseconds
METADATA = "__cluster_metadata"

_REPLICAS = CompactArray(
    ("replica_id", Int32),
    ("log_end_offset", Int64),
    ("last_fetch_timestamp", Int64),
    ("last_caught_up_timestamp", Int64),
    ("tags", TaggedFields),
)


class ClockUnknown(Exception):
    """The cluster does not tell its clock; the message says why."""


class _DescribeQuorumResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 55
    API_VERSION = 1
    SCHEMA = Schema(
        ("error_code", Int16),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("leader_id", Int32),
                        ("leader_epoch", Int32),
                        ("high_watermark", Int64),
                        ("current_voters", _REPLICAS),
                        ("observers", _REPLICAS),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeQuorumV1(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 55
    API_VERSION = 1
    RESPONSE_TYPE = _DescribeQuorumResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                ("partitions", CompactArray(("partition", Int32), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeQuorum(Request[_DescribeQuorumV1]):  # type: ignore[misc]
    API_KEY = 55

    def build(self, request_struct_class: type[_DescribeQuorumV1]) -> _DescribeQuorumV1:
        return request_struct_class([(METADATA, [(0, {})], {})], {})


def clock_skew(client: Mapping[str, str]) -> float:
    """Return by how many seconds at least a cluster's clock is ahead of this machine's.

    Below 0 it is behind; 0 says that no difference was seen.

    Args:
        client: Java properties of a client that may DESCRIBE the cluster.

    Raises:
        ClockUnknown: The cluster has no KRaft controller, does not show it to this client, or does not answer.
    """
    try:
        return asyncio.run(_asked_in_time(aiokafka_options(client)))
    except TimeoutError as error:
        raise ClockUnknown(f"no answer within {WITHIN_S:.0f} s") from error
    except (kafka_errors.IncompatibleBrokerVersion, NotImplementedError) as error:
        raise ClockUnknown("its brokers do not tell it (Kafka 3.3 or newer with KRaft does)") from error
    except (ClientError, KafkaError, OSError) as error:
        raise ClockUnknown(str(error) or type(error).__name__) from error


async def _asked_in_time(options: Mapping[str, Any]) -> float:
    client = guarded(AIOKafkaClient(**options))
    try:
        async with asyncio.timeout(WITHIN_S):
            await client.bootstrap()
            node = client.get_random_node()
            await client.ready(node)
            answers = [await _asked(client, node) for _ in range(ASKED)]
    finally:
        abort_connections(client)
        await client.close()
    return skew_between(*min(answers, key=lambda answer: answer[2] - answer[0]))


async def _asked(client: AIOKafkaClient, node: int) -> tuple[float, float, float]:
    """Return when it was asked, what the leader's clock said, and when the answer came; epoch seconds."""
    began_s = time.time()
    answer = await client.send(node, _DescribeQuorum())
    ended_s = time.time()
    return began_s, leaders_clock_ms(answer) / 1000, ended_s


def leaders_clock_ms(answer: Any) -> int:
    """Return what the quorum's leader says of itself.

    Raises:
        ClockUnknown: It is refused, or says nothing.
    """
    for code in (answer.error_code, *(part[1] for _, parts, _ in answer.topics for part in parts)):
        if code:
            raise ClockUnknown(f"it refuses to describe its quorum: {kafka_errors.for_code(code).__name__}")
    for _, parts, _ in answer.topics:
        for _, _, leader, _, _, voters, *_ in parts:
            for replica, _, _, caught_up_ms, *_ in voters:
                if replica == leader and caught_up_ms > 0:
                    return int(caught_up_ms)
    raise ClockUnknown("its quorum has no leader now")


def skew_between(asked_s: float, told_s: float, answered_s: float) -> float:
    """Return how far a clock that said `told_s` between two moments was outside of them; 0 where it was not."""
    if told_s > answered_s:
        return told_s - answered_s
    return min(0.0, told_s + TICK_S - asked_s)
