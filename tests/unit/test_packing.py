"""What is packed by hand is, byte for byte, what kio writes."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.kafka import packing
from mirror.kafka.fetch_request import FetchLimits, fetch_request
from mirror.kafka.fetch_session import Delta, FetchPosition
from mirror.kafka.log_offsets import list_offsets_request
from mirror.kafka.messages import encoded
from mirror.kafka.produce_request import produce_request
from mirror.kafka.protocol import CONSUMER, DEBUGGER, EARLIEST, LATEST
from mirror.model.records import uvarint

TOPICS = st.sampled_from(["t", "a.b", "ü" * 100])
IDS = st.uuids(version=4)
PLACES = st.tuples(TOPICS, st.integers(0, 9))
INT64 = st.integers(0, 2**62)


def froms(*, ids: dict[str, uuid.UUID]) -> st.SearchStrategy[dict[tuple[str, int], FetchPosition]]:
    """Strategy for what to fetch from where, each topic by its own id."""
    at = st.tuples(INT64, st.integers(1, 1 << 30), st.integers(-1, 99))
    found = st.dictionaries(PLACES, at, max_size=5)
    return found.map(lambda it: {key: FetchPosition(o, b, ids[key[0]], e) for key, (o, b, e) in it.items()})


NAMED = {"t": uuid.UUID(int=1), "a.b": uuid.UUID(int=2), "ü" * 100: uuid.UUID(int=3)}
BEFORE = {topic: uuid.UUID(int=of.int + 9) for topic, of in NAMED.items()}


@pytest.mark.parametrize("version", [*packing.FETCH_NAMES, *packing.FETCH_IDS])
@given(froms(ids=NAMED), froms(ids=NAMED), froms(ids=BEFORE), st.integers(0, 1), st.integers(-1, 2**31 - 1))
@settings(max_examples=30)
def test_a_fetch(version, wanted, forgotten, replaced, isolation, epoch):
    delta = Delta(7, epoch, wanted, forgotten, replaced, version in packing.FETCH_IDS)
    request = fetch_request(delta, FetchLimits(500, 1, 1 << 26, isolation, rack="" if isolation else "a rack"))
    assert written(request, version) == written(replace(request, packs=None), version)


@pytest.mark.parametrize("version", [*packing.PRODUCE_NAMES, *packing.PRODUCE_IDS])
@given(st.lists(st.tuples(PLACES, st.binary(max_size=400)), max_size=6), st.none() | st.just("mirror.A->B.0"))
@settings(max_examples=30)
def test_a_produce_request(version, batches, transactional_id):
    pieces = [(place, (data[:61], memoryview(data)[61:])) for place, data in batches]
    request = produce_request(transactional_id, pieces, 2_000, (3, 13), NAMED)
    assert written(request, version) == written(replace(request, packs=None), version)


@pytest.mark.parametrize("version", packing.LIST_OFFSETS)
@given(st.dictionaries(PLACES, st.sampled_from([EARLIEST, LATEST, 0, 2**62]), max_size=6), st.integers(0, 1))
@settings(max_examples=30)
def test_a_list_offsets_request(version, asked, isolation):
    request = list_offsets_request(DEBUGGER if isolation else CONSUMER, isolation, asked)
    assert written(request, version) == written(replace(request, packs=None), version)


def test_versions_that_are_not_packed_by_hand_are_kios():
    assert produce_request(None, [], 1, (3, 11), {}).packs(8) is None
    assert fetch_request(Delta(0, 0, {}, {}, {}, True), FetchLimits(1, 1, 1, 0)).packs(11) is None
    assert list_offsets_request(CONSUMER, 0, {}).packs(5) is None


@given(st.integers(0, 2**35))
def test_an_unsigned_varint(value):
    found = shift = 0
    for byte in uvarint(value):
        found |= (byte & 0x7F) << shift
        shift += 7
    assert found == value


def written(request, version: int) -> bytes:
    return b"".join(encoded(request, version, 5, b"me"))
