"""The sentence about a cluster that a poll could not read: its name, its address, the values that are unknown now."""

from __future__ import annotations

import pytest

from mirror.config.load import load
from mirror.errors import ClusterRefuses, ClusterUnavailable
from mirror.lag.problems import problem

RAW = "cluster a (a:1): no answer (Failed to get metadata: Local: Broker transport failure). Is it up?"


@pytest.fixture
def settings(tmp_path):
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\na->b.topics = t\n"
        "b->a.enabled = true\nb->a.topics = u\n"
    )
    return load(file)


def test_a_silent_cluster_is_named_with_its_address_and_what_is_unknown(settings):
    found = problem(ClusterUnavailable(RAW, cluster="a"), "a", settings)
    assert found.sentence == (
        "Cluster a at a:1 does not respond. Lag of a->b is unknown. Positions of b->a are unknown."
    )
    assert "Local:" not in found.sentence
    assert found.detail == str(found) == RAW


def test_a_refusal_is_no_silence(settings):
    found = problem(ClusterRefuses("cluster b: not authorized", cluster="b"), "b", settings)
    assert found.sentence.startswith("Cluster b at b:1 refuses a request of the inspector.")


def test_a_cluster_of_no_flow_has_no_address(settings):
    assert problem(ClusterUnavailable("x", cluster="c"), "c", settings).sentence == "Cluster c does not respond."
