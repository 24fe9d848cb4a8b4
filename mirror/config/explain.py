"""Explain a settings file: each effective value, its origin, and what it overrides.

No secret is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirror.config.clients import Role, is_mapped
from mirror.config.layers import Layers, Pair, merged, ranked
from mirror.config.load import Sources
from mirror.config.properties import DEFAULT, HIDDEN, Entry
from mirror.config.providers import honoured_keys
from mirror.config.settings import Flow, Settings
from mirror.config.values import text
from mirror.errors import SettingsError
from mirror.runtime.text_columns import aligned, one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One effective value, under the key that its reader uses."""

    key: str
    entry: Entry
    overridden: tuple[Entry, ...]  # strongest first, without defaults


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All effective values, and the keys without effect, with their reasons ("" if unknown)."""

    flows: Mapping[str, Mapping[str, Sequence[Row]]]  # "A->B" -> section -> rows of the section
    program: Sequence[Row]
    ignored: Mapping[str, str]


def explain(given: Sources, settings: Settings, flow: str = "") -> Explanation:
    """Return the origin of each value of `settings`, which were made from `given`.

    `flow` "A->B" selects one flow.

    Raises:
        SettingsError: no such flow is enabled.
    """
    known = {each.name: each for each in settings.flows}
    if flow and flow not in known:
        raise SettingsError(
            one_line(f'{given.path}: unknown flow "{flow}"; expected one of {", ".join(known)}. Correct it.')
        )
    return Explanation(
        flows={name: dict(_sections(given, each)) for name, each in known.items() if flow in ("", name)},
        program=_program(given),
        ignored={key: settings.ignored_why.get(key, "") for key in settings.ignored},
    )


def as_text(explanation: Explanation) -> str:
    """Return one table per section: key, origin, value, and overridden values."""
    tables: list[tuple[str, Sequence[Sequence[str]]]] = [
        (f"{flow}, {section}", _lines(rows))
        for flow, sections in explanation.flows.items()
        for section, rows in sections.items()
    ]
    tables.append(("the program", _lines(explanation.program)))
    if explanation.ignored:
        tables.append(("without effect", list(explanation.ignored.items())))
    return "\n".join(f"{one_line(title)}\n{_indented(aligned(lines, right=()))}" for title, lines in tables if lines)


def as_json(explanation: Explanation) -> str:
    """Return the explanation as JSON."""
    content = {
        "flows": {
            flow: {section: list(map(_json, rows)) for section, rows in sections.items()}
            for flow, sections in explanation.flows.items()
        },
        "program": list(map(_json, explanation.program)),
        "without_effect": [{"key": key, "why": why or None} for key, why in explanation.ignored.items()],
    }
    return json.dumps(content, indent=2) + "\n"


def _sections(given: Sources, flow: Flow) -> Iterator[tuple[str, Sequence[Row]]]:
    """Yield the flow's own keys and, per client, the properties from which it is built."""
    found, pair, at_source = given.found, Pair(flow.source.alias, flow.target.alias), flow.offset_syncs.at_source
    yield "flow keys", _rows(given, [*found.flow(pair), *found.worker(pair)])
    clients: list[tuple[str, Role, Layers]] = [
        ("source consumer", "consumer", found.source_client(pair, "consumer")),
        ("target producer", "producer", found.producer(pair)),
        ("source admin", "admin", found.source_client(pair, "admin")),
        ("target admin", "admin", found.target_admin(pair)),
        ("offset-syncs producer", "producer", found.offset_syncs_producer(pair, at_source=at_source)),
    ]
    for name, role, layers in clients:
        yield name, [row for row in _rows(given, layers) if is_mapped(role, row.key, row.entry.value)]


def _program(given: Sources) -> Sequence[Row]:
    """Return the settings that belong to no flow: clusters, config providers, mirror.* keys."""
    top = honoured_keys(given.entries) | {"clusters"}
    return [
        *_rows(given, [{key: entry for key, entry in given.entries.items() if key in top}]),
        *_rows(given, given.own()),
    ]


def _rows(given: Sources, layers: Layers) -> list[Row]:
    return [_row(given, key, ranked(layers, key)) for key in merged(layers)]


def _row(given: Sources, key: str, entries: Sequence[Entry]) -> Row:
    """Return the row of a key from its entries, the effective one first.

    Each entry also overrides earlier entries with exactly the same key.
    """
    written = [entry for entry in entries if entry.where != DEFAULT]
    everyone = [
        each for entry in written for each in (entry, *(old for old in given.written[::-1] if _is_older(old, entry)))
    ]
    return Row(key=key, entry=entries[0], overridden=tuple(everyone[1:]))


def _is_older(old: Entry, entry: Entry) -> bool:
    """Return whether `old` is an earlier entry with the same key as `entry`."""
    return old.key == entry.key and old.where != entry.where


def _value(entry: Entry) -> str:
    return HIDDEN if entry.is_secret and text(entry) else text(entry)


def _lines(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Return the cells of rows, with overridden entries below the effective one."""
    lines = []
    for row in rows:
        lines.append((row.key, row.entry.where, _value(row.entry)))
        for old in row.overridden:
            lines.append(("", "", f"overrides {old.key}={_value(old)} ({old.where})"))
    return lines


def _indented(table: str) -> str:
    return "".join(f"  {line}\n" for line in table.splitlines())


def _json(row: Row) -> dict[str, Any]:
    return {
        "key": row.key,
        "value": _value(row.entry),
        "from": row.entry.where,
        "overrides": [{"key": old.key, "value": _value(old), "from": old.where} for old in row.overridden],
    }
