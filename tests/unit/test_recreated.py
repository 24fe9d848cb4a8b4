"""Ids of topics, kept with positions."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from mirror.policy.recreated import TopicIds

IDS = st.one_of(
    st.just(""), st.binary(min_size=16, max_size=16).map(lambda raw: base64.b64encode(raw).decode().rstrip("="))
)


@given(IDS, IDS)
def test_ids_survive_their_text(source, target):
    ids = TopicIds(source, target)
    assert TopicIds.parse(str(ids)) == ids
    assert " " not in str(ids)


@given(IDS, IDS, IDS, IDS)
def test_only_ids_that_are_known_on_both_times_can_differ(a, b, c, d):
    known, now = TopicIds(a, b), TopicIds(c, d)
    side = known.other_than(now)
    assert side == ("source" if a and c and a != c else "target" if b and d and b != d else "")
    assert known.updated(now) == TopicIds(c or a, d or b)
    assert known.updated(now).other_than(now) == ""
