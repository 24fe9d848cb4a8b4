"""Processes of another layout: one that slept with its own slots writes nothing next to those that deal them out otherwise."""

from __future__ import annotations

import pytest

from tests.simulation.scenario import Stage, calm, staged
from tests.simulation.seeds import first_for_each_change, seeds

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("slots", [(2, 1), (1, 3), (3, 2)], ids=str)
def test_a_suspended_process_duplicates_nothing_after_a_takeover_with_other_slots(mode, seed, slots):
    stage = Stage(seed, mode)
    before, after = slots
    with staged(stage):
        sleeper = stage.start("folder1", slots=before)
        stage.is_writing = True
        stage.write((0.02, 0.1))
        stage.world.run_for(15)
        sleeper.freeze()
        follower = stage.start("folder2", slots=after)
        assert stage.world.run_until(lambda: bool(follower.membership.owned), within_s=60)
        stage.world.run_for(20)
        sleeper.wake()
        stage.world.run_for(10)
        outcome = calm(stage, seed, mode)
        assert outcome.is_good, outcome


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_a_new_slot_finds_copied_records_after_positions_have_expired(mode):
    stage = Stage(1, mode)
    with staged(stage):
        first = stage.start("folder1", slots=1)
        stage.is_writing = True
        stage.write((0.02, 0.1))
        stage.world.run_for(10)
        first.kill()
        group = stage.target.group(stage.plan.group)
        for place in [place for place in group.offsets if "internal" not in place[0]]:
            del group.offsets[place]
        stage.start("folder1", slots=2)
        stage.world.run_for(10)
        outcome = calm(stage, 1, mode)
        assert outcome.is_good, outcome


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("slots", first_for_each_change((1, 3), (2, 1), (3, 2)), ids=str)
@pytest.mark.parametrize("before", [True, False], ids=["exactly once", "at least once"])
@pytest.mark.parametrize("after", [True, False], ids=["then exactly once", "then at least once"])
def test_a_killed_process_is_followed_by_one_with_other_slots_and_another_mode(before, after, slots, seed):
    stage = Stage(seed, "changing")
    with staged(stage):
        if stage.is_exactly_once is not before:
            stage.change_mode()
        first = stage.start("folder1", slots=slots[0])
        stage.is_writing = True
        stage.write((0.02, 0.1))
        stage.world.run_for(stage.dice.uniform(2, 12))
        first.kill()
        if before is not after:
            stage.change_mode()
        stage.start(stage.dice.choice(("folder1", "folder2")), slots=slots[1])
        stage.world.run_for(20)
        outcome = calm(stage, seed, "changing")
        assert outcome.is_good, outcome


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_a_flow_whose_positions_and_leases_are_all_expired_copies_no_record_again(mode):
    """The offset map is written once a minute: it has some partitions, and shows that the flow is not new."""
    stage = Stage(1, mode)
    with staged(stage):
        partitions, stage.written = stage.written, stage.written[:2]
        first = stage.start("folder1", slots=1)
        stage.is_writing = True
        stage.write((0.02, 0.1))
        stage.world.run_for(65)
        stage.written = partitions
        stage.world.run_for(5)
        first.kill()
        stage.delete_group()
        stage.start("folder1", slots=1)
        stage.world.run_for(10)
        outcome = calm(stage, 1, mode)
        assert outcome.is_good, outcome


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_group_that_is_deleted_in_the_first_seconds_of_a_flow_makes_no_record_come_again(mode, seed):
    """Another process cannot remember that the flow has run: the offset map of the first batch shows it."""
    stage = Stage(seed, mode)
    with staged(stage):
        first = stage.start("folder1", slots=1)
        stage.is_writing = True
        stage.write((0.02, 0.1))
        stage.world.run_for(stage.dice.uniform(5, 10))
        first.kill()
        stage.delete_group()
        stage.start("folder1", slots=1)
        stage.world.run_for(10)
        outcome = calm(stage, seed, mode)
        assert outcome.is_good, outcome


@pytest.mark.parametrize("seed", first_for_each_change(4, 9, 69, 120))
def test_the_first_records_of_a_window_that_ends_do_not_come_again_after_the_group_is_deleted(seed):
    """With these seeds, the position of a flow's first records is committed when the window ends, and not before."""
    stage = Stage(seed, "disabled")
    with staged(stage):
        first = stage.start("folder1", slots=1)
        stage.world.run_for(stage.dice.uniform(8.9, 10.1))
        stage.is_writing = True
        stage.write((0.02, 0.1))
        stage.world.run_for(0.2)
        stage.is_writing = False
        stage.world.run_for(stage.dice.uniform(1.5, 6))
        first.kill()
        stage.delete_group()
        stage.start("folder1", slots=1)
        stage.world.run_for(10)
        outcome = calm(stage, seed, "disabled")
        assert outcome.is_good, outcome


@pytest.mark.parametrize("mode", ["enabled", "disabled", "identical"])
@pytest.mark.parametrize("seed", first_for_each_change(6, 0, 1, 10))
def test_a_group_that_is_deleted_while_another_layout_waits_makes_no_record_come_again(mode, seed):
    """Nothing in the group shows then that a process of the other layout still writes. Its clock is ahead."""
    stage = Stage(seed, mode)
    with staged(stage):
        first = stage.start("folder1", slots=2)
        stage.world.ahead_s[first.name] = stage.dice.uniform(0, 2.5)
        stage.is_writing = True
        stage.write((0.005, 0.02))
        stage.world.run_for(20)
        stage.start("folder2", slots=1)
        stage.world.run_for(stage.dice.uniform(1, 6))
        stage.delete_group()
        stage.world.run_for(20)
        outcome = calm(stage, seed, mode)
        assert outcome.is_good, outcome
