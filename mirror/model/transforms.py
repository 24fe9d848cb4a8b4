"""Change or drop records, like Kafka Connect's single message transforms. Pure.

Semantics: org.apache.kafka.connect.transforms of Kafka 4.1.1. Connect's transforms process the output of a converter. In
kafka-mirror, keys and values are bytes, and transforms of fields decode them as JSON. All other bytes stay the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from mirror.model.records import Raw, body_of, fields_of

Headers = tuple[tuple[str, bytes | None], ...]


class TransformError(Exception):
    """A transform cannot process a record; the record must not be copied unchanged.

    `offset`: the record's source offset, -1 if unknown.
    """

    def __init__(self, complaint: str, offset: int = -1) -> None:
        super().__init__(complaint)
        self.offset = offset


class Content(NamedTuple):
    """The part of a record that a transform may read and change."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class Change(Protocol):
    """Changes a record."""

    def __call__(self, record: Content) -> Content | None:
        """Return the changed record, None if it is dropped; raises TransformError."""


class Condition(Protocol):
    """Selects the records to which a transform applies."""

    def __call__(self, record: Content) -> bool:
        """Return whether the condition is true for a record."""


@dataclass(frozen=True, slots=True)
class Transform:
    """One transform of a topic, by its name in the file. `condition`: None means every record."""

    name: str
    change: Change
    condition: Condition | None = None
    is_negated: bool = False

    def applied(self, record: Content) -> Content | None:
        """Return the changed record, None if it is dropped; raises TransformError with the transform's name."""
        if self.condition is not None and self.condition(record) is self.is_negated:
            return record
        try:
            return self.change(record)
        except TransformError as error:
            raise TransformError(f"transform {self.name}: {error}") from error


Transforms = tuple[Transform, ...]


def transformed(transforms: Transforms, raw: Raw) -> Raw | None:
    """Return the changed record, None if it is dropped; raises TransformError."""
    before = Content(*fields_of(raw.body))
    try:
        found = applied(transforms, before)
    except TransformError as error:
        raise TransformError(f"the record at source offset {raw.offset} stays: {error}", raw.offset) from error
    if found is None or found is before:
        return None if found is None else raw
    return raw._replace(body=body_of(*found))


def applied(transforms: Transforms, record: Content) -> Content | None:
    """Return the record after all transforms, None if one drops it; raises TransformError."""
    found: Content | None = record
    for transform in transforms:
        if found is not None:
            found = transform.applied(found)
    return found


# --- conditions: Connect's predicates --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HasHeader:
    """Connect's HasHeaderKey."""

    name: str

    def __call__(self, record: Content) -> bool:
        """Return whether the record has a header with that name."""
        return any(name == self.name for name, _ in record.headers)


@dataclass(frozen=True, slots=True)
class IsTombstone:
    """Connect's RecordIsTombstone."""

    def __call__(self, record: Content) -> bool:
        """Return whether the record has no value."""
        return record.value is None


# --- changes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drop:
    """Connect's Filter."""

    def __call__(self, record: Content) -> Content | None:
        """Drop the record."""
        return None


@dataclass(frozen=True, slots=True)
class DropHeaders:
    """Connect's DropHeaders."""

    names: tuple[str, ...]

    def __call__(self, record: Content) -> Content:
        """Return the record without these headers."""
        kept = tuple(header for header in record.headers if header[0] not in self.names)
        return record if len(kept) == len(record.headers) else record._replace(headers=kept)


@dataclass(frozen=True, slots=True)
class InsertHeader:
    """Connect's InsertHeader; the value is written exactly as in the file."""

    name: str
    value: bytes = field(repr=False)  # it may come from a config provider

    def __call__(self, record: Content) -> Content:
        """Return the record with the header after its other headers."""
        return record._replace(headers=(*record.headers, (self.name, self.value)))


@dataclass(frozen=True, slots=True)
class MaskFields:
    """Connect's MaskField for JSON objects. Without a `replacement`, a field gets the null value of its type."""

    of_key: bool
    fields: tuple[str, ...]
    replacement: str | None = None

    def __call__(self, record: Content) -> Content:
        """Return the record with the fields masked; without that key or value, return it unchanged."""
        return _in_part(record, self.of_key, self._masked)

    def _masked(self, text: str, members: list[Member]) -> str:
        parts, at = [], 0
        for member in members:
            if member.name in self.fields:
                parts += [text[at : member.starts], json.dumps(self._mask(member.name, member.value))]
                at = member.ends
        return "".join([*parts, text[at:]])

    def _mask(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        if self.replacement is None:
            return type(value)()
        if isinstance(value, str):
            return self.replacement
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TransformError(f'field "{name}" is neither a string nor a number, so it cannot be replaced')
        try:
            return type(value)(self.replacement)
        except ValueError:
            raise TransformError(f'field "{name}" is a number, and "{self.replacement}" is none') from None


@dataclass(frozen=True, slots=True)
class ReplaceFields:
    """Connect's ReplaceField for JSON objects: keeps or drops fields, then renames them."""

    of_key: bool
    include: tuple[str, ...] = ()  # empty: all
    exclude: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()

    def __call__(self, record: Content) -> Content:
        """Return the record with other fields; a record without that key or value stays unchanged."""
        return _in_part(record, self.of_key, self._replaced)

    def _replaced(self, text: str, members: list[Member]) -> str:
        names: Mapping[str, str] = dict(self.renames)
        kept = [m for m in members if m.name not in self.exclude and (not self.include or m.name in self.include)]
        if len(kept) == len(members) and not any(member.name in names for member in members):
            return text
        parts = (f"{json.dumps(names.get(m.name, m.name), ensure_ascii=False)}:{text[m.starts : m.ends]}" for m in kept)
        return f"{{{','.join(parts)}}}"


# --- JSON objects: unchanged parts keep their text ---------------------------------------------------------------------


class Member(NamedTuple):
    """A field of a JSON object, and the position of its value in the text."""

    name: str
    value: Any
    starts: int
    ends: int


_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\n\r]*")


def members(text: str) -> list[Member]:
    """Return the fields of a JSON object, in order. Raises TransformError if the text is not an object."""
    try:
        return list(_members(text))
    except (ValueError, IndexError, RecursionError) as error:
        raise TransformError(f"it works on JSON objects, and this value is no object ({error})") from error


def _members(text: str) -> Iterator[Member]:
    at = _behind(text, _blank(text, 0), "{")
    if text[at] != "}":
        while True:
            name, at = _DECODER.raw_decode(text, at if text[at] == '"' else len(text))
            starts = _blank(text, _behind(text, _blank(text, at), ":"))
            value, ends = _DECODER.raw_decode(text, starts)
            yield Member(str(name), value, starts, ends)
            at = _blank(text, ends)
            if text[at] == "}":
                break
            at = _behind(text, at, ",")
    if _blank(text, at + 1) != len(text):
        raise ValueError("more follows the object")


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found is not None else at


def _behind(text: str, at: int, char: str) -> int:
    if text[at] != char:
        raise ValueError(f'expected "{char}" at {at}')
    return _blank(text, at + 1)


def _in_part(record: Content, of_key: bool, change: Callable[[str, list[Member]], str]) -> Content:
    part = record.key if of_key else record.value
    if part is None:
        return record
    try:
        text = part.decode()
    except UnicodeDecodeError as error:
        raise TransformError(f"it works on JSON objects, and this value is not UTF-8 ({error.reason})") from error
    changed = change(text, members(text))
    if changed == text:
        return record
    return record._replace(key=changed.encode()) if of_key else record._replace(value=changed.encode())
