"""Read one property as a Java-typed value, or say in one line why not."""

from __future__ import annotations

import re

from mirror.config.properties import Entry
from mirror.errors import SettingsError
from mirror.runtime.text_columns import one_line

JAVA_BLANKS = "".join(map(chr, range(33)))  # what java.lang.String.trim removes; Kafka trims every value
INT_MAX = 2**31 - 1


def refusal(entry: Entry, complaint: str) -> SettingsError:
    """Return the error for `entry`; `complaint` says what was found, what was expected and what to do."""
    return SettingsError(
        one_line(f"{entry.where}: {entry.key}: {complaint}"), key=entry.key, complaint=one_line(complaint)
    )


def text(entry: Entry) -> str:
    """Return the value trimmed as Kafka's ConfigDef does."""
    return entry.value.strip(JAVA_BLANKS)


def text_list(entry: Entry) -> tuple[str, ...]:
    """Return a comma list, each item trimmed; an empty value is an empty list."""
    value = text(entry)
    return tuple(item.strip(JAVA_BLANKS) for item in value.split(",")) if value else ()


def boolean(entry: Entry) -> bool:
    """Return true or false, any case."""
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


def host_port(entry: Entry) -> tuple[str, int]:
    """Return (host, port) of an address to listen on; port 0 lets the system choose."""
    value = text(entry)
    match = re.fullmatch(r"\[?([0-9A-Za-z._:%-]+?)\]?:([0-9]{1,5})", value)
    if match is None or int(match[2]) > 65535:
        raise refusal(entry, f'{entry.shown(value)} is not an address. Write host:port, e.g. "127.0.0.1:9404".')
    return match[1], int(match[2])


def broker_addresses(bootstrap: str) -> tuple[str, ...]:
    """Return bootstrap.servers as lower-case host:port items; Java's optional "PROTOCOL://" is dropped.

    Raises:
        ValueError: An item is no host:port; its text, without anything before an "@", is the argument.
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
