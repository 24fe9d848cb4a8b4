"""A connect-mirror-maker.properties becomes flows, or one clear refusal."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from mirror.errors import SettingsError
from mirror.policy.filters import NameFilter
from mirror.policy.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from tests.unit.conftest import BASE


def test_defaults(settings):
    loaded = settings()
    [flow] = loaded.flows
    assert flow.name == "primary->backup"
    assert (flow.source.alias, flow.source.client["bootstrap.servers"]) == ("primary", "p1:9092,p2:9092")
    assert flow.target.client == {"bootstrap.servers": "b1:9092"}
    assert flow.policy == DefaultReplicationPolicy(source_alias="primary", separator=".")
    assert (flow.replication_factor, flow.tasks_max) == (2, 1)
    assert (flow.refresh_topics.enabled, flow.refresh_topics.interval_s) == (True, 600.0)
    assert flow.topics.include == (".*",)
    for topic, expected in [("a", True), ("a.replica", False), ("__x", False), ("mm2-x.internal", False)]:
        assert flow.topics.matches(topic) is expected
    assert flow.consumer == flow.source_admin == {"bootstrap.servers": "p1:9092,p2:9092"}
    assert flow.producer == flow.target_admin == {"bootstrap.servers": "b1:9092"}
    mirror = loaded.mirror
    assert (mirror.metrics_listen, mirror.state_dir, mirror.window_ms) == (("127.0.0.1", 9404), Path("state"), 10_000)
    assert mirror.source_group_enabled is True
    assert (mirror.lanes, mirror.slots, mirror.poll_interval_s, mirror.spark) == (2, os.cpu_count(), 5.0, {})
    assert loaded.ignored == ()


def test_a_flow_has_its_recovery_point_objective(settings):
    assert settings().flows[0].rpo_objective_s == 60
    assert settings("mirror.rpo.objective.seconds = 30").flows[0].rpo_objective_s == 30
    lines = ("mirror.rpo.objective.seconds = 30", "primary->backup.mirror.rpo.objective.seconds = 5")
    assert settings(*lines).flows[0].rpo_objective_s == 5


def test_defaults_of_checkpoints_heartbeats_and_offset_syncs(settings):
    """B.2 of the semantics."""
    [flow] = settings().flows
    checkpoints = flow.checkpoints
    assert (checkpoints.enabled, checkpoints.interval_s, checkpoints.replication_factor) == (True, 60, 3)
    assert (checkpoints.sync_groups, checkpoints.sync_interval_s, checkpoints.lists_new_groups) == (False, 60, True)
    for group, expected in [("billing", True), ("console-consumer-1", False), ("connect-x", False), ("__x", False)]:
        assert checkpoints.groups.matches(group) is expected
    assert (flow.offset_syncs.enabled, flow.offset_syncs.at_source, flow.offset_syncs.replication_factor) == (
        True,
        True,
        3,
    )
    beats = flow.heartbeats
    assert (beats.enabled, beats.interval_s, beats.replication_factor, beats.replicated) == (True, 1, 3, True)
    assert (flow.sync_acls.enabled, flow.sync_acls.interval_s) == (True, 600)
    assert flow.policy.internal_separator == "."


def test_a_separator_holds_for_internal_topics_too_unless_switched_off(settings):
    own = settings("replication.policy.separator = _").flows[0].policy
    assert own.checkpoints_topic("primary") == "primary_checkpoints_internal"
    off = "replication.policy.internal.topic.separator.enabled = false"
    assert settings("replication.policy.separator = _", off).flows[0].policy.internal_separator == "."


class Upper(DefaultReplicationPolicy):
    """A policy of somebody's own."""

    __slots__ = ()

    def remote_topic(self, topic):
        """Shout."""
        return super().remote_topic(topic).upper()


class Odd(NameFilter):
    """A filter of somebody's own."""

    __slots__ = ()

    def matches(self, name):
        """Take odd lengths of what the lists let through."""
        return len(name) % 2 == 1 and NameFilter.matches(self, name)


def test_policies_and_filters_may_be_python_classes(settings):
    [flow] = settings(
        f"replication.policy.class = {__name__}.Upper", f"topic.filter.class = {__name__}.Odd", "topics = a.*"
    ).flows
    assert flow.policy.remote_topic("t") == "PRIMARY.T"
    assert [flow.topics.matches(topic) for topic in ("a", "ab", "abc", "b")] == [True, False, True, False]
    java = settings("group.filter.class = org.apache.kafka.connect.mirror.DefaultGroupFilter").flows[0]
    assert java.checkpoints.groups.matches("g")


def test_flow_keys_beat_top_level_ones(settings):
    two = settings(
        "backup->primary.enabled = TRUE",
        "topics = a, b.*",
        "primary->backup.topics = c",
        "topics.exclude =",
        "replication.factor = 3",
        "backup->primary.replication.factor = -1",
        "tasks.max=4",
        "refresh.topics.enabled=false",
        "primary->backup.refresh.topics.interval.seconds = 7",
        "replication.policy.separator = _",
    ).flows
    assert [flow.name for flow in two] == ["primary->backup", "backup->primary"]
    assert [flow.topics.include for flow in two] == [("c",), ("a", "b.*")]
    assert [flow.topics.exclude for flow in two] == [(), ()]
    assert [flow.replication_factor for flow in two] == [3, -1]
    assert [flow.tasks_max for flow in two] == [4, 4]
    assert [flow.refresh_topics.enabled for flow in two] == [False, False]
    assert [flow.refresh_topics.interval_s for flow in two] == [7.0, 600.0]
    assert [flow.policy.remote_topic("t") for flow in two] == ["primary_t", "backup_t"]


@pytest.mark.parametrize(
    "name",
    [
        "IdentityReplicationPolicy",
        "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
        "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
    ],
)
def test_identity_policy_by_short_and_full_name(settings, name):
    [flow] = settings(f"replication.policy.class = {name}").flows
    assert flow.policy == IdentityReplicationPolicy(source_alias="primary")


def test_own_keys(settings):
    mirror = settings(
        "mirror.metrics.listen = [::1]:0",
        "mirror.state.dir = /data/state",
        "mirror.window.ms = 1",
        "mirror.lanes = 1",
        "mirror.slots = 3",
        "mirror.poll.interval.ms = 250",
        "mirror.spark.master = local[2]",
        "mirror.spark.x.password = hunter2",
    ).mirror
    assert (mirror.metrics_listen, mirror.state_dir, mirror.window_ms) == (("::1", 0), Path("/data/state"), 1)
    assert (mirror.lanes, mirror.slots, mirror.poll_interval_s) == (1, 3, 0.25)
    assert mirror.spark == {"spark.master": "local[2]", "spark.x.password": "hunter2"}
    assert "hunter2" not in repr(mirror)


def test_options_override_the_file(settings):
    loaded = settings(
        "mirror.window.ms = 5", options={"mirror.window.ms": "6", "backup.bootstrap.servers": "b9:1", "foo": "x"}
    )
    assert loaded.mirror.window_ms == 6
    assert loaded.flows[0].producer["bootstrap.servers"] == "b9:1"
    assert loaded.ignored == ("foo",)


def test_an_option_at_fault_is_named_as_such(settings):
    with pytest.raises(SettingsError, match=r'^option: mirror\.window\.ms: "x" is not an integer'):
        settings(options={"mirror.window.ms": "x"})


def test_source_consumer_layers_beat_each_other_in_mirrormakers_order(settings):
    """A.x < A->B.consumer.x < A.consumer.x < A->B.source.consumer.x; top-level consumer.x is not read."""
    lines = [
        "consumer.fetch.min.bytes = 1",
        "primary->backup.consumer.fetch.min.bytes = 2",
        "primary.consumer.fetch.min.bytes = 3",
        "primary->backup.source.consumer.fetch.min.bytes = 4",
    ]
    for count, expected in [(1, None), (2, "2"), (3, "3"), (4, "4")]:
        assert settings(*lines[:count]).flows[0].consumer.get("fetch.min.bytes") == expected
    assert settings(*lines).ignored == ("consumer.fetch.min.bytes",)


def test_producer_layers(settings):
    """B.producer.x < A->B.producer.override.x; A->B.producer.x reaches only MirrorMaker's offset-syncs producer."""
    lines = ["primary->backup.producer.batch.size = 1", "backup.producer.batch.size = 2"]
    loaded = settings(*lines)
    assert loaded.flows[0].producer["batch.size"] == "2"
    assert loaded.flows[0].offset_syncs_producer["batch.size"] == "1"
    assert loaded.ignored == ()
    assert settings(*lines, "primary->backup.producer.override.batch.size = 3").flows[0].producer["batch.size"] == "3"


def test_admin_layers_keep_the_ends_apart(settings):
    [flow] = settings(
        "primary.admin.request.timeout.ms = 1",
        "backup.admin.request.timeout.ms = 2",
        "primary->backup.target.admin.request.timeout.ms = 3",
        "primary->backup.admin.retry.backoff.ms = 4",
    ).flows
    assert (flow.source_admin["request.timeout.ms"], flow.target_admin["request.timeout.ms"]) == ("1", "3")
    assert (flow.source_admin["retry.backoff.ms"], flow.target_admin["retry.backoff.ms"]) == ("4", "4")


def test_security_keys_are_common_to_the_clients_of_a_cluster(settings):
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="hunter2";'
    loaded = settings(
        "sasl.mechanism = PLAIN",
        f"sasl.jaas.config = {jaas}",
        "primary.security.protocol = SASL_PLAINTEXT",
        "primary.admin.security.protocol = PLAINTEXT",
    )
    [flow] = loaded.flows
    assert flow.consumer["security.protocol"] == flow.source.client["security.protocol"] == "SASL_PLAINTEXT"
    assert flow.source_admin["security.protocol"] == "PLAINTEXT"
    assert "security.protocol" not in flow.producer
    assert flow.target.client["sasl.jaas.config"] == jaas
    assert "hunter2" not in repr(loaded)
    assert "sasl.jaas.config=***" in repr(flow)
    assert loaded.ignored == ()


def test_the_longest_declared_alias_takes_a_key(settings):
    base = """\
clusters = us, us.east, us.east.admin
us.bootstrap.servers = a:1
us.east.bootstrap.servers = b:1
us.east.admin.bootstrap.servers = c:1
us.east->us.east.admin.enabled = true
us.east->us.enabled = true
us.east.consumer.fetch.min.bytes = 7
"""
    flows = settings(base=base).flows
    assert [flow.name for flow in flows] == ["us.east->us", "us.east->us.east.admin"]
    assert [flow.producer["bootstrap.servers"] for flow in flows] == ["a:1", "c:1"]
    assert flows[0].consumer == {"bootstrap.servers": "b:1", "fetch.min.bytes": "7"}


def test_odd_characters_in_aliases(settings):
    base = BASE.replace("primary", r"a_1-\u00e9\ x").replace("backup", "B->2")
    base = base.replace(r"clusters = a_1-\u00e9\ x", r"clusters = a_1-\u00e9 x")
    [flow] = settings("replication.policy.class = IdentityReplicationPolicy", base=base).flows
    assert (flow.source.alias, flow.source.client["bootstrap.servers"]) == ("a_1-\u00e9 x", "p1:9092,p2:9092")
    assert (flow.target.alias, flow.target.client["bootstrap.servers"]) == ("B->2", "b1:9092")


def test_targets_keep_only_flows_that_write_to_them(settings, refusal):
    both = "backup->primary.enabled = true"
    assert [flow.name for flow in settings(both, targets=["primary"]).flows] == ["backup->primary"]
    assert len(settings(both, targets=["primary", "backup"]).flows) == 2
    assert 'clusters: unknown alias "other"' in refusal(both, targets=["other"])
    assert "no enabled flow writes to primary; enabled are primary->backup" in refusal(targets=["primary"])


def test_keys_that_change_nothing_are_named_once_in_file_order(settings):
    loaded = settings(
        "offset.lag.max = 1",
        "offset.lag.max = 2",
        "nonsense = 1",
        "backup.offset.storage.replication.factor = 1",
        "backup.consumer.fetch.min.bytes = 1",
        "primary.consumer.max.poll.records = 1",
        "backup.producer.enable.idempotence = false",
        "primary->backup.refresh.groups.interval.seconds = 1",
        "primary->backup.nonsense = x",
        "ssl.secure.random.implementation = x",
        "backup->primary.enabled = false",
        "backup->primary.topics = x",
        "primary.sasl.mechanism = PLAIN",
    )
    assert loaded.ignored == (
        "offset.lag.max",
        "nonsense",
        "backup.offset.storage.replication.factor",
        "backup.consumer.fetch.min.bytes",
        "primary.consumer.max.poll.records",
        "backup.producer.enable.idempotence",
        "primary->backup.refresh.groups.interval.seconds",
        "primary->backup.nonsense",
        "ssl.secure.random.implementation",
    )
    assert loaded.ignored_why == {
        "offset.lag.max": "offsets are translated exactly at any lag",
        "backup.offset.storage.replication.factor": "positions are offsets of a group on the target",
        "backup.producer.enable.idempotence": "writes are always idempotent",
        "primary->backup.refresh.groups.interval.seconds": "groups are listed at each checkpoint",
    }


def test_the_topic_of_mirrormakers_positions_can_be_set(settings):
    assert settings().flows[0].connect_offsets_topic == "mm2-offsets.primary.internal"
    for line in ("offset.storage.topic = own", "backup.offset.storage.topic = own"):
        loaded = settings(line)
        assert (loaded.flows[0].connect_offsets_topic, loaded.ignored) == ("own", ())


def test_a_needless_key_keeps_its_reason_where_a_flow_has_it(settings):
    loaded = settings("primary->backup.admin.timeout.ms = 1", "primary->backup.consumer.poll.timeout.ms = 1")
    assert len(loaded.ignored_why) == 2


def test_top_level_enabled_applies_to_pairs_without_their_own(settings):
    """As in MirrorMaker, unless heartbeats are off."""
    assert [flow.name for flow in settings("enabled = true").flows] == ["primary->backup", "backup->primary"]
    assert len(settings("enabled = true", "backup->primary.enabled = false").flows) == 1
    assert len(settings("enabled = true", "emit.heartbeats.enabled = false").flows) == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("primary->backup.topics = orders.(", '5: primary->backup.topics: "orders.(" is not a regular expression'),
        (r"topics.exclude = \\G", r'5: topics.exclude: "\G" holds "\G" at 0'),
        ("replication.factor = two", '5: replication.factor: "two" is not an integer from -1 to 32767'),
        ("replication.factor = 0", '5: replication.factor: "0" is not a replication factor'),
        ("tasks.max = 0", '5: tasks.max: "0" is not an integer of at least 1'),
        ("refresh.topics.enabled = yes", '5: refresh.topics.enabled: "yes" is not a boolean. Write true or false.'),
        ("refresh.topics.interval.seconds = -1", "5: refresh.topics.interval.seconds: "),
        ("backup->primary.enabled = 1", '5: backup->primary.enabled: "1" is not a boolean'),
        (
            "replication.policy.class = com.x.Mine",
            '5: replication.policy.class: "com.x.Mine" cannot be imported (there',
        ),
        (
            "replication.policy.class = Mine",
            '5: replication.policy.class: "Mine" cannot be imported (there is no such mod',
        ),
        (
            "replication.policy.class = pathlib.Path",
            '5: replication.policy.class: "pathlib.Path" is not such a class; ex',
        ),
        (
            "primary->backup.topics.blacklist = x",
            "5: primary->backup.topics.blacklist: was removed in Kafka 4.0; everything",
        ),
        (
            "groups.blacklist = x",
            "5: groups.blacklist: was removed in Kafka 4.0; everything it excluded would be mirrored. Write g",
        ),
        (
            "group.filter.class = a.B",
            '5: group.filter.class: "a.B" cannot be imported (there is no such module); expected',
        ),
        (
            "offset-syncs.topic.location = both",
            '5: offset-syncs.topic.location: "both" is not a cluster of the flow. Write "source"',
        ),
        (
            "emit.offset-syncs.enabled=false\noffset-syncs.topic.location=target",
            "6: offset-syncs.topic.location: has no meaning with emit.offset-syncs.enabled=false",
        ),
        ("sync.group.offsets.interval.seconds = 0", '5: sync.group.offsets.interval.seconds: "0" is not an integer of'),
        ("replication.policy.separator = /", '5: replication.policy.separator: "/" is not a separator'),
        (
            "replication.policy.separator =",
            "5: replication.policy.separator: is empty. To keep the names of topics, write replication.policy.class = Ident",
        ),
        (
            "replication.policy.separator =\nreplication.policy.class = IdentityReplicationPolicy",
            "5: replication.policy.separator: is empty. replication.policy.class = IdentityReplicationPolicy keeps the names "
            "of topics without it. Remove the line.",
        ),
        (
            "primary->other.enabled = true",
            '5: primary->other.enabled: unknown alias "other", expected one of backup, pr',
        ),
        ("other->primary.topics = x", '5: other->primary.topics: unknown alias "other"'),
        ("primary->primary.enabled = true", "5: primary->primary.enabled: is a flow to itself"),
        ("primary->backup = true", "5: primary->backup: names no property of primary->backup"),
        ("clusters = primary, backup, primary", '5: clusters: duplicate alias "primary"'),
        ("clusters = primary,,backup", "5: clusters: holds an empty alias"),
        ("clusters =", "5: clusters: names no cluster"),
        ("clusters = primary, backup, third", " third.bootstrap.servers: is not set"),
        ("backup.bootstrap.servers = b1", '5: backup.bootstrap.servers: "b1" is not host:port'),
        ("backup.bootstrap.servers = u:hunter2@b1", '5: backup.bootstrap.servers: "b1" is not host:port'),
        ("backup.bootstrap.servers =", "5: backup.bootstrap.servers: is not set"),
        (
            "backup.bootstrap.servers = b1:1, SSL://P2:9092",
            " primary->backup: primary and backup share the broker p2:9092",
        ),
        ("primary->backup.enabled = false", " no flow is enabled"),
        ("backup.producer.acks = 1", '5: backup.producer.acks: "1" found, expected all'),
        (
            "primary.ssl.truststore.type = JKS\nprimary.ssl.truststore.location = x.jks\nprimary.security.protocol=SSL",
            '6: primary.ssl.truststore.location: "x.jks" cannot be read (No such file or directory). Check path and rights.',
        ),
        ("security.protocol = SASL_PLAINTEXT", " primary.consumer.sasl.mechanism: "),
        (
            "security.protocol = SASL_PLAINTEXT\nsasl.mechanism = PLAIN\nsasl.jaas.config = hunter2",
            "7: sasl.jaas.config: names no login module",
        ),
        (
            "mirror.windowms = 1",
            '5: mirror.windowms: is not a setting of this program. Did you mean "mirror.window.ms"?',
        ),
        ("mirror.lanes = 3", '5: mirror.lanes: "3" is not an integer from 1 to 2'),
        ("mirror.metrics.listen = 9404", '5: mirror.metrics.listen: "9404" is not an address'),
        ("mirror.slots = 1_0", '5: mirror.slots: "1_0" is not an integer'),
        ("mirror.window.ms = a\\nb", '5: mirror.window.ms: "a\\nb" is not an integer'),
    ],
)
def test_refusals_name_line_key_and_finding(refusal, line, expected):
    assert refusal(line).startswith(expected)


def test_a_file_without_clusters_is_refused(refusal):
    assert refusal(base="topics = x\n").startswith(" clusters: names no cluster")


def test_blanks_in_a_flow_key_are_explained(refusal):
    base = BASE.replace("primary->backup.enabled", "primary -> backup.enabled")
    assert refusal(base=base).startswith("4: primary: a key ends at its first blank")


def test_localhost_and_its_address_are_one_broker(refusal):
    lines = ["primary.bootstrap.servers = LOCALHOST:9092", "backup.bootstrap.servers = 127.0.0.1:9092"]
    assert "share the broker 127.0.0.1:9092" in refusal(*lines)


def test_one_host_with_two_ports_is_two_brokers(settings):
    settings("primary.bootstrap.servers = localhost:9092", "backup.bootstrap.servers = localhost:9093")


def test_a_client_that_goes_to_the_other_cluster_is_refused(refusal):
    assert "share the broker p1:9092" in refusal("backup.producer.bootstrap.servers = P1:9092")


def test_identity_both_ways_is_refused_one_way_is_not(settings, refusal):
    lines = ["replication.policy.class = IdentityReplicationPolicy", "backup->primary.enabled = true"]
    settings(lines[0])
    assert " primary->backup.replication.policy.class: IdentityReplicationPolicy while" in refusal(*lines)
    settings(lines[1])


def test_bidirectional_identity_is_allowed_if_each_record_is_mirrored_once(settings, refusal):
    both = ["replication.policy.class = IdentityReplicationPolicy", "mirror.identity.bidirectional = true"]
    back = ["backup->primary.enabled = true", "backup->primary.sync.topic.configs.enabled = false"]
    quiet = [*both, *back, "backup->primary.sync.topic.acls.enabled = false"]
    assert [flow.is_bidirectional for flow in settings(*quiet).flows] == [True, True]
    [alone] = settings(*both).flows
    assert alone.is_bidirectional, "another process may run the flow back"
    assert "topics do not keep their names" in refusal(both[1])
    one = "backup->primary.mirror.identity.bidirectional = false"
    assert "but not for backup->primary" in refusal(*quiet, one)
    assert "sync.topic.configs.enabled: is true both ways" in refusal(*both, back[0])
    assert "sync.topic.acls.enabled: is true both ways" in refusal(*both, *back)
    assert "no switch to rehearse" in refusal(*quiet, "mirror.drill.enabled = true")


def test_both_ways_under_one_name_is_between_two_clusters(settings, refusal):
    lines = [
        "clusters = primary, backup, third",
        "third.bootstrap.servers = t:1",
        "replication.policy.class = IdentityReplicationPolicy",
        "mirror.identity.bidirectional = true",
        "sync.topic.configs.enabled = false",
        "sync.topic.acls.enabled = false",
        "backup->third.enabled = true",
    ]
    ring = [*lines, "third->primary.enabled = true"]
    assert "through other clusters" in refusal(*ring)
    assert "through other clusters" in refusal(*ring, "backup->primary.enabled = true")
    flows = settings(*lines, "backup->primary.enabled = true").flows
    assert len(flows) == 3, "what leads on from a pair leads nowhere back"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (["backup.exactly.once.source.support = enabled"], "whose transactions take offsets themselves"),
        (["transforms = drop", "transforms.drop.type = Filter"], "transforms that drop records"),
        (
            ["replication.policy.class = IdentityReplicationPolicy", "mirror.identity.bidirectional = true"],
            "by which producers write to both clusters",
        ),
    ],
)
@pytest.mark.parametrize("key", ["mirror.offsets = identical", "mirror.offsets.identical.topics = orders"])
def test_identical_offsets_are_refused_with_what_shifts_offsets(refusal, other, reason, key):
    said = refusal("primary->backup.enabled = true", key, *other)
    assert key.partition(" ")[0] in said
    assert reason in said


def test_identity_around_three_clusters_is_refused(refusal):
    lines = [
        "clusters = primary, backup, third",
        "third.bootstrap.servers = t:1",
        "backup->third.enabled = true",
        "third->primary.enabled = true",
        "replication.policy.class = IdentityReplicationPolicy",
    ]
    assert "records would go round in a loop" in refusal(*lines)


def test_an_alias_that_holds_the_separator_cannot_go_both_ways(settings, refusal):
    """Its remote topics do not tell their origin: "us.east.t" looks remote from "us"."""
    base = BASE.replace("primary", "us.east")
    settings(base=base)
    assert 'replication.policy.separator: is part of the alias "us.east"' in refusal(
        "backup->us.east.enabled = true", base=base
    )
    settings("backup->us.east.enabled = true", "replication.policy.separator = _", base=base)


def test_an_alias_that_no_topic_name_can_hold_needs_identity(settings, refusal):
    base = BASE.replace("primary", "pri+mary")
    assert 'alias "pri+mary" cannot start the topic names' in refusal(base=base)
    settings("replication.policy.class = IdentityReplicationPolicy", base=base)


def test_settings_survive_pickling(settings):
    loaded = settings("primary.consumer.fetch.min.bytes = 3", "mirror.spark.a = b")
    copy = pickle.loads(pickle.dumps(loaded))
    assert copy == loaded
    assert copy.flows[0].consumer["fetch.min.bytes"] == "3"
