"""Define MirrorMaker 2's connectors, the keys of each, and the result of each setting. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Self

from mirror.errors import SettingsError

JAVA_PACKAGE = "org.apache.kafka.connect.mirror."
SOURCE_ALIAS, TARGET_ALIAS = "source.cluster.alias", "target.cluster.alias"
TARGET_DEFAULT = "target"  # default of MirrorConnectorConfig; the source's alias has no default
# Keys of every connector in Connect, each with the reason why it is needless.
_OF_CONNECT = {
    "connector.plugin.version": "there is no connector",
    "name": "there is no connector",
    "config.action.reload": "a file is read at the start",
    "metric.reporters": "metrics are served for Prometheus",
    "tasks.max.enforce": "slots share the partitions",
}
_OF_CONNECT_PREFIXES = {
    "errors.": "a record that cannot be written pauses its partition only, until it can",
    "topic.creation.": "topics are created as their source is",
    "transaction.boundary": "mirror.transaction.ms sets the duration of transactions",
    "consumer.override.": "only for connectors that read from Connect's own cluster",
    "admin.override.": "for a client of Connect's worker",
}


class State(Enum):
    """The result of translating a setting."""

    TRANSLATED = "translated"
    LEFT_OUT = "left out"
    BY_HAND = "needs manual work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One setting that was found, and the line into which it is translated."""

    found: str  # the key where it was found
    where: str
    state: State = State.TRANSLATED
    key: str = ""  # of the line; "" for no line
    value: str = field(default="", repr=False)
    why: str = ""  # for every state except TRANSLATED

    @property
    def is_line(self) -> bool:
        """Return whether the file gets a line for the item."""
        return bool(self.key) and self.state is not State.LEFT_OUT

    def left_out(self, why: str) -> Self:
        """Return the item without a line."""
        return replace(self, state=State.LEFT_OUT, why=why)

    def by_hand(self, why: str) -> Self:
        """Return the item marked for manual work, with a further reason."""
        reasons = dict.fromkeys(each for each in (self.why, why) if each)
        return replace(self, state=State.BY_HAND, why="; ".join(reasons))


class Role(Enum):
    """The role of a connector in its flow, in order of precedence."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


def role_of(connector_class: str) -> Role | None:
    """Return the role of a connector class, None for other classes. Connect accepts short names too."""
    name = connector_class.strip().removeprefix(JAVA_PACKAGE)
    return next((role for role in Role if name in (role.value, role.value.removesuffix("Connector"))), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a connector or a worker, under Connect's key."""

    key: str
    value: str = field(repr=False)
    where: str
    to_do: str = ""  # what the user must do before it works


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A connector of MirrorMaker 2."""

    name: str  # "" if unknown
    role: Role
    settings: tuple[Setting, ...]
    where: str
    state: str = ""  # "PAUSED" or "STOPPED" if the connector is known not to run

    def value(self, key: str) -> str | None:
        """Return the connector's value of a key."""
        return next((setting.value for setting in self.settings if setting.key == key), None)

    @property
    def flow(self) -> tuple[str, str]:
        """The aliases of source and target.

        Raises:
            SettingsError: the connector does not name its source.
        """
        source = self.value(SOURCE_ALIAS)
        if not source:
            raise SettingsError(f"{self.where}: has no {SOURCE_ALIAS}; a {self.role.value} names its source. Add it.")
        return source, self.value(TARGET_ALIAS) or TARGET_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Connectors:
    """The connectors and settings in the given sources."""

    connectors: tuple[Connector, ...] = ()
    workers: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)  # Connect's own, by the target's alias
    others: tuple[Item, ...] = ()  # items that belong to no flow

    def __add__(self, other: Connectors) -> Connectors:
        return Connectors(
            connectors=self.connectors + other.connectors,
            workers={**self.workers, **other.workers},
            others=self.others + other.others,
        )


def somebody_elses(name: str, connector_class: str, where: str) -> Connectors:
    """Return a connector that is not MirrorMaker's, as left out."""
    item = Item(found=f"{name} ({connector_class})", where=where)
    return Connectors(others=(item.left_out("no connector of MirrorMaker 2"),))


def java_text(value: object) -> str:
    """Return Connect's text for a JSON or YAML value; a list is joined by commas."""
    if isinstance(value, list):
        return ",".join(map(java_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings_of(config: Mapping[str, object], where: str) -> tuple[Setting, ...]:
    """Return the settings of a map; null values are unset."""
    return tuple(
        Setting(key=str(key), value=java_text(value), where=where) for key, value in config.items() if value is not None
    )


# Keys that only one connector reads; from MirrorSourceConfig, MirrorCheckpointConfig and MirrorHeartbeatConfig of Kafka 4.1.1.
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
CLIENTS = tuple(f"{side}{role}." for side in ("", "source.", "target.") for role in ("consumer", "producer", "admin"))


def needless_of_connect(key: str, value: str) -> str:
    """Return why a key that every connector may have is needless, "" for other keys."""
    if key in ("transforms", "predicates"):
        return "" if value.strip() else "is empty"
    return _OF_CONNECT.get(key) or next(
        (why for prefix, why in _OF_CONNECT_PREFIXES.items() if key.startswith(prefix)), ""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorFlow:
    """The connectors of one flow, in order of precedence."""

    source: str
    target: str
    connectors: Sequence[Connector]

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def source_connector(self) -> Connector | None:
        """The connector that mirrors records."""
        return self.of(Role.SOURCE)

    def of(self, role: Role) -> Connector | None:
        """Return the first connector of a role."""
        return next((each for each in self.connectors if each.role is role), None)


def flows_of(connectors: Iterable[Connector]) -> list[ConnectorFlow]:
    """Return the flows in the order in which they were found."""
    by_flow: dict[tuple[str, str], list[Connector]] = {}
    for connector in connectors:
        by_flow.setdefault(connector.flow, []).append(connector)
    order = list(Role)
    return [
        ConnectorFlow(source=source, target=target, connectors=sorted(those, key=lambda each: order.index(each.role)))
        for (source, target), those in by_flow.items()
    ]
