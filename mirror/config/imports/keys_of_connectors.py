"""List which connector of MirrorMaker 2 reads which key, and what of Kafka Connect's own keys is needless here. Pure."""

from __future__ import annotations

from mirror.config.imports.connectors import Role

# Keys that one connector reads alone; of MirrorSourceConfig, MirrorCheckpointConfig and MirrorHeartbeatConfig of Kafka 4.1.1.
_KEYS_OF = {
    Role.SOURCE: {
        "config.properties.exclude",
        "config.property.filter.class",
        "emit.offset-syncs.enabled",
        "heartbeats.replication.enabled",
        "offset-syncs.topic.replication.factor",
        "offset.lag.max",
        "refresh.topics.enabled",
        "refresh.topics.interval.seconds",
        "replication.factor",
        "sync.topic.acls.enabled",
        "sync.topic.acls.interval.seconds",
        "sync.topic.configs.enabled",
        "sync.topic.configs.interval.seconds",
        "tasks.max",
        "use.defaults.from",
    },
    Role.CHECKPOINT: {
        "checkpoints.topic.replication.factor",
        "emit.checkpoints.enabled",
        "emit.checkpoints.interval.seconds",
        "group.filter.class",
        "groups",
        "groups.exclude",
        "refresh.groups.enabled",
        "refresh.groups.interval.seconds",
        "sync.group.offsets.enabled",
        "sync.group.offsets.interval.seconds",
    },
    Role.HEARTBEAT: {
        "emit.heartbeats.enabled",
        "emit.heartbeats.interval.seconds",
        "heartbeats.topic.replication.factor",
    },
}
READER = {key: role for role, keys in _KEYS_OF.items() for key in keys}
# Of every connector in Connect, with what makes them needless.
_OF_CONNECT = {
    "connector.plugin.version": "there is no connector",
    "name": "there is no connector",
    "config.action.reload": "a file is read at the start",
    "metric.reporters": "metrics are served for Prometheus",
    "tasks.max.enforce": "slots share the topic-partitions",
}
_OF_CONNECT_PREFIXES = {
    "errors.": "a record that cannot be written stops its topic-partition alone, until it can",
    "topic.creation.": "topics are created as their source is",
    "transaction.boundary": "a transaction lasts as long as mirror.transaction.ms says",
    "consumer.override.": "of connectors that read from Connect's own cluster",
    "admin.override.": "of Connect's worker",
}
CLIENTS = tuple(f"{side}{role}." for side in ("", "source.", "target.") for role in ("consumer", "producer", "admin"))


def needless_of_connect(key: str, value: str) -> str:
    """Return why a key of every connector is needless here, "" for another one."""
    if key in ("transforms", "predicates"):
        return "" if value.strip() else "is empty"
    return _OF_CONNECT.get(key) or next(
        (why for prefix, why in _OF_CONNECT_PREFIXES.items() if key.startswith(prefix)), ""
    )
