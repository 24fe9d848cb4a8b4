"""Read optional facts of a cluster: its clock, its disks, whether it checks ACLs.

The clock is that of the active controller, which a KRaft cluster shows to clients that may DESCRIBE the cluster. For each voter,
the response to DescribeQuorum has the time when it was last caught up with the leader, by the leader's clock (KIP-836). For the
leader itself, this is the time of the response. The request writes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from mirror.kafka.by_topic import partitions_by_topic
from mirror.kafka.client import Client
from mirror.kafka.errors import ErrorCode, UnsupportedError, check, name_of
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import ApiKey
from mirror.model.topic_partition import TopicPartition

WITHIN_S = 5.0
ASKED = 3  # number of requests; the quickest response is the most exact one
TICK_S = 0.001  # the response is truncated to milliseconds
METADATA = "__cluster_metadata"


class ClockUnknown(Exception):
    """The cluster does not report its clock; the message has the reason."""


async def clock_skew(client: Client) -> float:
    """Return by how many seconds at least a cluster's clock is ahead of this machine's.

    The client needs DESCRIBE on the cluster. The result is negative if the cluster's clock is behind, and 0 if no difference
    shows.

    Raises:
        ClockUnknown: the cluster has no KRaft controller, or does not show its clock to this client.
        KafkaError: the cluster does not respond.
    """
    try:
        answers = [await _asked(client) for _ in range(ASKED)]
    except UnsupportedError as error:
        raise ClockUnknown("its brokers do not report it (Kafka 3.3 or newer with KRaft does)") from error
    return skew_between(*min(answers, key=lambda answer: answer[2] - answer[0]))


async def _asked(client: Client) -> tuple[float, float, float]:
    """Return request time, leader's clock and response time in epoch seconds."""
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
    """Return the clock that the leader of the quorum reports about itself.

    Raises:
        ClockUnknown: the leader refuses, or reports no clock.
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
    """Return by how much `told_s` is outside the interval between request and response."""
    if told_s > answered_s:
        return told_s - answered_s
    return min(0.0, told_s + TICK_S - asked_s)


class LogDirsUnknown(Exception):
    """The cluster does not report its disks; the message has the reason."""


class LogDirs(NamedTuple):
    """The disk usage that the brokers report.

    Attributes:
        sizes: Bytes of each partition's log; the largest replica counts.
        free: Free bytes on all brokers together; None if one of them does not report it (before Kafka 3.3).
    """

    sizes: Mapping[TopicPartition, int]
    free: int | None


async def log_dirs(client: Client, places: Iterable[TopicPartition]) -> LogDirs:
    """Request the disk usage from all brokers of a cluster.

    Args:
        client: A client that may DESCRIBE the cluster.
        places: Partitions to measure; partitions that do not exist have no size.

    Raises:
        KafkaError: a broker refuses, or does not respond.
    """
    request = _describe_log_dirs(list(places))
    return joined(await asyncio.gather(*(client.ask(node, request) for node in client.metadata.brokers)))


def joined(answers: Iterable[Any]) -> LogDirs:
    """Join the brokers' responses; raises KafkaError if one refuses."""
    sizes: dict[TopicPartition, int] = {}
    free: list[int] = []
    for answer in answers:
        check(getattr(answer, "error_code", ErrorCode.none), "its log dirs")
        volumes = set()
        for found in answer.results:
            check(found.error_code, "its log dirs")
            volumes.add((getattr(found, "total_bytes", -1), getattr(found, "usable_bytes", -1)))
            for topic in found.topics:
                for part in topic.partitions:
                    key = TopicPartition(topic.name, part.partition_index)
                    sizes[key] = max(sizes.get(key, 0), part.partition_size)
        free += [usable for _, usable in volumes]  # two log directories with the same numbers are on one volume
    return LogDirs(sizes, None if min(free, default=-1) < 0 else sum(free))


def _describe_log_dirs(places: Iterable[TopicPartition]) -> Request:
    def build(module: ModuleType, _: int) -> Any:
        topics = tuple(
            make(module.DescribableLogDirTopic, topic=topic, partitions=tuple(partitions))
            for topic, partitions in partitions_by_topic(places).items()
        )
        return make(module.DescribeLogDirsRequest, topics=topics)

    return Request(ApiKey.DESCRIBE_LOG_DIRS, 1, 4, build)


_ANY, _TOPIC = 1, 2  # codes of Kafka's AclOperation, AclPermissionType, PatternType; and of ResourceType


class AuthorizerUnknown(Exception):
    """The cluster does not report whether it has an authorizer; the message has the reason."""


async def has_authorizer(client: Client) -> bool:
    """Return whether a cluster has an authorizer; raises KafkaError if that stays unknown."""
    answer = await client.ask_any(_describe_acls())
    if answer.error_code is ErrorCode.security_disabled:
        return False
    check(answer.error_code, "its ACLs")
    return True


def _describe_acls() -> Request:
    def build(module: ModuleType, _: int) -> Any:
        return make(
            module.DescribeAclsRequest,
            resource_type_filter=_TOPIC,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )

    return Request(ApiKey.DESCRIBE_ACLS, 1, 3, build)
