"""The one door to a cluster's control plane: topics, configs, offsets. Wraps confluent-kafka's admin client."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewPartitions, NewTopic, OffsetSpec

from mirror.config.clients import confluent_options
from mirror.errors import ClusterUnavailable

TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as its cluster describes it."""

    name: str
    topic_id: str
    partitions: int


class Admin:
    """One cluster's control plane. Every call raises ClusterUnavailable, by the cluster's alias, when it fails."""

    def __init__(self, alias: str, java_options: Mapping[str, str]) -> None:
        self.alias = alias
        self._servers = java_options.get("bootstrap.servers", "")
        # librdkafka prints its connection trouble to stderr unless it has a logger; ours says it once, with the alias.
        quiet = logging.getLogger("mirror.librdkafka")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._client = AdminClient({**confluent_options(java_options)}, logger=quiet)

    def cluster_id(self) -> str:
        """Return the cluster's own id."""
        return str(self._result(self._client.describe_cluster(request_timeout=TIMEOUT_S)).cluster_id)

    def topics(self) -> dict[str, Topic]:
        """Return every topic by name."""
        try:
            listed = self._client.list_topics(timeout=TIMEOUT_S).topics
        except KafkaException as error:
            raise self._unavailable(error) from error
        if not listed:
            return {}
        described = self._client.describe_topics(TopicCollection(list(listed)), request_timeout=TIMEOUT_S)
        topics = {}
        for name, future in described.items():
            try:
                found = future.result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue  # deleted between the two calls
                raise self._unavailable(error) from error
            topics[name] = Topic(name=name, topic_id=str(found.topic_id), partitions=len(found.partitions))
        return topics

    def configs(self, topic: str) -> dict[str, str]:
        """Return the topic's own settings: those set on it, neither default nor read-only nor sensitive."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = self._result(self._client.describe_configs([resource], request_timeout=TIMEOUT_S)[resource])
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            name: entry.value
            for name, entry in entries.items()
            if entry.source == own and not entry.is_read_only and not entry.is_sensitive and entry.value is not None
        }

    def create(self, topic: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> str:
        """Create a topic; return what the broker objected, "" when the topic is there now."""
        new = NewTopic(topic, partitions, replication_factor, config=dict(configs))
        return self._objection(self._client.create_topics([new], request_timeout=TIMEOUT_S)[topic])

    def grow(self, topic: str, *, partitions: int) -> str:
        """Raise a topic's partition count; return what the broker objected, "" when it is done."""
        return self._objection(
            self._client.create_partitions([NewPartitions(topic, partitions)], request_timeout=TIMEOUT_S)[topic]
        )

    def end_offsets(self, wanted: Iterable[tuple[str, int]], *, read_committed: bool) -> dict[tuple[str, int], int]:
        """Return the log-end offset (last stable one under read_committed) of each topic-partition that answers."""
        request = {
            TopicPartition(topic, partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for topic, partition in wanted
        }
        if not request:
            return {}
        level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        answers = self._client.list_offsets(request, isolation_level=level, request_timeout=TIMEOUT_S)
        ends, failure = {}, None
        for partition, future in answers.items():
            try:
                ends[partition.topic, partition.partition] = int(future.result().offset)
            except KafkaException as error:
                failure = error
        if failure is not None and not ends:
            raise self._unavailable(failure) from failure
        return ends

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return a consumer group's committed offsets."""
        request = [ConsumerGroupTopicPartitions(group)]
        found = self._result(self._client.list_consumer_group_offsets(request, request_timeout=TIMEOUT_S)[group])
        return {(p.topic, p.partition): p.offset for p in found.topic_partitions if p.offset >= 0}

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit one offset of a group without members."""
        offsets = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        self._result(self._client.alter_consumer_group_offsets([offsets], request_timeout=TIMEOUT_S)[group])

    def _objection(self, future: Future[Any]) -> str:
        try:
            future.result()
        except KafkaException as error:
            found = error.args[0]
            return "" if found.code() == KafkaError.TOPIC_ALREADY_EXISTS else f"{found.name()}: {found.str()}"
        return ""

    def _result(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: KafkaException) -> ClusterUnavailable:
        return ClusterUnavailable(
            f"cluster {self.alias} ({self._servers}): no answer ({error.args[0].str()}). "
            "Is it up, and reachable from here?"
        )
