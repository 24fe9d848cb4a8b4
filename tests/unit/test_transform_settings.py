"""Transforms and predicates are read as Connect has them; what is not supported is refused by name."""

from __future__ import annotations

import pickle

import pytest

from mirror.config.settings import digest
from mirror.config.transforms import of_topic
from mirror.model.transforms import (
    Drop,
    DropHeaders,
    HasHeader,
    InsertHeader,
    IsTombstone,
    MaskFields,
    ReplaceFields,
    Transform,
)

PACKAGE = "org.apache.kafka.connect.transforms"


def made(settings, *lines: str, topic: str = "primary.orders"):
    found = of_topic(settings(*lines).flows[0].transforms, topic)
    assert pickle.loads(pickle.dumps(found)) == found, "workers get them"
    return found


@pytest.mark.parametrize(
    ("kind", "own", "change"),
    [
        (f"{PACKAGE}.Filter", {}, Drop()),
        ("Filter", {}, Drop()),
        (f"{PACKAGE}.DropHeaders", {"headers": "a, b"}, DropHeaders(("a", "b"))),
        (f"{PACKAGE}.InsertHeader", {"header": "from", "value.literal": "dc-1"}, InsertHeader("from", b"dc-1")),
        (f"{PACKAGE}.MaskField$Value", {"fields": "pin,name"}, MaskFields(False, ("pin", "name"))),
        (
            f"{PACKAGE}.MaskField$Key",
            {"fields": "pin", "replacement": "***"},
            MaskFields(True, ("pin",), "***"),
        ),
        (
            f"{PACKAGE}.ReplaceField$Value",
            {"include": "a,b", "renames": "a:x"},
            ReplaceFields(False, include=("a", "b"), renames=(("a", "x"),)),
        ),
        ("ReplaceField$Key", {"blacklist": "a"}, ReplaceFields(True, exclude=("a",))),
    ],
)
@pytest.mark.parametrize("prefix", ["primary->backup.", ""])
def test_a_supported_type_becomes_a_transform(settings, prefix, kind, own, change):
    lines = [f"{prefix}transforms.t.{key} = {value}" for key, value in {"type": kind, **own}.items()]
    assert made(settings, f"{prefix}transforms = t", *lines) == (Transform("t", change),)


def test_a_flow_without_has_none(settings):
    assert made(settings) == made(settings, "transforms =") == ()


def test_predicates_select_topics_and_records(settings):
    lines = [
        "transforms = one, two, three",
        "predicates = topics, marked, empty",
        "predicates.topics.type = org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        r"predicates.topics.pattern = primary\\.ord.*",
        "predicates.marked.type = HasHeaderKey",
        "predicates.marked.name = test",
        "predicates.empty.type = RecordIsTombstone",
        *(f"transforms.{name}.type = Filter" for name in ("one", "two", "three")),
        "transforms.one.predicate = topics",
        "transforms.two.predicate = marked",
        "transforms.two.negate = true",
        "transforms.three.predicate = empty",
    ]
    one = Transform("one", Drop())
    others = (Transform("two", Drop(), HasHeader("test"), is_negated=True), Transform("three", Drop(), IsTombstone()))
    assert made(settings, *lines) == (one, *others)
    assert made(settings, *lines, topic="primary.users") == others
    assert made(settings, *lines, "transforms.one.negate = true", topic="primary.users") == (one, *others)
    assert made(settings, *lines, "transforms.one.negate = true") == others


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["t.type = com.example.Mask"], '"com.example.Mask" is not supported: records would be mirrored unchanged'),
        ([f"t.type = {PACKAGE}.RegexRouter"], "RegexRouter renames topics"),
        ([f"t.type = {PACKAGE}.TimestampRouter"], "TimestampRouter renames topics"),
        (["t.type = Filter", "t.fields = a"], "t.fields: is not a supported setting of this transform"),
        (["t.type = MaskField$Value"], "needs transforms.t.fields"),
        (["t.type = InsertHeader", "t.header = a"], "needs transforms.t.value.literal"),
        (["t.type = ReplaceField$Value", "t.renames = a"], "is not a list of pairs"),
        (["t.type = Filter", "t.predicate = p"], '"p" is not a predicate. Name it in predicates'),
        (["t.type = Filter", "t.negate = perhaps"], "is not a boolean"),
    ],
)
def test_an_unsupported_transform_is_refused_by_name(refusal, lines, complaint):
    assert complaint in refusal("transforms = t", *(f"transforms.{line}" for line in lines))


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], 'names "predicates.p", which has no type'),
        (["type = com.example.Odd"], '"com.example.Odd" is not supported. Supported: HasHeaderKey'),
        (["type = TopicNameMatches"], "needs predicates.p.pattern"),
        (["type = TopicNameMatches", "pattern = ("], "is not a regular expression"),
        (["type = RecordIsTombstone", "name = a"], "is not a supported setting of this transform"),
    ],
)
def test_a_predicate_that_is_not_known_is_refused_by_name(refusal, lines, complaint):
    own = ["transforms = t", "transforms.t.type = Filter", "transforms.t.predicate = p", "predicates = p"]
    assert complaint in refusal(*own, *(f"predicates.p.{line}" for line in lines))


def test_an_unnamed_transform_is_noted_as_without_effect(settings):
    found = settings(
        "transforms = t",
        "transforms.t.type = Filter",
        "transforms.u.type = Filter",
        "primary->backup.predicates.p.type = Odd",
    )
    assert found.ignored == ("transforms.u.type", "primary->backup.predicates.p.type")


def test_processes_with_other_transforms_differ_without_showing_values(settings):
    def digested(*lines: str) -> str:
        return digest(settings("transforms = t", *lines).flows[0])

    masks = [digested("transforms.t.type = MaskField$Value", f"transforms.t.fields = {fields}") for fields in "ab"]
    assert masks[0] != masks[1]
    inserts = ["transforms.t.type = InsertHeader", "transforms.t.header = a", "transforms.t.value.literal = hunter2"]
    assert "hunter2" not in repr(settings("transforms = t", *inserts).flows[0].transforms)
