"""Define what a setting is, its scope and its type. mirror/config/table.py lists the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

from mirror.config import values
from mirror.config.properties import DEFAULT, Entry
from mirror.policy.recreated import OnRecreated

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Scope(Enum):
    """The owner of a setting."""

    FILE = "the whole file"
    CLUSTER = "a cluster: A.key, or key for all"
    FLOW = "a flow: A->B.key, or key for all"
    TARGET = "the target of a flow: B.key, or key for all"
    CLIENT = "every client of a cluster"
    CONSUMER = "the clients that read the source"
    PRODUCER = "the clients that write"
    PROCESS = "the process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """The type of a setting: how its value is read and checked."""

    name: str  # as in docs/configuration.md
    read: Callable[[Entry], Any]  # raises SettingsError
    metavar: str = ""  # for an option of the command line


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. Its name ends with its unit, if it has one."""

    key: str  # without the cluster or flow to which it applies
    scope: Scope
    type: Type
    default: str | None  # as written in a file; None: there is none
    doc: str  # the first sentence is also the help text of the option
    shown_default: str = ""  # in the documentation, if it should differ from `default`
    has_option: bool = False  # the command line has an option for it

    @property
    def documented_default(self) -> str:
        """Return the default as docs/configuration.md shows it."""
        return self.shown_default or (f"`{self.default}`" if self.default else "")

    @property
    def option(self) -> str:
        """Return the name of the option: --window-ms for mirror.window.ms."""
        return f"--{self.key.removeprefix('mirror.').replace('.', '-')}"

    @property
    def help(self) -> str:
        """Return the help text of the option."""
        summary = self.doc.partition(". ")[0].rstrip(".").replace("`", "")
        return f"{summary} (default: {self.shown_default or self.default})"

    def read(self, entry: Entry) -> Any:
        """Return a value converted to the setting's type; raises SettingsError for an invalid value."""
        return self.type.read(entry)

    def default_value(self) -> Any:
        """Return the default converted to the setting's type, None if there is none."""
        return None if self.default is None else self.read(Entry(key=self.key, value=self.default, where=DEFAULT))


def integer(least: int, most: int = values.INT_MAX) -> Type:
    """Return the type of integers within bounds."""
    name = f"integer from {least}" + (f" to {most}" if most != values.INT_MAX else "")
    return Type(name=name, read=partial(values.integer, least=least, most=most), metavar="N")


def _seconds(entry: Entry) -> float:
    return float(values.integer(entry, least=1))


def _ms_as_seconds(entry: Entry) -> float:
    return values.integer(entry, least=1) / 1000


def side(first: str, second: str) -> Type:
    """Return a type that accepts one of two words, in upper or lower case."""
    complaint = f'is not a cluster of the flow. Write "{first}" or "{second}".'
    return Type(name=f"`{first}` or `{second}`", read=partial(values.word, words=(first, second), complaint=complaint))


def one_of(*choices: str) -> Type:
    """Return a type that accepts one of some words in exactly this spelling."""
    return Type(name=", ".join(f"`{each}`" for each in choices), read=partial(values.choice, choices=choices))


def _protocol(entry: Entry) -> str:
    given = replace(entry, value=values.text(entry).upper() or PROTOCOLS[0])
    return values.choice(given, choices=PROTOCOLS)


def _recreated(entry: Entry) -> OnRecreated:
    complaint = f"is not a policy. Write one of {', '.join(OnRecreated)}."
    return OnRecreated(values.word(entry, words=tuple(OnRecreated), complaint=complaint))


BOOLEAN = Type(name="boolean", read=values.boolean, metavar="BOOL")
TEXT = Type(name="text", read=values.text)
CLASS = Type(name="class", read=values.text)  # its reader imports the class
LEVEL = Type(name="integer", read=values.text)  # its reader checks the bounds, which depend on the codec
PATH = Type(name="path", read=values.text)
FOLDER = Type(name="path", read=values.folder, metavar="DIR")
PASSWORD = Type(name="password", read=lambda entry: entry.value)
URL = Type(name="URL", read=values.url)
ADDRESS = Type(name="host:port", read=values.host_port, metavar="HOST:PORT")
ADDRESSES = Type(name="list of host:port", read=values.text)
NAMES = Type(name="list of names", read=values.names)
PATTERNS = Type(name="list of regular expressions", read=values.patterns)
FACTOR = Type(name="-1, or integer from 1", read=values.replication_factor)
SECONDS = Type(name="integer from 1", read=_seconds)
MS = Type(name="integer from 1", read=partial(values.integer, least=1), metavar="MS")
MS_AS_SECONDS = Type(name="integer from 1", read=_ms_as_seconds, metavar="MS")
RECREATED = Type(name="`restart`, `stop` or `continue`", read=_recreated)
SUPPORT = Type(
    name="`disabled`, `preparing` or `enabled`",
    read=partial(
        values.word,
        words=("disabled", "preparing", "enabled"),
        complaint='is invalid. Write "disabled", "preparing" or "enabled".',
    ),
)
PROTOCOL = Type(name=", ".join(f"`{each}`" for each in PROTOCOLS), read=_protocol)
