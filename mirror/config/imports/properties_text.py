"""Write items as the text of a properties file that Java reads back. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from mirror.config.imports.items import Item, State
from mirror.runtime.text_columns import one_line

WIDTH = 110
_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def properties_text(items: Sequence[Item], origin: str, advice: str) -> str:
    """Return a file with the items' lines: clusters first, then each flow.

    What needs a hand stands there as it was found, below the reason: what kafka-mirror refuses in it, it refuses until
    somebody has decided.
    """
    lines = [item for item in items if item.is_line]
    parts = [_comment(f"Written by kafka-mirror import from {origin}. {advice}")]
    for title, those in _sections(lines):
        parts.append("\n".join((*([f"# {one_line(title)}"] if title else []), *map(_line, those))) + "\n")
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
    """Return what is before the first dot behind the arrow; only a comment hangs on it."""
    source, _, rest = key.partition("->")
    return one_line(f"{source}->{rest.partition('.')[0]}")


def _line(item: Item) -> str:
    line = f"{java_escaped(item.key, is_key=True)} = {java_escaped(item.value)}"
    return f"{_comment(f'{State.BY_HAND.value}: {item.why}')}{line}" if item.state is State.BY_HAND else line


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in _wrapped(text))


def _wrapped(text: str) -> Iterable[str]:
    return textwrap.wrap(re.sub(r"\s+", " ", one_line(text)), WIDTH - 2, break_on_hyphens=False, break_long_words=False)
