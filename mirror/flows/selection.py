"""Select the enabled flow and the partitions that a command names."""

from __future__ import annotations

from collections.abc import Iterable

from mirror.config.settings import Flow, Settings
from mirror.errors import SettingsError
from mirror.model.flow_plan import PlannedPartition
from mirror.policy.filters import compile_list
from mirror.policy.java_regex import RegexError


def flow_named(settings: Settings, name: str, *, command: str) -> Flow:
    """Return an enabled flow by name; raises SettingsError if no enabled flow has that name."""
    for flow in settings.flows:
        if flow.name == name:
            return flow
    known = ", ".join(flow.name for flow in settings.flows)
    raise SettingsError(f'{command}: "{name}" is not an enabled flow; expected one of {known}.')


def selected(
    partitions: Iterable[PlannedPartition], topics: str | None, partition: int | None = None, *, flow: str, command: str
) -> list[PlannedPartition]:
    """Return the partitions that match a Java pattern list and a number; None matches all.

    Raises:
        SettingsError: the list is invalid, or nothing matches.
    """
    try:
        pattern = compile_list(topics.split(",")) if topics else None
    except RegexError as error:
        raise SettingsError(f"{command}: --topic: {error}") from None
    found = [
        p
        for p in partitions
        if (pattern is None or pattern.matches(p.topic)) and (partition is None or p.partition == partition)
    ]
    if not found:
        raise SettingsError(f"{command}: {flow} replicates no such partition; 'kafka-mirror plan' lists its topics.")
    return found
