"""Parse one property as a value of a Java type, or refuse it. No other module parses values.

A property is an entry of a file. A property of a client has no line number, because only its layers have the entries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mirror.config.properties import HIDDEN, Entry, is_provided
from mirror.errors import SettingsError
from mirror.runtime.text_columns import one_line

JAVA_BLANKS = "".join(map(chr, range(33)))  # java.lang.String.trim removes these; Kafka trims every value
INT_MAX = 2**31 - 1
MAX_REPLICATION_FACTOR = 32_767  # a 16-bit field of the CreateTopics request
_NO_PATTERNS = "is not a valid list of regular expressions. Correct it at the source of the config provider."


class ClientError(SettingsError):
    """An unsupported property of a client; `key` is its Java name without any prefix."""

    def __init__(self, key: str, complaint: str) -> None:
        super().__init__(f"{key}: {complaint}", key=key, complaint=complaint)

    def __reduce__(self) -> tuple[type[ClientError], tuple[str, str]]:
        return type(self), (self.key, self.complaint)


def refusal(entry: Entry, complaint: str) -> SettingsError:
    """Return the error for `entry`. `complaint` has the found value, the expected one, and what to do."""
    if not entry.where:
        return ClientError(entry.key, complaint)
    return SettingsError(
        one_line(f"{entry.where}: {entry.key}: {complaint}"), key=entry.key, complaint=one_line(complaint)
    )


def of_client(java: Mapping[str, str], key: str) -> Entry | None:
    """Return a client's property, None if it is not set."""
    value = java.get(key)
    return None if value is None else Entry(key=key, value=value, where="", is_provided=is_provided(java, key))


def client_text(java: Mapping[str, str], key: str) -> str | None:
    """Return the text of a client's property, None if it is not set."""
    entry = of_client(java, key)
    return None if entry is None else text(entry)


def text(entry: Entry) -> str:
    """Return the value, trimmed like Kafka's ConfigDef."""
    return entry.value.strip(JAVA_BLANKS)


def text_list(entry: Entry) -> tuple[str, ...]:
    """Return a comma-separated list, each item trimmed; an empty value is an empty list."""
    value = text(entry)
    return tuple(item.strip(JAVA_BLANKS) for item in value.split(",")) if value else ()


def names(entry: Entry) -> tuple[str, ...]:
    """Return a comma-separated list of names, none of them empty."""
    found = text_list(entry)
    if not all(found):
        raise refusal(entry, "holds an empty name; expected names between the commas. Remove the extra comma.")
    return found


def patterns(entry: Entry) -> tuple[str, ...]:
    """Return a comma-separated list of Java regular expressions."""
    from mirror.policy.filters import compile_list  # imports `regex`, which `--help` does not need
    from mirror.policy.java_regex import RegexError

    found = text_list(entry)
    try:
        compile_list(found)
    except RegexError as error:
        raise refusal(entry, f"{HIDDEN} {_NO_PATTERNS}" if entry.is_secret else str(error)) from None
    return found


def word(entry: Entry, *, words: Sequence[str], complaint: str) -> str:
    """Return one of `words`, in any case; other values raise an error with `complaint`."""
    found = text(entry)
    if found.lower() not in words:
        raise refusal(entry, f"{entry.shown(found)} {complaint}")
    return found.lower()


def choice(entry: Entry, *, choices: Sequence[str]) -> str:
    """Return one of `choices`, in exactly this spelling."""
    found = text(entry)
    if found not in choices:
        raise refusal(entry, f"{entry.shown(found)} is not supported. Write one of {', '.join(choices)}.")
    return found


def boolean(entry: Entry) -> bool:
    """Return true or false, in upper or lower case."""
    value = text(entry).lower()
    if value not in ("true", "false"):
        raise refusal(entry, f"{entry.shown(text(entry))} is not a boolean. Write true or false.")
    return value == "true"


def integer(entry: Entry, *, least: int, most: int = INT_MAX) -> int:
    """Return a decimal integer between `least` and `most`."""
    value = text(entry)
    number = int(value) if re.fullmatch(r"[+-]?[0-9]{1,18}", value) else None
    if number is None or not least <= number <= most:
        expected = f"an integer from {least} to {most}" if most != INT_MAX else f"an integer of at least {least}"
        raise refusal(entry, f"{entry.shown(value)} is not {expected}. Correct it or leave the key out.")
    return number


def replication_factor(entry: Entry) -> int:
    """Return a replication factor; -1 leaves it to the brokers."""
    factor = integer(entry, least=-1, most=MAX_REPLICATION_FACTOR)
    if factor == 0:
        complaint = "is not a replication factor. Write at least 1, or -1 for the brokers' default."
        raise refusal(entry, f"{entry.shown(text(entry))} {complaint}")
    return factor


def folder(entry: Entry) -> Path:
    """Return the path of a directory that need not exist."""
    path = text(entry)
    if not path or "\0" in entry.value:
        raise refusal(entry, "is not a path; expected a directory. Name one or leave the key out.")
    return Path(path)


def url(entry: Entry) -> str:
    """Return an HTTP address without a trailing slash, or ""."""
    found = text(entry)
    if found and not found.startswith(("http://", "https://")):
        raise refusal(entry, f"{entry.shown(found)} is not an address. Write one like http://127.0.0.1:9090.")
    return found.rstrip("/")


def host_port(entry: Entry) -> tuple[str, int]:
    """Return (host, port) of an address to listen on; port 0 lets the system choose."""
    value = text(entry)
    match = re.fullmatch(r"\[?([0-9A-Za-z._:%-]+?)\]?:([0-9]{1,5})", value)
    if match is None or int(match[2]) > 65535:
        raise refusal(entry, f'{entry.shown(value)} is not an address. Write host:port, e.g. "127.0.0.1:9404".')
    return match[1], int(match[2])


def broker_addresses(bootstrap: str) -> tuple[str, ...]:
    """Return bootstrap.servers as host:port items in lower case; Java's optional "PROTOCOL://" is dropped.

    Raises:
        ValueError: An item is not host:port; the argument is its text, without anything before an "@".
    """
    addresses = []
    for item in filter(None, (part.strip(JAVA_BLANKS) for part in bootstrap.split(","))):
        match = re.fullmatch(r"(?:[0-9A-Za-z._%-]*://)?(\[[0-9A-Fa-f:.%]+\]|[0-9A-Za-z._%-]+):([0-9]{1,5})", item)
        if match is None or not 1 <= int(match[2]) <= 65535:
            raise ValueError(item.rpartition("@")[2])
        host = match[1].lower().rstrip(".")
        addresses.append(f"{host}:{int(match[2])}")
    if not addresses:
        raise ValueError(bootstrap)
    return tuple(addresses)
