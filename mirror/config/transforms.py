"""Read a flow's `transforms` and `predicates` in Kafka Connect's syntax; refuse unknown ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mirror.config import values
from mirror.config.properties import Entry
from mirror.config.values import refusal
from mirror.model.transforms import (
    Change,
    Condition,
    Drop,
    DropHeaders,
    HasHeader,
    InsertHeader,
    IsTombstone,
    MaskFields,
    ReplaceFields,
    Transform,
    Transforms,
)
from mirror.policy.java_regex import JavaPattern, RegexError, compiled

TRANSFORMS_KEY, PREDICATES_KEY = "transforms", "predicates"
_PACKAGE = "org.apache.kafka.connect.transforms."
UNNAMED = "nothing names it"
_COMMON = frozenset({"type", "predicate", "negate"})
_ROUTERS = ("RegexRouter", "TimestampRouter")  # they rename topics, but the flow's policy must recognize the names


def is_of_transforms(key: str) -> bool:
    """Return whether a flow's key is about transforms or predicates."""
    return key.partition(".")[0] in (TRANSFORMS_KEY, PREDICATES_KEY)


def is_named(key: str, layers: Iterable[Mapping[str, Entry]]) -> bool:
    """Return whether a key lists transforms or predicates, or belongs to a listed one."""
    kind, _, rest = key.partition(".")
    name = rest.partition(".")[0]
    return not rest or any(name in values.text_list(layer[kind]) for layer in layers if kind in layer)


class TopicTransform(NamedTuple):
    """A transform, and the remote topics to which it applies: None means all."""

    transform: Transform
    topics: JavaPattern | None = None
    is_negated: bool = False

    def is_for(self, remote: str) -> bool:
        """Return whether the transform applies to a remote topic."""
        return self.topics is None or self.topics.matches(remote) is not self.is_negated


def of_topic(transforms: tuple[TopicTransform, ...], remote: str) -> Transforms:
    """Return the transforms of one remote topic."""
    return tuple(one.transform for one in transforms if one.is_for(remote))


def transforms_of(entries: Mapping[str, Entry]) -> tuple[TopicTransform, ...]:
    """Return a flow's transforms in order; raise SettingsError for an unsupported one."""
    named = entries.get(TRANSFORMS_KEY)
    return () if named is None else tuple(_transform(name, entries, named) for name in values.text_list(named))


class _Keys:
    """The keys of one transform or predicate; every key that is read counts as known."""

    def __init__(self, prefix: str, entries: Mapping[str, Entry], *, named_in: Entry) -> None:
        self._prefix = prefix
        self._entries = {
            key.removeprefix(prefix): entry
            for key, entry in entries.items()
            if key.startswith(prefix) and key != prefix
        }
        if "type" not in self._entries:
            raise refusal(named_in, f"names {named_in.shown(prefix[:-1])}, which has no type. Write {prefix}type = ...")
        self.type = self._entries["type"]

    def text(self, name: str) -> str:
        """Return a value, "" if it is not set."""
        entry = self._entries.get(name)
        return values.text(entry) if entry is not None else ""

    def required(self, name: str) -> Entry:
        """Return the entry of a required key."""
        entry = self._entries.get(name)
        if entry is None or not values.text(entry):
            raise refusal(self.type, f"needs {self._prefix}{name}. Write it, or take the transform out.")
        return entry

    def names(self, *names: str) -> tuple[str, ...]:
        """Return a comma-separated list, from the first of these keys that is set."""
        return next((values.text_list(self._entries[name]) for name in names if name in self._entries), ())

    def boolean(self, name: str) -> bool:
        """Return a boolean, False if it is not set."""
        return values.boolean(self._entries[name]) if name in self._entries else False

    def refuse_others(self, known: frozenset[str]) -> None:
        """Refuse a key that is not supported."""
        for name, entry in self._entries.items():
            if name not in known | {"type"}:
                raise refusal(entry, "is not a supported setting of this transform or predicate. Remove the line.")


def _transform(name: str, entries: Mapping[str, Entry], named_in: Entry) -> TopicTransform:
    keys = _Keys(f"{TRANSFORMS_KEY}.{name}.", entries, named_in=named_in)
    kind = values.text(keys.type).removeprefix(_PACKAGE)
    if kind in _ROUTERS:
        raise refusal(
            keys.type,
            f"{kind} renames topics, which the mirror must recognize by name. Write a policy in Python instead "
            "(replication.policy.class), or remove it.",
        )
    if kind not in _KINDS:
        known = ", ".join(sorted(_KINDS))
        raise refusal(
            keys.type,
            f"{keys.type.shown(kind)} is not supported: records would be mirrored unchanged. Supported: {known}. "
            "Remove it if you want that.",
        )
    own, change = _KINDS[kind]
    keys.refuse_others(own | _COMMON)
    topics, condition = _predicate(keys, entries)
    is_negated = keys.boolean("negate")
    transform = Transform(name, change(keys), condition, is_negated=is_negated and condition is not None)
    return TopicTransform(transform, topics, is_negated)


def _predicate(keys: _Keys, entries: Mapping[str, Entry]) -> tuple[JavaPattern | None, Condition | None]:
    """Return a transform's predicate: on the topic, or on the record."""
    name = keys.text("predicate")
    if not name:
        return None, None
    named = entries.get(PREDICATES_KEY)
    if named is None or name not in values.text_list(named):
        raise refusal(keys.required("predicate"), f'"{name}" is not a predicate. Name it in {PREDICATES_KEY}.')
    own = _Keys(f"{PREDICATES_KEY}.{name}.", entries, named_in=named)
    kind = values.text(own.type).removeprefix(f"{_PACKAGE}predicates.")
    if kind == "TopicNameMatches":
        own.refuse_others(frozenset({"pattern"}))
        entry = own.required("pattern")
        try:
            return compiled(values.text(entry)), None
        except RegexError as error:
            raise refusal(entry, f"{entry.shown(values.text(entry))} is not a regular expression: {error}.") from None
    if kind == "HasHeaderKey":
        own.refuse_others(frozenset({"name"}))
        return None, HasHeader(values.text(own.required("name")))
    if kind == "RecordIsTombstone":
        own.refuse_others(frozenset())
        return None, IsTombstone()
    raise refusal(
        own.type,
        f"{own.type.shown(kind)} is not supported. Supported: HasHeaderKey, RecordIsTombstone, TopicNameMatches.",
    )


def _masks(of_key: bool) -> Callable[[_Keys], Change]:
    def change(keys: _Keys) -> Change:
        fields = values.text_list(keys.required("fields"))
        return MaskFields(of_key, fields, keys.text("replacement") or None)

    return change


def _replaces(of_key: bool) -> Callable[[_Keys], Change]:
    def change(keys: _Keys) -> Change:
        renames = keys.names("renames")
        if not all(one.count(":") == 1 for one in renames):
            raise refusal(keys.required("renames"), "is not a list of pairs. Write old:new,old:new.")
        return ReplaceFields(
            of_key,
            include=keys.names("include", "whitelist"),
            exclude=keys.names("exclude", "blacklist"),
            renames=tuple((one.split(":")[0], one.split(":")[1]) for one in renames),
        )

    return change


_MASK = frozenset({"fields", "replacement"})
_REPLACE = frozenset({"include", "whitelist", "exclude", "blacklist", "renames"})
# By type: its keys, and how it is made from them.
_KINDS: dict[str, tuple[frozenset[str], Callable[[_Keys], Change]]] = {
    "Filter": (frozenset(), lambda _: Drop()),
    "DropHeaders": (
        frozenset({"headers"}),
        lambda keys: DropHeaders(values.text_list(keys.required("headers"))),
    ),
    "InsertHeader": (
        frozenset({"header", "value.literal"}),
        lambda keys: InsertHeader(
            values.text(keys.required("header")), values.text(keys.required("value.literal")).encode()
        ),
    ),
    "MaskField$Key": (_MASK, _masks(of_key=True)),
    "MaskField$Value": (_MASK, _masks(of_key=False)),
    "ReplaceField$Key": (_REPLACE, _replaces(of_key=True)),
    "ReplaceField$Value": (_REPLACE, _replaces(of_key=False)),
}
