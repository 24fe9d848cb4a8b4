"""What the page Health says of an appliance, from what that serves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.findings import findings, limit, spent_on, throttled
from metrics.error_kind import ErrorKind
from metrics.last_errors import LastError
from metrics.partition_status import Status
from tests.status_text import status_of

FLOW = 'source="a",target="b"'


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        (
            f"kafka_mirror_last_progress_timestamp_seconds{{{FLOW}}} 990",
            Status.OK,
            "the last window reported 10.0 s ago",
        ),
        (f"kafka_mirror_last_progress_timestamp_seconds{{{FLOW}}} 100", Status.STOP, "reported 15.0 min ago"),
        (f'kafka_mirror_cluster_up{{{FLOW},cluster="b"}} 0', Status.UNKNOWN, "cluster b does not respond"),
        ('kafka_mirror_query_active{query="lane-0"} 0', Status.STOP, "Streaming query lane-0 has ended"),
        ("kafka_mirror_query_restarts_total 3", Status.WARN, "restarted 3 times"),
        (f"kafka_mirror_settings_conflict{{{FLOW}}} 1", Status.WARN, "different settings"),
        (f'kafka_mirror_partition_paused{{{FLOW},topic="a.t",partition="4"}} 1', Status.STALL, "a.t-4 is paused"),
        (f'kafka_mirror_records_lost_total{{{FLOW},topic="a.t"}} 7', Status.LOST, "7 records of a.t were deleted"),
        (f"kafka_mirror_matched_topics{{{FLOW}}} 0", Status.WARN, "it replicates nothing"),
        (f'kafka_mirror_cluster_clock_skew_seconds{{{FLOW},cluster="a"}} -9', Status.WARN, "9.0 s behind"),
    ],
)
def test_each_state_has_its_sentence(line, status, said):
    (found,) = findings(status_of(f"{line}\n"), 1000.0)
    assert found.status is status
    assert said in found.sentence


@pytest.mark.parametrize(
    "line",
    [
        'kafka_mirror_query_active{query="lane-0"} 1',
        "kafka_mirror_query_restarts_total 0",
        f'kafka_mirror_partition_paused{{{FLOW},topic="a.t",partition="4"}} 0',
        f'kafka_mirror_records_lost_total{{{FLOW},topic="a.t"}} 0',
        f'kafka_mirror_cluster_clock_skew_seconds{{{FLOW},cluster="a"}} 0.5',
        "",
    ],
)
def test_a_small_healthy_flow_has_no_findings(line):
    assert findings(status_of(f"{line}\n"), 1000.0) == []


def slots(owned, processes):
    values = {"slots": 4, "slots_owned": owned, "processes": processes}
    return "".join(f"kafka_mirror_{name}{{{FLOW}}} {value}\n" for name, value in values.items())


def test_unserved_slots_are_a_finding_only_for_a_process_that_is_alone():
    assert [finding.status for finding in findings(status_of(slots(4, 1)), 0)] == [Status.OK]
    assert [finding.status for finding in findings(status_of(slots(2, 1)), 0)] == [Status.STOP]
    assert [finding.status for finding in findings(status_of(slots(2, 2)), 0)] == [Status.OK]


def test_the_worst_is_first():
    text = f'{slots(4, 1)}kafka_mirror_records_lost_total{{{FLOW},topic="a.t"}} 7\n'
    assert [finding.status for finding in findings(status_of(text), 0)] == [Status.LOST, Status.OK]


def test_the_limit_is_the_activity_that_takes_most_time():
    text = "".join(
        f'kafka_mirror_slot_seconds_total{{{FLOW},slot="{slot}",spent_on="{what}"}} {seconds}\n'
        for slot in (0, 1)
        for what, seconds in (("source", 10), ("target", 30))
    )
    assert spent_on(status_of(text))["a->b"] == {"source": 0.25, "target": 0.75}
    assert limit(spent_on(status_of(text))["a->b"]).startswith(
        "waiting for acknowledgements from the target, 75% of the time"
    )
    assert spent_on(status_of(text)).keys() == {"a->b"}
    assert limit({}) == ""


def test_a_pause_by_an_operator_is_no_failed_check():
    error = LastError("a", "b", "a.t", 4, "paused by its operator", 1.0, kind=ErrorKind.PAUSED_BY_OPERATOR)
    assert findings(status_of(""), 2.0, [error]) == []


def test_a_paused_partition_has_one_finding_with_its_error():
    line = f'kafka_mirror_partition_paused{{{FLOW},topic="a.t",partition="4"}} 1\n'
    error = LastError("a", "b", "a.t", 4, "the target refuses it", 1.0)
    (found,) = findings(status_of(line), 2.0, [error])
    assert found == (Status.STALL, "a->b: a.t-4 is paused: the target refuses it")
    (older,) = findings(status_of(line), 2.0)
    assert older.sentence.endswith("the log shows the reason.")
    assert findings(status_of(""), 2.0, [replace(error, until_s=1.5)]) == []


def test_quotas_that_throttled_a_flow_are_named():
    lines = [
        f'kafka_mirror_throttled_seconds_total{{{FLOW},cluster="{name}"}} {s}\n' for name, s in (("a", 0), ("b", 9))
    ]
    status = status_of("".join(lines))
    assert throttled(status, "a->b") == ["Quotas of cluster b throttled the flow for 9.0 s"]
    assert throttled(status, "b->a") == []
