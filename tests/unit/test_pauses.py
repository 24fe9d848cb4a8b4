"""Pauses of topic-partitions: what begins and ends each, and what an operator's pause does to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from metrics.error_kind import ErrorKind
from mirror.config.clients import produce_options
from mirror.kafka.errors import BrokerError, ErrorCode
from mirror.kafka.producer import NotAppendedError
from mirror.model.flow_plan import PlannedPartition
from mirror.model.paused_topics import REASON, Paused
from mirror.model.reports import GOES_ROUND
from mirror.policy.java_regex import JavaPattern, SlowPattern
from mirror.replication.outcomes import in_question
from mirror.replication.partition import Identity, Partition, Pause
from mirror.replication.pauses import GATHER_S, LoggedReasons, Pauses
from mirror.replication.read_ahead import ReadAhead

pytestmark = pytest.mark.usefixtures("virtual_clock")

PRODUCE = produce_options({"batch.size": str(1 << 18)})
NO_LEADER = NotAppendedError(BrokerError(ErrorCode.leader_not_available))
TOO_FEW = NotAppendedError(BrokerError(ErrorCode.not_enough_replicas))
GONE = NotAppendedError(BrokerError(ErrorCode.unknown_topic_or_partition))


class Target:
    """Metadata as a test sets them."""

    replicas, has_leader = 1, True

    def learn(self) -> None: ...

    def leader(self, _topic: str, _partition: int) -> int | None:
        return 1 if self.has_leader else None

    def in_sync(self, _topic: str, _partition: int) -> int:
        return self.replicas


def partition(topic: str = "t", **state: object) -> Partition:
    assigned = PlannedPartition(topic, f"a.{topic}", 0, "id")
    return Partition(assigned, position=5, acked=3, **state)


def played(scene: Callable[[Pauses, Target], None], *partitions: Partition, tries_all: bool = False) -> None:
    """Play a scene with the pauses of topic-partitions, and what comes a moment later."""

    async def run() -> None:
        target = Target()
        read_ahead = ReadAhead()
        pauses = Pauses(
            name="a->b",
            target=target,
            partitions=partitions,
            read_ahead=read_ahead,
            tries_all=tries_all,
            logged_reasons=LoggedReasons(),
        )
        scene(pauses, target)
        await asyncio.sleep(GATHER_S + 0.1)

    asyncio.run(run())


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_failed_partition_retries_after_the_last_acknowledged_offset_with_back_off():
    one, pauses_s = partition(), []

    def scene(pauses: Pauses, _target: Target) -> None:
        for _ in range(8):
            pauses.back_off(one, "refused")
            pauses_s.append(next(s for s in range(100) if one.pause.is_due(now() + s)))
            assert not one.has_room(now())

    played(scene, one)
    assert (one.pause.kind, one.pause.reason, one.position) == (Pause.BACK_OFF, "refused", 3)
    assert pauses_s == [1, 2, 4, 8, 16, 32, 60, 60]


def test_an_acknowledged_batch_ends_a_pause_and_its_back_off():
    one = partition()

    def scene(pauses: Pauses, _target: Target) -> None:
        pauses.back_off(one, "refused")
        pauses.back_off(one, "refused")
        pauses.end(one)
        assert one.has_room(now())
        pauses.back_off(one, "refused")
        assert one.pause.is_due(now() + 1.1)

    played(scene, one)


@pytest.mark.parametrize(
    ("error", "replicas", "becomes", "ends"),
    [
        pytest.param(NO_LEADER, 1, {"has_leader": False}, False, id="no leader, and none comes"),
        pytest.param(NO_LEADER, 1, {"has_leader": True}, True, id="no leader, and one comes"),
        pytest.param(TOO_FEW, 1, {"replicas": 1}, False, id="too few replicas, and no more come"),
        pytest.param(TOO_FEW, 1, {"replicas": 2}, True, id="too few replicas, and one more comes"),
        pytest.param(TOO_FEW, 2, {"replicas": 1}, False, id="too few replicas, and one more goes"),
    ],
)
def test_a_standstill_ends_when_the_targets_metadata_show_a_change(error, replicas, becomes, ends):
    one = partition()

    def scene(pauses: Pauses, target: Target) -> None:
        target.replicas = replicas
        pauses.standstill(one, error)
        assert not one.pause.is_due(now() + 1e9)
        vars(target).update(becomes)
        pauses.end_standstills()
        assert one.pause.is_due(now()) is ends

    played(scene, one)
    assert one.pause.reason.startswith("the target accepts no writes for it: ")
    assert one.pause.error is ErrorKind.TARGET_UNAVAILABLE
    assert one.committed is None, "the next window is to know of it"


def test_a_standstill_of_an_earlier_window_is_taken_up_and_once_a_minute_tried():
    waits, tried = partition(in_sync=1), partition(in_sync=1)
    played(lambda pauses, _: pauses.end_standstills(), waits)
    played(lambda pauses, _: pauses.end_standstills(), tried, tries_all=True)
    assert (waits.pause.kind, waits.pause.is_due(1e9)) == (Pause.STANDSTILL, False)
    assert tried.pause.is_due(0)


def test_a_standstill_without_an_outcome_is_left_to_a_later_window():
    one = partition()

    def scene(pauses: Pauses, _target: Target) -> None:
        pauses.standstill(one, NO_LEADER)
        one.outcome_unknown_until_ms = 1
        pauses.end_standstills()
        assert not one.pause.is_due(now() + 1e9)

    played(scene, one)


def test_a_standstill_with_identical_offsets_ends_once_its_last_batch_can_no_longer_arrive():
    """The comparison of the logs shows the outcome, and only a partition that is due is compared."""
    one = Partition(
        PlannedPartition("t", "a.t", 0, "id", is_identical=True), 5, 3, in_sync=0, outcome_unknown_until_ms=1
    )
    assert in_question([one], (), is_unclean=True, has_gap=False) == []

    def scene(pauses: Pauses, _target: Target) -> None:
        pauses.end_standstills()
        assert one.pause.is_due(now())

    played(scene, one)


def test_partitions_that_pause_together_are_logged_in_one_line(caplog):
    several = [partition(f"t{number}") for number in range(3)]

    def scene(pauses: Pauses, _target: Target) -> None:
        for _ in range(2):
            for one in several:
                pauses.standstill(one, NO_LEADER)

    with caplog.at_level(logging.WARNING):
        played(scene, *several)
    assert [record.getMessage() for record in caplog.records] == [
        "a->b: 3 partitions paused (t0-0, t1-0, t2-0): the target accepts no writes for it: no leader"
    ]


def test_an_absent_partition_is_retried_unless_it_existed_before():
    never, before = partition(), partition()
    before.tail.runs.add(0, 0, 3)

    def scene(pauses: Pauses, _target: Target) -> None:
        pauses.standstill(never, GONE)
        pauses.absent(before)

    played(scene, never, before)
    assert (never.pause.kind, never.identity) == (Pause.BACK_OFF, Identity.VERIFIED)
    assert (before.pause.kind, before.identity) == (Pause.NEXT_WINDOW, Identity.UNVERIFIED)
    assert never.pause.reason == before.pause.reason == "a.t partition 0 does not exist on the target"


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(lambda _, one: one.replaced("t was deleted", before=False), id="replaced"),
        pytest.param(lambda pauses, one: pauses.back_off(one, "refused"), id="back-off"),
        pytest.param(lambda pauses, one: pauses.standstill(one, NO_LEADER), id="standstill"),
        pytest.param(lambda pauses, one: pauses.until_next_window(one, "fenced"), id="next window"),
        pytest.param(lambda _, one: one.pause.begin(Pause.OUTCOME_UNKNOWN, "may arrive"), id="outcome unknown"),
    ],
)
def test_a_pause_by_an_operator_neither_replaces_nor_ends_another_pause(begin):
    """Not that of a topic that was deleted and created again either: nothing of it may be fetched from the old position."""
    one = partition()

    def scene(pauses: Pauses, _target: Target) -> None:
        begin(pauses, one)
        pause, reason = one.pause.kind, one.pause.reason
        assert not one.has_room(now())
        pauses.follow(Paused(("t",)))
        assert (one.pause.reason, one.has_room(1e9)) == (REASON, False)
        pauses.follow(Paused(("other",)))
        assert (one.pause.kind, one.pause.reason, one.has_room(now())) == (pause, reason, False)

    played(scene, one)


def test_a_topic_is_paused_if_the_pause_pattern_takes_too_long(monkeypatch):
    def matches(_: JavaPattern, name: str) -> bool:
        raise SlowPattern(name)

    monkeypatch.setattr(JavaPattern, "matches", matches)
    one = partition()

    def scene(pauses: Pauses, _target: Target) -> None:
        pauses.follow(Paused(("(t+)+!",)))
        assert (one.pause.reason, one.has_room(1e9)) == (REASON, False)
        pauses.follow(Paused())
        assert one.has_room(now())

    played(scene, one)


def test_an_operators_pause_outlasts_the_outcome_of_the_last_batch():
    one = partition()

    def scene(pauses: Pauses, _target: Target) -> None:
        pauses.follow(Paused(("t",)))
        pauses.end(one)
        assert (one.pause.reason, one.has_room(1e9)) == (REASON, False)
        pauses.back_off(one, "refused")
        assert (one.pause.reason, one.has_room(1e9)) == (REASON, False)

    played(scene, one)


@pytest.mark.parametrize(
    ("identity", "doubted"),
    [
        (Identity.VERIFIED, Identity.UNVERIFIED),
        (Identity.UNVERIFIED, Identity.UNVERIFIED),
        (Identity.REPLACED, Identity.REPLACED),
        (Identity.REPLACED_BEFORE, Identity.REPLACED_BEFORE),
    ],
)
def test_a_replaced_topic_is_not_doubted_but_waits_for_its_operator(identity, doubted):
    one = partition(identity=identity)
    one.doubt()
    assert one.identity is doubted
    assert one.has_room(0.0) is False


def test_a_topic_is_in_doubt_while_it_is_missing_or_replaced():
    """Told as a state, not by the words of the reason: the flow looks for its topics soon."""
    gone, replaced, refused = partition("gone"), partition("replaced"), partition("refused")

    def scene(pauses: Pauses, _: Target) -> None:
        pauses.standstill(gone, GONE)
        replaced.replaced("it is another one", before=False)
        pauses.back_off(refused, "the record is too large")
        assert [one.pause.is_topic_in_question for one in (gone, replaced, refused)] == [True, True, False]
        pauses.end(gone)
        assert not gone.pause.is_topic_in_question

    played(scene, gone, replaced, refused)


def test_a_looping_topic_is_paused_until_a_window_without_the_loop():
    back, other = partition("back"), partition("other")
    back.assigned = back.assigned._replace(is_loop=True)
    played(lambda pauses, _: pauses.end_standstills(), back, other)
    assert (back.pause.kind, back.pause.reason, back.has_room(1e12)) == (Pause.NEXT_WINDOW, GOES_ROUND, False)
    assert (back.position, back.acked) == (3, 3)
    assert (other.pause.kind, other.pause.reason) == (Pause.NONE, "")
