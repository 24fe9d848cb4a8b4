"""Keep a client's metadata of a cluster: its brokers, followed topics, and their leaders."""

from __future__ import annotations

import uuid
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

from mirror.kafka.errors import ErrorCode, check
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import NO_NODE, ApiKey

_NO_SUCH_TOPIC = (ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception)


class Broker(NamedTuple):
    """The address of a broker."""

    host: str
    port: int
    rack: str | None = None


class PartitionState(NamedTuple):
    """A partition as brokers report it.

    Attributes:
        leader: Node id; None if there is no leader now.
        epoch: Epoch of the leader, -1 if the broker does not report it.
        in_sync: Number of in-sync replicas, including the leader.
    """

    leader: int | None
    epoch: int
    in_sync: int


@dataclass(slots=True)
class TopicState:
    """A topic. `topic_id` is None on brokers before 2.8."""

    topic_id: uuid.UUID | None
    partitions: dict[int, PartitionState] = field(default_factory=dict)


def id_text(topic_id: uuid.UUID | None) -> str:
    """Return a topic's id in librdkafka's notation, which positions use; "" if there is none."""
    return "" if topic_id is None else b64encode(topic_id.bytes).rstrip(b"=").decode()


@lru_cache(maxsize=1 << 14)
def id_of(text: str) -> uuid.UUID | None:
    """Parse `id_text`; return None if the text is not an id."""
    try:
        return uuid.UUID(bytes=b64decode(text + "=="))
    except ValueError:
        return None


class Metadata:
    """The last metadata of a cluster. A response with an older leader epoch than known changes nothing."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, TopicState] = {}
        self.errors: dict[str, ErrorCode] = {}  # of requested topics that the cluster does not show

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the node id of the leader, None if it is unknown or missing."""
        state = self._state(topic, partition)
        return state.leader if state is not None else None

    def epoch(self, topic: str, partition: int) -> int:
        """Return the leader's epoch, -1 while it is not known."""
        state = self._state(topic, partition)
        return state.epoch if state is not None else -1

    def in_sync(self, topic: str, partition: int) -> int:
        """Return how many replicas are in sync with the leader."""
        state = self._state(topic, partition)
        return state.in_sync if state is not None else 0

    def partitions(self, topic: str) -> Collection[int]:
        """Return the partitions of a topic, none if it is unknown."""
        found = self.topics.get(topic)
        return found.partitions.keys() if found is not None else ()

    def has(self, topic: str, partition: int) -> bool:
        """Return whether a partition is known."""
        return partition in self.partitions(topic)

    def shows(self, topic: str, partition: int) -> bool:
        """Return whether a partition exists.

        Raises:
            BrokerError: the cluster does not show the topic to this client.
        """
        refusal = self.errors.get(topic, ErrorCode.none)
        if refusal not in _NO_SUCH_TOPIC:
            check(refusal, topic)
        return self.has(topic, partition)

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """Return a topic's id, None if it is unknown."""
        found = self.topics.get(topic)
        return found.topic_id if found is not None else None

    def _state(self, topic: str, partition: int) -> PartitionState | None:
        found = self.topics.get(topic)
        return found.partitions.get(partition) if found is not None else None

    def update(self, answer: Any) -> None:
        """Record the response to `request_for`."""
        if answer.brokers:  # a broker that is starting lists none
            self.brokers = {one.node_id: Broker(one.host, one.port, one.rack) for one in answer.brokers}
        topics: dict[str, TopicState] = {}
        errors: dict[str, ErrorCode] = {}
        for one in answer.topics or ():
            if one.name is None:
                continue
            if one.error_code in (ErrorCode.none, ErrorCode.leader_not_available):
                topics[one.name] = self._updated(one)
            else:
                errors[one.name] = one.error_code
        self.topics, self.errors = topics, errors

    def _updated(self, topic: Any) -> TopicState:
        known = self.topics.get(topic.name)
        topic_id = getattr(topic, "topic_id", None)
        is_same = known is not None and known.topic_id == topic_id
        state = TopicState(topic_id)
        for part in topic.partitions:
            leader = part.leader_id if part.leader_id != NO_NODE else None
            found = PartitionState(leader, getattr(part, "leader_epoch", -1), len(part.isr_nodes))
            before = known.partitions.get(part.partition_index) if known is not None and is_same else None
            is_older = before is not None and found.epoch < before.epoch
            state.partitions[part.partition_index] = before if before is not None and is_older else found
        return state

    def update_leader(self, topic: str, partition: int, refusal: Any, endpoints: Iterable[Any]) -> None:
        """Record the new leader that a refused fetch or produce request names, if any (KIP-951).

        Args:
            topic: The topic.
            partition: The partition.
            refusal: The response for this partition, with `current_leader` in newer versions.
            endpoints: The addresses of the brokers in the response.
        """
        named = getattr(refusal, "current_leader", None)
        before = self._state(topic, partition)
        if named is None or before is None or named.leader_id == NO_NODE or named.leader_epoch <= before.epoch:
            return
        self.brokers |= {one.node_id: Broker(one.host, one.port, one.rack) for one in endpoints}
        if named.leader_id in self.brokers:
            self.topics[topic].partitions[partition] = before._replace(leader=named.leader_id, epoch=named.leader_epoch)


def request_for(topics: Iterable[str] | None) -> Request:
    """Return the request for brokers and topics; `topics` None means all topics.

    The request forbids automatic topic creation: otherwise a deleted topic would be created again as long as the client follows
    it.
    """
    names = None if topics is None else tuple(topics)

    def build(module: ModuleType, version: int) -> Any:
        wanted = None
        if names is not None:
            wanted = tuple(make(module.MetadataRequestTopic, name=name, topic_id=None) for name in names)
        return make(
            module.MetadataRequest,
            topics=wanted,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )

    return Request(ApiKey.METADATA, 4, 12, build)
