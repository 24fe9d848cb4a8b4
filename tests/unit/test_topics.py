"""Which topics a flow replicates, and what is prepared for them on the clusters."""

from __future__ import annotations

import pytest

from mirror.config.load import load
from mirror.errors import ClusterRefuses, ClusterUnavailable
from mirror.flows.sync import sync_configs
from mirror.flows.topics import ensure_internal, ensure_remote, flow_plan, matched, offset_syncs_topic, present_plan
from mirror.flows.translation import plan_of
from mirror.policy.topic_configs import TopicSetting
from tests.unit.fakes import FakeCluster, named, topics

BASE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""


@pytest.fixture
def flow(tmp_path):
    """Return the flow A->B of BASE and some lines."""

    def made(*lines):
        file = tmp_path / "m.properties"
        file.write_text(BASE + "\n".join(lines))
        return load(file).flows[0]

    return made


def test_a_hidden_topic_is_part_of_what_verify_compares_and_plan_prints(flow):
    found = present_plan(
        flow("A->B.topics = .*"),
        FakeCluster("A", named("orders"), hides={"gone"}),
        FakeCluster("B", named("A.orders", "A.gone")),
    )
    assert {(p.topic, p.is_hidden) for p in found.partitions} == {("orders", False), ("gone", True)}


def test_a_silent_source_is_not_a_source_without_topics(flow):
    """A switch would leave behind what the target lacks."""
    source, target = FakeCluster("A", is_up=False), FakeCluster("B", named("A.orders"))
    with pytest.raises(ClusterUnavailable):
        plan_of(flow(), source, target)
    assert [p.topic for p in plan_of(flow("A->B.topics = .*"), source, target, is_source_lost=True).partitions] == [
        "orders"
    ]


def test_the_drift_of_settings_that_cannot_be_read_is_unknown(flow):
    wanted = matched(flow("A->B.topics = .*"), named("orders", "secret"))
    present = {topic.remote for topic in wanted}
    assert sync_configs(flow(), wanted, FakeCluster("A", hides={"secret"}), FakeCluster("B"), present=present) == {
        "A.orders": 0
    }
    assert sync_configs(flow(), wanted, FakeCluster("A"), FakeCluster("B", hides={"A.secret"}), present=present) == {
        "A.orders": 0
    }


def remote_names(flow, *names):
    return [topic.remote for topic in matched(flow, named(*names))]


def test_matched_topics_and_their_remote_names(flow):
    ours = flow("topics = orders.*, B\\..*, mm2.*", "topics.exclude = .*-old")
    assert remote_names(
        ours,
        *("orders", "orders-old", "payments", "B.orders", "C.B.orders"),
        *("mm2-offsets.x.internal", "heartbeats", "C.heartbeats", "B.heartbeats", "__consumer_offsets"),
    ) == ["A.C.heartbeats", "A.heartbeats", "A.orders"]


def test_heartbeats_follow_the_topic_filter_if_not_always_mirrored(flow):
    assert remote_names(flow("heartbeats.replication.enabled = false", "topics = t"), "heartbeats", "t") == ["A.t"]
    assert remote_names(flow("heartbeats.replication.enabled = false"), "heartbeats", "t") == ["A.heartbeats", "A.t"]


def test_a_missing_topic_is_created_as_its_source_is_and_a_short_one_grows(flow):
    ours = flow("replication.factor = 5")
    target = FakeCluster("B")
    found = matched(ours, topics(new=3, short=4, long=2))
    have = topics(**{"A.short": 1, "A.long": 6})
    partitions, _ = ensure_remote(ours, found, have, FakeCluster("A"), target)
    assert target.done == [("A.new", 3, 5, {"cleanup.policy": "compact"}), ("A.short", 4)]
    assert partitions == {"A.new": 3, "A.short": 4, "A.long": 6}
    plan = flow_plan(ours, found, partitions)
    assert [(p.remote_topic, p.partition) for p in plan.partitions if p.topic != "short"] == [
        *(("A.long", 0), ("A.long", 1)),
        *(("A.new", 0), ("A.new", 1), ("A.new", 2)),
    ]


def test_a_setting_that_the_target_does_not_know_is_left_out_and_logged(flow, caplog):
    """A source of before Kafka 4 has message.format.version, for which a target of today refuses the whole topic."""
    source, target = FakeCluster("A"), FakeCluster("B")
    old = TopicSetting(value="0.10.2", is_own=True, is_default=False, is_static=False)
    of_today = source.configs(["t"])["t"]
    source.configs = lambda names: {name: {**of_today, "message.format.version": old} for name in names}
    assert ensure_remote(flow(), matched(flow(), named("t")), {}, source, target) == ({"A.t": 1}, {})
    assert target.done == [("A.t", 1, 2, {"cleanup.policy": "compact"})]
    assert "A.t is created on B without message.format.version" in caplog.text


def test_a_setting_that_the_target_refuses_is_left_out_and_logged(flow, caplog):
    """Tiered storage is on where the source is, and off where the target is."""
    source, target = FakeCluster("A"), FakeCluster("B", refuses=["remote.storage.enable"])
    tiered = TopicSetting(value="true", is_own=True, is_default=False, is_static=False)
    others = source.configs(["t"])["t"]
    for cluster in (source, target):
        cluster.configs = lambda names: {name: {**others, "remote.storage.enable": tiered} for name in names}
    assert ensure_remote(flow(), matched(flow(), named("t")), {}, source, target) == ({"A.t": 1}, {})
    assert target.done == [("A.t", 1, 2, {"cleanup.policy": "compact"})]
    assert "A.t is created on B without remote.storage.enable=true: INVALID_CONFIG" in caplog.text


def test_a_topic_is_created_with_all_settings_if_the_target_shows_none(flow):
    """`positions` and others prepare topics before there are internal ones to ask about."""
    target = FakeCluster("B")

    def unknown(_):
        raise ClusterUnavailable("there is no such topic")

    target.configs = unknown
    assert ensure_remote(flow(), matched(flow(), named("t")), {}, FakeCluster("A"), target) == ({"A.t": 1}, {})
    assert target.done == [("A.t", 1, 2, {"cleanup.policy": "compact"})]


def test_a_topic_that_is_refused_holds_up_no_other(flow, caplog):
    ours = flow()
    target = FakeCluster("B", refuses=["A.denied", "mm2-offset-map.A.internal"])
    found = matched(ours, named("denied", "fine"))
    partitions, objections = ensure_remote(ours, found, {}, FakeCluster("A"), target)
    assert partitions == {"A.fine": 1}
    plan = flow_plan(ours, found, partitions, objections=objections)
    assert [p.topic for p in plan.partitions] == ["fine"]
    assert [tuple(place) for place in plan.absent] == [
        ("denied", "A.denied", 0, "B has no topic A.denied: TOPIC_AUTHORIZATION_FAILED: no.")
    ]
    ensure_internal(ours, FakeCluster("A"), target, on_source={}, on_target={}, slots=1)
    assert "A.checkpoints.internal" in [done[0] for done in target.done]
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "A->B: A.denied cannot be prepared on B: TOPIC_AUTHORIZATION_FAILED: no.",
        "A->B: internal topic mm2-offset-map.A.internal cannot be prepared on B: TOPIC_AUTHORIZATION_FAILED: no.",
    ]


@pytest.mark.parametrize("name", ["mm2-batons.A.internal", "mm2-slots.A.1.internal"])
def test_a_flow_does_not_begin_without_a_topic_for_its_leases_and_slots(flow, name):
    """Nothing would be replicated, for ever: say it in one line, with the topic and what to do."""
    target = FakeCluster("B", refuses=[name])
    with pytest.raises(
        ClusterRefuses, match=rf"A->B: nothing is replicated without the internal topic {name}.* no\."
    ) as refused:
        ensure_internal(flow(), FakeCluster("A"), target, on_source={}, on_target={}, slots=1)
    assert "grant CREATE" in str(refused.value)
    assert (refused.value.exit_code, refused.value.retriable, refused.value.cluster) == (6, False, "B")


def test_a_topic_that_another_process_has_created_meanwhile_is_no_obstacle(flow):
    target = FakeCluster("B", refuses=["mm2-batons.A.internal"])
    target.described = lambda names: topics(**{"mm2-batons.A.internal": 6})
    ensure_internal(flow(), FakeCluster("A"), target, on_source={}, on_target={}, slots=1)
    assert "mm2-slots.A.1.internal" in [done[0] for done in target.done]


def test_topics_of_its_own_and_of_mirrormaker_are_prepared(flow):
    ours = flow("checkpoints.topic.replication.factor = 4", "offset-syncs.topic.replication.factor = 5")
    source, target = FakeCluster("A"), FakeCluster("B")
    ensure_internal(ours, source, target, on_source={}, on_target={}, slots=2)
    assert source.done == [("mm2-offset-syncs.B.internal", 1, 5, {"cleanup.policy": "compact"})]
    assert [done[:3] for done in target.done] == [
        ("mm2-batons.A.internal", 10, 2),
        ("mm2-slots.A.2.internal", 2, 2),
        ("mm2-offset-map.A.internal", 1, 2),
        ("mm2-gaps.A.internal", 1, 2),
        ("mm2-group-offsets.A.internal", 1, 2),
        ("A.checkpoints.internal", 1, 4),
    ]
    assert {done[3]["cleanup.policy"] for done in target.done} == {"compact"}
    small = [done[0] for done in target.done if int(done[3].get("segment.bytes", 1 << 30)) < 1 << 30]
    assert small == ["mm2-offset-map.A.internal", "mm2-group-offsets.A.internal"], (
        "they are read whole, and grow all the time"
    )
    for name, *_ in [*source.done, *target.done]:
        assert ours.policy.is_internal(name)
    again = FakeCluster("B")
    compacted = ("offset-map", "gaps", "group-offsets")
    ready = (*(f"mm2-{name}.A.internal" for name in compacted), "A.checkpoints.internal")
    have = {**named(*ready), **topics(**{"mm2-batons.A.internal": 5})}
    ensure_internal(ours, source, again, on_source=named("mm2-offset-syncs.B.internal"), on_target=have, slots=3)
    assert [done[:2] for done in again.done] == [("mm2-batons.A.internal", 14), ("mm2-slots.A.3.internal", 3)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), "mm2-offset-syncs.B.internal"),
        (("offset-syncs.topic.location = target",), "mm2-offset-syncs.A.internal"),
        (("emit.offset-syncs.enabled = false",), None),
        (("emit.checkpoints.enabled = false",), None),
    ],
)
def test_where_offset_syncs_are_written(flow, lines, expected):
    ours = flow(*lines)
    assert offset_syncs_topic(ours) == expected
    source, target = FakeCluster("A"), FakeCluster("B")
    ensure_internal(ours, source, target, on_source={}, on_target={}, slots=1)
    side = source if ours.offset_syncs.at_source else target
    assert [done[0] for done in side.done if "offset-syncs" in done[0]] == ([expected] if expected else [])


def test_partitions_that_appear_after_the_flow_began_are_marked_late(flow):
    plan = flow_plan(flow(), matched(flow(), topics(old=2, new=1)), {"A.old": 2, "A.new": 1}, first={("old", 0)})
    assert [(p.topic, p.partition) for p in plan.partitions if p.is_late] == [("new", 0), ("old", 1)]


def test_transforms_are_for_the_topics_that_they_name_and_never_for_heartbeats(flow):
    lines = ["transforms = one, two", "transforms.one.type = Filter", "transforms.two.type = Filter"]
    lines += ["transforms.one.predicate = p", "predicates = p", "predicates.p.type = TopicNameMatches"]
    ours = flow(*lines, r"predicates.p.pattern = A\\.orders")
    found = matched(ours, named("orders", "users", "heartbeats"))
    plan = flow_plan(ours, found, {topic.remote: 1 for topic in found})
    done = {each.topic: [transform.name for transform in each.transforms] for each in plan.partitions}
    assert done == {"orders": ["one", "two"], "users": ["two"], "heartbeats": []}


@pytest.mark.parametrize(
    ("lines", "identical"),
    [
        ([], set()),
        (["mirror.offsets = identical"], {"orders", "users"}),
        (["mirror.offsets.identical.topics = ord.*"], {"orders"}),
        (["mirror.offsets = identical", "mirror.offsets.identical.topics = ord.*"], {"orders"}),
    ],
)
def test_topics_with_identical_offsets(flow, lines, identical):
    """Never heartbeats and canaries, which others write too."""
    ours = flow(*lines)
    found = matched(ours, named("orders", "users", "heartbeats"))
    plan = flow_plan(ours, found, {topic.remote: 1 for topic in found})
    assert {each.topic for each in plan.partitions if each.is_identical} == identical


@pytest.mark.parametrize("both_ways", [True, False])
def test_a_flow_that_goes_both_ways_has_a_topic_for_its_producers(flow, both_ways):
    lines = ["replication.policy.class = IdentityReplicationPolicy", f"mirror.identity.bidirectional = {both_ways}"]
    target = FakeCluster("B")
    ours = flow(*lines)
    ensure_internal(ours, FakeCluster("A"), target, on_source={}, on_target={}, slots=1)
    made = {name: configs for name, partitions, _, configs in target.done if partitions == 1}
    assert made.get("mm2-producers.A.internal") == ({"cleanup.policy": "compact"} if both_ways else None)
    plan = flow_plan(ours, matched(ours, named("t")), {"t": 1})
    assert plan.is_bidirectional is both_ways
    assert plan.topics_read == ({"t", "mm2-producers.B.internal"} if both_ways else {"t"})
    assert (plan.back().name, plan.back().offset_map_topic) == ("B->A", "mm2-offset-map.B.internal")
