"""The consumer groups of one cluster, read only: their offsets, and who owns which topic-partition.

By aiokafka's admin client: librdkafka's crashes the process on group offsets while a coordinator is not ready
(docs/adr/0004). But not by its `list_consumer_group_offsets`, which takes a refusal for no offsets (docs/adr/0014). Groups whose
members speak the newer protocol (KIP-848, `group.protocol=consumer`) are described by librdkafka: in the request that
aiokafka has for it they all are dead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import GroupAuthorizationFailedError, KafkaConnectionError, KafkaError
from aiokafka.protocol.commit import OffsetFetchRequest

from mirror.config.clients import aiokafka_options
from mirror.errors import ClusterUnavailable
from mirror.kafka.group_offsets import check, offsets_in, patiently
from mirror.runtime.logs import once

if TYPE_CHECKING:
    from confluent_kafka.admin import ConsumerGroupDescription

WITHIN_S = 15.0
MEMBERS_WITHIN_S = 5.0
AT_ONCE = 16  # groups asked for at the same time

CONSUMERS = ("consumer", "")  # protocol types of consumer groups, "" of those that never had members
DEAD = "Dead"  # state of a group that is gone; or of one that is listed and has KIP-848's protocol
UNKNOWN = "Unknown"  # state of such a group whose members read topics that may not be seen
HIDDEN = "hidden"  # state of a group that is listed and may not be read: no broker calls one so
MIRRORED = "mirrored"  # metadata of offsets that a mirror commits for a group; its readers' commits replace it

Place = tuple[str, int]  # topic, partition

log = logging.getLogger("mirror")


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group: state as the broker calls it, committed offsets, owners ("client id/host") by place."""

    name: str
    state: str
    offsets: Mapping[Place, int] = field(default_factory=dict)
    owners: Mapping[Place, str] = field(default_factory=dict)
    mirrored: Collection[Place] = ()  # offsets that a mirror put there and no reader has moved since


def warn_of_hidden(groups: Iterable[Group], cluster: str, logged: set[str]) -> None:
    """Warn once of each group that this client may not read; `logged` holds the groups of earlier warnings."""
    for group in groups:
        if group.state == HIDDEN:
            log.log(
                once(logged, f"{cluster} {group.name}"),
                "cluster %s: group %s is left out: this client may not DESCRIBE it",
                cluster,
                group.name,
            )


class Groups:
    """Reads one cluster's groups; keeps nothing between calls."""

    def __init__(self, alias: str, java_options: Mapping[str, str], *, within_s: float = WITHIN_S) -> None:
        """`within_s` bounds each call."""
        self.alias = alias
        self._java_options = java_options
        self._within_s = within_s

    def read(
        self, wanted: Callable[[str], bool] = lambda _: True, *, kinds: Collection[str] = CONSUMERS
    ) -> list[Group]:
        """Return every group that is wanted, with its offsets, or as HIDDEN; `kinds` are protocol types.

        Raises:
            ClusterUnavailable: the cluster did not answer, or refuses.
        """
        try:
            return asyncio.run(asyncio.wait_for(self.fetched(wanted, kinds=kinds), self._within_s))
        except (KafkaError, OSError, TimeoutError) as error:
            is_silent = isinstance(error, KafkaConnectionError | OSError | TimeoutError)
            raise ClusterUnavailable(
                f"cluster {self.alias}: its consumer groups cannot be read ({'no connection' if is_silent else error}). "
                "Is it up, and may this client describe groups?",
                cluster=self.alias,
            ) from error

    def one(self, name: str, *, kinds: Collection[str] = CONSUMERS) -> Group | None:
        """Return a group, None where there is none.

        Raises:
            ClusterUnavailable: the cluster did not answer, or refuses.
        """
        (group,) = self.read(lambda listed: listed == name, kinds=kinds) or (None,)
        if group is not None and group.state == HIDDEN:
            raise ClusterUnavailable(
                f"cluster {self.alias}: group {name} cannot be read: this client may not DESCRIBE it.",
                cluster=self.alias,
            )
        return group

    async def fetched(
        self, wanted: Callable[[str], bool] = lambda _: True, *, kinds: Collection[str] = CONSUMERS
    ) -> list[Group]:
        """Return the groups that are wanted, with their offsets, or as HIDDEN; raises what the client raises."""
        client = AIOKafkaAdminClient(**aiokafka_options(self._java_options))
        try:
            await client.start()
            found = {name for name, kind in await patiently(client.list_consumer_groups) if kind in kinds}
            turns = asyncio.Semaphore(AT_ONCE)

            async def one(name: str) -> Group:
                async with turns:
                    return await patiently(lambda: _group(client, name))

            groups = await asyncio.gather(*(one(name) for name in sorted(filter(wanted, found))))
        finally:
            await client.close()
        newer = [group.name for group in groups if group.state == DEAD]
        described = await asyncio.to_thread(self._described, newer) if newer else {}
        return [_as_described(group, described.get(group.name)) if group.state == DEAD else group for group in groups]

    def _described(self, names: Collection[str]) -> dict[str, ConsumerGroupDescription]:
        """Return what librdkafka tells of groups of the newer protocol, without those that this client may not see whole."""
        from mirror.kafka.admin import Admin  # brings librdkafka, which a worker has no other use for

        try:
            with closing(Admin(self.alias, self._java_options)) as admin:
                return admin.groups(names, within_s=MEMBERS_WITHIN_S)
        except ClusterUnavailable as error:
            raise KafkaConnectionError(str(error)) from error


async def _group(client: AIOKafkaAdminClient, name: str) -> Group:
    try:
        coordinator = await client.find_coordinator(name)
        found = offsets_in(await client._send_request(OffsetFetchRequest(name, None), coordinator), name)
        (response,) = await client.describe_consumer_groups([name], coordinator)
        ((code, _, state, kind, _, members, *_),) = response.groups
        check(code, name)
    except GroupAuthorizationFailedError:
        return Group(name, HIDDEN)
    offsets = {place: offset for place, (offset, _) in found.items()}
    owners = {
        (topic, partition): _owner(member[1], member[2])
        for member in members
        for topic, partitions in (_assigned(member[-1]) if kind in CONSUMERS else ())
        for partition in partitions
    }
    mirrored = {place for place, (_, metadata) in found.items() if metadata == MIRRORED}
    return Group(name, state, offsets, owners, mirrored)


def _as_described(group: Group, found: ConsumerGroupDescription | None) -> Group:
    """Return a group with the state and the owners that librdkafka tells."""
    if found is None:
        return replace(group, state=UNKNOWN)
    owners = {
        (place.topic, place.partition): _owner(member.client_id, member.host)
        for member in found.members
        for place in (member.assignment.topic_partitions if member.assignment else ())
    }
    return replace(group, state=found.state.name.capitalize(), owners=owners)


def _owner(client_id: str, host: str) -> str:
    return f"{client_id}/{host.lstrip('/')}"


def _assigned(assignment: bytes) -> list[tuple[str, list[int]]]:
    """Return the topics and partitions of a member; of one that has another protocol, or none yet, nothing."""
    if not assignment:
        return []
    decoded: list[tuple[str, list[int]]] = ConsumerProtocolMemberAssignment.decode(assignment).assignment
    return decoded


_IDLE = ("Empty", "Dead", "")  # states of a group that nobody reads with


def is_idle(group_state: str) -> bool:
    """Tell whether a group on the target may be moved: nobody reads with it."""
    return group_state in _IDLE
