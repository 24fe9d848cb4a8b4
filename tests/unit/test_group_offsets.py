"""No request commits more than a broker keeps as one batch; no refusal is taken for a group without offsets."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import errors as kafka_errors
from aiokafka.protocol.commit import OffsetFetchResponse_v1, OffsetFetchResponse_v3
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.group_offsets import MOST_BYTES, offsets_in, patiently, requests
from mirror.kafka.offset_fetch import StableOffsetFetch, UnstableOffsetCommitError


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


def test_offsets_come_with_their_metadata_and_places_that_have_none_are_left_out():
    topics = [("t", [(0, 7, "m", 0), (1, -1, "", 0)]), ("u", [(2, 0, None, 0)])]
    assert offsets_in(OffsetFetchResponse_v3(0, topics, 0), "g") == {("t", 0): (7, "m"), ("u", 2): (0, "")}
    assert offsets_in(OffsetFetchResponse_v1(topics), "g") == {("t", 0): (7, "m"), ("u", 2): (0, "")}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (14, kafka_errors.GroupLoadInProgressError),
        (16, kafka_errors.NotCoordinatorForGroupError),
        (30, kafka_errors.GroupAuthorizationFailedError),
    ],
)
def test_a_refusal_lists_no_partitions_and_is_not_a_group_without_offsets(code, error):
    with pytest.raises(error):
        offsets_in(OffsetFetchResponse_v3(0, [], code), "g")
    with pytest.raises(error):
        offsets_in(OffsetFetchResponse_v1([("t", [(0, -1, "", code)])]), "g")


def test_a_coordinator_that_loads_is_asked_again_and_other_refusals_are_told():
    answers = [kafka_errors.GroupLoadInProgressError(), kafka_errors.NotCoordinatorForGroupError(), "offsets"]

    async def ask():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert asyncio.run(patiently(ask)) == "offsets"
    answers.append(kafka_errors.GroupAuthorizationFailedError())
    with pytest.raises(kafka_errors.GroupAuthorizationFailedError):
        asyncio.run(patiently(ask))


def test_who_can_asks_for_offsets_that_no_transaction_is_about_to_change():
    """Version 7 on brokers from 2.5 on; before, what there is."""
    asked = StableOffsetFetch("g", [("t", [0, 1])])
    old, new = asked.prepare({9: (0, 5)}), asked.prepare({9: (1, 10)})
    assert (old.API_VERSION, new.API_VERSION) == (3, 7)
    assert new.encode() == b"\x02g\x02\x02t\x03\0\0\0\0\0\0\0\1\0\1\0"
    assert StableOffsetFetch("g", None).prepare({9: (1, 10)}).encode() == b"\x02g\0\1\0"
    partition = (0, 7, -1, "m", 0, {})
    response = new.RESPONSE_TYPE(0, [("t", [partition, (1, -1, -1, "", 0, {})], {})], 0, {})
    assert new.RESPONSE_TYPE.decode(response.encode()).topics == response.topics
    assert offsets_in(response, "g") == {("t", 0): (7, "m")}
    with pytest.raises(UnstableOffsetCommitError):
        offsets_in(new.RESPONSE_TYPE(0, [("t", [(0, -1, -1, "", 88, {})], {})], 0, {}), "g")
