"""Ask whether a cluster checks ACLs at all: librdkafka tells of one that does not as of one that has none."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from mirror.kafka.client import Client
from mirror.kafka.errors import ErrorCode, check
from mirror.kafka.messages import Request, make
from mirror.kafka.protocol import ApiKey

WITHIN_S = 10.0
_ANY, _TOPIC = 1, 2  # codes of Kafka's AclOperation, AclPermissionType, PatternType; and of ResourceType


class AuthorizerUnknown(Exception):
    """The cluster does not tell; the message says why."""


async def has_authorizer(client: Client) -> bool:
    """Return whether a cluster has an authorizer; raises KafkaError if it refuses, or does not respond."""
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
