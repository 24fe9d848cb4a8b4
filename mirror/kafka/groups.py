"""Read the consumer groups of one cluster: their offsets, and the owner of each partition.

Groups of the newer protocol (KIP-848, `group.protocol=consumer`) have a separate request: the older request reports them as
dead. A refusal never counts as a group without offsets (docs/adr/0014).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.serial import entity_reader
from kio.serial.errors import SerialError

from mirror.config.clients import client_options
from mirror.kafka.client import Client, CoordinatorType, Purpose
from mirror.kafka.errors import BrokerError, ErrorCode, check
from mirror.kafka.group_offsets import offset_fetch, offsets_in, patiently
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import ApiKey
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import level_once

WITHIN_S = 15.0
AT_ONCE = 16  # groups read concurrently

CONSUMERS = ("consumer", "")  # protocol types of consumer groups; "" for a group that never had members
OTHER_TYPES = ("streams", "share")  # protocol types of Kafka Streams (KIP-1071) and of share groups (KIP-932)
READERS = (*CONSUMERS, *OTHER_TYPES)
DEAD = "Dead"  # state of a deleted group, or of a listed KIP-848 group
UNKNOWN = "Unknown"  # state of a KIP-848 group whose members read topics that this client may not see
HIDDEN = "hidden"  # state of a listed group that this client may not read; no broker uses this name
UNSUPPORTED = "unsupported"  # state of a group of another type, whose offsets are not read
EARLIER_MARK = "mirrored"  # metadata of offsets that earlier versions of the mirror set


log = logging.getLogger("mirror")


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group: its state, committed offsets, and owners ("client id/host") by partition."""

    name: str
    state: str
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)
    metadata: Mapping[TopicPartition, str] = field(default_factory=dict)  # without empty metadata
    kind: str = ""  # protocol type of a group that is UNSUPPORTED

    def has_earlier_mark(self, place: TopicPartition) -> bool:
        """Return whether an earlier version set the offset, and no consumer has committed since."""
        return self.metadata.get(place) == EARLIER_MARK


def warn_of_left_out(groups: Iterable[Group], cluster: str, logged: set[str]) -> None:
    """Log once each group that cannot be read or followed.

    `logged` holds the groups that were logged earlier.
    """
    for group in groups:
        reasons = {
            HIDDEN: "this client may not DESCRIBE it",
            UNSUPPORTED: f"it is a {group.kind} group, and only consumer groups are followed",
        }
        if (why := reasons.get(group.state)) is not None:
            level = level_once(logged, f"{cluster} {group.name}")
            log.log(level, "cluster %s: group %s is left out: %s", cluster, group.name, why)


async def read_groups(
    client: Client, wanted: Callable[[str], bool] = lambda _: True, *, kinds: Collection[str] = READERS
) -> list[Group]:
    """Return every wanted group with its offsets, or as HIDDEN or UNSUPPORTED.

    `kinds` are protocol types.

    Raises:
        KafkaError, OSError: the cluster refuses, or does not respond.
    """
    found = {name: kind for name, kind in await patiently(lambda: listed(client)) if kind in kinds}
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> Group:
        if found[name] in OTHER_TYPES:
            return Group(name, UNSUPPORTED, kind=found[name])
        async with turns:
            return await patiently(lambda: _group(client, name))

    return list(await asyncio.gather(*(one(name) for name in sorted(filter(wanted, found)))))


async def read_groups_once(java_options: Mapping[str, str], wanted: Callable[[str], bool]) -> list[Group]:
    """Return what `read_groups` returns, with a client that is closed afterwards."""
    client = await Client.opened(client_options(java_options))
    try:
        return await read_groups(client, wanted)
    finally:
        await client.close()


async def listed(client: Client) -> list[tuple[str, str]]:
    """Return name and protocol type of every group that a broker coordinates."""
    answers = await asyncio.gather(*(client.ask(node, _list_groups()) for node in client.metadata.brokers))
    for answer in answers:
        check(answer.error_code, "its consumer groups")
    return [(group.group_id, group.protocol_type) for answer in answers for group in answer.groups or ()]


async def _group(client: Client, name: str) -> Group:
    try:
        found = offsets_in(await _coordinated(client, name, offset_fetch(name, None)), name)
        ((described,),) = ((await _coordinated(client, name, _describe(name))).groups,)
        check(described.error_code, name)
    except BrokerError as error:
        client.forget_coordinator(CoordinatorType.GROUP, name)
        if error.code is ErrorCode.group_authorization_failed:
            return Group(name, HIDDEN)
        raise
    offsets = {place: offset for place, (offset, _) in found.items()}
    metadata = {place: text for place, (_, text) in found.items() if text}
    group = Group(name, described.group_state, offsets, metadata=metadata)
    if described.group_state == DEAD:
        return await _of_newer_protocol(client, group)
    owners = {
        TopicPartition(topic, partition): _owner(member.client_id, member.client_host)
        for member in described.members
        for topic, partitions in (_assigned(member.member_assignment) if described.protocol_type in CONSUMERS else ())
        for partition in partitions
    }
    return replace(group, owners=owners)


async def _of_newer_protocol(client: Client, group: Group) -> Group:
    """Return a group with the state and owners of KIP-848's protocol.

    Its state is UNKNOWN if this client may not see all of the group.
    """
    node = await client.coordinator(CoordinatorType.GROUP, group.name)
    if not await client.speaks(node, ApiKey.CONSUMER_GROUP_DESCRIBE, 0, Purpose.COORDINATION):
        return group
    (described,) = (await client.ask(node, _describe_newer(group.name), Purpose.COORDINATION)).groups
    if described.error_code in _NOT_SHOWN:
        return replace(group, state=UNKNOWN)
    if described.error_code is ErrorCode.group_id_not_found:
        return group  # the group has the older protocol, and was deleted meanwhile
    check(described.error_code, group.name)
    owners = {
        TopicPartition(topic.topic_name, partition): _owner(member.client_id, member.client_host)
        for member in described.members
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    }
    return replace(group, state=described.group_state, owners=owners)


async def _coordinated(client: Client, group: str, request: Request) -> Any:
    node = await client.coordinator(CoordinatorType.GROUP, group)
    return await client.ask(node, request, Purpose.COORDINATION)


_VERSION_BYTES = 2  # before an assignment
_NOT_SHOWN = (ErrorCode.group_authorization_failed, ErrorCode.topic_authorization_failed)
_read_assignment = entity_reader(ConsumerProtocolAssignment)


def _list_groups() -> Request:
    return Request(ApiKey.LIST_GROUPS, 0, 4, lambda module, _: module.ListGroupsRequest())


def _describe(name: str) -> Request:
    def build(module: ModuleType, _: int) -> Any:
        return make(module.DescribeGroupsRequest, groups=(name,), include_authorized_operations=False)

    return Request(ApiKey.DESCRIBE_GROUPS, 0, 5, build)


def _describe_newer(name: str) -> Request:
    def build(module: ModuleType, _: int) -> Any:
        return module.ConsumerGroupDescribeRequest(group_ids=(name,), include_authorized_operations=False)

    return Request(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 0, build)


def _owner(client_id: str, host: str) -> str:
    return f"{client_id}/{host.lstrip('/')}"


def _assigned(assignment: bytes) -> list[tuple[str, tuple[int, ...]]]:
    """Return a member's topics and partitions; empty for another protocol or no assignment."""
    if len(assignment) <= _VERSION_BYTES:
        return []
    try:
        found, _ = _read_assignment(assignment, _VERSION_BYTES)
    except SerialError:
        return []
    return [(one.topic, one.partitions) for one in found.assigned_partitions or ()]


_IDLE = ("Empty", "Dead", "")  # states of a group without active consumers


def is_idle(group_state: str) -> bool:
    """Return whether a group on the target may be moved: it has no active consumer."""
    return group_state in _IDLE
