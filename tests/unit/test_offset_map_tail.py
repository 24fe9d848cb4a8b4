"""The newest part of the offset map, as it is kept with a position, and the records of the map's topic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.offset_map import OffsetMap, OffsetRun
from mirror.model.offset_map_tail import LONG, MOST, MapRecord, Tail


def test_a_steady_partition_is_one_run_after_any_number_of_batches():
    tail = Tail(begins_at=0)
    for batch in range(500):
        tail.acknowledged([OffsetRun(batch * 10, 0, 10)], base=7 + batch * 10)
    assert tail.text() == "0,7,5000*"
    assert not tail.is_long
    tail.moved(tail.runs.last)
    assert tail.text() == "0,7,5000"
    assert not Tail(tail.text()).is_unsaved


def test_the_first_batch_starts_the_map_at_the_start_of_the_log():
    tail = Tail(begins_at=0)
    tail.acknowledged([OffsetRun(40, 0, 5)], base=0)
    assert list(tail.runs) == [OffsetRun(0, 0, 0), OffsetRun(40, 0, 5)]
    later = Tail(begins_at=40)  # from the log's end on: what was before it is not on the target
    later.acknowledged([OffsetRun(40, 0, 5)], base=0)
    assert later.runs.translate(39) is None


def test_a_tail_continues_where_the_window_before_left_it():
    tail = Tail("0,0,10;2,0,5")
    tail.acknowledged([OffsetRun(17, 0, 3)], base=15)
    assert tail.text() == "0,0,10;2,0,8*"
    assert Tail(tail.text()).is_unsaved


def test_a_tail_is_new_until_the_topic_has_its_first_run():
    tail = Tail(begins_at=0)
    tail.acknowledged([OffsetRun(0, 0, 5)], base=0)
    assert tail.is_new
    assert not Tail(tail.text()).is_new, "it was written with the first position"
    tail.moved(tail.runs.last)
    assert not tail.is_new


def test_text_of_another_version_is_a_tail_that_knows_nothing():
    tail = Tail("{}")
    tail.acknowledged([OffsetRun(5, 0, 1)], base=3)
    assert list(tail.runs) == [OffsetRun(5, 3, 1)]


def test_moved_runs_are_dropped_from_the_tail_except_the_growing_one():
    tail = Tail("0,0,10;2,0,5")
    written = tail.runs.last
    tail.acknowledged([OffsetRun(17, 0, 3), OffsetRun(30, 3, 1)], base=15)  # while the topic was being written
    tail.moved(written)
    assert list(tail.runs) == [OffsetRun(12, 10, 8), OffsetRun(30, 18, 1)]
    assert tail.is_unsaved


def test_metadata_never_exceeds_what_brokers_take():
    tail = Tail(begins_at=0)
    for transaction in range(2_000):
        tail.acknowledged([OffsetRun(transaction * 3, 0, 2)], base=transaction * 2)
    assert tail.is_long
    assert LONG < len(tail.text()) <= MOST + 1
    assert Tail(tail.text()).runs.translate(1_999 * 3) == 1_999 * 2


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.booleans()), min_size=1, max_size=40))
def test_topic_and_tail_together_are_the_whole_map(steps):
    """Whatever is moved to the topic when, and with all but the last record of each key compacted away."""
    whole, tail, topic = OffsetMap(), Tail(), {}
    source = target = 0
    for gap, count, is_moved in steps:
        source += gap
        whole.add(source, target, count)
        tail.acknowledged([OffsetRun(source, 0, count)], base=target)
        source, target = source + count, target + count
        if is_moved:
            key, value = MapRecord("t", 0, tail.runs).encode()
            topic.pop(key, None)
            topic[key] = value
            tail.moved(tail.runs.last)
    read = OffsetMap()
    for key, value in topic.items():
        read.extend(MapRecord.decode(key, value).runs)
    read.extend(tail.runs)
    assert read == whole


def test_foreign_records_in_the_topic_are_no_records_of_it():
    for key, value in (
        (None, b"0,0,1"),
        (b"[]", b"0,0,1"),
        (b'["t",0,0]', b"x"),
        (b"\xff", b"0,0,1"),
        (b"1", b"0,0,1"),
    ):
        assert MapRecord.decode(key, value) is None
    assert MapRecord.decode(b'["t",0,0]', None) is None
    assert MapRecord.decode(b'["t",0,0]', b"0,0,1") == ("t", 0, OffsetMap([OffsetRun(0, 0, 1)]), "")
    assert MapRecord.decode(*MapRecord("t", 0, OffsetMap([OffsetRun(0, 0, 1)]), "a:b").encode()) == (
        "t",
        0,
        OffsetMap([OffsetRun(0, 0, 1)]),
        "a:b",
    )
