"""The two answers of the failover check: what blocks a switch, what would be lost, what is unknown."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.lag_row import LagRow
from metrics.partition_status import Status
from metrics.recorder import Recorder
from metrics.reports import CheckpointReport
from mirror.commands.failover_check import text
from mirror.lag.failover import (
    OLD_S,
    STEPS_S,
    Answer,
    Facts,
    GroupOffsets,
    Objective,
    Planned,
    ServedFacts,
    answer_failover,
    facts_of,
    judged,
    served_facts,
    worst,
)
from mirror.lag.judgement import horizon_of
from mirror.lag.snapshot import Snapshot
from tests.lag_rows import record, row_of
from tests.status_text import status_of

pytestmark = pytest.mark.usefixtures("standing_clock")

WELL = Facts(
    flow="a->b", source_up=True, target_up=True, partitions=3, groups={"g": {"synced": 3}}, reread={"g": 0}, unserved=0
)


def but(**changes):
    return judged(Facts(**{name: getattr(WELL, name) for name in Facts.__dataclass_fields__} | changes))


def test_a_flow_without_lag_is_ready_and_would_lose_nothing():
    found = judged(WELL)
    assert (found.planned, found.objective, found.answer) == (Planned.READY, Objective.WITHIN, Answer.GO)
    assert (found.seconds, found.records, found.takes_s, found.level_in_s) == (0, 0, STEPS_S, 0)
    assert text([found]).splitlines() == [
        "a->b",
        "  planned switch:         READY, takes about 15 s, loses nothing",
        "  if a is lost now:       WITHIN OBJECTIVE (60 s), nothing would be lost",
        "  consumer groups:        1 exact",
    ]


def test_live_traffic_is_within_the_objective():
    """Some records are always in flight. That is nothing to act on."""
    found = but(missing=15, waits_s=0.2, drain_s=0.1, reread={"g": 3})
    assert found.is_healthy
    assert (found.planned, found.objective, found.answer) == (Planned.READY, Objective.WITHIN, Answer.GO)
    assert found.loss_text == "WITHIN OBJECTIVE (60 s), 15 records would be lost, waiting for up to 0.2 s"
    assert found.groups_text == "1 would re-read 3 records"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"target_up": False}, "target does not respond"),
        ({"source_up": False}, "source does not respond"),
        ({"partitions": 0}, "no partition"),
        ({"differences": 3}, "verify found 3"),
        (
            {"groups": {"g": {"synced": 1, "no_map": 2}}},
            "group g has no offset to resume from on some partitions (no_map 2)",
        ),
        ({"age_s": 61.0}, "61 s old"),
        ({"unknown": 2}, "the lag of 2 of 3 partitions is unknown"),
        ({"absent": ["a.t-0", "a.t-1"]}, "2 of 3 partitions are not on the target: a.t-0, a.t-1"),
        ({"unserved": 1}, "no process serves 1 slot"),
        ({"stalled": ["a.t-1"], "missing": 7}, "records wait in 1 partition, and none is copied: a.t-1"),
    ],
)
def test_each_blocker_of_a_planned_switch_is_named(changes, word):
    found = but(**changes)
    assert found.planned is Planned.NOT_READY
    assert any(word in blocker for blocker in found.blockers), found.blockers
    may_fail_over = "stalled" in changes or not changes.get("source_up", True)
    assert found.answer is (Answer.GO_WITH_LOSS if may_fail_over else Answer.NO)


@pytest.mark.parametrize(("waits_s", "objective"), [(60.0, Objective.WITHIN), (60.1, Objective.BEYOND)])
def test_the_loss_is_compared_with_the_objective(waits_s, objective):
    found = but(missing=1234, waits_s=waits_s, drain_s=4.0, level_in_s=90.0)
    assert (found.objective, found.planned) == (objective, Planned.READY), "a planned switch waits for these records"
    assert found.answer is (Answer.GO if objective is Objective.WITHIN else Answer.GO_WITH_LOSS)
    assert (found.seconds, found.records, found.takes_s) == (waits_s, 1234, STEPS_S + 4.0)


def test_a_source_that_is_down_leaves_the_loss_unknown_and_forbids_no_failover():
    found = but(source_up=False, unknown=3, age_s=500.0, unserved=2)
    assert (found.planned, found.objective, found.answer) == (Planned.NOT_READY, Objective.UNKNOWN, Answer.GO_WITH_LOSS)
    assert (found.seconds, found.records) == (None, None), "unknown is no number"
    assert found.loss_text == "UNKNOWN (60 s)"
    assert "source does not respond" in found.unknowns[0]
    assert but(source_up=False, target_up=False).answer is Answer.NO


def test_unknown_groups_are_no_go():
    found = but(groups=None, reread={})
    assert (found.planned, found.answer, found.groups_text) == (Planned.READY, Answer.GO_WITH_LOSS, "unknown")


def test_groups_are_counted_by_how_they_would_resume():
    groups = {"g": {"synced": 3}, "h": {"synced": 1, "no_map": 2}, "i": {"ahead": 1}}
    found = but(groups=groups, reread={"g": 0, "h": 5, "i": 7})
    assert found.groups == GroupOffsets(exact=1, rereading=1, without_offset=1, reread_records=7)
    assert found.groups_text == "1 exact, 1 would re-read 7 records, 1 cannot resume"
    assert but(groups={}).groups_text == "no group reads a topic of the flow"
    assert but(groups={"g": {}}, topics=5, identical_topics=5).groups_text == "1 exact; offsets are identical"
    assert (
        but(groups={"g": {}}, topics=5, identical_topics=3).groups_text
        == "1 exact; offsets are identical in 3 of 5 topics"
    )


def test_a_rate_that_is_unknown_leaves_the_duration_unknown():
    assert but(missing=3, waits_s=1.0, drain_s=None).planned_text == "READY, takes an unknown time, loses nothing"


@given(
    source_up=st.booleans(),
    target_up=st.booleans(),
    partitions=st.integers(0, 3),
    unknown=st.integers(0, 3),
    missing=st.integers(0, 3),
    waits_s=st.none() | st.floats(0, 200),
    age_s=st.floats(0, 200),
    groups=st.none() | st.just({}) | st.just({"g": {"refused": 1}}),
    differences=st.none() | st.integers(0, 2),
    unserved=st.none() | st.integers(0, 2),
)
def test_unknown_is_never_within_the_objective_and_each_answer_has_a_reason(**facts):
    found = judged(Facts(flow="a->b", **facts))
    is_measured = facts["source_up"] and facts["target_up"] and facts["partitions"] and facts["age_s"] <= OLD_S
    is_known = bool(is_measured and not facts["unknown"] and facts["waits_s"] is not None)
    assert (found.objective is not Objective.UNKNOWN) == is_known
    assert (found.planned is Planned.NOT_READY) == bool(found.blockers)
    is_go = found.planned is Planned.READY and found.objective is Objective.WITHIN and facts["groups"] is not None
    assert (found.answer is Answer.GO) == is_go
    assert found.is_healthy == is_go


def test_facts_come_from_rows_and_from_metrics_of_the_process():
    def row(partition, offset, end, status=Status.OK, **more):
        return LagRow(
            group="a->b",
            cluster="a",
            topic="t",
            partition=partition,
            offset=offset,
            log_end=end,
            is_flow=True,
            remote_topic="a.t",
            status=status,
            **more,
        )

    exposition = "".join(
        f"kafka_mirror_{line}\n"
        for line in (
            'group_partitions{source="a",target="b",group="g",state="no_map"} 2.0',
            'group_partitions{source="a",target="c",group="h",state="no_map"} 2.0',
            'failover_reread_records{source="a",target="b",group="g"} 5.0',
            'slots{source="a",target="b"} 2.0',
            'slots_owned{source="a",target="b"} 1.0',
            'processes{source="a",target="b"} 1.0',
        )
    )
    served = served_facts(status_of(exposition), "a->b")
    assert served == ServedFacts(groups={"g": {"no_map": 2}}, reread={"g": 5}, differences=None, unserved=1)
    assert served_facts(status_of(""), "a->b") == ServedFacts(groups=None, reread={}, differences=None, unserved=None)
    assert served_facts(status_of(exposition.replace("processes", "x")), "a->b").unserved is None
    round_without_groups = 'kafka_mirror_checkpoints_total{source="a",target="b"} 0.0\n'
    assert served_facts(status_of(round_without_groups), "a->b").groups == {}
    rows = (
        row(0, 5, 9, lag_seconds=4.0, level_in_s=2.0, records_per_s=8.0),
        row(1, 5, None, Status.UNKNOWN),
        row(2, 9, 9, lag_seconds=0.0),
    )
    snapshot = Snapshot(time_s=1.0, rows=rows, clusters=(("a", True), ("b", True)))
    found = facts_of("a->b", snapshot, source="a", target="b", served=served)
    assert (found.partitions, found.unknown, found.missing, found.waits_s, found.level_in_s) == (3, 1, 4, 4.0, 2.0)
    assert (found.drain_s, found.stalled) == (0.5, [])
    stalled = replace(snapshot, rows=(row(0, 5, 9, Status.STALL), row(1, 9, 9, Status.STALL)))
    assert facts_of("a->b", stalled, source="a", target="b", served=served).stalled == ["a.t-0"]
    assert facts_of("a->b", snapshot, source="a", target="c", served=ServedFacts()).target_up is False


def test_the_worst_flow_is_the_answer_for_all():
    assert worst([judged(WELL), but(missing=1, waits_s=99.0), but(target_up=False)]) is Answer.NO
    assert worst([]) is Answer.NO


def test_the_metric_answers_by_what_its_process_knows():
    recorder = Recorder(horizon_of(poll_interval_s=5, window_s=5))
    flow, place = ("a", "b"), ("a", "b", "a.t", "0")

    def answers(after_s: float = 0.0, *, telling=frozenset({flow})) -> tuple[Answer, float | None, float | None]:
        """Return the single answer, whether a switch is ready, and whether the loss is within the objective."""
        now_s = time.time() + after_s
        families = recorder.snapshot(now_s=now_s)
        answer_failover(families, now_s=now_s, flows={flow: 10.0}, reporting_groups=telling)
        shown = [families[f"kafka_mirror_{name}"].get(flow) for name in ("switch_ready", "rpo_within_objective")]
        return Answer(families["kafka_mirror_failover_answer"][flow]), *shown

    def polled(end: int, *, waits_s: float = 0.0) -> None:
        now_s = time.time()
        record(recorder, row_of(place, offset=9, end=end, replicated_until_s=now_s - waits_s), now_s=now_s)
        for cluster in flow:
            recorder.record_cluster(flow, cluster, is_up=True)
        recorder.record_poll(flow, now_s=time.time(), took_s=0.1)

    others = frozenset()  # another process reports the groups
    assert answers() == (Answer.NO, 0, None), "nothing is known yet"
    polled(9)
    assert answers() == (Answer.GO_WITH_LOSS, 1, 1), "groups are unknown"
    assert answers(telling=others) == (Answer.GO, 1, 1)
    recorder.record_checkpoints([CheckpointReport("a", "b", failure="no answer")], now_s=time.time())
    assert answers()[0] is Answer.GO_WITH_LOSS
    recorder.record_checkpoints([CheckpointReport("a", "b")], now_s=time.time())
    assert answers()[0] is Answer.GO, "a round found no group"
    polled(12, waits_s=3.0)
    assert answers(telling=others) == (Answer.GO, 1, 1)
    polled(12, waits_s=11.0)
    assert answers(telling=others) == (Answer.GO_WITH_LOSS, 1, 0)
    assert answers(30, telling=others) == (Answer.NO, 0, None), "no poll since"
    polled(9)
    recorder.record_cluster(flow, "b", is_up=False)
    assert answers(telling=others) == (Answer.NO, 0, None)
    recorder.record_cluster(flow, "b", is_up=True)
    recorder.record_cluster(flow, "a", is_up=False)
    assert answers(600, telling=others) == (Answer.GO_WITH_LOSS, 0, None)
