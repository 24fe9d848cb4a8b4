"""What a window tells the next one of a topic-partition comes back as it was, also from versions that wrote less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.position_metadata import PositionMetadata
from mirror.model.sequences import NextSequence

IDS = st.sampled_from(["", "abc", "abc:def"])
TAILS = st.sampled_from(["", "0,0,7", "0,0,7;9,8,1*", "*"])


@given(
    ids=IDS.filter(bool),
    tail=TAILS,
    until_ms=st.integers(0, 1 << 42),
    in_sync=st.none() | st.integers(0, 9),
    sequence=st.none() | st.just(NextSequence(7, 0, 42)),
    epoch=st.integers(-1, (1 << 31) - 1),
    upstream=st.lists(st.sampled_from(["abc", "d_f", "g-h"]), max_size=3).map(tuple),
    registered=st.none() | st.integers(0, (1 << 63) - 1),
)
def test_a_note_is_read_back_as_it_was_written(ids, tail, until_ms, in_sync, sequence, epoch, upstream, registered):
    note = PositionMetadata(ids, tail, until_ms, in_sync, sequence, epoch, upstream, registered)
    assert PositionMetadata.parse(str(note)) == note
    assert len(str(note)) <= len(ids) + len(tail) + 131


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("", PositionMetadata("")),
        ("abc:def", PositionMetadata("abc:def")),
        ("abc:def 0,0,7*", PositionMetadata("abc:def", "0,0,7*")),
        ("abc - until=x in-sync= epoch=-1", PositionMetadata("abc")),
        ("abc 0,0,7 later=5 in-sync=2", PositionMetadata("abc", "0,0,7", 0, 2)),
    ],
)
def test_metadata_of_other_versions_is_read_as_far_as_possible(text, note):
    assert PositionMetadata.parse(text) == note
