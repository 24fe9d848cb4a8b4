"""Check an import's lines with the loader, and write them as a properties file."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from mirror.config.imports.connectors import Item, State
from mirror.config.layers import is_common
from mirror.config.load import checked, gathered
from mirror.config.properties import Entry
from mirror.config.providers import is_provider_key, resolve
from mirror.config.settings import Settings
from mirror.config.table import FLOW_DEFAULTS
from mirror.errors import SettingsError
from mirror.runtime.text_columns import one_line

BROKERS = ".bootstrap.servers"
WIDTH = 110
_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def tried(items: Sequence[Item], path: Path) -> list[Item]:
    """Return the items: refused ones marked for manual work, ineffective ones without a line.

    If a connection's secrets are not on this machine, the connection is not checked.
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
    """Return the lines to check.

    If the brokers of a cluster were refused, substitute a placeholder address: the check needs an address for each cluster.
    """
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
        return item.left_out(settings.ignored_why.get(item.key, "") or "it has no effect")
    return item


def _without_secrets(found: dict[int, Item], path: Path) -> set[int]:
    """Mark lines with unresolved references; return the numbers of the lines not to check."""
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
                return missing  # the reference belongs to a provider: the loader reports it
            found[number] = item.by_hand(
                ""
                if item.state is State.BY_HAND
                else f"{error.complaint} Or run the import on the machine that has it."
            )
            missing |= {number, *_beside(found, number)}
    return missing


def _beside(found: Mapping[int, Item], number: int) -> set[int]:
    """Return a cluster's other connection settings, which cannot be checked without this line."""
    owner = _owner(found[number].key)
    return {other for other, item in found.items() if owner and _owner(item.key) == owner}


def _owner(key: str) -> str:
    """Return the cluster or flow of a security setting, "" for any other line."""
    if key in FLOW_DEFAULTS:
        return ""
    parts = key.split(".")
    for at in range(1, len(parts)):
        name = ".".join(parts[at:])
        if is_common(name) and name != "bootstrap.servers":
            return ".".join(parts[:at])
    return ""


def properties_text(items: Sequence[Item], origin: str, advice: str) -> str:
    """Return a file with the items' lines: clusters first, then each flow.

    Items for manual work are written as found, below the reason. kafka-mirror refuses them until the user has decided.
    """
    lines = [item for item in items if item.is_line]
    parts = [_comment(f"Written by kafka-mirror import from {origin}. {advice}")]
    for title, those in _sections(lines):
        parts.append("\n".join((*([f"# {_ascii(title)}"] if title else []), *map(_line, those))) + "\n")
    return "\n".join(parts)


def java_escaped(text: str, *, is_key: bool = False) -> str:
    """Return a text as java.util.Properties stores it: in ISO-8859-1, the rest as escapes."""
    found = "".join(_escaped(char, is_key=is_key) for char in text)
    return found if is_key or not found.startswith(" ") else f"\\{found}"


def _escaped(char: str, *, is_key: bool) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char == "\\" or (is_key and char in " =:#!"):
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(data[at : at + 2], 'big'):04x}" for at in range(0, len(data), 2))


def _sections(lines: Sequence[Item]) -> list[tuple[str, list[Item]]]:
    """Return the lines in groups: clusters, each cluster, each flow, config providers."""
    aliases = next((item.value.split(", ") for item in lines if item.key == "clusters"), [])
    found: dict[str, list[Item]] = {"": [], **{alias: [] for alias in aliases}}
    rest: list[Item] = []
    for item in lines:
        alias = next((alias for alias in sorted(aliases, key=len)[::-1] if item.key.startswith(f"{alias}.")), None)
        if item.key == "clusters":
            found[""].append(item)
        elif "->" in item.key:
            found.setdefault(_flow_of(item.key), []).append(item)
        elif alias is not None:
            found[alias].append(item)
        else:
            rest.append(item)
    return [*((title, those) for title, those in found.items() if those), *([("all", rest)] if rest else [])]


def _flow_of(key: str) -> str:
    """Return the flow of a key: everything before the first dot after the arrow. Only a comment depends on it."""
    source, _, rest = key.partition("->")
    return f"{source}->{rest.partition('.')[0]}"


def _line(item: Item) -> str:
    line = f"{java_escaped(item.key, is_key=True)} = {java_escaped(item.value)}"
    return f"{_comment(f'{State.BY_HAND.value}: {item.why}')}{line}" if item.state is State.BY_HAND else line


def _ascii(text: str) -> str:
    """Return a text as one line of ASCII, for a comment."""
    return one_line(text).encode("ascii", "backslashreplace").decode("ascii")


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in _wrapped(text))


def _wrapped(text: str) -> Iterable[str]:
    return textwrap.wrap(re.sub(r"\s+", " ", _ascii(text)), WIDTH - 2, break_on_hyphens=False, break_long_words=False)
