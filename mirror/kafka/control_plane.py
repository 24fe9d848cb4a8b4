"""Read and change a cluster's topics, topic settings and ACLs with confluent-kafka's admin client."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from metrics.headroom import Retention
from mirror.kafka.clients import Clients
from mirror.model.topic_partition import TopicPartition
from mirror.policy.topic_acls import ANY_TOPIC, Acl
from mirror.policy.topic_configs import Change, TopicSetting

log = logging.getLogger("mirror")

Binding = TypeVar("Binding", AclBinding, AclBindingFilter)

TIMEOUT_S = 10.0
_NO_ID = str(Uuid(0, 0))
OFFSETS_S = 5.0  # offsets are polled repeatedly: a cluster that takes longer counts as down
_NOT_SHOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as its cluster describes it."""

    name: str
    topic_id: str  # "" on brokers without topic ids
    partitions: int
    leaders: tuple[int, ...] = field(default=(), compare=False, repr=False)  # broker id by partition, -1 for no leader
    # This client may no longer DESCRIBE the topic; the other fields are from an earlier response.
    is_hidden: bool = False


class ControlPlane:
    """The control plane of one cluster. mirror.kafka.cluster.Cluster extends it and defines its errors."""

    def __init__(self, alias: str, java_options: Mapping[str, str], *, within_s: float = float("inf")) -> None:
        """`within_s` limits each call, if it is shorter than the call's own limit."""
        self.alias = alias
        self._timeout_s, self._offsets_s = min(TIMEOUT_S, within_s), min(OFFSETS_S, within_s)
        self._clients = Clients(alias, java_options)

    def close(self) -> None:
        """Release the connections now."""
        self._clients.close()

    def cluster_id(self) -> str:
        """Return the cluster's own id."""
        return str(self._result(self._clients.admin.describe_cluster(request_timeout=self._timeout_s)).cluster_id)

    def cluster_operations(self) -> frozenset[str] | None:
        """Return the operations that this client may perform on the cluster; None if unknown.

        They have Kafka's names, such as ALTER.
        """
        asked = self._clients.admin.describe_cluster(
            include_authorized_operations=True, request_timeout=self._timeout_s
        )
        operations = self._result(asked).authorized_operations
        return frozenset(operation.name for operation in operations) if operations else None

    def topics(self) -> dict[str, Topic]:
        """Return every topic by name."""
        try:
            listed = self._clients.admin.list_topics(timeout=self._timeout_s).topics
        except KafkaException as error:
            raise self._clients.unavailable(error) from error
        return self.described(listed)

    def described(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return, by name, the topics that exist and that this client may DESCRIBE."""
        if not (asked := list(names)):
            return {}
        found = {}
        for name, answer in self._clients.admin.describe_topics(
            TopicCollection(asked), request_timeout=self._timeout_s
        ).items():
            try:
                topic = answer.result()
            except KafkaException as error:
                if error.args[0].code() not in _NOT_SHOWN:
                    raise self._clients.unavailable(error) from error
            else:
                leaders = tuple(-1 if part.leader is None else part.leader.id for part in topic.partitions)
                found[name] = Topic(
                    name=name, topic_id=_id(topic.topic_id), partitions=len(topic.partitions), leaders=leaders
                )
        return found

    def hidden(self, names: Iterable[str]) -> list[str]:
        """Return the topics that this client may not DESCRIBE.

        The cluster does not report whether they exist.
        """
        if not (asked := list(names)):
            return []
        answers = self._clients.admin.describe_topics(TopicCollection(asked), request_timeout=self._timeout_s)
        return [name for name in asked if _is_denied(answers[name])]

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, TopicSetting]]:
        """Return the settings of each readable topic, without read-only and secret settings."""
        described, failure = self._described(topics)
        if failure is not None and not described:
            raise self._clients.unavailable(failure, right="DESCRIBE_CONFIGS on the topic") from failure
        return {
            topic: {
                name: TopicSetting(
                    value=entry.value,
                    is_own=entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
                    is_default=entry.source == ConfigSource.DEFAULT_CONFIG.value,
                    is_static=entry.source == ConfigSource.STATIC_BROKER_CONFIG.value,
                )
                for name, entry in entries.items()
                if not entry.is_read_only and not entry.is_sensitive and entry.value is not None
            }
            for topic, entries in described.items()
        }

    def _described(self, topics: Iterable[str]) -> tuple[dict[str, dict[str, Any]], KafkaException | None]:
        """Return all settings of each readable topic, and the last refusal."""
        wanted = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        answers = self._clients.admin.describe_configs(wanted, request_timeout=self._timeout_s) if wanted else {}
        found, failure = {}, None
        for resource, future in answers.items():
            try:
                found[resource.name] = future.result()
            except KafkaException as error:
                log.debug("cluster %s: no settings of topic %s: %s", self.alias, resource.name, error)
                failure = error
        return found, failure

    def alter(self, topic: str, changes: Iterable[Change]) -> str:
        """Change some settings of a topic; return the broker's objection or ""."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            if value is not None
            else ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
            for name, value in changes
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        return self._objection(
            self._clients.admin.incremental_alter_configs([resource], request_timeout=self._timeout_s)[resource]
        )

    def topic_acls(self) -> set[Acl]:
        """Return the ACLs of topics with literal names; none from a cluster without an authorizer."""
        return {
            Acl(acl.name, acl.principal, acl.host, acl.operation.name, acl.permission_type.name)
            for acl in self._acls(ResourcePatternType.LITERAL)
            if acl.resource_pattern_type == ResourcePatternType.LITERAL
        }

    def without_acls(self, topics: Iterable[str]) -> list[str]:
        """Return the topics that no ACL matches: neither by name, nor by prefix, nor by wildcard."""
        found = self._acls(ResourcePatternType.ANY)
        literal = {acl.name for acl in found if acl.resource_pattern_type == ResourcePatternType.LITERAL}
        prefixes = tuple(acl.name for acl in found if acl.resource_pattern_type == ResourcePatternType.PREFIXED)
        if ANY_TOPIC in literal:
            return []
        return [topic for topic in topics if topic not in literal and not topic.startswith(prefixes)]

    def _acls(self, pattern: ResourcePatternType) -> list[Any]:
        anything: Any = None
        wanted = AclBindingFilter(
            ResourceType.TOPIC, anything, pattern, anything, anything, AclOperation.ANY, AclPermissionType.ANY
        )
        return list(self._result(self._clients.admin.describe_acls(wanted, request_timeout=self._timeout_s)))

    def remove_acls(self, acls: Iterable[Acl]) -> dict[Acl, str]:
        """Remove ACLs from literal topic names; return the broker's objection to each, or ""."""
        filters = {_binding(AclBindingFilter, acl): acl for acl in acls}
        if not filters:
            return {}
        answers = self._clients.admin.delete_acls(list(filters), request_timeout=self._timeout_s)
        return {filters[asked]: self._objection(future) for asked, future in answers.items()}

    def add_acls(self, acls: Iterable[Acl]) -> dict[Acl, str]:
        """Add ACLs to literal topic names; return the broker's objection to each, or ""."""
        bindings = {_binding(AclBinding, acl): acl for acl in acls}
        if not bindings:
            return {}
        answers = self._clients.admin.create_acls(list(bindings), request_timeout=self._timeout_s)
        return {bindings[binding]: self._objection(future) for binding, future in answers.items()}

    def retention(self, topics: Iterable[str]) -> dict[str, Retention]:
        """Return the retention of each topic whose settings can be read, including broker defaults."""
        found = {}
        for topic, entries in self._described(topics)[0].items():
            deletes = "delete" in str(entries["cleanup.policy"].value)
            limits = (int(str(entries[key].value)) if deletes else -1 for key in ("retention.ms", "retention.bytes"))
            found[topic] = Retention(*limits)
        return found

    def create(
        self,
        topic: str,
        *,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        validates_only: bool = False,
    ) -> str:
        """Create a topic, or only validate it; return the broker's objection or ""."""
        new = NewTopic(topic, partitions, replication_factor, config=dict(configs))
        answers = self._clients.admin.create_topics(
            [new], request_timeout=self._timeout_s, validate_only=validates_only
        )
        return self._objection(answers[topic])

    def grow(self, topic: str, *, partitions: int) -> str:
        """Raise a topic's partition count; return the broker's objection, "" on success."""
        return self._objection(
            self._clients.admin.create_partitions([NewPartitions(topic, partitions)], request_timeout=self._timeout_s)[
                topic
            ]
        )

    def delete(self, topic: str) -> str:
        """Delete a topic; return the broker's objection or "".

        Brokers remove the topic from their metadata a moment later.
        """
        answers = self._clients.admin.delete_topics([topic], request_timeout=self._timeout_s)
        return self._objection(answers[topic])

    def newest_ms(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return each partition's largest timestamp (epoch ms), -1 if it has no record."""
        request = {confluent_kafka.TopicPartition(*place): OffsetSpec.max_timestamp() for place in wanted}  # type: ignore[no-untyped-call]
        answers = self._clients.admin.list_offsets(request, request_timeout=self._offsets_s) if request else {}
        found = {}
        for place, future in answers.items():
            with contextlib.suppress(KafkaException):
                found[TopicPartition(place.topic, place.partition)] = int(future.result().timestamp)
        return found

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
            raise self._clients.unavailable(error) from error


def _id(found: Uuid) -> str:
    """Return a topic's id; "" if it has none: brokers before 2.8 return zero."""
    text = str(found)
    return "" if text == _NO_ID else text


def _is_denied(answer: Future[Any]) -> bool:
    try:
        answer.result()
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return False


def _binding(kind: type[Binding], acl: Acl) -> Binding:
    return kind(
        ResourceType.TOPIC,
        acl.topic,
        ResourcePatternType.LITERAL,
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )
