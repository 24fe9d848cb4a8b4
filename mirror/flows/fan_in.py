"""Find target partitions that another flow also writes to, from all flows' positions.

The log of such a partition has records of several sources. A source offset then has no exact target offset: unread records of
another source may precede it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from mirror.config.clients import ClientOptions
from mirror.kafka.client import Client
from mirror.kafka.errors import BrokerError, ErrorCode
from mirror.kafka.group_offsets import GroupOffsets, Offsets, patiently
from mirror.kafka.groups import listed
from mirror.model.flow_plan import LEASE_TOPIC, PlannedPartition, is_own_group, own_group
from mirror.model.position_metadata import PositionMetadata
from mirror.model.slot_ownership import layout_key
from mirror.model.topic_partition import TopicPartition
from mirror.policy.recreated import TopicIds


async def read_shared(
    options: ClientOptions, group: str, partitions: Iterable[PlannedPartition]
) -> dict[TopicPartition, str]:
    """Return the other flow's group for each remote partition that two flows write to.

    `group` is this flow's own group.

    Raises:
        KafkaError: the target does not respond, or refuses.
    """
    ours = list(partitions)
    places = [assigned.on_target for assigned in ours]
    client = await Client.opened(options)
    try:
        names = [name for name, _ in await patiently(lambda: listed(client)) if is_own_group(name) and name != group]
        offsets, found = GroupOffsets(client), dict[str, Offsets]()
        for name in names:
            try:
                found[name] = await patiently(partial(offsets.committed, name, [*places, _layout_of(name)]))
            except BrokerError as error:
                if error.code is not ErrorCode.group_authorization_failed:
                    raise  # if this client may not DESCRIBE the positions of a flow, that flow is not seen
    finally:
        await client.close()
    return shared(ours, found)


def shared(ours: Iterable[PlannedPartition], others: Mapping[str, Offsets]) -> dict[TopicPartition, str]:
    """Return the shared partitions, from the offsets of other groups. Pure.

    A flow that reads the same source topic under another alias does not count: its records are the same.
    """
    found: dict[TopicPartition, str] = {}
    flows = {name: offsets for name, offsets in others.items() if _layout_of(name) in offsets}
    for assigned in ours:
        place = assigned.on_target
        for name, offsets in flows.items():
            if place in offsets:
                source = TopicIds.parse(PositionMetadata.parse(offsets[place][1]).ids).source
                if not source or source != assigned.topic_id:
                    found[place] = name
    return found


def _layout_of(group: str) -> TopicPartition:
    """Return a key that each flow's group on the target has.

    Groups that only show positions on a source do not have it.
    """
    source = group.removeprefix(own_group("")).partition("->")[0]
    return TopicPartition(LEASE_TOPIC.format(source=source), layout_key())
