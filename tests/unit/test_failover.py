"""May I fail over? Vetoes, costs, what nobody knows; and the same words in text and JSON."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.lag_row import LagRow
from metrics.partition_status import Status
from metrics.recorder import Recorder
from metrics.reports import CheckpointReport
from mirror.commands.failover_check import text
from mirror.lag.failover import Answer, Facts, ServedFacts, answer_failover, facts_of, judged, served_facts, worst
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


def test_what_is_level_and_known_may_go():
    found = judged(WELL)
    assert (found.answer, found.seconds, found.records, found.groups_that_reread, found.level_in_s) == (
        Answer.GO,
        0,
        0,
        0,
        0,
    )
    assert text([found]) == "a->b: GO\n"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"target_up": False}, "target does not respond"),
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
    ],
)
def test_a_veto_is_a_no_with_its_reason(changes, word):
    found = but(**changes)
    assert found.answer is Answer.NO
    assert any(word in veto for veto in found.vetoes), found.vetoes


def test_what_waits_and_what_is_read_again_is_the_cost():
    found = but(missing=1234, waits_s=5.0, reread={"g": 7, "h": 0}, level_in_s=90.0)
    assert found.answer is Answer.GO_WITH_LOSS
    assert (found.seconds, found.records, found.groups_that_reread) == (5.0, 1234, 1)
    assert text([found]).splitlines() == [
        "a->b: GO WITH LOSS",
        "  costs:   1,234 records not on the target yet; the oldest has waited for 5 s",
        "  costs:   1 group would re-read 7 records",
        "  level in 90.0 s at the present rates",
    ]


def test_a_source_that_is_down_is_a_reason_to_go_and_no_veto_of_old_numbers_holds_it_up():
    found = but(source_up=False, unknown=3, age_s=500.0, unserved=2)
    assert found.answer is Answer.GO_WITH_LOSS
    assert found.vetoes == ()
    assert (found.seconds, found.records) == (None, None)  # nobody knows, so no number
    assert "source does not respond" in found.unknowns[0]
    both = but(source_up=False, target_up=False)
    assert both.answer is Answer.NO
    assert len(both.vetoes) == 1


def test_groups_of_which_nobody_tells_are_no_go():
    assert but(groups=None, reread={}).answer is Answer.GO_WITH_LOSS


@given(
    source_up=st.booleans(),
    target_up=st.booleans(),
    partitions=st.integers(0, 3),
    unknown=st.integers(0, 3),
    missing=st.integers(0, 3),
    age_s=st.floats(0, 200),
    groups=st.none() | st.just({}) | st.just({"g": {"refused": 1}}),
    differences=st.none() | st.integers(0, 2),
    unserved=st.none() | st.integers(0, 2),
)
def test_go_needs_everything_to_be_known_and_well_and_every_other_answer_has_a_reason(**facts):
    found = judged(Facts(flow="a->b", **facts))
    is_well = (
        facts["source_up"]
        and facts["target_up"]
        and facts["partitions"]
        and not facts["unknown"]
        and not facts["missing"]
        and facts["age_s"] <= 60
        and facts["groups"] == {}
        and not facts["differences"]
        and not facts["unserved"]
    )
    assert (found.answer is Answer.GO) == bool(is_well)
    assert bool(found.vetoes) == (found.answer is Answer.NO)
    assert found.answer is Answer.GO or found.vetoes or found.costs or found.unknowns


def test_facts_come_from_rows_and_from_what_the_appliance_tells():
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
        row(0, 5, 9, lag_seconds=4.0, level_in_s=2.0),
        row(1, 5, None, Status.UNKNOWN),
        row(2, 9, 9, lag_seconds=0.0),
    )
    snapshot = Snapshot(time_s=1.0, rows=rows, clusters=(("a", True), ("b", True)))
    found = facts_of("a->b", snapshot, source="a", target="b", served=served)
    assert (found.partitions, found.unknown, found.missing, found.waits_s, found.level_in_s) == (3, 1, 4, 4.0, 2.0)
    assert facts_of("a->b", snapshot, source="a", target="c", served=ServedFacts()).target_up is False


def test_the_worst_flow_is_the_answer_for_all():
    assert worst([judged(WELL), but(missing=1), but(target_up=False)]) is Answer.NO
    assert worst([]) is Answer.NO


def test_the_metric_answers_by_what_its_process_knows():
    recorder = Recorder(horizon_of(poll_interval_s=5, window_s=5))
    flow, place = ("a", "b"), ("a", "b", "a.t", "0")

    def answer(after_s: float = 0.0, *, telling=frozenset({flow})) -> Answer:
        now_s = time.time() + after_s
        families = recorder.snapshot(now_s=now_s)
        answer_failover(families, now_s=now_s, flows={flow}, reporting_groups=telling)
        return Answer(families["kafka_mirror_failover_answer"][flow])

    def polled(end: int) -> None:
        now_s = time.time()
        record(recorder, row_of(place, offset=9, end=end, replicated_until_s=now_s), now_s=now_s)
        for cluster in flow:
            recorder.record_cluster(flow, cluster, is_up=True)
        recorder.record_poll(flow, now_s=time.time(), took_s=0.1)

    assert answer() is Answer.NO  # nothing is known yet
    polled(9)
    assert answer() is Answer.GO_WITH_LOSS  # of groups nothing is known
    assert answer(telling=frozenset()) is Answer.GO  # they are another process' to tell
    recorder.record_checkpoints([CheckpointReport("a", "b", failure="no answer")], now_s=time.time())
    assert answer() is Answer.GO_WITH_LOSS
    recorder.record_checkpoints([CheckpointReport("a", "b")], now_s=time.time())
    assert answer() is Answer.GO  # a round found that there are none
    polled(12)
    assert answer(telling=frozenset()) is Answer.GO_WITH_LOSS
    assert answer(30) is Answer.NO  # nobody has polled since
    polled(9)
    recorder.record_cluster(flow, "b", is_up=False)
    assert answer(telling=frozenset()) is Answer.NO
    recorder.record_cluster(flow, "b", is_up=True)
    recorder.record_cluster(flow, "a", is_up=False)
    assert answer(600, telling=frozenset()) is Answer.GO_WITH_LOSS
