"""What is written to a remote topic's settings, by MirrorMaker's rules."""

from __future__ import annotations

import pytest

from mirror.policy.topic_configs import Change, ConfigSync, TopicSetting, described


def setting(value: str, *, own: bool = False, default: bool = False, static: bool = False) -> TopicSetting:
    return TopicSetting(value=value, is_own=own, is_default=default, is_static=static)


OWN = setting("1000", own=True)
DEFAULT = setting("604800000", default=True)


def to(value):
    return [Change("retention.ms", value)]


@pytest.mark.parametrize(
    ("what", "sync", "source", "target", "changes"),
    [
        ("set on the source", ConfigSync(), OWN, DEFAULT, to("1000")),
        ("the same already", ConfigSync(), OWN, OWN, []),
        ("the same by the target's default", ConfigSync(), setting("604800000", own=True), DEFAULT, []),
        ("set on the target only", ConfigSync(), DEFAULT, OWN, to(None)),
        ("default on both", ConfigSync(), DEFAULT, setting("5", default=True), []),
        ("defaults of the source", ConfigSync(defaults_from_source=True), DEFAULT, OWN, to("604800000")),
        ("a broker-wide value set while running", ConfigSync(), setting("7"), DEFAULT, to("7")),
        ("from the broker's file", ConfigSync(), setting("7", static=True), OWN, []),
        ("excluded", ConfigSync(exclude=("retention.*",)), OWN, DEFAULT, []),
        ("an expression must match the whole name", ConfigSync(exclude=("retention",)), OWN, DEFAULT, to("1000")),
        ("nothing is excluded", ConfigSync(exclude=()), OWN, DEFAULT, to("1000")),
    ],
)
def test_changes(what, sync, source, target, changes):
    assert sync.changes({"retention.ms": source}, {"retention.ms": target}) == changes, what


@pytest.mark.parametrize(
    "name", ["min.insync.replicas", "message.timestamp.type", "leader.replication.throttled.replicas"]
)
def test_settings_of_the_target_are_not_changed_by_default(name):
    assert ConfigSync().changes({name: OWN}, {name: DEFAULT}) == []


def test_a_setting_that_the_target_does_not_know_is_left_out():
    assert ConfigSync().changes({"new.setting": OWN}, {}) == []


def test_a_topic_is_created_with_what_is_set_on_its_source():
    source = {"cleanup.policy": setting("compact", own=True), "retention.ms": DEFAULT}
    assert ConfigSync().at_creation(source) == {"cleanup.policy": "compact"}
    assert ConfigSync(defaults_from_source=True).at_creation(source) == {
        "cleanup.policy": "compact",
        "retention.ms": "604800000",
    }


def test_changes_are_described_in_words():
    assert described([Change("a", "1"), Change("b", None)]) == "a=1, b back to its default"
