"""A bounded part of `./soak --matrix`: nearly each fault once, under load, at a moment that a seed decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from _pytest.mark import ParameterSet

from tests.integration.appliance import Engine, RunningAppliance
from tests.soak.faults import FAULTS
from tests.soak.kill_points import KILL_POINTS
from tests.soak.oracle import Fate
from tests.soak.rounds import a_round
from tests.soak.stage import MODES, Stage, staged
from tests.soak.state_faults import OF_STATE

pytestmark = pytest.mark.kafka

SEED = 1
INTERNALS = re.compile(
    r"Task was destroyed|never retrieved|Unclosed \w+"
)  # asyncio's words, which nobody can act upon at night
ELSEWHERE = (
    "let a second process join, kill -9 one of the two",  # test_processes.py
    "let a second process join, stop one of the two for 5 to 60 s",  # likewise
    "a slow disk under the source",  # ./soak, as the next one
    "cut off the source",  # ./soak: the target's is the one over which something is written
    *OF_STATE,  # likewise; each has a test of its own
)
WITH_POSITIONS = (
    "die when a batch is acknowledged",
    "die while a commit is in flight",
    "die when positions are committed",
)
POINTS = (
    *WITH_POSITIONS,
    "die while a batch is in flight",
    "die when the offset map is written",
    "die when a lease is given back",
)
IN_TRANSACTIONS = (  # what transactions are there for; the rest does not know how the target is written
    "kill -9 all workers",
    "kill -9 the mirror",
    "suspend the mirror, then resume it",
    "kill -9 the target",
    "freeze the target",
    "cut the target off",
    "half-open connections to the target",
    *WITH_POSITIONS,
)
BOUNDED = {
    MODES[0]: [fault for fault in FAULTS if fault not in ELSEWHERE and (fault in POINTS or fault not in KILL_POINTS)],
    MODES[1]: IN_TRANSACTIONS,
    MODES[2]: (*IN_TRANSACTIONS, "cut the ends of the target's logs"),
}
# `./test` leaves these out. The simulation injects the same kinds of faults, and `./test --all` runs all of them.
NIGHTLY = {
    MODES[0]: (
        "restart the source",
        "restart the target",
        "freeze the source",
        "stall the source's network",
        "cut the source off",
        "reset the source's connections",
        "half-open connections to the source",
        "a slow link to the source",
        "seven bytes at a time to the target",
        "a slow disk under the target",
    ),
    MODES[1]: ("kill -9 all workers", "suspend the mirror, then resume it", "half-open connections to the target"),
    MODES[2]: tuple(fault for fault in BOUNDED[MODES[2]] if fault not in ("kill -9 the mirror", "freeze the target")),
}
ON_SPARK = ("kill -9 one worker", "kill -9 all workers", "kill -9 the JVM", "kill -9 the mirror")


@pytest.fixture(scope="module")
def on_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Stage]]:
    """Return the stage of a mode, the same for all faults; it ends when another mode or engine is asked for.

    If the modes were parameters of the fixture, pytest would bring tests with equal parameters together.
    """
    stages: dict[tuple[str, Engine], Stage] = {}
    with ExitStack() as running:

        def of(mode: str) -> Stage:
            key = mode, RunningAppliance.engine
            if key not in stages:
                running.close()
                stages.clear()
                stages[key] = running.enter_context(staged(mode, tmp_path_factory.mktemp("stage")))
            return stages[key]

        yield of


def _kind(fault: str) -> str:
    if fault in KILL_POINTS:
        return "kill points"
    if any(word in fault for word in ("source", "target")):
        return "brokers" if any(word in fault for word in ("kill", "freeze", "restart", "disk")) else "networks"
    return "processes"


def _scene(mode: str, fault: str) -> ParameterSet:
    """Return the parameters of a scene, with its marks: a worker of pytest has a stage for each group."""
    is_on_spark = mode == MODES[0] and fault in ON_SPARK
    group = f"matrix, {mode}: {'processes on Spark' if is_on_spark else _kind(fault)}"
    marks = [pytest.mark.xdist_group(group), *([pytest.mark.spark] if is_on_spark else [])]
    if fault in NIGHTLY[mode]:
        marks.append(pytest.mark.nightly)
    return pytest.param(mode, fault, marks=marks)


@pytest.mark.parametrize(
    ("mode", "fault"), [_scene(mode, fault) for mode, faults in BOUNDED.items() for fault in faults]
)
def test_no_fault_loses_repeats_or_reorders_a_record(on_stage, mode, fault):
    stage = on_stage(mode)
    before = {log: log.stat().st_size for log in stage.logs()}
    found = a_round(stage, FAULTS[fault], SEED, f"soak-{list(FAULTS).index(fault)}").fate
    assert found == Fate(sent=found.sent)
    assert found.sent > 100
    for log in stage.logs():
        assert not INTERNALS.findall(log.read_text()[before.get(log, 0) :]), log.read_text()[before.get(log, 0) :]
