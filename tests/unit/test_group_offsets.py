"""However many positions there are, no request commits more than a broker keeps as one batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.replication.group_offsets import MOST_BYTES, requests


@given(
    st.dictionaries(
        st.tuples(st.text(max_size=200), st.integers(0, 9)),
        st.tuples(st.integers(0, 1 << 40), st.sampled_from(["", "m" * 100, "m" * 4096])),
        max_size=300,
    ),
)
def test_offsets_are_split_in_their_order(offsets):
    parts = list(requests(offsets))
    assert [item for part in parts for item in part.items()] == list(offsets.items())
    for part in parts:
        assert part
        assert sum(len(topic.encode()) + len(metadata) for (topic, _), (_, metadata) in part.items()) <= MOST_BYTES
    if sum(len(topic.encode()) + len(metadata) + 200 for (topic, _), (_, metadata) in offsets.items()) < MOST_BYTES:
        assert len(parts) <= 1, "a position, and the turn behind it, are one write where they can be"


def test_a_slot_of_fifty_thousand_topic_partitions_commits_some_dozens_of_times():
    offsets = {
        (f"a.topic-{n // 20:06d}", n % 20): (n, "MkTRLMuhQaG0ALbDVjXjTA:dd7rDTMHTLe1dMd0wYcVfQ 0,0,5000000")
        for n in range(50_000)
    }
    assert 20 < len(list(requests(offsets))) < 60
