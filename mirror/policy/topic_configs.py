"""Decide the settings of a remote topic, and the changes that it needs. Pure.

The rules are MirrorMaker's (MirrorSourceConnector.syncTopicConfigs, DefaultConfigPropertyFilter), with one difference that is
invisible on the topic: MirrorMaker writes every setting in each cycle, this module only settings that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mirror.policy.filters import compile_list
from mirror.policy.java_regex import JavaPattern

# MirrorMaker's default of config.properties.exclude
DEFAULT_EXCLUDE = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    """One setting as its broker describes it.

    `is_own`: set on the topic itself; `is_default`: Kafka's own default.
    """

    value: str
    is_own: bool
    is_default: bool
    is_static: bool  # set in the broker's file: the target's operators have their own value


class Change(NamedTuple):
    """One setting to write; None falls back to the target's default."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ConfigSync:
    """Which settings are synced (all that no expression matches), and how defaults are."""

    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    defaults_from_source: bool = False

    def wanted(self, source: Mapping[str, TopicSetting]) -> dict[str, str | None]:
        """Return the wanted value of each setting on the target; None is the target's default."""
        excluded: JavaPattern | None = compile_list(self.exclude)
        return {
            name: None if setting.is_default and not self.defaults_from_source else setting.value
            for name, setting in source.items()
            if not setting.is_static and (excluded is None or not excluded.matches(name))
        }

    def at_creation(self, source: Mapping[str, TopicSetting]) -> dict[str, str]:
        """Return the settings with which to create a remote topic."""
        return {name: value for name, value in self.wanted(source).items() if value is not None}

    def changes(self, source: Mapping[str, TopicSetting], target: Mapping[str, TopicSetting]) -> list[Change]:
        """Return the changes that the target needs.

        If an override exists only on the target, and the source has the default, it falls back to the default, as in MirrorMaker.
        """
        return [
            Change(name, value)
            for name, value in sorted(self.wanted(source).items())
            if name in target and _differs(value, target[name])
        ]


def _differs(value: str | None, there: TopicSetting) -> bool:
    return there.is_own if value is None else there.value != value


def described(changes: Iterable[Change]) -> str:
    """Return changes in words."""
    return ", ".join(f"{name} back to its default" if value is None else f"{name}={value}" for name, value in changes)
