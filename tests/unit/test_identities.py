"""Where a window begins, and what becomes of a topic-partition whose topic is another one now."""

from __future__ import annotations

from unittest.mock import create_autospec

import pytest

from mirror.kafka.protocol import EARLIEST, LATEST
from mirror.kafka.target import Target
from mirror.model.flow_plan import FlowPlan, PlannedPartition, Window
from mirror.model.offset_map import OffsetMap, OffsetRun
from mirror.model.position_metadata import PositionMetadata
from mirror.policy.recreated import OnRecreated, TopicIds
from mirror.replication.identities import identified, placed
from mirror.replication.partition import Identity, Partition, Pause
from mirror.replication.pauses import LoggedReasons
from mirror.replication.positions import PositionCommits

AT = 500
EVERYTHING_IS_THERE = create_autospec(Target, instance=True)
EVERYTHING_IS_THERE.knows.return_value = True
WINDOW = Window(number=1, window_ms=2000, lanes=2, slots=1, slot=0, run_id=1)
TAIL = OffsetMap([OffsetRun(0, 0, AT)]).text()


def plan(policy: OnRecreated, *, source_id: str = "old", remote_id: str = "there") -> FlowPlan:
    assigned = PlannedPartition("t", "a.t", 0, source_id, remote_id=remote_id)
    return FlowPlan(
        source="a", target="b", tasks_max=1, consumer={}, producer={}, partitions=(assigned,), on_recreated=policy
    )


def begun(policy: OnRecreated, known: str, *, is_uncertain: bool = False, **ids: str) -> Partition:
    made = plan(policy, **ids)
    committed = (AT, str(PositionMetadata(known, TAIL)))
    return placed(made, made.partitions[0], committed, LoggedReasons(), from_earliest=True, is_uncertain=is_uncertain)


@pytest.mark.parametrize("policy", [OnRecreated.RESTART, OnRecreated.CONTINUE])
@pytest.mark.parametrize("known", ["new:there", "old:another"])
def test_a_plan_that_differs_from_a_position_is_no_proof(policy, known):
    """It may be of another process, and older than what that one has done."""
    partition = begun(policy, known)
    assert partition.identity is Identity.UNVERIFIED
    assert (partition.position, partition.start, partition.ids) == (AT, None, known)
    assert not partition.has_room(0.0)
    identified(plan(policy), partition, TopicIds.parse(known), LoggedReasons())
    assert partition.identity is Identity.VERIFIED
    assert (partition.position, partition.start, partition.ids) == (AT, None, known)
    assert partition.tally.rewinds == 0
    assert partition.tail.runs.last is not None
    assert partition.has_room(0.0)


def test_a_position_of_the_planned_topics_is_used_unless_the_predecessor_was_in_doubt():
    assert begun(OnRecreated.RESTART, "old:there").identity is Identity.VERIFIED
    assert begun(OnRecreated.RESTART, "old:there", is_uncertain=True).identity is Identity.UNVERIFIED


def test_a_position_is_written_again_when_its_records_come_from_elsewhere():
    known = PositionMetadata("old:there", TAIL, upstream=("first",))
    made = plan(OnRecreated.RESTART)
    for upstream, committed in ((("first",), AT), ((), None), (("first", "second"), None)):
        assigned = made.partitions[0]._replace(upstream=upstream)
        partition = placed(made, assigned, (AT, str(known)), LoggedReasons(), from_earliest=True, is_uncertain=False)
        assert partition.committed == committed


def test_restart_begins_at_the_start_and_the_position_is_written_with_the_new_id():
    partition = begun(OnRecreated.RESTART, "old:there", is_uncertain=True)
    identified(plan(OnRecreated.RESTART), partition, TopicIds("new", "there"), LoggedReasons())
    assert (partition.start, partition.ids, partition.tally.rewinds) == (EARLIEST, "new:there", 1)
    assert partition.committed is None


def test_continue_resumes_at_its_offset_with_an_empty_offset_map():
    partition = begun(OnRecreated.CONTINUE, "old:there", is_uncertain=True)
    identified(plan(OnRecreated.CONTINUE), partition, TopicIds("new", "there"), LoggedReasons())
    assert (partition.position, partition.start, partition.ids) == (AT, None, "new:there")
    assert partition.tail.runs.last is None


def test_stop_rests_at_once_by_the_plans_word_and_keeps_the_position_as_it_is():
    partition = begun(OnRecreated.STOP, "old:there", source_id="new")
    assert partition.identity is Identity.REPLACED_BEFORE
    assert partition.pause.reason.startswith(
        "t was deleted and created again on the source (topic id new, was old); it is paused"
    )
    assert (partition.position, partition.ids, partition.pause.kind) == (AT, "old:there", Pause.REPLACED)


def test_stop_rests_and_lets_the_successor_ask_where_the_plan_does_not_know_yet():
    partition = begun(OnRecreated.STOP, "old:there", is_uncertain=True)
    identified(plan(OnRecreated.STOP), partition, TopicIds("new", "there"), LoggedReasons())
    assert (partition.position, partition.ids, partition.identity) == (AT, "old:there", Identity.REPLACED)
    assert partition.pause.reason


@pytest.mark.parametrize("is_known_by", ["the plan", "the clusters"])
def test_a_position_that_an_operator_is_to_set_is_never_written_over(is_known_by):
    """Not in the first window of an hour either, which writes every position again, nor where its tail has changed."""
    if is_known_by == "the plan":
        partition = begun(OnRecreated.STOP, "old:there", source_id="new")
    else:
        partition = begun(OnRecreated.STOP, "old:there", is_uncertain=True)
        identified(plan(OnRecreated.STOP), partition, TopicIds("new", "there"), LoggedReasons())
    other = begun(OnRecreated.STOP, "old:there")
    commits = PositionCommits(plan(OnRecreated.STOP), WINDOW, [partition])
    assert commits.pending(EVERYTHING_IS_THERE).offsets == {}
    commits.write_all()
    assert commits.pending(EVERYTHING_IS_THERE).offsets == {}
    beside = PositionCommits(plan(OnRecreated.STOP), WINDOW, [other])
    beside.write_all()
    assert beside.pending(EVERYTHING_IS_THERE).offsets == {("a.t", 0): (AT, str(PositionMetadata("old:there", TAIL)))}


def test_a_partition_without_records_gets_the_present_topic_id():
    made = plan(OnRecreated.STOP)
    partition = placed(made, made.partitions[0], None, LoggedReasons(), from_earliest=True, is_uncertain=True)
    identified(made, partition, TopicIds("new", "there"), LoggedReasons())
    assert (partition.start, partition.ids, partition.pause.reason) == (EARLIEST, "new:there", "")


def without_position(policy: OnRecreated, now: TopicIds) -> Partition:
    """Return one whose position a broker has forgotten, or that never had one, with `now` the ids that the clusters tell."""
    made = plan(policy)
    partition = placed(made, made.partitions[0], None, LoggedReasons(), from_earliest=False, is_uncertain=False)
    assert partition.identity is Identity.UNVERIFIED
    identified(made, partition, now, LoggedReasons())
    assert partition.identity is not Identity.UNVERIFIED
    assert partition.next_target_offset == 0
    return partition


@pytest.mark.parametrize("policy", list(OnRecreated))
def test_without_a_position_a_partition_of_the_planned_topics_starts_as_new(policy):
    partition = without_position(policy, TopicIds("old", "there"))
    assert (partition.start, partition.ids, partition.pause.reason, partition.tally.rewinds) == (
        LATEST,
        "old:there",
        "",
        0,
    )


def test_a_replaced_remote_topic_without_a_position_is_filled_from_the_start(caplog):
    partition = without_position(OnRecreated.RESTART, TopicIds("old", "another"))
    assert (partition.start, partition.ids, partition.tally.rewinds) == (EARLIEST, "old:another", 1)
    assert "a.t was deleted and created again on the target (topic id another, was there)" in caplog.text
    assert "its position was deleted too" in caplog.text


@pytest.mark.parametrize("policy", [OnRecreated.STOP, OnRecreated.CONTINUE])
def test_stop_and_continue_wait_for_the_position_of_a_replaced_remote_topic(policy):
    partition = without_position(policy, TopicIds("old", "another"))
    assert partition.pause.reason.endswith(
        "its position was deleted too, and it is paused until the position is set again"
    )
    assert (partition.ids, partition.pause.kind, partition.identity) == ("old:there", Pause.REPLACED, Identity.REPLACED)
    assert partition.start is not None, "so no position is written for it"
