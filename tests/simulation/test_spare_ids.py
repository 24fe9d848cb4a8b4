"""Spare transactional ids: a process that slept commits nothing next to a successor that writes by another id."""

from __future__ import annotations

import pytest

from mirror.model.flow_plan import PlannedPartition
from mirror.model.topic_partition import TopicPartition
from tests.simulation.process import Process
from tests.simulation.scenario import Outcome, Stage, calm, staged
from tests.simulation.transactions import State, Transaction

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

MODE, SEED = "enabled", 3
STUCK = ("A.one", 0)  # loses its leader


@pytest.fixture(params=[1, 2], ids=["first version", "second version"])
def stage(request):
    made = Stage(SEED, MODE)
    made.target.is_second = made.target.transactions._is_second = request.param == 2
    with staged(made):
        yield made


def _begun(stage: Stage) -> tuple[Process, str]:
    """Let a process replicate until a transaction with STUCK cannot end; return the process and the transactional id.

    Records are written only to the other partition of the slot from then on.
    """
    process = stage.start("folder1")
    stage.is_writing = True
    stage.write((0.02, 0.1))
    stage.world.run_for(5)
    found: list[Transaction] = []

    def is_ending() -> bool:
        found[:] = [
            one
            for one in stage.target.transactions.by_name.values()
            if one.state is State.ENDING and one.is_commit and STUCK in one.partitions
        ]
        return bool(found)

    assert stage.world.run_until(is_ending, within_s=30)
    stage.target.move_leader(stage.target.logs[STUCK], None)
    places = {(p.remote_topic, p.partition): (p.topic, p.partition) for p in _shares(stage)[STUCK]}
    stage.written = [source for place, source in places.items() if place != STUCK]
    return process, found[0].name


def _shares(stage: Stage) -> dict[TopicPartition, tuple[PlannedPartition, ...]]:
    """Return the partitions of a slot by each of its remote partitions."""
    plans = stage.plan.shares(stage.layout.slots)
    return {(p.remote_topic, p.partition): plan.partitions for plan in plans for p in plan.partitions}


def _commits(stage: Stage, name: str) -> int:
    """Return how many transactions a slot began, by all its transactional ids."""
    return sum(one.count for key, one in stage.target.transactions.by_name.items() if key.startswith(name))


def _runs_until_commits(stage: Stage, name: str) -> None:
    before = _commits(stage, name)
    assert stage.world.run_until(lambda: _commits(stage, name) > before + 3, within_s=30)


def _lead(stage: Stage) -> None:
    stage.target.move_leader(stage.target.logs[STUCK], 1)


def _check(stage: Stage) -> None:
    stage.world.run_for(10)
    outcome: Outcome = calm(stage, SEED, MODE)
    assert outcome.is_good, outcome


def test_a_window_that_inherits_a_spare_id_and_freezes_is_fenced(stage):
    sleeper, name = _begun(stage)
    spare = f"{name}.spare-1"
    by_name = stage.target.transactions.by_name
    assert stage.world.run_until(lambda: spare in by_name, within_s=10)
    _lead(stage)
    stage.world.run_for(2.5 * stage.layout.window_ms / 1000)  # the spare id passes on to the next windows

    def is_open() -> bool:
        return by_name[spare].state is State.ONGOING and bool(by_name[spare].partitions)

    assert stage.world.run_until(is_open, within_s=10)
    stage.world.run_for(0.001)
    sleeper.freeze()
    stage.start("folder2")
    _runs_until_commits(stage, name)
    sleeper.wake()
    _check(stage)


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_suspended_process_commits_nothing_after_a_spare_id(stage, has_ended):
    """`has_ended`: its last transaction ends a moment before it wakes, or later."""
    sleeper, name = _begun(stage)
    stage.world.run_for(0.5)
    sleeper.freeze()
    stage.start("folder2")
    _runs_until_commits(stage, name)
    if has_ended:
        _lead(stage)
        stage.world.run_for(0.05)
    sleeper.wake()
    _check(stage)
