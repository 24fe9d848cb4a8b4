"""Drills: which topics are canaries, what is kept of a drill, when one is due, and what metrics tell of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.switches import drills_table
from mirror.errors import MirrorError, SettingsError
from mirror.flows.topics import matched
from mirror.kafka.cluster import Topic
from mirror.model.flow_plan import is_own_group
from mirror.switching.canary import Canary
from mirror.switching.drill import KEPT, KEPT_RUNS, Drill, outdated
from mirror.switching.drills import due, next_at, steps, told
from mirror.switching.journal import SWITCHES, book_of_drill
from mirror.switching.scope import Scope
from mirror.switching.steps import pause_patterns
from mirror.switching.text import drill_text

BOTH_WAYS = "backup->primary.enabled = true"
ON = "mirror.drill.enabled = true"
CANARY = "mirror-drill-primary-backup"
GOOD = Drill(
    id="20260102T030405Z-abc",
    flow="primary->backup",
    by="sre@host:1",
    version="1",
    began_s=1_000.0,
    ended_s=1_030.0,
    records=900,
    rpo_records=12,
    rto_s=7.1,
    back_s=6.0,
    steps={"switch": {"fence": 5.2, "drain": 0.1}, "switch-back": {"fence": 5.0}},
)
FAILED = replace(GOOD, id="x", began_s=2_000.0, ended_s=2_010.0, rto_s=None, failure="b does not answer", steps={})


def test_a_flow_mirrors_only_its_own_canaries(settings):
    there = {
        name: Topic(name=name, topic_id=name, partitions=1)
        for name in (
            CANARY,
            "mirror-drill-backup-primary",
            "mirror-drill-primary-third",
            "orders",
            f"backup.{CANARY}",
        )
    }
    on = settings(BOTH_WAYS, ON, "topics = orders").flows[0]
    assert [topic.source.name for topic in matched(on, there)] == ["mirror-drill-backup-primary", CANARY, "orders"]
    off = settings(BOTH_WAYS, "topics = .*").flows[0]
    assert [topic.source.name for topic in matched(off, there)] == ["orders"]


def test_a_canary_group_is_not_a_consumer_group_of_users():
    assert is_own_group(CANARY)
    assert not is_own_group("billing")


def test_a_flow_without_canaries_cannot_be_rehearsed(settings):
    with pytest.raises(SettingsError, match=r"primary->backup has no canary topic. Set mirror.drill.enabled = true"):
        Scope.of_drill(settings(BOTH_WAYS), "primary->backup")


def test_drills_without_a_flow_back_are_refused(settings):
    with pytest.raises(SettingsError, match=r"mirror.drill.enabled.*no flow has a reverse flow"):
        settings(ON)


def test_an_interval_without_drills_is_refused(settings):
    with pytest.raises(SettingsError, match=r"mirror.drill.interval.seconds.*while mirror.drill.enabled is false"):
        settings("mirror.drill.interval.seconds = 60")


def test_a_drill_is_about_its_canary_and_a_switch_is_not(settings):
    both = settings(BOTH_WAYS, ON)
    drill = Scope.of_drill(both, "primary->backup")
    assert drill.wants_group(CANARY)
    assert not drill.wants_group("billing")
    assert drill.reversed().canary == CANARY
    assert pause_patterns(drill) == pause_patterns(drill.reversed()) == (CANARY,)
    switch = Scope(both.flows[0], both.flows[1])
    assert not switch.wants_group(CANARY)
    assert switch.wants_group("billing")


def test_drills_in_both_directions_have_separate_journals(settings):
    """Each takes away what an earlier one of its own has left, and nothing of the other."""
    both = settings(BOTH_WAYS, ON)
    there, back = (Scope.of_drill(both, name) for name in ("primary->backup", "backup->primary"))
    assert book_of_drill(there.canary) == book_of_drill(there.reversed().canary)
    assert book_of_drill(there.canary) == ("mm2-drills.primary-backup.internal", "mirror.drill.primary-backup")
    assert not set(book_of_drill(there.canary)) & {*book_of_drill(back.canary), *SWITCHES}


TIMES = st.floats(0, 2e9)
DRILLS = st.builds(
    Drill,
    id=st.text(),
    flow=st.text(),
    by=st.text(),
    version=st.text(),
    began_s=TIMES,
    ended_s=TIMES,
    records=st.integers(0),
    lost=st.integers(0),
    repeated=st.integers(0),
    rpo_records=st.none() | st.integers(0),
    rto_s=st.none() | TIMES,
    back_s=st.none() | TIMES,
    steps=st.dictionaries(st.text(), st.dictionaries(st.text(), TIMES)),
    failure=st.text(),
)


@given(DRILLS)
def test_a_drill_is_read_back_as_it_was_written(drill):
    assert Drill.parse(drill.text()) == drill


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"id": "x", "odd": 1}'])
def test_a_text_that_is_no_drill_is_refused(text):
    with pytest.raises(ValueError, match=r"no drill|Expecting value"):
        Drill.parse(text)


@pytest.mark.parametrize(
    ("changes", "has_passed"), [({}, True), ({"lost": 1}, False), ({"repeated": 1}, False), ({"failure": "x"}, False)]
)
def test_a_drill_has_passed_where_each_record_was_read_once(changes, has_passed):
    assert replace(GOOD, **changes).has_passed is has_passed


def test_metrics_of_drills_that_were_not_measured_are_absent():
    assert told([], due_s=None) == {
        "last_success_timestamp_seconds": None,
        "due_timestamp_seconds": None,
        "passed": None,
        "rpo_records": None,
        "rto_seconds": None,
    }
    assert told([GOOD, FAILED], due_s=5.0) == {
        "last_success_timestamp_seconds": 1_030.0,
        "due_timestamp_seconds": 5.0,
        "passed": 0.0,
        "rpo_records": 12,
        "rto_seconds": None,
    }
    assert steps([GOOD]) == {("switch", "fence"): 5.2, ("switch", "drain"): 0.1, ("switch-back", "fence"): 5.0}
    assert steps([]) == {}


@pytest.mark.parametrize(
    ("past", "due_s"),
    [
        ([], 500 + 200),  # since it is looked for
        ([GOOD], 1_030 + 200),
        ([GOOD, FAILED], 1_030 + 200),  # one that failed proves nothing
        ([FAILED], 2_000 + 200),  # counts from the first that should have, over restarts
    ],
)
def test_a_drill_must_have_passed_two_intervals_after_the_last_that_did(past, due_s):
    assert due(past, interval_s=100, since_s=500) == due_s


def test_one_that_failed_is_tried_again_sooner():
    assert next_at([], interval_s=86_400) == 0
    assert next_at([FAILED, GOOD], interval_s=86_400) == 1_000 + 86_400
    assert next_at([GOOD, FAILED], interval_s=86_400) == 2_000 + 86_400 / 4
    assert next_at([FAILED], interval_s=1_200) == 2_000 + 600
    assert next_at([FAILED], interval_s=60) == 2_000 + 60


def test_a_journal_forgets_old_drills_and_all_but_the_last_runs_of_any():
    ids = [f"2026010{day}T000000Z-{letter}" for day, letter in zip(range(1, 6), "zyxwv", strict=True)]
    keys = [f"{kind}/{each}{rest}" for each in ids for kind, rest in (("run", ""), ("moves", "/g"), ("drill", ""))]
    assert outdated([*keys, "conductor"]) == [
        *(f"run/{each}" for each in ids[:-KEPT_RUNS]),
        *(f"moves/{each}/g" for each in ids[:-KEPT_RUNS]),
    ]
    many = [f"drill/{number:03}" for number in range(KEPT + 3)]
    assert outdated(many) == many[:3]
    assert outdated([]) == []


def test_a_person_reads_what_came_of_it():
    assert drill_text(GOOD) == (
        "drill primary->backup: passed\n"
        "  20260102T030405Z-abc, begun 1970-01-01 00:16:40 UTC by sre@host:1, version 1\n"
        "  900 records written, 0 lost, 0 read twice\n"
        "  RPO: 12 records, had the source been lost under this load\n"
        "  RTO: 7.1 s over, 6.0 s back\n"
        "  switch       fence 5.2 s, drain 0.1 s\n"
        "  switch-back  fence 5.0 s\n"
    )
    failed = drill_text(replace(FAILED, rpo_records=None))
    assert "failed" in failed
    assert "b does not answer" in failed
    assert "RPO: unknown" in failed
    assert "RTO: unknown over" in failed
    assert list(drills_table([FAILED, GOOD])["Result"]) == ["failed", "passed"]


def test_a_canary_compares_read_records_with_acknowledged_ones():
    canary = Canary(CANARY, "id", rate=1)
    canary.acked = {"a": ["id/0", "id/1"], "b": ["id/2"]}
    canary.read.update(["id/0", "id/2", "id/2"])
    assert (canary.records, canary.lost, canary.repeated) == (3, 1, 1)
    with pytest.raises(MirrorError, match=r"of 2 records written on a the canary group has read 1 after 0 s"):
        canary.await_all_read(within_s=0)
