"""Decide which ACLs of source topics the remote topics should have. Pure.

The rules are MirrorMaker's (MirrorSourceConnector.syncTopicAcls), with one difference: a literal "*" is not copied. Under the
default policy, it would name a topic "A.*" that cannot exist; under the identity policy, it would apply to every topic of the
target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

ANY_TOPIC = "*"
EVERYBODY = "User:*"
FENCE = "a switch has fenced the topic; on the target, the ACL would stop the mirror itself"


class Acl(NamedTuple):
    """One ACL on a literal topic name. Operation and permission have Kafka's names, such as READ."""

    topic: str
    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        return f"{self.permission} {self.principal} from {self.host} to {self.operation} {self.topic}"


class AclDecision(NamedTuple):
    """The decision on one ACL of the source: the ACL for the target, or why there is none."""

    source: Acl
    wanted: Acl | None
    why_not: str


def denials(topics: Iterable[str]) -> list[Acl]:
    """Return the fence of a switch: only super users may write to the topics.

    A DENY takes precedence over every ALLOW.
    """
    return [Acl(topic, EVERYBODY, "*", "WRITE", "DENY") for topic in sorted(topics)]


def allowances(topics: Iterable[str]) -> list[Acl]:
    """Return ACLs that allow reading topics that have no other ACLs.

    A cluster may allow everything on a topic without ACLs; the fence, which is an ACL, ends that.
    """
    operations = ("READ", "DESCRIBE_CONFIGS")
    return [Acl(topic, EVERYBODY, "*", operation, "ALLOW") for topic in sorted(topics) for operation in operations]


def judged(acls: Iterable[Acl], remote: Mapping[str, str]) -> list[AclDecision]:
    """Decide on every ACL of the source's topics.

    Args:
        acls: ACLs of topics with a literal name.
        remote: The remote name of each topic that the flow replicates.
    """
    found = sorted(acls)
    fenced = {acl.topic for acl in found if acl in denials([acl.topic])}
    fences = {*denials(fenced), *allowances(fenced)}
    return [AclDecision(acl, None, FENCE) if acl in fences else _judge(acl, remote) for acl in found]


def _judge(acl: Acl, remote: Mapping[str, str]) -> AclDecision:
    if acl.topic == ANY_TOPIC:
        return AclDecision(acl, None, "it applies to every topic; copied, it would apply to every topic of the target")
    if acl.topic not in remote:
        return AclDecision(acl, None, "the flow does not replicate the topic")
    if (acl.permission, acl.operation) == ("ALLOW", "WRITE"):
        return AclDecision(acl, None, "only the mirror writes to a remote topic")
    operation = "READ" if (acl.permission, acl.operation) == ("ALLOW", "ALL") else acl.operation
    return AclDecision(acl, acl._replace(topic=remote[acl.topic], operation=operation), "")


def missing(verdicts: Iterable[AclDecision], there: Iterable[Acl]) -> list[Acl]:
    """Return the ACLs that the target lacks, each once; no ACL is ever removed."""
    have = set(there)
    return sorted({v.wanted for v in verdicts if v.wanted is not None and v.wanted not in have})
