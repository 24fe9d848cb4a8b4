"""Distribute tests over workers: in groups, longest first, nightly ones only if they are asked for.

A group is a file, unless its tests are marked `separate` (each is a group) or with another `xdist_group`. Tests that share a
module's fixtures belong together. The seconds of each group are in tests/data/seconds.json, which `--record-seconds` writes.
"""

from __future__ import annotations

import json
import os
import re
import timeit
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

SECONDS = Path(__file__).parent / "data" / "seconds.json"
PROMISES = Path(__file__).parents[1] / "docs" / "guarantees.md"
_NOT_IN_GROUPS = str.maketrans("@[]", "-()")  # xdist looks for the last @ after the last ]
UNKNOWN_S = 30.0  # of a group that has never been timed
WORKER_BYTES = 1_500_000_000  # a worker of pytest with the brokers, mirrors and browser of one test
WORKERS_PER_CORE = 2
MORE_WORKERS = 1  # integration tests mostly wait
# How long a million additions of Python may take; 0.01 to 0.02 s are usual. On a slower machine there is no such additional
# worker: with it, tests would exceed their time limits (tests.waiting).
SLOW_S = 0.035


def add_options(parser: pytest.Parser) -> None:
    """Add what chooses and times tests."""
    parser.addoption("--all", action="store_true", help="also run nightly tests; on Spark unless --engine is given")
    parser.addoption("--smoke", action="store_true", help="run one test of each promise in docs/guarantees.md")
    parser.addoption("--record-seconds", action="store_true", help=f"write the seconds of each group to {SECONDS.name}")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Deselect tests that the options leave out, name each test's group, and sort by the groups' seconds.

    A wrapper, because xdist's hook, which reads the groups, runs before all others.
    """
    kept = (
        items if config.getoption("--all") else [item for item in items if item.get_closest_marker("nightly") is None]
    )
    if config.getoption("--smoke"):
        kept = _one_of_each_promise(kept)
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    known = json.loads(SECONDS.read_text())
    for item in kept:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_usual_group_of(item)))
    kept.sort(
        key=lambda item: (-known.get(_group_of(item), UNKNOWN_S), _group_of(item))
    )  # keeps the order within a group
    items[:] = kept
    return (yield)


def engine_of(item: pytest.Item) -> str:
    """Return what runs the windows of a test's mirrors: "spark" or "local"."""
    asked = item.config.getoption("--engine") or ("spark" if item.config.getoption("--all") else "local")
    mark = item.get_closest_marker("spark")
    if mark is None:
        return str(asked)
    has_time = not item.config.getoption("--smoke")
    return "spark" if has_time or mark.kwargs.get("always") else str(asked)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return as many workers as cores for unit tests, and as memory and speed allow for others."""
    cores = os.cpu_count() or 1
    if config.args and all("tests/unit" in path for path in config.args):
        return cores
    more = 0 if _additions_s() > SLOW_S else MORE_WORKERS
    return max(1, min(cores * WORKERS_PER_CORE + more, _available_bytes() // WORKER_BYTES))


class Seconds:
    """Adds up the seconds of each group, and writes them at the end."""

    def __init__(self) -> None:
        self._of: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test; xdist has put the group behind its id."""
        _, at, group = report.nodeid.rpartition("@")
        self._of[group if at else report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the seconds of the groups that ran."""
        known = json.loads(SECONDS.read_text()) | {group: round(took, 1) for group, took in self._of.items()}
        SECONDS.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


class Failures:
    """Prints each failure when it happens: a run takes minutes, and pytest shows failures at its end."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)  # after the letter
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the test and the first line of its error."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message.partition("\n")[0] if crash is not None else report.when
            self._terminal.write_line(f"\nFAILED {report.nodeid.partition('@')[0]}: {why}", red=True)


@pytest.hookimpl(trylast=True)  # after pytest's terminal
def pytest_configure(config: pytest.Config) -> None:
    """Print failures at once, and time groups if that is asked for. Workers of xdist do neither."""
    if hasattr(config, "workerinput"):
        return
    if terminal := config.pluginmanager.get_plugin("terminalreporter"):
        config.pluginmanager.register(Failures(terminal))
    if config.getoption("--record-seconds"):
        config.pluginmanager.register(Seconds())


def _usual_group_of(item: pytest.Item) -> str:
    if item.get_closest_marker("spark") and engine_of(item) == "spark":
        return "on Spark"  # one worker runs these, one after the other: several JVMs would take all cores
    name = item.nodeid if item.get_closest_marker("separate") else item.nodeid.partition("::")[0]
    return name.translate(_NOT_IN_GROUPS)


def _one_of_each_promise(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that docs/guarantees.md names, each with its first parameters."""
    found: dict[str, pytest.Item] = {}
    for item in items:
        found.setdefault(item.nodeid.partition("[")[0], item)
    named = {f"tests/{name}" for name in re.findall(r"`((?:unit|integration)/\w+\.py::\w+)`", PROMISES.read_text())}
    return [item for name, item in found.items() if name in named]


def _group_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    assert mark is not None
    return str(mark.args[0])


def _additions_s() -> float:
    """Return how long a million additions take, without what else the machine does."""
    return min(timeit.repeat("total += 1", "total = 0", number=1_000_000, repeat=3))


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return WORKER_BYTES
