"""Define what is known of MirrorMaker 2's connectors, wherever they were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from mirror.config.imports.items import Item
from mirror.errors import SettingsError

JAVA_PACKAGE = "org.apache.kafka.connect.mirror."
SOURCE_ALIAS, TARGET_ALIAS = "source.cluster.alias", "target.cluster.alias"
TARGET_DEFAULT = "target"  # of MirrorConnectorConfig; the source's alias has no default


class Role(Enum):
    """What a connector does for its flow; in the order in which they win where they disagree."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


def role_of(connector_class: str) -> Role | None:
    """Return the role of a connector class, None for one of somebody else; Connect takes short names too."""
    name = connector_class.strip().removeprefix(JAVA_PACKAGE)
    return next((role for role in Role if name in (role.value, role.value.removesuffix("Connector"))), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a connector or a worker, under the key that Connect knows it by."""

    key: str
    value: str = field(repr=False)
    where: str
    to_do: str = ""  # what a person has to do before it works here


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A connector of MirrorMaker 2."""

    name: str  # "" where the source does not tell it
    role: Role
    settings: tuple[Setting, ...]
    where: str
    state: str = ""  # "PAUSED" or "STOPPED" where it is known not to run

    def value(self, key: str) -> str | None:
        """Return what the connector has for a key."""
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
    """What the sources hold."""

    connectors: tuple[Connector, ...] = ()
    workers: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)  # Connect's own, by the target's alias
    others: tuple[Item, ...] = ()  # what is of no flow

    def __add__(self, other: Connectors) -> Connectors:
        return Connectors(
            connectors=self.connectors + other.connectors,
            workers={**self.workers, **other.workers},
            others=self.others + other.others,
        )


def somebody_elses(name: str, connector_class: str, where: str) -> Connectors:
    """Return a connector that is not MirrorMaker's as one that is left out."""
    item = Item(found=f"{name} ({connector_class})", where=where)
    return Connectors(others=(item.left_out("no connector of MirrorMaker 2"),))


def java_text(value: object) -> str:
    """Return a JSON or YAML value as the text that Connect takes it for; a list is one with commas."""
    if isinstance(value, list):
        return ",".join(map(java_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings_of(config: Mapping[str, object], where: str) -> tuple[Setting, ...]:
    """Return the settings of a map; what is null is not set."""
    return tuple(
        Setting(key=str(key), value=java_text(value), where=where) for key, value in config.items() if value is not None
    )
