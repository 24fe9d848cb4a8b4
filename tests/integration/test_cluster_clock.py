"""The clock of a real cluster's controller, read without a record being written."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from mirror.kafka import cluster_facts
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_facts import ClockUnknown
from tests.waiting import eventually

pytestmark = pytest.mark.kafka


def skew_of(servers: str) -> float:
    with closing(Cluster("A", {"bootstrap.servers": servers})) as cluster:
        return cluster.clock_skew()


def test_on_one_machine_no_difference_is_seen(primary):
    eventually(lambda: skew_of(primary.bootstrap) == 0, within_s=10, because="a response is quick")


@pytest.mark.parametrize("ahead_s", [-40.0, 0.75, 3600.0])
def test_a_difference_is_measured_to_some_milliseconds(primary, monkeypatch, ahead_s):
    """Both run on this machine, so it is our clock that is shifted."""
    real = time.time
    monkeypatch.setattr(cluster_facts.time, "time", lambda: real() - ahead_s)
    eventually(
        lambda: skew_of(primary.bootstrap) == pytest.approx(ahead_s, abs=0.2),
        within_s=10,
        because="a response is quick",
    )


def test_a_cluster_that_is_silent_or_gone_is_unknown(backup):
    backup.pause()
    try:
        with pytest.raises(ClockUnknown, match="no answer"):
            skew_of(backup.bootstrap)
    finally:
        backup.resume()
    with pytest.raises(ClockUnknown):
        skew_of("127.0.0.1:1")
