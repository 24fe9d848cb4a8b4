"""Rows of the lag inspector as text: the old checker's layout to the letter, and nothing unknown shown as zero."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from metrics.lag_row import LagRow
from metrics.partition_status import Sample, Status
from mirror.lag.judgement import pace
from mirror.lag.snapshot import Problem, Snapshot, selected
from mirror.lag.text import checker_text, csv_text, duration, json_text, wide_text

FLOW = LagRow(
    group="a->b",
    cluster="a",
    topic="orders",
    partition=0,
    offset=7,
    log_end=10,
    owner="127.0.0.1:9404",
    is_flow=True,
    remote_topic="a.orders",
    lag_seconds=90.0,
    status=Status.STALL,
    reason="stands still",
    records_per_s=0.0,
)
NEW = LagRow(group="shop", cluster="a", topic="orders", partition=1, offset=None, log_end=10)
LEVEL = LagRow(group="shop", cluster="b", topic="a.orders", partition=0, offset=10, log_end=10, lag_seconds=0.0)


def test_the_checkers_table_is_as_kafka_printed_it():
    assert checker_text([FLOW, NEW]).splitlines() == [
        "Group           Topic                          Pid Offset          logSize         Lag             Owner",
        "a->b            orders                         0   7               10              3               127.0.0.1:9404",
        "shop            orders                         1   unknown         10              unknown         none",
    ]


def test_the_wide_table_has_time_lag_rate_and_reason():
    head, flow, new = (" ".join(line.split()) for line in wide_text([FLOW, NEW]).splitlines())
    assert head == "Group Topic Pid Offset logSize Lag Owner Cluster Time lag Status Records/s Caught up in Offsets Why"
    assert flow == "a->b orders 0 7 10 3 127.0.0.1:9404 a 90.0 s STALL 0.0 not at this rate stands still"
    assert new == "shop orders 1 unknown 10 unknown none a unknown UNKNOWN unknown"


def test_the_wide_table_is_wrapped_to_the_terminal_without_loss():
    reason = "stands still for 12 polls while 3 records wait: the target refuses them as too large"
    rows = [replace(FLOW, reason=reason, offsets="translated"), NEW]
    words = wide_text(rows).split()
    for width in (60, 80, 120, 150, 400):
        lines = wide_text(rows, width).splitlines()
        assert max(map(len, lines)) <= width
        assert sorted(" ".join(lines).split()) == sorted(words)
    assert wide_text(rows, 400) == wide_text(rows)
    assert (
        wide_text(rows, 80)
        == """\
Group  Topic   Pid   Offset  logSize      Lag  Owner           Cluster  Time lag
    Status   Records/s  Caught up in      Offsets     Why
a->b   orders    0        7       10        3  127.0.0.1:9404  a        90.0 s
    STALL    0.0        not at this rate  translated  stands still for 12 polls
                                                      while 3 records wait: the
                                                      target refuses them as too
                                                      large
shop   orders    1  unknown       10  unknown  none            a        unknown
    UNKNOWN             unknown
"""
    )


def test_csv_has_every_field_and_no_formula():
    hostile = LagRow(group="=cmd()", cluster="a", topic="t", partition=0, offset=1, log_end=5)
    head, *_ = csv_text([FLOW]).splitlines()
    assert head == (
        "group,cluster,topic,partition,offset,log_end,owner,is_flow,remote_topic,lag_seconds,"
        "status,reason,records_per_s,written_per_s,level_in_s,lag,offsets"
    )
    first, second = csv.DictReader(io.StringIO(csv_text([FLOW, hostile])))
    assert first["lag"] == "3"
    assert first["status"] == "STALL"
    assert first["group"] == "a->b"
    assert second["group"] == "'=cmd()"
    assert second["lag_seconds"] == ""
    assert csv_text([]).splitlines() == [csv_text([FLOW]).splitlines()[0]]


@pytest.mark.parametrize("text", [checker_text, wide_text])
def test_a_group_of_any_name_keeps_to_its_row_and_commands_no_terminal(text):
    hostile = LagRow(group="a\nb\x1b[2J\u2028c", owner="\rme", cluster="a", topic="t", partition=0, offset=1, log_end=5)
    (_, row) = text([hostile]).splitlines()
    assert row.split()[:2] == [r"a\nb\x1b[2J\u2028c", "t"]
    assert r" \rme" in row


def test_json_has_the_time_and_what_could_not_be_read():
    snapshot = Snapshot(
        time_s=5.0,
        rows=(NEW,),
        problems=(Problem("Cluster b does not respond.", "cluster b: no answer"),),
        clusters=(("a", True), ("b", False)),
    )
    read = json.loads(json_text(snapshot, snapshot.rows))
    assert read["time"] == 5
    assert read["clusters"] == {"a": True, "b": False}
    assert read["problems"] == ["cluster b: no answer"]
    assert read["rows"][0]["lag"] is None


def test_lag_is_never_negative():
    assert LagRow(group="g", cluster="a", topic="t", partition=0, offset=12, log_end=10).lag == 0


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ({}, [FLOW, NEW, LEVEL]),
        ({"groups": ["shop"]}, [NEW, LEVEL]),
        ({"topics": ["a.orders"]}, [FLOW, LEVEL]),  # a flow's topic by its name on the target too
        ({"topics": ["orders"]}, [FLOW, NEW]),
        ({"only_lagging": True}, [FLOW, NEW]),  # what is not known is not level
        ({"groups": ["nobody"]}, []),
    ],
)
def test_rows_are_chosen_by_group_topic_and_lag(asked, rows):
    assert selected([FLOW, NEW, LEVEL], **asked) == rows


@pytest.mark.parametrize(
    ("what", "samples", "found"),
    [
        ("one poll says nothing", [Sample(0, 5, 10)], (None, None, None)),
        ("catches up at 8 of 10 a second", [Sample(0, 0, 100), Sample(10, 100, 120)], (10.0, 2.0, 2.5)),
        ("falls behind", [Sample(0, 0, 100), Sample(10, 10, 200)], (1.0, 10.0, None)),
        ("level", [Sample(0, 0, 100), Sample(10, 100, 100)], (10.0, 0.0, None)),
        ("went back", [Sample(0, 50, 100), Sample(10, 10, 100)], (0.0, 0.0, None)),
    ],
)
def test_pace(what, samples, found):
    assert pace(samples) == found, what


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, ""), (0, "0 s"), (1.25, "1.2 s"), (119, "119.0 s"), (150, "2.5 min"), (7200, "2.0 h"), (200_000, "2.3 d")],
)
def test_durations_are_written_for_people(seconds, said):
    assert duration(seconds) == said
