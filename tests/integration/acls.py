"""Brokers with an authorizer, and rules for topics and groups on them."""

from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def acl(name: str, operation: AclOperation, permission: AclPermissionType, kind: ResourceType) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission)


def as_filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


def deny(
    cluster: Any, name: str, operation: AclOperation, kind: ResourceType = ResourceType.TOPIC
) -> Callable[[], None]:
    """Deny an operation on a topic, or what else `kind` says; return what takes it back."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    rules = [
        acl(name, AclOperation.ALL, AclPermissionType.ALLOW, kind),  # once it has an ACL, nothing else is granted
        acl(name, operation, AclPermissionType.DENY, kind),
    ]
    for done in admin.create_acls(rules).values():
        done.result(30)

    def grant() -> None:
        for done in admin.delete_acls([as_filter(rule) for rule in rules]).values():
            done.result(30)

    return grant
