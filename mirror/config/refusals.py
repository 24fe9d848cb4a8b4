"""Refuse unsupported keys that would change what is mirrored, or how it is secured.

No cluster is contacted. A key without effect may be ignored with a warning only if a mirror without the key works the same.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from mirror.config.keys import needless
from mirror.config.layers import KeysByOwner, Pair
from mirror.config.properties import Entry
from mirror.config.providers import is_provider_key
from mirror.config.setting_types import PATTERNS
from mirror.config.table import CLIENT_KEYS, EXACTLY_ONCE_KEY, FLOW_KEYS, TABLE, TARGET_KEYS
from mirror.config.transforms import is_of_transforms
from mirror.config.values import refusal, text, text_list

NEAR = 0.8  # of difflib's ratio: "topcs" and "topics" have 0.91
_SLIPS = frozenset({"emit.heartbeats"})  # a key on Kafka's own page, which MirrorMaker ignores too
_KNOWN = FLOW_KEYS | TARGET_KEYS | {"security.protocol"}
_ROLES = re.compile(r"^((source|target)\.cluster|(source\.|target\.)?(consumer|producer|admin)|producer\.override)\.")

_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_BYTES = ("org.apache.kafka.connect.converters.ByteArrayConverter", "ByteArrayConverter", "ByteArray")
_LISTS = frozenset(setting.key for setting in TABLE if setting.type is PATTERNS)
_NAMES = frozenset({"topic", "topics", "group", "groups"})
_FILTERS = re.compile(
    r"(in|ex)clu(de|des|ded|sion|sions)|(white|black|allow|deny|ignore|reject)(list)?(ed)?|filters?|regex|pattern|match"
)
_KEEPS_OUT = re.compile(r"exclu|black|deny|ignore|reject")
_QUOTES = "\"'"
_BRACKETS = re.compile(r"\[[^]\[]*,[^]\[]*\]")  # like a list in YAML and JSON
_GLOB = re.compile(r"(?<!\\)[\w-]\*")  # a name followed by a star
_NOT_IN_TOPICS = re.compile(r"[^a-zA-Z0-9._-]")
_OPERATORS = re.compile(r"[][\\^$.|?*+(){}]")

# Security settings of Java's clients: all their values, or some of them, make no difference here.
_TLS = {"TLSv1.2", "TLSv1.3"}
_SAME_VALUES = {
    "ssl.protocol": frozenset({"TLS", *_TLS}),
    "ssl.keymanager.algorithm": frozenset({"SunX509", "NewSunX509", "PKIX", "IbmX509"}),
    "ssl.trustmanager.algorithm": frozenset({"SunX509", "PKIX", "IbmPKIX"}),
}
_SAME = re.compile(
    r"ssl\.secure\.random\.implementation"  # where random numbers come from
    # When tickets are renewed: keytab tickets always in time; another program renews a ticket cache.
    r"|sasl\.kerberos\.(kinit\.cmd|ticket\.renew\.(window\.factor|jitter)|min\.time\.before\.relogin)"
    r"|sasl\.login\.(refresh|connect|read|retry)\..*"  # when tokens are renewed: always in time
    r"|sasl\.oauthbearer\.(jwks|expected|clock)\..*"  # for the brokers, which check tokens
    r"|sasl\.oauthbearer\.(scope|sub)\.claim\.name"
)


def refuse_what_would_differ(found: KeysByOwner) -> None:
    """Raise SettingsError for the first unsupported key that would change records or logins."""
    for entries in found.clusters.values():
        for sub, entry in entries.items():
            if is_of_transforms(sub):
                raise refusal(entry, f"is a flow's key, and this one is a cluster's. Write A->B.{sub}.")
    for sub, entry in _each(found):
        _refuse_blanks_around_arrow(entry)
        name = _ROLES.sub("", sub)
        if text(entry):
            _refuse_converters(sub, entry)
            _refuse_security(name, entry)
        if sub in _LISTS:
            _refuse_lists_that_match_nothing(sub, entry)
        _refuse_near_misses(sub, entry)


def _each(found: KeysByOwner) -> Iterator[tuple[str, Entry]]:
    """Yield each entry with its key (without the owner), in the order of owners."""
    for layer in (found.top, *found.clusters.values(), *found.pairs.values()):
        yield from layer.items()


def notes_on_patterns(found: KeysByOwner) -> tuple[str, ...]:
    """Return a sentence for each list of patterns in which Java drops a backslash."""
    return tuple(
        f'{entry.where}: {entry.key}: Java drops the backslash of "{entry.dropped}", so the pattern is {entry.shown()}. '
        f'Write "\\{entry.dropped}" if the backslash is meant.'
        for sub, entry in _each(found)
        if sub in _LISTS and entry.dropped
    )


def refuse_mode_of_no_target(found: KeysByOwner, enabled: Collection[Pair]) -> None:
    """Raise SettingsError if exactly-once is set for a flow or a source-only cluster.

    The key belongs to the target, as in MirrorMaker, and has no effect elsewhere.
    """
    for pair, entries in found.pairs.items():
        if (entry := entries.get(EXACTLY_ONCE_KEY)) is not None:
            raise refusal(entry, f"is the target's key, not a flow's. Write {pair.target}.{EXACTLY_ONCE_KEY}.")
    targets = {pair.target for pair in enabled}
    for alias, entries in found.clusters.items():
        if (entry := entries.get(EXACTLY_ONCE_KEY)) is not None and alias not in targets:
            expected = " or ".join(f"{target}.{EXACTLY_ONCE_KEY}" for target in sorted(targets))
            raise refusal(
                entry, f"is the target's key, and {alias} is the target of no enabled flow. Write {expected}."
            )


def _refuse_blanks_around_arrow(entry: Entry) -> None:
    """Refuse "A -> B.topics = x": Java reads the key "A", and the flow would mirror all topics by default."""
    if not entry.is_provided and "." not in entry.key and entry.value.startswith("->"):
        meant = entry.key + re.sub(r"^->\s*", "->", entry.value)
        raise refusal(entry, f'a key ends at its first blank. Write "->" without blanks: {meant}.')


def _refuse_converters(sub: str, entry: Entry) -> None:
    if sub in _CONVERTERS and text(entry) not in _BYTES:
        raise refusal(
            entry,
            f"{entry.shown(text(entry))} is not supported: bytes stay unchanged. Write {_BYTES[0]}, or remove the line.",
        )


def _refuse_security(name: str, entry: Entry) -> None:
    if not name.startswith(("ssl.", "sasl.", "security.providers")) or name in CLIENT_KEYS or _SAME.fullmatch(name):
        return
    if text(entry) in _SAME_VALUES.get(name, ()):
        return
    if name == "ssl.enabled.protocols":
        if set(text_list(entry)) >= _TLS:
            return
        raise refusal(
            entry, f'{entry.shown(text(entry))} is not supported. Write "TLSv1.2,TLSv1.3", or leave the key out.'
        )
    raise refusal(entry, "is not supported, and the connection would be less secure. Remove the line.")


def _refuse_lists_that_match_nothing(sub: str, entry: Entry) -> None:
    """Refuse values that cannot be names: quotes, brackets, comments, globs, blanks or semicolons."""
    whole = text(entry)
    if not entry.is_provided and len(whole) > 1 and whole[0] in _QUOTES and whole[-1] == whole[0]:
        bare = ", ".join(item.strip(_QUOTES) for item in text_list(entry))
        raise refusal(entry, f"is in quotes, which a properties file takes for a part of the names. Write {bare}.")
    if not entry.is_provided and _BRACKETS.fullmatch(whole):
        bare = ", ".join(text_list(entry)).strip("[]")
        raise refusal(entry, f"is in brackets, which a regular expression takes for a set of characters. Write {bare}.")
    for item in () if entry.is_provided else text_list(entry):
        if ";" in item:
            raise refusal(
                entry, f'"{item}" holds a ";". Separate names by commas. For a semicolon that is meant, write "[;]".'
            )
        if glob := _GLOB.search(item):
            meant = item.replace(glob[0], f"{glob[0][0]}.*", 1)
            raise refusal(
                entry,
                f'"{item}" is a regular expression, in which "{glob[0]}" is "{glob[0][0]}" any number of times. Write '
                f'"{meant}" for all names with that prefix, or "({glob[0][0]})*" if you mean that.',
            )
        if "#" in item and (sub.startswith("topics") or re.search(r"\s#", item)):
            raise refusal(
                entry,
                f'"{item}" holds a "#": a properties file has no comments after a value. Put the comment on a separate line.',
            )
        is_name = not _OPERATORS.search(item)
        if sub == "topics" and item and is_name and (odd := _NOT_IN_TOPICS.search(item)):
            raise refusal(
                entry,
                f'"{item}" cannot be a topic, because it contains "{odd[0]}". Separate names by commas; all other names are '
                "regular expressions.",
            )


def _refuse_near_misses(sub: str, entry: Entry) -> None:
    """Refuse a likely misspelling: the intended key would have its default, which may mean every topic."""
    if (
        is_of_transforms(sub)
        or sub in _KNOWN
        or sub in _SLIPS
        or needless(sub)
        or _ROLES.match(sub)
        or is_provider_key(sub)
    ):
        return
    if sub in ("topics.whitelist", "groups.whitelist"):
        raise refusal(
            entry, f"is not a setting of MirrorMaker 2, which would mirror all topics. Write {sub.partition('.')[0]}."
        )
    _refuse_filters(sub, entry)
    near = _nearest(sub)
    if near:
        raise refusal(entry, f'is not a setting of MirrorMaker. Was "{near}" meant? Correct it or remove the line.')


def _refuse_filters(sub: str, entry: Entry) -> None:
    """Refuse an unknown key that looks like a filter: the topics it should exclude would be mirrored."""
    parts = set(re.split(r"[._-]", sub.lower()))
    words = [part for part in parts if _FILTERS.fullmatch(part)]
    if not words or not (parts & _NAMES or parts <= set(words)):
        return
    what = "groups" if parts & {"group", "groups"} else "topics"
    meant = f"{what}.exclude" if any(_KEEPS_OUT.match(word) for word in words) else what
    raise refusal(entry, f"is not a setting of MirrorMaker, and looks like a filter. Write {meant}.")


@lru_cache(maxsize=1024)
def _nearest(sub: str) -> str | None:
    """Return the setting with a similar name. This comparison takes a third of the load time."""
    return next(iter(difflib.get_close_matches(sub, _KNOWN, n=1, cutoff=NEAR)), None)
