"""Names of remote topics, internal topics and cycles, as MirrorMaker's two policies have them."""

from __future__ import annotations

import pickle
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.policy.naming import DefaultReplicationPolicy, IdentityReplicationPolicy

DEFAULT = DefaultReplicationPolicy(source_alias="primary")
IDENTITY = IdentityReplicationPolicy(source_alias="primary")

aliases = st.text(string.ascii_letters + string.digits + "-", min_size=1, max_size=10)
topics = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=30)


@given(aliases, topics, st.sampled_from([".", "_", "__", "._"]))
def test_upstream_undoes_remote(alias, topic, separator):
    """Where the alias does not hold the separator; a name of trailing separators only does not look remote."""
    policy = DefaultReplicationPolicy(source_alias=alias, separator=separator)
    remote = policy.remote_topic(topic)
    if topic.split(separator) == [""] * len(topic.split(separator)):
        assert policy.upstream_topic(remote) is None
    else:
        assert policy.topic_source(remote) == alias
        assert policy.upstream_topic(remote) == topic
        assert policy.original_topic(remote) == policy.original_topic(topic)


@given(aliases, topics)
def test_identity_keeps_names_and_its_upstream_undoes_it(alias, topic):
    policy = IdentityReplicationPolicy(source_alias=alias)
    assert policy.upstream_topic(policy.remote_topic(topic)) == topic
    assert (policy.remote_topic(topic) == topic) != topic.endswith("heartbeats")


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("foo", None, None, "foo"),
        ("foo.bar", "foo", "bar", "bar"),
        ("foo.", None, None, "foo."),
        ("foo..", None, None, "foo.."),
        ("foo..bar", "foo", ".bar", "bar"),
        (".foo", "", "foo", "foo"),
        (".", None, None, "."),
        ("a.b.c", "a", "b.c", "c"),
        ("a.b.", "a", "b.", "b."),
    ],
)
def test_names_are_split_as_java_splits(topic, source, upstream, original):
    assert DEFAULT.topic_source(topic) == source
    assert DEFAULT.upstream_topic(topic) == upstream
    assert DEFAULT.original_topic(topic) == original


def test_a_separator_of_its_own_replaces_the_dot():
    policy = DefaultReplicationPolicy(source_alias="primary", separator="_")
    assert policy.remote_topic("orders") == "primary_orders"
    assert policy.topic_source("a.b") is None
    assert policy.topic_source("a_b") == "a"


def test_identity_knows_the_source_of_every_topic_but_heartbeats():
    assert IDENTITY.topic_source("foo.bar") == "primary"
    assert IDENTITY.remote_topic("heartbeats") == "primary.heartbeats"
    assert IDENTITY.topic_source("backup.heartbeats") == "backup"
    assert IDENTITY.topic_source("heartbeats") is None
    assert IDENTITY.original_topic("a.b.heartbeats") == "heartbeats"
    assert IDENTITY.original_topic("foo.bar") == "foo.bar"


@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY])
@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("__consumer_offsets", True),
        (".hidden", True),
        ("mm2-offsets.primary.internal", True),
        ("mm2-offset-syncs.backup.internal", True),
        ("primary.checkpoints.internal", True),
        ("orders.internal", False),
        ("orders-internal", False),
        ("mm2-orders", False),
        ("checkpoints.internal", False),
        ("orders", False),
        ("heartbeats", False),
    ],
)
def test_internal_topics_are_those_of_kip_1074(policy, topic, expected):
    assert policy.is_internal(topic) is expected


def test_internal_topics_follow_the_separator_and_keep_the_dot():
    policy = DefaultReplicationPolicy(source_alias="A", separator="_")
    assert policy.is_internal("mm2-offset-syncs_B_internal")
    assert policy.is_internal("A_checkpoints_internal")
    assert policy.is_internal("mm2-configs.A.internal")
    assert not DEFAULT.is_internal("mm2-offset-syncs_B_internal")


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("orders", False),
        ("backup.orders", True),
        ("other.backup.orders", True),
        ("other.orders", False),
        ("orders.backup", False),
        ("backup.", False),
    ],
)
def test_a_topic_that_came_from_the_target_is_a_cycle(topic, expected):
    assert DEFAULT.would_cycle(topic, "backup") is expected


def test_identity_sees_no_cycle_but_in_heartbeats():
    assert not IDENTITY.would_cycle("backup.orders", "backup")
    assert IDENTITY.would_cycle("backup.heartbeats", "backup")
    assert not IDENTITY.would_cycle("heartbeats", "backup")


def test_heartbeats_are_known_over_any_hops():
    assert [t for t in ("heartbeats", "b.a.heartbeats", "my-heartbeats") if DEFAULT.is_heartbeats(t)] == [
        "heartbeats",
        "b.a.heartbeats",
    ]


def test_internal_topics_have_mirrormakers_names():
    assert DEFAULT.checkpoints_topic("a") == "a.checkpoints.internal"
    assert DEFAULT.offset_syncs_topic("b") == "mm2-offset-syncs.b.internal"
    odd = DefaultReplicationPolicy(source_alias="a", separator="_", internal_separator="_")
    assert odd.checkpoints_topic("a") == "a_checkpoints_internal"  # KIP-949
    assert odd.offset_syncs_topic("b") == "mm2-offset-syncs_b_internal"
    assert odd.is_internal(odd.checkpoints_topic("a"))
    assert odd.is_internal(odd.offset_syncs_topic("b"))


def test_policies_survive_pickling():
    assert pickle.loads(pickle.dumps(IDENTITY)) == IDENTITY
    assert type(pickle.loads(pickle.dumps(DEFAULT))) is DefaultReplicationPolicy
