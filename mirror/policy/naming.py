"""Name remote topics, and decide which topics a flow must not replicate. Pure."""

from __future__ import annotations

from dataclasses import dataclass

HEARTBEATS = "heartbeats"
JAVA_PACKAGE = "org.apache.kafka.connect.mirror."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """The DefaultReplicationPolicy of one flow: a remote topic is source alias, separator and topic.

    Source: apache/kafka 4.1.1, connect/mirror-client, ReplicationPolicy and DefaultReplicationPolicy.
    """

    source_alias: str
    separator: str = "."
    internal_separator: str = "."  # in the names of MirrorMaker's own topics (KIP-949)

    def remote_topic(self, topic: str) -> str:
        """Return the name on the target cluster of the source's `topic`."""
        return f"{self.source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias in a topic's name; None if the name is not remote.

        Java's split drops trailing empty parts: "foo.bar" looks remote from foo, "foo." does not look remote.
        """
        parts = topic.split(self.separator)
        while parts and not parts[-1]:
            parts.pop()
        return parts[0] if len(parts) >= 2 else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name one hop closer to the origin. None if the name is not remote."""
        source = ReplicationPolicy.topic_source(self, topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Return the name without any hops."""
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream != topic:
            topic, upstream = upstream, self.upstream_topic(upstream)
        return topic

    def is_heartbeats(self, topic: str) -> bool:
        """Return whether this is the `heartbeats` topic of any cluster, which MirrorMaker always replicates."""
        return self.original_topic(topic) == HEARTBEATS

    def is_internal(self, topic: str) -> bool:
        """Return whether a topic belongs to Kafka or MirrorMaker and is never replicated (KIP-1074)."""
        sep = self.separator
        return (
            topic.startswith(("__", "."))
            or (topic.startswith("mm2") and topic.endswith((".internal", f"{sep}internal")))
            or topic.endswith((".checkpoints.internal", f"{sep}checkpoints{sep}internal"))
        )

    def heartbeats_topic(self) -> str:
        """Return the topic on the target to which a flow writes its heartbeats."""
        return HEARTBEATS

    def checkpoints_topic(self, alias: str) -> str:
        """Return the topic on the target with the checkpoints of the source `alias`."""
        return f"{alias}{self.internal_separator}checkpoints{self.internal_separator}internal"

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the topic with offset syncs; `alias` is the cluster at the other end."""
        return f"mm2-offset-syncs{self.internal_separator}{alias}{self.internal_separator}internal"

    def would_cycle(self, topic: str, target_alias: str) -> bool:
        """Return whether `topic` on the source came, over any number of hops, from `target_alias`."""
        current: str | None = topic
        while current is not None:
            source = self.topic_source(current)
            if source is None:
                return False
            if source == target_alias:
                return True
            upstream = self.upstream_topic(current)
            if upstream == current:
                return False
            current = upstream
        return False


class DefaultReplicationPolicy(ReplicationPolicy):
    """ReplicationPolicy under its Java name."""

    __slots__ = ()


class IdentityReplicationPolicy(ReplicationPolicy):
    """Topics keep their names. So a name has no origin, and `would_cycle` cannot detect loops.

    Names ending in "heartbeats" are still prefixed, as in Java (looksLikeHeartbeat).
    """

    __slots__ = ()

    def remote_topic(self, topic: str) -> str:
        """Return `topic` itself, prefixed only when it looks like heartbeats."""
        return ReplicationPolicy.remote_topic(self, topic) if topic.endswith(HEARTBEATS) else topic

    def topic_source(self, topic: str) -> str | None:
        """Return the flow's source alias for every topic except heartbeats, whose names contain an alias."""
        return ReplicationPolicy.topic_source(self, topic) if topic.endswith(HEARTBEATS) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """Return `topic` itself, stripped of one hop only when it looks like heartbeats."""
        return ReplicationPolicy.upstream_topic(self, topic) if topic.endswith(HEARTBEATS) else topic


POLICIES: dict[str, type[ReplicationPolicy]] = {
    policy.__name__: policy for policy in (DefaultReplicationPolicy, IdentityReplicationPolicy)
}
# Classes that were in use before Kafka 3.0 had IdentityReplicationPolicy.
_SAME_AS_IDENTITY = (
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
    "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
)


def policy_of_java(name: str) -> type[ReplicationPolicy] | None:
    """Return the policy of a Java class name, None if it is unknown."""
    if name in _SAME_AS_IDENTITY:
        return IdentityReplicationPolicy
    return POLICIES.get(name.removeprefix(JAVA_PACKAGE))
