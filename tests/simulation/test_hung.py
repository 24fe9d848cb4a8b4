"""A worker that hangs: its driver leaves the group, so other processes get its slots."""

from __future__ import annotations

import pytest

from tests.simulation.scenario import SLOTS, Stage, calm, staged
from tests.simulation.seeds import seeds

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
ALL = frozenset(range(SLOTS))


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize("seed", seeds(3))
def test_slots_of_a_hung_worker_move_to_another_process_and_return(mode, seed):
    stage = Stage(seed, mode)
    with staged(stage):
        hanging, other = stage.start("folder1", slots=SLOTS), stage.start("folder2", slots=SLOTS)
        stage.is_writing = True
        stage.write((0.02, 0.1))
        stage.world.run_for(15)
        assert hanging.membership.owned, "it serves its share"
        hanging.hang_worker(0, seconds=120)
        assert stage.world.run_until(lambda: other.membership.owned == ALL, within_s=90)
        before = stage.records
        stage.world.run_for(15)
        assert stage.records > before
        assert stage.sides.lag() < 100, "no slot waits for the one that hangs"
        assert stage.world.run_until(lambda: bool(hanging.membership.owned), within_s=120), "it has a share again"
        outcome = calm(stage, seed, mode)
        assert outcome.is_good, outcome


@pytest.mark.parametrize("seed", seeds(2))
def test_a_process_that_is_alone_keeps_its_slots_though_a_worker_hangs(seed):
    stage = Stage(seed, "disabled")
    with staged(stage):
        alone = stage.start("folder1", slots=SLOTS)
        stage.is_writing = True
        stage.write((0.02, 0.1))
        stage.world.run_for(15)
        alone.hang_worker(0, seconds=120)
        stage.world.run_for(100)
        assert alone.membership.owned == ALL
        outcome = calm(stage, seed, "disabled")
        assert outcome.is_good, outcome
