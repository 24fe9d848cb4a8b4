"""No request commits more than a broker keeps as one batch; no refusal is taken for a group without offsets."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import AsyncMock, create_autospec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.clients import client_options
from mirror.kafka import group_offsets
from mirror.kafka.errors import BrokerError, ErrorCode
from mirror.kafka.group_offsets import (
    MOST_BYTES,
    GroupOffsets,
    commit_with_metadata,
    in_parts,
    offset_fetch,
    offsets_in,
    patiently,
)
from mirror.kafka.internal_topics import committed
from mirror.kafka.messages import encoded, make, negotiate_version
from tests import wire

pytestmark = pytest.mark.usefixtures("virtual_clock")


def answer(version: int, places: dict[str, list[tuple[int, int, str | None, ErrorCode]]], **own: object) -> object:
    """Return an answer to OffsetFetch: (partition, offset, metadata, error) by topic."""
    module = wire.answer_module(9, version)
    return make(
        module.OffsetFetchResponse,
        throttle_time=timedelta(0),
        topics=tuple(
            module.OffsetFetchResponseTopic(
                name=topic,
                partitions=tuple(
                    module.OffsetFetchResponsePartition(
                        partition_index=partition, committed_offset=offset, metadata=metadata, error_code=code
                    )
                    for partition, offset, metadata, code in parts
                ),
            )
            for topic, parts in places.items()
        ),
        **own,
    )


@given(
    st.dictionaries(
        st.tuples(st.text(max_size=200), st.integers(0, 9)),
        st.tuples(st.integers(0, 1 << 40), st.sampled_from(["", "m" * 100, "m" * 4096])),
        max_size=300,
    ),
)
def test_offsets_are_split_in_their_order(offsets):
    parts = list(in_parts(offsets))
    assert [item for part in parts for item in part.items()] == list(offsets.items())
    for part in parts:
        assert part
        assert sum(len(topic.encode()) + len(metadata) for (topic, _), (_, metadata) in part.items()) <= MOST_BYTES
    if sum(len(topic.encode()) + len(metadata) + 200 for (topic, _), (_, metadata) in offsets.items()) < MOST_BYTES:
        assert len(parts) <= 1, "a position, and the lease behind it, are one write where they can be"


def test_a_slot_of_fifty_thousand_topic_partitions_commits_some_dozens_of_times():
    offsets = {
        (f"a.topic-{n // 20:06d}", n % 20): (n, "MkTRLMuhQaG0ALbDVjXjTA:dd7rDTMHTLe1dMd0wYcVfQ 0,0,5000000")
        for n in range(50_000)
    }
    assert 20 < len(list(in_parts(offsets))) < 60


def test_metadata_that_the_cluster_takes_for_too_long_are_left_out():
    offsets = create_autospec(GroupOffsets, instance=True)
    offsets.commit = AsyncMock(side_effect=[BrokerError(ErrorCode.offset_metadata_too_large), None])
    asyncio.run(commit_with_metadata(offsets, "g", {("t", 0): (7, "m" * 5000), ("t", 1): (8, "m")}))
    assert [call.args for call in offsets.commit.await_args_list] == [
        ("g", {("t", 0): (7, "m" * 5000), ("t", 1): (8, "m")}),
        ("g", {("t", 0): (7, ""), ("t", 1): (8, "")}),
    ]
    offsets.commit = AsyncMock(side_effect=BrokerError(ErrorCode.group_authorization_failed))
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION"):
        asyncio.run(commit_with_metadata(offsets, "g", {("t", 0): (7, "m")}))


def test_offsets_come_with_their_metadata_and_places_that_have_none_are_left_out():
    ok = ErrorCode.none
    places = {"t": [(0, 7, "m", ok), (1, -1, "", ok)], "u": [(2, 0, None, ok)]}
    for version in (1, 3):
        assert offsets_in(answer(version, places), "g") == {("t", 0): (7, "m"), ("u", 2): (0, "")}


@pytest.mark.parametrize(
    "code", [ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator, ErrorCode.group_authorization_failed]
)
def test_a_refusal_lists_no_partitions_and_is_not_a_group_without_offsets(code):
    with pytest.raises(BrokerError, match=code.name.upper()):
        offsets_in(answer(3, {}, error_code=code), "g")
    with pytest.raises(BrokerError, match=code.name.upper()):
        offsets_in(answer(1, {"t": [(0, -1, "", code)]}), "g")


def test_a_loading_coordinator_is_retried_and_other_errors_are_raised():
    loads, moved = ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator
    answers = [BrokerError(loads), BrokerError(moved), "offsets"]

    async def ask():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert asyncio.run(patiently(ask)) == "offsets"
    answers.append(BrokerError(ErrorCode.group_authorization_failed))
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        asyncio.run(patiently(ask))


def test_reading_positions_waits_half_a_minute_for_a_new_offsets_topic(monkeypatch):
    times = iter([0.0, 29.0, 31.0])
    monkeypatch.setattr(group_offsets, "time", SimpleNamespace(monotonic=lambda: next(times)))
    offsets = create_autospec(GroupOffsets, instance=True)
    offsets.committed.side_effect = BrokerError(ErrorCode.coordinator_not_available)
    monkeypatch.setattr(GroupOffsets, "connected", AsyncMock(return_value=offsets))

    with pytest.raises(BrokerError, match="COORDINATOR_NOT_AVAILABLE"):
        asyncio.run(committed(client_options({"bootstrap.servers": "b:1"}), "g"))
    assert offsets.committed.await_count == 2


def test_stable_offsets_are_requested_if_the_broker_supports_them():
    """Version 7 on brokers from 2.5 on; before, what there is."""
    request = offset_fetch("g", {"t": [0, 1]}, is_stable=True)
    new, old = (b"".join(encoded(request, negotiate_version(request, {9: (0, last)}), 5, b"me")) for last in (10, 5))
    assert [new[17:], old[16:]] == [  # the newer header has tags
        b"\x02g\x02\x02t\x03\0\0\0\0\0\0\0\1\0\1\0",
        b"\0\1g\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1",
    ]
