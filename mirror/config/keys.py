"""Read the keys of one flow, with MirrorMaker's defaults for keys that are not set."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from mirror.config import values
from mirror.config.properties import DEFAULT, Entry
from mirror.config.settings import CheckpointSettings, Every, HeartbeatSettings, OffsetSyncSettings
from mirror.config.table import BIDIRECTIONAL_KEY, EXACTLY_ONCE_KEY, IDENTICAL_KEY, OFFSETS_KEY, SETTINGS
from mirror.config.transforms import TopicTransform
from mirror.config.values import refusal
from mirror.model.transforms import Drop
from mirror.policy.filters import NameFilter
from mirror.policy.naming import (
    JAVA_PACKAGE,
    POLICIES,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    policy_of_java,
)
from mirror.policy.topic_configs import ConfigSync

# Removed in Kafka 4.0. They are refused, because topics and groups that they excluded would be mirrored.
_REMOVED = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
# Accepted, but needless in kafka-mirror; each with the reason.
_NEEDLESS = {
    "offset.lag.max": "offsets are translated exactly at any lag",
    "refresh.groups.interval.seconds": "groups are listed at each checkpoint",
    "consumer.poll.timeout.ms": "fetch.max.wait.ms of the source's consumer sets the wait of fetches",
    "admin.timeout.ms": "every request to a cluster has its own limit, 5 to 15 seconds",
    "exactly.once.support": "exactly.once.source.support decides",
    "forwarding.admin.class": "topics are created by the target's own admin client",
    "dedicated.mode.enable.internal.rest": "processes do not call each other over REST",
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


class Keys:
    """Reads the keys of one flow. Its entries contain every key that has a default (KeysByOwner.flow)."""

    def __init__(self, own: Mapping[str, Entry]) -> None:
        self._own = own

    def __getitem__(self, key: str) -> Any:
        """Return a value as its row of the table parses it."""
        return SETTINGS[key].read(self._own[key])

    def every(self, what: str) -> Every:
        """Return `what`.enabled and `what`.interval.seconds."""
        return Every(enabled=self[f"{what}.enabled"], interval_s=self[f"{what}.interval.seconds"])

    def is_bidirectional(self, policy: ReplicationPolicy) -> bool:
        """Return whether topics keep their names in both directions, and each record is replicated once."""
        found = bool(self[BIDIRECTIONAL_KEY])
        if found and not isinstance(policy, IdentityReplicationPolicy):
            raise refusal(
                self._own[BIDIRECTIONAL_KEY],
                "is true, and topics do not keep their names. Write replication.policy.class = IdentityReplicationPolicy, "
                "or leave this out.",
            )
        return found

    def identical_topics(self, *, is_bidirectional: bool, transforms: Iterable[TopicTransform]) -> NameFilter:
        """Return the topics whose records have the same offsets on both clusters."""
        everything = (".*",) if self[OFFSETS_KEY] == "identical" else ()
        listed = IDENTICAL_KEY in self._own
        found = NameFilter(include=self[IDENTICAL_KEY] if listed else everything, exclude=())
        if found.include:
            entry = self._own[IDENTICAL_KEY if listed else OFFSETS_KEY]
            for is_wrong, other in (
                (self.is_exactly_once(), f"{EXACTLY_ONCE_KEY} = enabled, whose transactions take offsets themselves"),
                (is_bidirectional, f"{BIDIRECTIONAL_KEY} = true, by which producers write to both clusters"),
                (any(isinstance(one.transform.change, Drop) for one in transforms), "transforms that drop records"),
            ):
                if is_wrong:
                    raise refusal(
                        entry, f"keeps the offset of each record. It does not go with {other}. Remove one of the two."
                    )
        return found

    def is_exactly_once(self) -> bool:
        """Return whether to write in transactions. `preparing` needs no action."""
        return bool(self[EXACTLY_ONCE_KEY] == "enabled")

    def separator(self, policy: type[ReplicationPolicy]) -> str:
        """Return the separator between an alias and a topic."""
        entry = self._own["replication.policy.separator"]
        text = values.text(entry)
        if not text:
            keep = "replication.policy.class = IdentityReplicationPolicy"
            if issubclass(policy, IdentityReplicationPolicy):
                raise refusal(entry, f"is empty. {keep} keeps the names of topics without it. Remove the line.")
            raise refusal(entry, f"is empty. To keep the names of topics, write {keep} and remove this line.")
        if not text.isascii() or not all(char.isalnum() or char in "._-" for char in text):
            expected = 'one or more of letters, digits, ".", "_" and "-", as topic names allow'
            raise refusal(entry, f"{entry.shown(text)} is not a separator. Write {expected}.")
        return text

    def policy(self, source_alias: str) -> ReplicationPolicy:
        """Return the replication policy: MirrorMaker's by its Java name, or a Python class by its path."""
        entry = self._own["replication.policy.class"]
        found = policy_of_java(values.text(entry))
        if found is None:
            found = _imported(entry, ReplicationPolicy, f"one of {', '.join(POLICIES)}, or a Python class")
        separator = self.separator(found)
        dotted = not self["replication.policy.internal.topic.separator.enabled"]
        return found(source_alias=source_alias, separator=separator, internal_separator="." if dotted else separator)

    def names(self, include: str, class_key: str) -> NameFilter:
        """Return the filter of topics or groups: include and exclude lists, or a Python class."""
        filter_class = _filter_class(self._own[class_key], NameFilter)
        return filter_class(include=self[include], exclude=self[f"{include}.exclude"])

    def config_sync(self) -> ConfigSync:
        """Return which topic settings are synced."""
        sync_class = _filter_class(self._own["config.property.filter.class"], ConfigSync)
        return sync_class(
            exclude=self["config.properties.exclude"],
            defaults_from_source=self["use.defaults.from"] == "source",
        )

    def checkpoints(self) -> CheckpointSettings:
        """Return the settings of checkpoints and group sync."""
        return CheckpointSettings(
            enabled=self["emit.checkpoints.enabled"],
            interval_s=self["emit.checkpoints.interval.seconds"],
            groups=self.names("groups", "group.filter.class"),
            lists_new_groups=self["refresh.groups.enabled"],
            replication_factor=self["checkpoints.topic.replication.factor"],
            sync_groups=self["sync.group.offsets.enabled"],
            sync_interval_s=self["sync.group.offsets.interval.seconds"],
        )

    def offset_syncs(self) -> OffsetSyncSettings:
        """Return the settings of MirrorMaker's offset syncs."""
        enabled = self["emit.offset-syncs.enabled"]
        for key, entry in self._own.items():
            if not enabled and key.startswith("offset-syncs") and entry.where != DEFAULT:
                raise refusal(entry, "has no meaning with emit.offset-syncs.enabled=false. Remove one of the two.")
        return OffsetSyncSettings(
            enabled=enabled,
            at_source=self["offset-syncs.topic.location"] == "source",
            replication_factor=self["offset-syncs.topic.replication.factor"],
        )

    def heartbeats(self) -> HeartbeatSettings:
        """Return the settings of heartbeats."""
        return HeartbeatSettings(
            enabled=self["emit.heartbeats.enabled"],
            interval_s=self["emit.heartbeats.interval.seconds"],
            replication_factor=self["heartbeats.topic.replication.factor"],
            replicated=self["heartbeats.replication.enabled"],
        )


def refuse_removed(entry: Entry) -> None:
    """Raise SettingsError for a removed key that excluded topics or groups."""
    for old, new in _REMOVED.items():
        if entry.key == old or entry.key.endswith(f".{old}"):
            raise refusal(entry, f"was removed in Kafka 4.0; everything it excluded would be mirrored. Write {new}.")


def needless(key: str) -> str:
    """Return why a key of MirrorMaker is needless in kafka-mirror, "" for an unknown key."""
    found = _NEEDLESS.get(key)
    return found or next((why for prefix, why in _NEEDLESS_PREFIXES.items() if key.startswith(prefix)), "")


def _filter_class(entry: Entry, base: type[Plugin]) -> type[Plugin]:
    """Return the class of a filter: kafka-mirror's class for MirrorMaker's default, or a derived Python class."""
    if values.text(entry).removeprefix(JAVA_PACKAGE) in _FILTERS:
        return base
    return _imported(entry, base, "MirrorMaker's default filter, or a Python class")


def _imported(entry: Entry, base: type[Plugin], expected: str) -> type[Plugin]:
    """Import the Python class that an entry names.

    Raises:
        SettingsError: the class does not exist, or is not derived from `base`.
    """
    path = values.text(entry)
    module, _, name = path.rpartition(".")
    derived = f"{expected} derived from {base.__module__}.{base.__qualname__}"
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001 - importing a user's module may raise anything
        is_unknown = isinstance(error, ModuleNotFoundError | ValueError)
        why = "there is no such module" if is_unknown else type(error).__name__ if entry.is_secret else repr(error)
        named = entry.shown(path)
        raise refusal(entry, f"{named} cannot be imported ({why}); expected {derived}. Check PYTHONPATH.") from None
    if not (isinstance(found, type) and issubclass(found, base)):
        raise refusal(entry, f"{entry.shown(path)} is not such a class; expected {derived}.")
    return found
