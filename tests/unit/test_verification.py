"""Pieces of the offset map, and what is said of their two sides."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.flow_plan import PlannedPartition
from mirror.model.offset_map import OffsetMap, OffsetRun
from mirror.verification.pieces import Finding, Piece, Scope, clipped, compared, newest
from tests.unit.test_recovery import Record, numbered, packed

PIECE = Piece("t", 0, 100, 7, 5, "A.t")


def sides(changed: dict[int, Record | None] | None = None) -> tuple[list[Record], list[Record]]:
    """Five records on the source from offset 100 on, their copies from 7 on; some copies changed or left out."""
    source = numbered([b"a", b"b", b"c", b"d", b"e"], start=100)
    copies = [record._replace(offset=record.offset - 93) for record in source]
    for at, other in (changed or {}).items():
        copies[at] = other if other is not None else copies[at]._replace(offset=-1)
    return source, [record for record in copies if record.offset >= 0]


def found(changed: dict[int, Record | None] | None = None, piece: Piece = PIECE) -> Finding:
    source, target = sides(changed)
    return compared(piece, packed(source, [2]), packed(target, [1] if changed else [3]))


def test_equal_sides_whatever_their_batches():
    assert (found().compared, found().is_equal, found().first) == (5, True, "")


def test_the_first_difference_is_named_with_both_offsets():
    one = found({3: Record(10, 1003, b"k", b"other", (("h", b"d"),))})
    assert (one.compared, one.different, one.is_equal) == (5, 1, False)
    assert one.first == "t-0 offset 103 (A.t offset 10): value b'd' is b'other' on the target"
    assert found({2: Record(9, 1002, b"k", b"c", (("h", b"x"),))}).first.endswith("the headers differ")
    assert found({2: Record(9, 7, b"k", b"c", (("h", b"c"),))}).first.endswith("timestamp 1002 is 7 on the target")
    assert found({2: Record(9, 1002, None, b"c", (("h", b"c"),))}).first.endswith("key b'k' is null on the target")
    assert one.digest != found().digest


def test_a_missing_record_is_a_difference_unless_the_target_is_compacted():
    one = found({1: None})
    assert (one.compared, one.missing, one.gone, one.is_equal) == (4, 1, 0, False)
    assert one.first == "t-0 offset 101 (A.t offset 8): the target does not have it"
    other = found({1: None}, PIECE._replace(is_compacted=True))
    assert (other.compared, other.missing, other.gone, other.is_equal) == (4, 0, 1, True)


def test_a_record_that_the_source_deleted_is_gone_and_no_difference():
    source, target = sides()
    one = compared(PIECE, packed(source[2:], [2]), packed(target, [2]))
    assert (one.compared, one.gone, one.is_equal) == (3, 2, True)


def test_runs_are_cut_to_what_both_logs_have():
    assert clipped(OffsetRun(10, 100, 50), 20, 100) == OffsetRun(20, 110, 40)
    assert clipped(OffsetRun(10, 100, 50), 0, 130) == OffsetRun(40, 130, 20)
    assert clipped(OffsetRun(10, 100, 5), 30, 0).records <= 0


@given(st.lists(st.integers(1, 50), max_size=6), st.integers(1, 200))
def test_the_newest_records_are_the_end_of_the_runs(counts, last):
    runs = [OffsetRun(1000 * n, 5000 * n, count) for n, count in enumerate(counts)]
    kept = newest(runs, last)
    assert sum(run.records for run in kept) == min(last, sum(counts))
    if kept:
        assert kept[-1].source + kept[-1].records == runs[-1].source + runs[-1].records


def test_identical_offsets_are_compared_at_the_same_offset_whatever_the_map_knows():
    assigned = PlannedPartition("t", "A.t", 0, "id", is_identical=True)
    shifted = OffsetMap([OffsetRun(100, 100, 5), OffsetRun(107, 106, 3)])
    (piece,) = Scope((assigned,), {("t", 0): shifted}, {}, {}).pieces()
    assert (piece.source, piece.target, piece.records) == (100, 100, 10)
    source = numbered([b"a", b"b"], start=100)
    one = compared(
        piece, packed(source, [2]), packed([record._replace(offset=record.offset + 1) for record in source], [2])
    )
    assert not one.is_equal


@given(st.integers(1, 70_000), st.integers(0, 100))
def test_pieces_cover_a_run_once(records, source_start):
    assigned = PlannedPartition("t", "A.t", 0, "id")
    maps = {("t", 0): OffsetMap([OffsetRun(0, 10, records)])}
    scope = Scope((assigned, PlannedPartition("new", "A.new", 0, "id")), maps, {("t", 0): source_start}, {})
    pieces = list(scope.pieces())
    assert sum(piece.records for piece in pieces) == max(0, records - source_start)
    assert all(piece.target - piece.source == 10 for piece in pieces)
    assert [one.topic for one in scope.unmapped] == ["new"]
