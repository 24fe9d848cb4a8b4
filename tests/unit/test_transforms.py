"""What transforms make of a record, and of batches: what they leave alone is byte for byte what it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.record_batches import CODECS, rebatch, records
from mirror.model.records import Raw, body_of
from mirror.model.transforms import (
    Content,
    Drop,
    DropHeaders,
    HasHeader,
    InsertHeader,
    IsTombstone,
    MaskFields,
    ReplaceFields,
    Transform,
    TransformError,
    applied,
    members,
    transformed,
)
from tests.unit.test_recovery import Record, packed

HEADERS = (("a", b"1"), ("b", None), ("a", b"2"))
WRITTEN = (
    '{ "id" : 7,\t"name":"Ann", "rate": 1.50, "big": 12345678901234567890, "tags":["x"], "in":{"y":1}, "no":null }'
)


def value(text: str | None) -> Content:
    return Content(b"k", None if text is None else text.encode(), HEADERS)


def done(change, record: Content) -> Content | None:
    return applied((Transform("t", change),), record)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (MaskFields(of_key=False, fields=("name",)), WRITTEN.replace('"Ann"', '""')),
        (MaskFields(of_key=False, fields=("name",), replacement="***"), WRITTEN.replace('"Ann"', '"***"')),
        (MaskFields(of_key=False, fields=("id",), replacement="-1"), WRITTEN.replace("7,", "-1,", 1)),
        (
            MaskFields(of_key=False, fields=("id", "rate")),
            WRITTEN.replace("7,", "0,", 1).replace("1.50", "0.0"),
        ),
        (
            MaskFields(of_key=False, fields=("tags", "in")),
            WRITTEN.replace('["x"]', "[]").replace('{"y":1}', "{}"),
        ),
        (MaskFields(of_key=False, fields=("no", "other")), WRITTEN),
        (MaskFields(of_key=True, fields=()), None),
        (ReplaceFields(of_key=False, include=("id", "rate")), '{"id":7,"rate":1.50}'),
        (ReplaceFields(of_key=False, exclude=("other",)), WRITTEN),
        (
            ReplaceFields(of_key=False, include=("big", "id"), renames=(("id", "nümber"),)),
            '{"nümber":7,"big":12345678901234567890}',
        ),
        (ReplaceFields(of_key=False, include=("other",)), "{}"),
    ],
)
def test_fields_are_masked_and_replaced_and_the_rest_stays_as_it_was_written(change, text):
    if text is None:
        with pytest.raises(TransformError, match="this value is no object"):
            done(change, value(WRITTEN))  # its key is no JSON
        return
    found = done(change, value(WRITTEN))
    assert found == value(text)


def test_a_field_that_is_there_twice_is_masked_twice():
    found = done(MaskFields(of_key=False, fields=("pin",)), value('{"pin":1,"pin":22}'))
    assert found == value('{"pin":0,"pin":0}')


@pytest.mark.parametrize("change", [MaskFields(of_key=False, fields=("x",)), ReplaceFields(of_key=False)])
def test_a_tombstone_stays_one(change):
    assert done(change, value(None)) == value(None)


@pytest.mark.parametrize(
    "text", ["", "[]", "7", "{", '{"a":1', '{"a" 1}', '{"a":1,}', '{"a":1} x', "{a:1}", "{1:1}", '{"a":}']
)
def test_a_value_that_is_no_json_object_is_not_mirrored(text):
    with pytest.raises(TransformError, match="transform t: it works on JSON objects"):
        done(MaskFields(of_key=False, fields=("a",)), value(text))


@pytest.mark.parametrize(
    ("text", "complaint"), [('{"a":true}', "neither"), ('{"a":[1]}', "neither"), ('{"a":1}', "is none")]
)
def test_a_field_that_cannot_be_replaced_is_not_mirrored(text, complaint):
    with pytest.raises(TransformError, match=complaint):
        done(MaskFields(of_key=False, fields=("a",), replacement="x"), value(text))


def test_a_value_that_is_no_text_is_not_mirrored():
    with pytest.raises(TransformError, match="not UTF-8"):
        done(MaskFields(of_key=False, fields=("a",)), Content(None, b"\xff", ()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_every_object_is_read_as_python_reads_it(fields, indent, ascii_only):
    text = json.dumps(fields, indent=indent, ensure_ascii=ascii_only)
    assert {member.name: member.value for member in members(text)} == fields
    assert [json.loads(text[member.starts : member.ends]) for member in members(text)] == list(fields.values())


def test_headers_come_and_go():
    record = value("x")
    assert done(DropHeaders(("a",)), record) == record._replace(headers=(("b", None),))
    assert done(DropHeaders(("c",)), record) is record
    assert done(InsertHeader("b", b"9"), record) == record._replace(headers=(*HEADERS, ("b", b"9")))


@pytest.mark.parametrize(
    ("condition", "is_negated", "record", "is_left_out"),
    [
        (None, False, value("x"), True),
        (HasHeader("a"), False, value("x"), True),
        (HasHeader("c"), False, value("x"), False),
        (HasHeader("c"), True, value("x"), True),
        (IsTombstone(), False, value(None), True),
        (IsTombstone(), True, value(None), False),
    ],
)
def test_a_transform_applies_to_the_records_of_its_predicate(condition, is_negated, record, is_left_out):
    assert (applied((Transform("t", Drop(), condition, is_negated),), record) is None) is is_left_out


def test_transforms_come_one_after_the_other():
    chain = (
        Transform("mark", InsertHeader("seen", b"1")),
        Transform("leave out", Drop(), HasHeader("seen"), is_negated=True),
        Transform("unmark", DropHeaders(("seen",))),
    )
    raw = Raw(5, 99, body_of(*value("x")))
    assert transformed(chain, raw) == raw
    with pytest.raises(TransformError, match=r"^the record at source offset 5 stays: transform mask: ") as told:
        transformed((Transform("mask", MaskFields(of_key=False, fields=("a",))),), raw)
    assert told.value.offset == 5


@given(kept=st.lists(st.booleans(), min_size=1, max_size=20), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_batches_keep_the_source_offsets_of_the_remaining_records(kept, sizes):
    """The offset map stays exact: what is left out is a gap, and the position moves behind it."""
    written = [Record(10 + n, 1000 + n, b"k", None if is_kept else b"v") for n, is_kept in enumerate(kept)]
    leave_out = (Transform("t", Drop(), IsTombstone(), is_negated=True),)
    found = rebatch(packed(written, sizes), 10, codec=CODECS["none"], max_bytes=200, transforms=leave_out)
    offsets = [run.source + n for one in found for run in one.runs for n in range(run.records)]
    assert offsets == [10 + n for n, is_kept in enumerate(kept) if is_kept]
    assert sum(len(list(records(one.data))) for one in found) == len(offsets)
    if found:
        assert found[-1].next_offset == 10 + len(kept)
