"""MirrorMaker's own records against bytes that MirrorMaker 4.1.1 wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.mm2_records import Checkpoint, Heartbeat, NotThatRecord, OffsetSync

GOLDEN = [
    (OffsetSync("orders", 3, 100, 90), "00066f726465727300000003", "0000000000000064000000000000005a"),
    (
        Checkpoint("g1", "A.orders", 3, 101, 91, "m"),
        "000267310008412e6f726465727300000003",
        "00000000000000000065000000000000005b00016d",
    ),
    (Heartbeat("A", "B", 1_700_000_000_000), "000141000142", "00000000018bcfe56800"),
]
OFFSETS = st.integers(-1, 2**63 - 1)
NAMES = st.text(max_size=50)


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_bytes_are_mirrormakers(record, key, value):
    assert record.encode() == (bytes.fromhex(key), bytes.fromhex(value))
    assert type(record).decode(*record.encode()) == record


@given(NAMES, NAMES, st.integers(0, 2**31 - 1), OFFSETS, OFFSETS)
def test_records_are_read_back(group, topic, partition, upstream, downstream):
    for record in (
        OffsetSync(topic, partition, upstream, downstream),
        Checkpoint(group, topic, partition, upstream, downstream),
        Heartbeat(group, topic, upstream),
    ):
        assert type(record).decode(*record.encode()) == record


@given(
    st.sampled_from(GOLDEN), st.one_of(st.none(), st.binary(max_size=40)), st.one_of(st.none(), st.binary(max_size=40))
)
def test_foreign_bytes_are_refused_in_one_way(golden, key, value):
    for parts in ((key, bytes.fromhex(golden[2])), (bytes.fromhex(golden[1]), value), (key, value)):
        try:
            type(golden[0]).decode(*parts)
        except NotThatRecord as refusal:
            assert str(refusal)


def test_another_version_is_refused():
    key, value = Heartbeat("A", "B", 1).encode()
    with pytest.raises(NotThatRecord, match="version 1, expected 0"):
        Heartbeat.decode(key, b"\0\1" + value[2:])
