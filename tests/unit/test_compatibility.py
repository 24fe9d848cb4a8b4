"""docs/compatibility.md: each key has a row, each promise a test, and the program does what the row describes.

`tests/data/tested-by.json` names the tests of each row, by section and first cell: the source of docs/reference/tested-by.md.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from mirror.config import keys, table
from mirror.config.clients import is_mapped
from mirror.config.load import load
from mirror.errors import SettingsError

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
SOURCES = ROOT / "docs" / "results" / "source-documents.md"
NAMED = ROOT / "tests" / "data" / "tested-by.json"
TESTED_BY = ROOT / "docs" / "reference" / "tested-by.md"
HEAD = """\
# The tests of each feature of MirrorMaker

Written from `tests/data/tested-by.json` by `pytest --update-golden tests/unit/test_compatibility.py`; do not edit.

Each key and feature of [compatibility.md](../compatibility.md) that is honoured, handled differently or refused, and the tests
that check it. The tests are in `tests/`. The tests of what kafka-mirror promises about records are in
[guarantees.md](../guarantees.md).
"""
KEPT = ("honoured", "differently", "refused")  # words that need a test
WORDS = (*KEPT, "without effect", "not yet")
FLOW, CLIENTS, WORKER = "Keys of a flow", "Keys of clients", "Keys of Connect's worker"
EXACTLY_ONCE, REMOVED = "Exactly once", "Keys that Kafka 4.0 removed"
BASE = """\
clusters = primary, backup
primary.bootstrap.servers = p:1
backup.bootstrap.servers = b:1
primary->backup.enabled = true
"""


class Row(NamedTuple):
    """One row of a table that has a column "kafka-mirror"."""

    section: str
    cells: dict[str, str]

    @property
    def keys(self) -> list[str]:
        """Return what is written as code in the first cell."""
        return re.findall(r"`([^`]+)`", self.name)

    @property
    def name(self) -> str:
        """Return the first cell."""
        return next(iter(self.cells.values()))

    @property
    def tests(self) -> list[str]:
        """Return the tests that the row itself names, or those of `tested-by.json`."""
        if "Tested by" in self.cells:
            return re.findall(r"`([^`]+)`", self.cells["Tested by"])
        return TESTS.get(self.section, {}).get(self.name, [])


def rows_of(text: str) -> list[Row]:
    found, section, head = [], "", []
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not head:
            head = cells
        elif "kafka-mirror" in head and set(line) - set("|-"):
            assert len(cells) == len(head), line
            found.append(Row(section, dict(zip(head, cells, strict=True))))
    return found


TESTS: dict[str, dict[str, list[str]]] = json.loads(NAMED.read_text())
FEATURES = rows_of(PAGE.read_text())
ROWS = [*FEATURES, *rows_of(SOURCES.read_text())]


def rows(*sections: str) -> list[Row]:
    return [row for row in ROWS if row.section in sections]


@cache
def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def anchor(section: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", section.lower()).replace(" ", "-")


def page_of_tests() -> str:
    """Return the page that names the tests of each row."""
    text = HEAD
    for section in TESTS:
        text += f"\n## {section}\n\n[The rows](../compatibility.md#{anchor(section)})\n\n"
        text += "| Feature | kafka-mirror | Tests |\n|---|---|---|\n"
        for row in (row for row in FEATURES if row.section == section and row.tests):
            tests = "<br>".join(f"`{test}`" for test in row.tests)
            text += f"| {row.name} | {row.cells['kafka-mirror']} | {tests} |\n"
    return text


def test_the_page_of_tests_is_up_to_date(request):
    if request.config.getoption("--update-golden"):
        TESTED_BY.write_text(page_of_tests())
    else:
        assert TESTED_BY.read_text() == page_of_tests(), (
            "docs/reference/tested-by.md differs; --update-golden writes it"
        )


def test_every_feature_with_tests_has_its_row():
    named = [(section, name) for section, features in TESTS.items() for name in features]
    with_tests = [(row.section, row.name) for row in FEATURES if row.tests]
    assert sorted(named) == sorted(with_tests)


def test_every_key_has_one_row():
    found = [key.removeprefix("B.") for row in rows(FLOW, WORKER, EXACTLY_ONCE, REMOVED) for key in row.keys]
    prefixes = {f"{prefix}*" if prefix.endswith(".") else prefix for prefix in keys._NEEDLESS_PREFIXES}
    assert {*table.FLOW_KEYS, *keys._NEEDLESS, *prefixes} <= set(found)
    assert sorted(set(found)) == sorted(found)


def test_every_row_has_a_word_and_every_promise_a_test():
    assert len(ROWS) > 150
    for row in ROWS:
        assert row.cells["kafka-mirror"] in WORDS, row
        assert row.tests or row.cells["kafka-mirror"] not in KEPT, row


def test_every_test_that_is_named_exists():
    in_pages = "".join(page.read_text() for page in (PAGE, SOURCES))
    named = re.findall(r"`(?:tests/)?((?:unit|integration)/\w+\.py)::(\w+)`", in_pages)
    named += [tuple(test.split("::")) for features in TESTS.values() for tests in features.values() for test in tests]
    assert len(named) >= sum(len(row.tests) for row in ROWS) > 300
    for file, function in named:
        assert (ROOT / "tests" / file).is_file(), file
        assert function in functions(ROOT / "tests" / file), (file, function)
    other_pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md")]
    for page in other_pages:
        for file, function in re.findall(r"\btests/((?:unit|integration)/\w+\.py)::(\w+)", page.read_text()):
            assert function in functions(ROOT / "tests" / file), (page, file, function)


@pytest.mark.parametrize("row", rows(FLOW), ids=lambda row: row.keys[0])
def test_defaults_are_those_of_the_program(row):
    (key,) = row.keys
    if key in table.FLOW_DEFAULTS:
        assert row.cells["Default"] == f"`{table.FLOW_DEFAULTS[key]}`"


def ignored(tmp_path: Path, key: str, value: str) -> bool:
    file = tmp_path / "m.properties"
    file.write_text(f"{BASE}{key} = {value}\n")
    try:
        return load(file).ignored == (key,)
    except SettingsError:
        return False


@pytest.mark.parametrize("row", rows(FLOW, WORKER, EXACTLY_ONCE, REMOVED), ids=lambda row: row.keys[0])
def test_keys_have_the_effect_that_their_row_describes(row, tmp_path):
    is_idle = row.cells["kafka-mirror"] in ("without effect", "not yet")
    for key in row.keys:
        full = re.sub(r"^B\.", "backup.", key).replace("*", "x")
        prefixes = [""] if full.startswith("backup.") else ["", "primary->backup."]
        prefixes += ["backup."] if row.section == WORKER else []
        for prefix in prefixes:
            value = table.FLOW_DEFAULTS.get(key, "1").replace("\\", "\\\\")
            assert ignored(tmp_path, f"{prefix}{full}", value) == is_idle, f"{prefix}{full}"


@pytest.mark.parametrize("row", rows(CLIENTS), ids=lambda row: row.keys[0])
def test_keys_of_clients_are_mapped_as_their_row_describes(row):
    is_idle = row.cells["kafka-mirror"] == "without effect"
    for key in (key for key in row.keys if "*" not in key):
        is_known = any(is_mapped(role, key, "true") for role in ("consumer", "producer", "admin"))
        assert is_known != is_idle, key


def test_the_page_is_read_as_it_is_meant():
    head = "## S\n| K | kafka-mirror | Tested by |\n|---|---|---|\n"
    text = f"{head}| `a`, `'x\\|y'` | honoured | `unit/t.py::t` |\n\n| W | M |\n|--|--|\n| x | y |\n"
    [row] = rows_of(text)
    assert (row.section, row.keys, row.tests) == ("S", ["a", "'x\\|y'"], ["unit/t.py::t"])


def test_every_guarantee_names_a_test_that_exists():
    tables = (ROOT / "docs" / "guarantees.md").read_text().split("| Promise | Mode | Tested by |\n|---|---|---|\n")[1:]
    promises = [line for table in tables for line in table.partition("\n\n")[0].splitlines()]
    assert len(promises) > 100
    for line in promises:
        *_, mode, held = line.strip("| ").split(" | ")
        assert mode in ("both", "disabled", "enabled"), line
        named = re.match(r"`(\S+\.py)::(\w+)`(?: \([^()]*nightly\))?$", held)
        assert named is not None, line
        assert named[2] in functions(ROOT / "tests" / named[1]), line
