"""Read a cluster's clock: that of its active controller, which a KRaft cluster shows to those who may describe it.

The answer to DescribeQuorum says of each voter when it was last level with the leader, by the leader's clock (KIP-836). Of the
leader itself that is the moment of the answer. Nothing is written for it.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

from mirror.kafka.client import Client
from mirror.kafka.errors import ErrorCode, UnsupportedError, name_of
from mirror.kafka.messages import Request
from mirror.kafka.protocol import ApiKey

WITHIN_S = 5.0
ASKED = 3  # times; the quickest answer says most
TICK_S = 0.001  # what the answer tells is cut to milliseconds
METADATA = "__cluster_metadata"


class ClockUnknown(Exception):
    """The cluster does not tell its clock; the message says why."""


async def clock_skew(client: Client) -> float:
    """Return by how many seconds at least a cluster's clock is ahead of this machine's; the client may DESCRIBE the cluster.

    Below 0 it is behind; 0 says that no difference was seen.

    Raises:
        ClockUnknown: The cluster has no KRaft controller, or does not show it to this client.
        KafkaError: It does not respond.
    """
    try:
        answers = [await _asked(client) for _ in range(ASKED)]
    except UnsupportedError as error:
        raise ClockUnknown("its brokers do not tell it (Kafka 3.3 or newer with KRaft does)") from error
    return skew_between(*min(answers, key=lambda answer: answer[2] - answer[0]))


async def _asked(client: Client) -> tuple[float, float, float]:
    """Return when it was asked, what the leader's clock said, and when the answer came; epoch seconds."""
    began_s = time.time()
    answer = await client.ask_any(_describe_quorum())
    ended_s = time.time()
    return began_s, leaders_clock_ms(answer) / 1000, ended_s


def _describe_quorum() -> Request:
    def build(module: ModuleType, _: int) -> Any:
        partition = module.PartitionData(partition_index=0)
        return module.DescribeQuorumRequest(topics=(module.TopicData(topic_name=METADATA, partitions=(partition,)),))

    return Request(ApiKey.DESCRIBE_QUORUM, 1, 2, build)  # version 0 has no times


def leaders_clock_ms(answer: Any) -> int:
    """Return what the quorum's leader says of itself.

    Raises:
        ClockUnknown: It is refused, or says nothing.
    """
    partitions = [partition for topic in answer.topics for partition in topic.partitions]
    for code in (answer.error_code, *(partition.error_code for partition in partitions)):
        if code is not ErrorCode.none:
            raise ClockUnknown(f"it refuses to describe its quorum: {name_of(code)}")
    for partition in partitions:
        for voter in partition.current_voters:
            if voter.replica_id == partition.leader_id and voter.last_caught_up_timestamp > 0:
                return int(voter.last_caught_up_timestamp)
    raise ClockUnknown("its quorum has no leader now")


def skew_between(asked_s: float, told_s: float, answered_s: float) -> float:
    """Return how far a clock that said `told_s` between two moments was outside of them; 0 where it was not."""
    if told_s > answered_s:
        return told_s - answered_s
    return min(0.0, told_s + TICK_S - asked_s)
