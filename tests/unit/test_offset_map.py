"""The offset map against a plain list of records, one by one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.offset_map import OffsetMap, OffsetRun

# Steps of a mirror: (gap in the source before the batch, foreign records on the target before it, records of the batch)
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), max_size=30)


def mirrored(steps):
    """Return the map, and the (source, target) offsets of every record."""
    found, pairs = OffsetMap(), []
    source = target = 0
    for gap, foreign, count in steps:
        source, target = source + gap, target + foreign
        found.add(source, target, count)
        pairs += [(source + i, target + i) for i in range(count)]
        source, target = source + count, target + count
    return found, pairs


def holds(found: OffsetMap) -> None:
    """Assert A and B of OffsetMap."""
    runs = list(found)
    for before, after in pairwise(runs):
        assert before.source < after.source, "A"
        assert before.target <= after.target, "A"
        assert before.source + before.records <= after.source, "B"
        assert before.target + before.records <= after.target, "B"


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 8)), max_size=20))
def test_runs_are_in_order_and_overlap_nowhere_whatever_was_written_again(batches):
    """A and B, also where records were repeated, and where either log was cut. The newest run is what was added last."""
    found = OffsetMap()
    for source, target, records in batches:
        found.add(source, target, records)
        holds(found)
        last = found.last
        assert last is not None
        assert (last.source + last.records, last.target + last.records) == (source + records, target + records)


@given(STEPS)
def test_offsets_translate_to_the_first_unread_record_or_the_end(steps):
    found, pairs = mirrored(steps)
    if not pairs:
        assert found.translate(0) is None
        return
    end_of = {source + 1: target + 1 for source, target in pairs}
    for offset in range(pairs[0][0], pairs[-1][0] + 3):
        translated = found.translate(offset)
        unread = [target for source, target in pairs if source >= offset]
        read = [target for source, target in pairs if source < offset]
        assert translated <= min(unread, default=translated), "C: nothing is skipped"
        assert translated > max(read, default=-1), "D: nothing is read again"
        if offset in end_of and not unread:
            assert translated == end_of[offset]


@given(STEPS)
def test_the_way_back_skips_nothing_and_repeats_nothing(steps):
    found, pairs = mirrored(steps)
    for offset in range(pairs[0][1], pairs[-1][1] + 3) if pairs else ():
        back = found.reverse(offset)
        assert back <= min((source for source, target in pairs if target >= offset), default=back), "C"
        assert back > max((source for source, target in pairs if target < offset), default=-1), "D"


@given(STEPS, st.integers(1, 3))
def test_a_map_that_was_thinned_repeats_what_it_has_given_up_and_skips_nothing(steps, times):
    """Beyond the older half it is as exact as it was; it never says "not known" where it knew."""
    found, pairs = mirrored(steps)
    exact, newer = mirrored(steps)[0], list(found)[len(found) // 2 :]
    for _ in range(times):
        found.thin()
        assert list(found)[-len(newer) :] == newer or not newer
        newer = list(found)[len(found) // 2 :]
    assert set(found) <= set(exact)
    assert (found.first, found.last) == (exact.first, exact.last)
    for offset in range(pairs[0][0], pairs[-1][0] + 3) if pairs else ():
        assert 0 <= found.translate(offset) <= exact.translate(offset), "C"
    for offset in range(pairs[0][1], pairs[-1][1] + 3) if pairs else ():
        assert 0 <= found.reverse(offset) <= exact.reverse(offset), "C"


@given(STEPS, st.integers(0, 200))
def test_dropping_expired_runs_keeps_all_other_translations(steps, start):
    found, pairs = mirrored(steps)
    exact = mirrored(steps)[0]
    found.forget_before(start)
    for offset in range(max(start, pairs[0][0]), pairs[-1][0] + 3) if pairs else ():
        assert found.translate(offset) == exact.translate(offset)


def test_thinning_gives_up_every_second_run_of_the_older_half():
    found = OffsetMap(OffsetRun(10 * n, 11 * n, 10) for n in range(8))
    found.thin()
    assert [run.source for run in found] == [0, 20, 40, 50, 60, 70]
    assert (found.translate(15), found.translate(20)) == (10, 22)
    found.thin()
    assert [run.source for run in found] == [0, 40, 50, 60, 70]
    for runs in range(4):
        few = OffsetMap(OffsetRun(10 * n, 11 * n, 10) for n in range(runs))
        few.thin()
        assert len(few) == runs, "of so few none is given up"


@given(STEPS)
def test_text_is_read_back(steps):
    found, _ = mirrored(steps)
    assert OffsetMap.parse(found.text()) == found


@pytest.mark.parametrize("text", ["x", "1,2", "1,2,3,4", "1,2,-1", "-1,2,3", ";", "1,2,3;"])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match=r"run of offsets|invalid literal|unpack"):
        OffsetMap.parse(text)


def test_batches_without_gaps_are_one_run():
    found = OffsetMap()
    for batch in range(1000):
        found.add(batch * 50, 10 + batch * 50, 50)
    assert list(found) == [OffsetRun(0, 10, 50_000)]
    assert found.text() == "0,10,50000"


def test_records_repeated_after_a_crash_are_read_where_they_were_written_last():
    found = OffsetMap([OffsetRun(100, 90, 100), OffsetRun(150, 190, 100)])
    assert list(found) == [OffsetRun(100, 90, 50), OffsetRun(150, 190, 100)]
    assert found.translate(160) == 200
    assert found.translate(120) == 110
    assert found.reverse(170) == 150  # in the copy that nobody needs


def test_a_target_log_that_starts_again_clears_the_map():
    found = OffsetMap([OffsetRun(100, 90, 100), OffsetRun(200, 0, 10)])
    assert list(found) == [OffsetRun(200, 0, 10)]
    assert found.translate(150) is None


def test_a_start_with_nothing_before_it_translates_every_offset_before_it():
    found = OffsetMap([OffsetRun(0, 7, 0), OffsetRun(40, 7, 10)])
    assert [found.translate(offset) for offset in (0, 39, 40, 45)] == [7, 7, 7, 12]
    assert found.reverse(7) == 40
    assert list(OffsetMap([OffsetRun(0, 7, 0), OffsetRun(0, 7, 10)])) == [OffsetRun(0, 7, 10)]


def test_a_recreated_topic_starts_a_new_map():
    found = OffsetMap([OffsetRun(0, 0, 100), OffsetRun(0, 100, 0), OffsetRun(0, 100, 5)])
    assert list(found) == [OffsetRun(0, 100, 5)]


def test_runs_that_retention_deleted_are_dropped():
    found = OffsetMap([OffsetRun(0, 0, 10), OffsetRun(12, 10, 10), OffsetRun(30, 20, 10)])
    found.forget_before(15)
    assert list(found) == [OffsetRun(12, 10, 10), OffsetRun(30, 20, 10)]
    found.forget_before(30)
    assert list(found) == [OffsetRun(30, 20, 10)]
    for start in (10, 99):  # a group that has read all still stands at the end of the newest run
        found.forget_before(start)
        assert list(found) == [OffsetRun(30, 20, 10)]
    empty = OffsetMap()
    empty.forget_before(5)
    assert len(empty) == 0
    found.keep_newest(1)
    assert found.last == found.first == OffsetRun(30, 20, 10)


def test_runs_since_an_offset_are_cut_at_it():
    found = OffsetMap([OffsetRun(0, 0, 10), OffsetRun(12, 10, 10)])
    assert list(found.since(5)) == [OffsetRun(5, 5, 5), OffsetRun(12, 10, 10)]
    assert list(found.since(10)) == [OffsetRun(12, 10, 10)]
    assert list(found.since(13)) == [OffsetRun(13, 11, 9)]
    assert list(found.since(22)) == []


@pytest.mark.parametrize(
    ("target", "until", "end"),
    [(0, 9, 0), (100, 105, 105), (100, 200, 115), (104, 200, 115), (115, 200, 115), (120, 200, 122), (130, 200, 130)],
)
def test_the_gapless_range_on_the_target_ends_at_the_first_gap(target, until, end):
    found = OffsetMap([OffsetRun(10, 100, 10), OffsetRun(22, 110, 5), OffsetRun(30, 120, 2), OffsetRun(40, 130, 0)])
    assert found.gapless_on_target(target, until) == end
