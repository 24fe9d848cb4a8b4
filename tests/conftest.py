"""Shared fixtures: two real clusters, started when a test first asks, and a fresh topic name per test."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mirror.embedded.broker import Broker
from tests.distribution import (  # noqa: F401 - hooks of pytest
    add_options,
    engine_of,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_xdist_auto_num_workers,
)
from tests.integration.appliance import Engine, RunningAppliance
from tests.integration.records import close_kept

# A machine that does something else meanwhile makes no property untrue.
settings.register_profile("mirror", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mirror")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCluster:
    """A cluster named on the command line. We did not start it, so it cannot be stopped."""

    name: str
    bootstrap: str

    def _not_ours(self) -> None:
        pytest.skip(f"{self.name} is a given cluster; this test stops brokers")

    stop = kill = restart = pause = resume = _not_ours


def pytest_addoption(parser: pytest.Parser) -> None:
    for name in ("primary", "backup"):
        parser.addoption(f"--bootstrap-{name}", metavar="HOST:PORT", help=f"use this {name} cluster, start none")
    add_options(parser)
    parser.addoption(
        "--engine",
        choices=[one.value for one in Engine],
        help="what runs the windows: Spark, or forked processes for tests not marked spark (default: local; spark with --all)",
    )
    parser.addoption("--update-golden", action="store_true", help="write what is found to the files of tests/data")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the engine before any fixture of the test starts an appliance."""
    RunningAppliance.engine = Engine(engine_of(item))


def pytest_runtest_teardown() -> None:
    """Close what the test has kept open."""
    close_kept()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with a file of tests/data, byte for byte, or writes it there with --update-golden."""

    def compare(name: str, found: str) -> None:
        file = Path(__file__).parent / "data" / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(found)
        assert found == file.read_text(), f"{file} differs; --update-golden writes it again"

    return compare


@pytest.fixture(scope="session")
def primary(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker | GivenCluster]:
    """The source cluster of the session."""
    yield from _cluster("primary", request, tmp_path_factory)


@pytest.fixture(scope="session")
def backup(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker | GivenCluster]:
    """The target cluster of the session."""
    yield from _cluster("backup", request, tmp_path_factory)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name no other test uses; it tells which test made it."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:60].strip("-")
    return f"{readable}-{uuid.uuid4().hex[:8]}"


def _cluster(
    name: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker | GivenCluster]:
    given = request.config.getoption(f"--bootstrap-{name}")
    if given:
        yield GivenCluster(name=name, bootstrap=given)
        return
    with Broker.start(name, tmp_path_factory.mktemp(name)) as broker:
        yield broker
