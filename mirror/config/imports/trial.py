"""Load what an import would write, and take in what the loader says of it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mirror.config.imports.items import Item, State
from mirror.config.keys import FLOW_DEFAULTS
from mirror.config.layers import is_common
from mirror.config.load import checked, gathered
from mirror.config.properties import Entry
from mirror.config.providers import is_provider_key, resolve
from mirror.config.settings import Settings
from mirror.errors import SettingsError

BROKERS = ".bootstrap.servers"


def tried(items: Sequence[Item], path: Path) -> list[Item]:
    """Return the items with what the loader refuses as work for a hand, and without the lines that have no effect.

    Connections whose secrets are not on this machine are not tried.
    """
    found = dict(enumerate(items))
    refused = _without_secrets(found, path)
    while True:
        try:
            settings = checked(gathered(path, _entries(found, refused, path)))
        except SettingsError as error:
            numbers = [number for number, item in found.items() if item.is_line and item.key == error.key]
            if not numbers or numbers[0] in refused:
                return [*found.values(), Item(found="the file", where=path.name).by_hand(_reason(error, path))]
            found[numbers[0]] = found[numbers[0]].by_hand(error.complaint)
            refused |= {numbers[0], *_beside(found, numbers[0])}
            continue
        return [_with_effect(item, settings) for item in found.values()]


def _entries(found: Mapping[int, Item], refused: Collection[int], path: Path) -> list[Entry]:
    """Return the lines to try; a cluster whose brokers were refused stands there with others, for without any nothing loads."""
    entries = []
    for number, item in found.items():
        is_address = item.key.endswith(BROKERS) and "->" not in item.key
        if item.is_line and (number not in refused or is_address):
            value = f"{number}.invalid:1" if number in refused else item.value
            entries.append(Entry(key=item.key, value=value, where=path.name))
    return entries


def _reason(error: SettingsError, path: Path) -> str:
    return str(error).removeprefix(f"{path}: ")


def _with_effect(item: Item, settings: Settings) -> Item:
    if item.is_line and item.state is State.TRANSLATED and item.key in settings.ignored:
        return item.left_out(settings.ignored_why.get(item.key, "") or "nothing here reads it")
    return item


def _without_secrets(found: dict[int, Item], path: Path) -> set[int]:
    """Mark the lines whose references find nothing here, and return the numbers of all that are not to be tried."""
    providers = {
        item.key: Entry(key=item.key, value=item.value, where=path.name) for item in found.values() if item.is_line
    }
    providers = {key: entry for key, entry in providers.items() if is_provider_key(key)}
    missing: set[int] = set()
    for number, item in list(found.items()):
        if not item.is_line or is_provider_key(item.key):
            continue
        try:
            resolve({**providers, item.key: Entry(key=item.key, value=item.value, where=path.name)}, os.environ)
        except SettingsError as error:
            if error.key != item.key:
                return missing  # of a provider itself: the loader tells
            found[number] = item.by_hand(
                "" if item.state is State.BY_HAND else f"{error.complaint} Or run it where that is."
            )
            missing |= {number, *_beside(found, number)}
    return missing


def _beside(found: Mapping[int, Item], number: int) -> set[int]:
    """Return the lines that say how to connect together with one of them: without it they cannot be checked."""
    owner = _owner(found[number].key)
    return {other for other, item in found.items() if owner and _owner(item.key) == owner}


def _owner(key: str) -> str:
    """Return what a line about security belongs to, "" for any other line."""
    if key in FLOW_DEFAULTS:
        return ""
    parts = key.split(".")
    for at in range(1, len(parts)):
        name = ".".join(parts[at:])
        if is_common(name) and name != "bootstrap.servers":
            return ".".join(parts[:at])
    return ""
