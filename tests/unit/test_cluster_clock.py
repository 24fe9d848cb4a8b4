"""What a cluster says of its clock, and what follows from it."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.recorder import Recorder
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_facts import ClockUnknown, leaders_clock_ms, skew_between
from mirror.kafka.errors import ErrorCode
from mirror.kafka.messages import make
from tests.unit.fake_broker import FakeBroker, answer_kinds
from tests.unit.test_metrics import text

DESCRIBE_QUORUM = 55
SLOW_S = 20  # more than a request takes on a busy machine
REFUSAL = ErrorCode.cluster_authorization_failed


def quorum(*voters, leader=3000, error=ErrorCode.none, of_partition=ErrorCode.none, version=2):
    """Return an answer to DescribeQuorum; `voters` are (id, last caught up)."""
    module = answer_kinds(DESCRIBE_QUORUM, version)
    replicas = tuple(
        make(
            module.ReplicaState,
            replica_id=voter,
            replica_directory_id=None,
            log_end_offset=100,
            last_fetch_timestamp=at_ms,
            last_caught_up_timestamp=at_ms,
        )
        for voter, at_ms in voters
    )
    partition = make(
        module.PartitionData,
        partition_index=0,
        error_code=of_partition,
        error_message=None,
        leader_id=leader,
        leader_epoch=7,
        high_watermark=100,
        current_voters=replicas,
        observers=(),
    )
    topic = module.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    return make(module.DescribeQuorumResponse, error_code=error, error_message=None, topics=(topic,), nodes=())


def skew_of(servers):
    with closing(Cluster("A", {"bootstrap.servers": servers})) as cluster:
        return cluster.clock_skew()


def asked_of_a_broker(clock, *, api_versions):
    """Return the skew of a cluster whose controller has `clock`, and how often its broker was connected to."""

    async def run():
        async with FakeBroker(api_versions={DESCRIBE_QUORUM: api_versions}) as broker:
            broker.handlers[DESCRIBE_QUORUM] = lambda _, version: quorum((3000, clock()), version=version)
            skew_s = await asyncio.to_thread(skew_of, broker.address)
            assert {version for api, version, _ in broker.asked if api == DESCRIBE_QUORUM} == {min(2, api_versions[1])}
            return skew_s, len(broker.connects_s)

    return asyncio.run(run())


@pytest.mark.parametrize("api_versions", [(0, 1), (0, 2), (1, 9)])
def test_the_clock_is_read_over_one_additional_connection(api_versions):
    skew_s, connects = asked_of_a_broker(lambda: int(time.time() * 1000) + 60_000, api_versions=api_versions)
    assert 60 - SLOW_S < skew_s <= 60, "no more than it is, and less by the time of the request"
    assert connects == 2


@pytest.mark.parametrize("api_versions", [(0, 0), (0, -1)])
def test_without_a_clock_the_error_names_the_first_version_that_has_one(api_versions):
    with pytest.raises(ClockUnknown, match=r"Kafka 3\.3"):
        asked_of_a_broker(lambda: 0, api_versions=api_versions)


def test_the_leaders_own_time_counts():
    assert leaders_clock_ms(quorum((3000, 1_700_000_000_500), (3001, 1_700_000_000_100))) == 1_700_000_000_500
    assert leaders_clock_ms(quorum((3000, 5), (3001, 9), leader=3001)) == 9


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (quorum(error=REFUSAL), "CLUSTER_AUTHORIZATION_FAILED"),
        (quorum((3000, 5), of_partition=REFUSAL), "CLUSTER_AUTHORIZATION_FAILED"),
        (quorum((3001, 5)), "no leader"),
        (quorum((3000, -1)), "no leader"),
        (replace(quorum(), topics=()), "no leader"),
    ],
)
def test_a_missing_or_refused_clock_is_unknown(answer, why):
    with pytest.raises(ClockUnknown, match=why):
        leaders_clock_ms(answer)


def test_a_clock_differs_only_where_the_time_of_asking_cannot_explain_it():
    assert skew_between(100.0, 100.2, 100.5) == 0
    assert skew_between(100.0, 107.5, 100.5) == 7.0
    assert skew_between(100.0, 90.0, 100.5) == pytest.approx(-10, abs=0.0011)
    assert skew_between(100.0007, 100.0, 100.5) == 0  # answered in milliseconds


@given(ahead_s=st.floats(-1e6, 1e6), there_s=st.floats(0, 20), back_s=st.floats(0, 20))
def test_a_clock_skew_is_never_overestimated(ahead_s, there_s, back_s):
    asked_s = 1_700_000_000.0
    told_s = int((asked_s + there_s + ahead_s) * 1000) / 1000
    found = skew_between(asked_s, told_s, asked_s + there_s + back_s)
    assert abs(found) <= abs(ahead_s) + 0.001
    assert found == 0 or (found > 0) == (ahead_s > 0)
    assert abs(found - ahead_s) <= there_s + back_s + 0.0021


def test_a_cluster_without_a_clock_has_no_series():
    recorder = Recorder()
    recorder.record_cluster_clock(("a", "b"), "b", 3.0, now_s=1e12)
    assert 'kafka_mirror_cluster_clock_skew_seconds{cluster="b",source="a",target="b"} 3.0' in text(recorder)
    recorder.record_cluster(("a", "b"), "b", is_up=False)  # which each poll tells, a reading only each minute
    assert "kafka_mirror_cluster_clock_skew_seconds{" not in text(recorder)
    recorder.record_cluster(("a", "b"), "b", is_up=True)
    recorder.record_cluster_clock(("a", "b"), "b", None, now_s=1e12)
    assert "kafka_mirror_cluster_clock_skew_seconds{" not in text(recorder)
