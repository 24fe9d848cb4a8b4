"""Read a Java properties file into entries with line numbers. Their meaning is unknown here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mirror.errors import SettingsError
from mirror.runtime.text_columns import one_line

BLANKS = " \t\f"  # Java skips these around keys and separators
DEFAULT = "default"  # the `where` of an entry that comes from no file
HIDDEN = "***"  # shown instead of a secret
_DROPPED = re.compile(r"(?<!\\)(?:\\\\)*(\\[.dwsDWSbB(){}\[\]|*+?^$-])")  # an escape of regular expressions
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BOMS = {b"\xef\xbb\xbf": "UTF-8", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_SECRET = re.compile(
    r"passw|secret|jaas|token|credential|user\.info|(access|private|account|api|signing)key|(^|[._-])key($|[._-])",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(r"(^|[.])key[.]converter($|[.])")  # the converter of keys is a class, not a secret


def is_secret(key: str) -> bool:
    """Return whether the value of `key` must never be shown."""
    return _SECRET.search(_NO_SECRET.sub(".", key)) is not None


def is_provided(values: Mapping[str, str], key: str) -> bool:
    """Return whether a config provider gave the value of `key`."""
    return isinstance(values, Properties) and key in values.provided


def servers_of(client: Mapping[str, str]) -> str:
    """Return a cluster's addresses for messages; *** if a config provider gave them."""
    servers = "bootstrap.servers"
    return HIDDEN if is_provided(client, servers) else client.get(servers, "an unknown address")


def shown(values: Mapping[str, str], key: str, value: str) -> str:
    """Return `value`, derived from `key` in `values`, quoted for a message; *** for a secret."""
    return HIDDEN if is_secret(key) or is_provided(values, key) else f'"{value}"'


class Template(Protocol):
    """A value that comes from files (mirror.config.providers)."""

    def value(self) -> str:
        """Return the current value; raises LookupError if the files have none."""

    def files(self) -> list[Path]:
        """Return the paths of the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One property, and where it is written."""

    key: str
    value: str
    where: str  # "mirror.properties:12"; "option" for the command line; "default"
    is_provided: bool = False  # a config provider gave the value, or a part of it
    template: Template | None = field(default=None, compare=False)  # reads the value again, if it is all from files
    dropped: str = ""  # the first escape whose backslash Java drops, as in "\\."

    @property
    def is_secret(self) -> bool:
        """Return whether the value must never be shown, because of its key or its origin."""
        return self.is_provided or is_secret(self.key)

    def shown(self, value: str | None = None) -> str:
        """Return the value, or the derived `value`, quoted for a message; *** for a secret."""
        return HIDDEN if self.is_secret else f'"{self.value if value is None else value}"'

    def __repr__(self) -> str:
        return f"Entry({self.where}: {self.key}={self.shown()})"


def default_layer(defaults: Mapping[str, str]) -> dict[str, Entry]:
    """Return entries from a table of defaults, key -> text."""
    return {key: Entry(key=key, value=value, where=DEFAULT) for key, value in defaults.items()}


class Properties(Mapping[str, str]):
    """An immutable map from key to value. Its repr hides secrets; it is picklable and hashable.

    `provided`: keys whose values a config provider gave. `templates`: read values again that come from files. A copy keeps both.
    """

    __slots__ = ("_values", "provided", "templates")

    def __init__(
        self,
        values: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        provided: Iterable[str] = (),
        templates: Mapping[str, Template] | None = None,
    ) -> None:
        self._values = dict(values)
        self.provided: frozenset[str] = frozenset(provided) | (
            values.provided if isinstance(values, Properties) else frozenset()
        )
        copied = values.templates if isinstance(values, Properties) else {}
        self.templates: dict[str, Template] = dict(templates or copied)

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key}={shown(self, key, value)}" for key, value in self._values.items()) + "}"


def read(path: Path) -> list[Entry]:
    """Return the entries of a properties file in file order, including duplicates.

    Bytes are ISO-8859-1, as in java.util.Properties.load(InputStream), which MirrorMaker uses.

    Raises:
        SettingsError: The file cannot be read, is empty or binary, starts with a byte order mark, or has a bad escape.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: no such file; expected a connect-mirror-maker.properties. Check the path."
        ) from None
    except IsADirectoryError:
        raise SettingsError(f"{path}: is a directory; expected a properties file. Name the file inside it.") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise SettingsError(f"{path}: cannot be read ({reason}); expected a readable file. Check its rights.") from None
    for bom, encoding in _BOMS.items():
        if data.startswith(bom):
            raise SettingsError(
                f"{path}:1: starts with a {encoding} byte order mark; expected plain text without one. "
                "Save the file without BOM."
            )
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        raise SettingsError(
            f"{path}:{line}: holds a NUL byte; expected a text file. Check that this is the right file."
        )
    entries = parse(data.decode("iso-8859-1"), str(path))
    if not entries:
        raise SettingsError(f"{path}: holds no property; expected at least clusters. Fill it or name another file.")
    return entries


def parse(text: str, origin: str) -> list[Entry]:
    """Return the entries of properties `text`; errors and entries name the file by `origin`."""
    return [_entry(line, f"{origin}:{number}") for number, line in _logical_lines(text)]


def last_wins(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the effective entry per key: the last of its duplicates, with that line."""
    return {entry.key: entry for entry in entries}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (first line number, logical line), without comments, and with continuation lines joined."""
    held, start = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(BLANKS)
        if not held:  # a comment or blank line counts as such only if no line is being continued
            start = number
            if not line or line[0] in "#!":
                continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            held += line[:-1]
            continue
        yield start, held + line
        held = ""
    if held:  # Java drops a backslash at the end of the file
        yield start, held


def _entry(line: str, where: str) -> Entry:
    end = 0
    while end < len(line) and line[end] not in "=:" + BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(BLANKS)
    key = _unescape(line[:end], where)
    dropped = _DROPPED.search(rest)
    value = _unescape(rest, one_line(f"{where}: {key}"))
    return Entry(key=key, value=value, where=where, dropped=dropped[1] if dropped else "")


def _unescape(text: str, where: str) -> str:
    """Resolve Java escapes. The error starts with `where`, and never quotes the text: it may be a secret."""

    def resolve(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] != "u":
            return _ESCAPES.get(escape, escape)
        if len(escape) != 5:
            raise SettingsError(
                f"{where}: holds a bad \\u escape; expected \\u and four hexadecimal digits. "
                'Correct it, or write "\\\\" for a backslash.'
            )
        return chr(int(escape[1:], 16))

    plain = re.sub(r"\\(u[0-9a-fA-F]{4}|.|\Z)", lambda m: resolve(m) if m[1] else "", text, flags=re.DOTALL)
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")  # joins \ud83d\ude00 as Java's char pairs
    except UnicodeDecodeError:
        raise SettingsError(
            f"{where}: holds half of a surrogate pair; expected both \\u halves. Write the two escapes together."
        ) from None
