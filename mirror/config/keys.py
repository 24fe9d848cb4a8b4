"""The keys of one flow: which there are, and how each is read, with MirrorMaker's defaults where a file is silent."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TypeVar

from mirror.config import values
from mirror.config.java_regex import NameFilter, RegexError, compile_list
from mirror.config.properties import Entry
from mirror.config.values import refusal
from mirror.policy import JAVA_PACKAGE, POLICIES, ReplicationPolicy
from mirror.topic_configs import DEFAULT_EXCLUDE as DEFAULT_CONFIG_EXCLUDE
from mirror.topic_configs import ConfigSync

DEFAULT_TOPICS_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", r"__.*")  # MirrorMaker 4.x
DEFAULT_GROUPS_EXCLUDE = ("console-consumer-.*", "connect-.*", "__.*")
MAX_REPLICATION_FACTOR = 32_767  # a 16-bit field of the CreateTopics request

# Of MirrorSourceConfig, MirrorCheckpointConfig, MirrorHeartbeatConfig and MirrorConnectorConfig of Kafka 4.1.1.
FLOW_KEYS = frozenset(
    {
        "enabled",
        "topics",
        "topics.exclude",
        "groups",
        "groups.exclude",
        "replication.policy.class",
        "replication.policy.separator",
        "replication.policy.internal.topic.separator.enabled",
        "replication.factor",
        "tasks.max",
        "refresh.topics.enabled",
        "refresh.topics.interval.seconds",
        "refresh.groups.enabled",
        "sync.topic.configs.enabled",
        "sync.topic.configs.interval.seconds",
        "sync.topic.acls.enabled",
        "sync.topic.acls.interval.seconds",
        "config.properties.exclude",
        "use.defaults.from",
        "emit.heartbeats.enabled",
        "emit.heartbeats.interval.seconds",
        "heartbeats.topic.replication.factor",
        "heartbeats.replication.enabled",
        "emit.checkpoints.enabled",
        "emit.checkpoints.interval.seconds",
        "checkpoints.topic.replication.factor",
        "sync.group.offsets.enabled",
        "sync.group.offsets.interval.seconds",
        "emit.offset-syncs.enabled",
        "offset-syncs.topic.location",
        "offset-syncs.topic.replication.factor",
        "topic.filter.class",
        "group.filter.class",
        "config.property.filter.class",
    }
)
# Accepted, for nothing is left for them to do here.
_NEEDLESS = {
    "offset.lag.max": "offsets are translated exactly at any lag",
    "refresh.groups.interval.seconds": "groups are listed at each checkpoint",
    "consumer.poll.timeout.ms": "fetches wait as long as fetch.max.wait.ms of the source's consumer says",
    "admin.timeout.ms": "every request to a cluster has a bound of its own, 5 to 15 seconds",
    "forwarding.admin.class": "topics are created by the target's own admin client",
    "dedicated.mode.enable.internal.rest": "no process talks to another one over REST",
}
_NEEDLESS_PREFIXES = {
    "offset.storage.": "positions are offsets of a group on the target",
    "offset.flush.": "positions are committed every second",
    "config.storage.": "there is no Connect worker to configure",
    "status.storage.": "there is no Connect worker to report its status",
    "key.converter": "bytes stay as they are",
    "value.converter": "bytes stay as they are",
    "header.converter": "bytes stay as they are",
}
_FILTERS = ("DefaultTopicFilter", "DefaultGroupFilter", "DefaultConfigPropertyFilter")

Plugin = TypeVar("Plugin")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """Which groups' offsets are translated, how often, and whether the target's groups are moved (B.2 of the semantics)."""

    enabled: bool
    interval_s: float
    groups: NameFilter
    lists_new_groups: bool
    replication_factor: int
    sync_groups: bool
    sync_interval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncSettings:
    """Whether MirrorMaker's offset syncs are written, and on which side."""

    enabled: bool
    at_source: bool
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSettings:
    """Whether the flow beats on its target, how often, and whether it mirrors the source's heartbeats."""

    enabled: bool
    interval_s: float
    replication_factor: int
    replicated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Something that is done at once and then at an interval, or never."""

    enabled: bool
    interval_s: float


class Keys:
    """Reads the keys of one flow from their entries."""

    def __init__(self, own: dict[str, Entry]) -> None:
        self._own = own

    def boolean(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        entry = self._own.get(key)
        return values.boolean(entry) if entry else default

    def integer(self, key: str, *, default: int, least: int = 1) -> int:
        """Return an integer."""
        entry = self._own.get(key)
        return values.integer(entry, least=least) if entry else default

    def seconds(self, key: str, *, default: int) -> float:
        """Return a time in whole seconds."""
        return float(self.integer(key, default=default))

    def every(self, what: str, *, default: int) -> Every:
        """Return `what`.enabled and `what`.interval.seconds."""
        return Every(
            enabled=self.boolean(f"{what}.enabled", default=True),
            interval_s=self.seconds(f"{what}.interval.seconds", default=default),
        )

    def replication_factor(self, key: str, *, default: int) -> int:
        """Return a replication factor; -1 leaves it to the brokers."""
        entry = self._own.get(key)
        if entry is None:
            return default
        factor = values.integer(entry, least=-1, most=MAX_REPLICATION_FACTOR)
        if factor == 0:
            raise refusal(entry, '"0" is not a replication factor. Write at least 1, or -1 for the brokers\' default.')
        return factor

    def patterns(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return a list of Java regular expressions."""
        entry = self._own.get(key)
        if entry is None:
            return default
        patterns = values.text_list(entry)
        try:
            compile_list(patterns)
        except RegexError as error:
            raise refusal(entry, str(error)) from None
        return patterns

    def choice(self, key: str, first: str, second: str) -> str:
        """Return one of two words, the first by default, in any case."""
        entry = self._own.get(key)
        word = values.text(entry).lower() if entry else first
        if entry and word not in (first, second):
            raise refusal(entry, f'"{values.text(entry)}" is neither side. Write "{first}" or "{second}".')
        return word

    def separator(self) -> str:
        """Return what stands between an alias and a topic."""
        entry = self._own.get("replication.policy.separator")
        if entry is None:
            return "."
        text = values.text(entry)
        if not text or not text.isascii() or not all(char.isalnum() or char in "._-" for char in text):
            expected = 'one or more of letters, digits, ".", "_" and "-", as topic names allow'
            raise refusal(entry, f'"{text}" is not a separator. Write {expected}.')
        return text

    def policy(self, source_alias: str) -> ReplicationPolicy:
        """Return the replication policy: one of MirrorMaker's by its Java name, or a Python class by its path."""
        entry = self._own.get("replication.policy.class")
        name = values.text(entry) if entry else "DefaultReplicationPolicy"
        found = POLICIES.get(name.removeprefix(JAVA_PACKAGE))
        if found is None and entry is not None:
            found = _imported(entry, ReplicationPolicy, f"one of {', '.join(POLICIES)}, or a Python class")
        assert found is not None
        separator = self.separator()
        dotted = not self.boolean("replication.policy.internal.topic.separator.enabled", default=True)
        return found(source_alias=source_alias, separator=separator, internal_separator="." if dotted else separator)

    def names(self, include: str, default_exclude: tuple[str, ...], class_key: str) -> NameFilter:
        """Return the filter of topics or groups: include and exclude lists, or a Python class that takes both."""
        entry = self._own.get(class_key)
        filter_class = _filter_class(entry, NameFilter)
        return filter_class(
            include=self.patterns(include, (".*",)), exclude=self.patterns(f"{include}.exclude", default_exclude)
        )

    def config_sync(self) -> ConfigSync:
        """Return which topic settings are carried over."""
        sync_class = _filter_class(self._own.get("config.property.filter.class"), ConfigSync)
        return sync_class(
            exclude=self.patterns("config.properties.exclude", DEFAULT_CONFIG_EXCLUDE),
            defaults_from_source=self.choice("use.defaults.from", "target", "source") == "source",
        )

    def checkpoints(self) -> CheckpointSettings:
        """Return what is done about consumer groups."""
        return CheckpointSettings(
            enabled=self.boolean("emit.checkpoints.enabled", default=True),
            interval_s=self.seconds("emit.checkpoints.interval.seconds", default=60),
            groups=self.names("groups", DEFAULT_GROUPS_EXCLUDE, "group.filter.class"),
            lists_new_groups=self.boolean("refresh.groups.enabled", default=True),
            replication_factor=self.replication_factor("checkpoints.topic.replication.factor", default=3),
            sync_groups=self.boolean("sync.group.offsets.enabled", default=False),
            sync_interval_s=self.seconds("sync.group.offsets.interval.seconds", default=60),
        )

    def offset_syncs(self) -> OffsetSyncSettings:
        """Return what is done about MirrorMaker's offset syncs."""
        enabled = self.boolean("emit.offset-syncs.enabled", default=True)
        for key, entry in self._own.items():
            if not enabled and key.startswith("offset-syncs"):
                raise refusal(entry, "has no meaning with emit.offset-syncs.enabled=false. Remove one of the two.")
        return OffsetSyncSettings(
            enabled=enabled,
            at_source=self.choice("offset-syncs.topic.location", "source", "target") == "source",
            replication_factor=self.replication_factor("offset-syncs.topic.replication.factor", default=3),
        )

    def heartbeats(self) -> HeartbeatSettings:
        """Return what is done about heartbeats."""
        return HeartbeatSettings(
            enabled=self.boolean("emit.heartbeats.enabled", default=True),
            interval_s=self.seconds("emit.heartbeats.interval.seconds", default=1),
            replication_factor=self.replication_factor("heartbeats.topic.replication.factor", default=3),
            replicated=self.boolean("heartbeats.replication.enabled", default=True),
        )


def needless(key: str) -> str:
    """Return why a key of MirrorMaker has nothing to do here, "" for a key that is not known at all."""
    found = _NEEDLESS.get(key)
    return found or next((why for prefix, why in _NEEDLESS_PREFIXES.items() if key.startswith(prefix)), "")


def _filter_class(entry: Entry | None, base: type[Plugin]) -> type[Plugin]:
    """Return the class of a filter: our own for MirrorMaker's default one, or a Python class derived from ours."""
    if entry is None or values.text(entry).removeprefix(JAVA_PACKAGE) in _FILTERS:
        return base
    return _imported(entry, base, "MirrorMaker's default filter, or a Python class")


def _imported(entry: Entry, base: type[Plugin], expected: str) -> type[Plugin]:
    """Import the Python class that an entry names.

    Raises:
        SettingsError: there is none, or it is not derived from `base`.
    """
    path = values.text(entry)
    module, _, name = path.rpartition(".")
    derived = f"{expected} derived from {base.__module__}.{base.__qualname__}"
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001 - whatever importing somebody's module raises
        why = "there is no such module" if isinstance(error, ModuleNotFoundError | ValueError) else repr(error)
        raise refusal(entry, f'"{path}" cannot be imported ({why}); expected {derived}. Check PYTHONPATH.') from None
    if not (isinstance(found, type) and issubclass(found, base)):
        raise refusal(entry, f'"{path}" is no such class; expected {derived}.')
    return found
