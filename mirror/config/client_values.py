"""Read one value of a Java client's properties, or refuse it by its key. No meaning of keys here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mirror.config.properties import shown
from mirror.config.values import INT_MAX, JAVA_BLANKS
from mirror.errors import SettingsError


class ClientError(SettingsError):
    """A client property that cannot be honoured; `key` is its Java name without any prefix."""

    def __init__(self, key: str, complaint: str) -> None:
        super().__init__(f"{key}: {complaint}")
        self.key = key
        self.complaint = complaint

    def __reduce__(self) -> tuple[type[ClientError], tuple[str, str]]:
        return type(self), (self.key, self.complaint)


def text(java: Mapping[str, str], key: str) -> str | None:
    """Return the value without blanks at its ends, as Kafka reads it, None where it is not set."""
    value = java.get(key)
    return None if value is None else value.strip(JAVA_BLANKS)


def integer(java: Mapping[str, str], key: str, default: int, *, least: int) -> int:
    """Return a number that fits Java's int."""
    value = text(java, key)
    if value is None:
        return default
    if re.fullmatch(r"[+-]?[0-9]{1,18}", value) is None or not least <= int(value) <= INT_MAX:
        expected = f"an integer of at least {least}"
        raise ClientError(key, f"{shown(java, key, value)} is not {expected}. Correct it or leave the key out.")
    return int(value)


def choice(java: Mapping[str, str], key: str, default: str, choices: tuple[str, ...]) -> str:
    """Return one of `choices`, spelt as there."""
    value = text(java, key)
    if value is None:
        return default
    if value not in choices:
        raise ClientError(key, f"{shown(java, key, value)} is not supported. Write one of {', '.join(choices)}.")
    return value
