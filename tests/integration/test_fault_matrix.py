"""A bounded part of `./soak --matrix`: nearly each fault once, under load, at a moment that a seed decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.cable import is_possible
from tests.soak.faults import CABLES, FAULTS
from tests.soak.kill_points import KILL_POINTS
from tests.soak.oracle import Fate
from tests.soak.rounds import a_round
from tests.soak.stage import MODES, Stage, staged

pytestmark = pytest.mark.kafka

SEED = 1
INTERNALS = re.compile(
    r"Task was destroyed|never retrieved|Unclosed \w+"
)  # asyncio's words, which nobody can act upon at night
ELSEWHERE = (
    "let a second process join, kill -9 one of the two",  # test_processes.py
    "let a second process join, stop one of the two for 5 to 60 s",  # likewise
    "a slow disk under the source",  # ./soak, as the next one
    "pull the source's cable",  # ./soak: the target's is the one over which something is written
)
WITH_POSITIONS = (
    "die when a batch is acknowledged",
    "die while a commit is on its way",
    "die when positions are committed",
)
POINTS = (
    *WITH_POSITIONS,
    "die while a batch is on its way",
    "die when the offset map is written",
    "die when a lease is given back",
)
IN_TRANSACTIONS = (  # what transactions are there for; the rest does not know how the target is written
    "kill -9 all workers",
    "kill -9 the appliance",
    "stop the appliance, then continue it",
    "kill -9 the target",
    "freeze the target",
    "cut the target off",
    "half-open connections to the target",
    *WITH_POSITIONS,
)
BOUNDED = {
    MODES[0]: [fault for fault in FAULTS if fault not in ELSEWHERE and (fault in POINTS or fault not in KILL_POINTS)],
    MODES[1]: IN_TRANSACTIONS,
}


@pytest.fixture(scope="module")
def on_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Stage]]:
    """Gives the stage of a mode, the same to all faults; one mode's is over when the other's is asked for.

    As a parameter of the fixture the modes would take turns: pytest brings tests with equal parameters together.
    """
    stages: dict[str, Stage] = {}
    with ExitStack() as running:

        def of(mode: str) -> Stage:
            if mode not in stages:
                running.close()
                stages.clear()
                stages[mode] = running.enter_context(staged(mode, tmp_path_factory.mktemp("stage")))
            return stages[mode]

        yield of


@pytest.mark.parametrize(("mode", "fault"), [(mode, fault) for mode, faults in BOUNDED.items() for fault in faults])
def test_no_fault_loses_repeats_or_reorders_a_record(on_stage, mode, fault):
    if fault in CABLES and not is_possible():
        pytest.skip("cables need root, Linux and Debian's iproute2")
    stage = on_stage(mode)
    before = {log: log.stat().st_size for log in stage.logs()}
    found = a_round(stage, FAULTS[fault], SEED, f"soak-{list(FAULTS).index(fault)}").fate
    assert found == Fate(sent=found.sent)
    assert found.sent > 100
    for log in stage.logs():
        assert not INTERNALS.findall(log.read_text()[before.get(log, 0) :]), log.read_text()[before.get(log, 0) :]
