"""Fence producers off topics with ACLs, and check that no producer writes any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from mirror.errors import MirrorError
from mirror.kafka.cluster import Cluster
from mirror.lag.text import pluralized
from mirror.model.topic_partition import TopicPartition
from mirror.policy.topic_acls import Acl, allowances, denials
from mirror.runtime.logs import first_few

QUIET_S = 5.0  # if a log has not grown for this time, no producer writes to it
LOOK_S = 0.5
ORDER = ("READ", "DESCRIBE_CONFIGS", "WRITE")
TOPICS_AT_ONCE = 1_000  # a controller accepts 10,000 changes per request
NO_AUTHORIZER = "SECURITY_DISABLED"


class StillWrittenError(MirrorError):
    """A producer still writes, although all producers must have stopped."""


def lacking(cluster: Cluster, topics: Sequence[str], *, keeps_readers: bool) -> list[Acl]:
    """Return the ACLs that a fence must add; existing ACLs belong to others."""
    there = cluster.topic_acls()
    opened = cluster.without_acls(topics) if keeps_readers else []
    return [acl for acl in (*allowances(opened), *denials(topics)) if acl not in there]


def denied(cluster: Cluster, acls: Sequence[Acl]) -> bool:
    """Add the ACLs of a fence. Return whether the cluster has an authorizer, which enforces ACLs.

    Raises:
        MirrorError: the cluster refuses.
    """
    for together in _in_order(acls):
        for acl, objection in cluster.add_acls(together).items():
            if NO_AUTHORIZER in objection:
                return False
            if objection:
                raise MirrorError(f"{acl.topic} on {cluster.alias} cannot be fenced: {objection}")
    return True


def lifted(cluster: Cluster, acls: Sequence[Acl]) -> list[str]:
    """Remove the ACLs of a fence; return their topics.

    Raises:
        MirrorError: the cluster refuses.
    """
    for together in _in_order(acls):
        for acl, objection in cluster.remove_acls(together[::-1]).items():
            if objection and NO_AUTHORIZER not in objection:  # without ACLs there is no fence
                raise MirrorError(f"the fence of {acl.topic} on {cluster.alias} cannot be lifted: {objection}")
    return sorted({acl.topic for acl in acls})


def open_again(cluster: Cluster, topics: Sequence[str]) -> str:
    """Return a sentence about the topics whose fence was removed."""
    return f"{pluralized(len(topics), 'topic')} of {cluster.alias} may be written again"


def _in_order(acls: Sequence[Acl]) -> list[list[Acl]]:
    """Return ACLs by request, in an order that never blocks a consumer.

    The first ACL of a topic ends the cluster's default permission. A broker applies one request as a whole.
    """
    topics = sorted({acl.topic for acl in acls})
    chunks = [set(topics[at : at + TOPICS_AT_ONCE]) for at in range(0, len(topics), TOPICS_AT_ONCE)]
    ordered = sorted(acls, key=lambda acl: ORDER.index(acl.operation))
    return [[acl for acl in ordered if acl.topic in chunk] for chunk in chunks]


def until_quiet(
    cluster: Cluster, places: Sequence[TopicPartition], *, within_s: float, say: Callable[[str], None]
) -> Mapping[TopicPartition, int]:
    """Wait until no log has grown for QUIET_S; return the log ends.

    Raises:
        StillWrittenError: some logs still grow at the end of the time; the error names them.
    """
    deadline = time.monotonic() + within_s
    ends = _ends(cluster, places)
    quiet_since_s, grown = time.monotonic(), {}
    while time.monotonic() < quiet_since_s + QUIET_S:
        time.sleep(LOOK_S)
        before, ends = ends, _ends(cluster, places)
        grown = {place: ends[place] - before[place] for place in places if ends[place] > before[place]}
        if grown:
            quiet_since_s = time.monotonic()
            say(f"still written: {named(grown)}")
            if time.monotonic() > deadline:
                raise StillWrittenError(
                    f"still written on {cluster.alias} after {within_s:.0f} s: {named(grown)}. Stop their producers (a "
                    "super user passes every ACL), and run the same command again."
                )
    return ends


def _ends(cluster: Cluster, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
    found = cluster.end_offsets(places)
    if silent := [place for place in places if place not in found]:
        raise MirrorError(f"{silent[0][0]}-{silent[0][1]} on {cluster.alias} does not report its log end.")
    return found


def named(grown: Mapping[TopicPartition, int]) -> str:
    """Return partitions with a count of records each."""
    return first_few([f"{topic}-{partition} (+{count})" for (topic, partition), count in sorted(grown.items())])
