"""What a cluster says of its clock, and what follows from it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.recorder import Recorder
from mirror.kafka.cluster_clock import ClockUnknown, leaders_clock_ms, skew_between
from tests.unit.test_metrics import text

CLUSTER_AUTHORIZATION_FAILED = 31


def quorum(*voters: tuple[int, int], leader: int = 3000, error: int = 0, of_partition: int = 0) -> SimpleNamespace:
    """An answer to DescribeQuorum; `voters` are (id, last caught up)."""
    replicas = [(voter, 100, at_ms, at_ms, {}) for voter, at_ms in voters]
    part = (0, of_partition, leader, 7, 100, replicas, [], {})
    return SimpleNamespace(error_code=error, topics=[("__cluster_metadata", [part], {})])


def test_the_leaders_own_time_counts():
    assert leaders_clock_ms(quorum((3000, 1_700_000_000_500), (3001, 1_700_000_000_100))) == 1_700_000_000_500
    assert leaders_clock_ms(quorum((3000, 5), (3001, 9), leader=3001)) == 9


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (quorum(error=CLUSTER_AUTHORIZATION_FAILED), "ClusterAuthorizationFailed"),
        (quorum((3000, 5), of_partition=CLUSTER_AUTHORIZATION_FAILED), "ClusterAuthorizationFailed"),
        (quorum((3001, 5)), "no leader"),
        (quorum((3000, -1)), "no leader"),
        (SimpleNamespace(error_code=0, topics=[]), "no leader"),
    ],
)
def test_what_is_refused_or_left_out_is_unknown(answer, why):
    with pytest.raises(ClockUnknown, match=why):
        leaders_clock_ms(answer)


def test_a_clock_differs_only_where_the_time_of_asking_cannot_explain_it():
    assert skew_between(100.0, 100.2, 100.5) == 0
    assert skew_between(100.0, 107.5, 100.5) == 7.0
    assert skew_between(100.0, 90.0, 100.5) == pytest.approx(-10, abs=0.0011)
    assert skew_between(100.0007, 100.0, 100.5) == 0  # told in milliseconds


@given(ahead_s=st.floats(-1e6, 1e6), there_s=st.floats(0, 20), back_s=st.floats(0, 20))
def test_a_skew_is_never_told_larger_than_it_is(ahead_s, there_s, back_s):
    asked_s = 1_700_000_000.0
    told_s = int((asked_s + there_s + ahead_s) * 1000) / 1000
    found = skew_between(asked_s, told_s, asked_s + there_s + back_s)
    assert abs(found) <= abs(ahead_s) + 0.001
    assert found == 0 or (found > 0) == (ahead_s > 0)
    assert abs(found - ahead_s) <= there_s + back_s + 0.0021


def test_who_says_nothing_has_no_series():
    recorder = Recorder()
    recorder.cluster_clock(("a", "b"), "b", 3.0, now_s=1e12)
    assert 'kafka_mirror_cluster_clock_skew_seconds{cluster="b",source="a",target="b"} 3.0' in text(recorder)
    recorder.cluster(("a", "b"), "b", is_up=False)  # which each poll tells, a reading only each minute
    assert "kafka_mirror_cluster_clock_skew_seconds{" not in text(recorder)
    recorder.cluster(("a", "b"), "b", is_up=True)
    recorder.cluster_clock(("a", "b"), "b", None, now_s=1e12)
    assert "kafka_mirror_cluster_clock_skew_seconds{" not in text(recorder)
