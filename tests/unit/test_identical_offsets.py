"""What keeps offsets identical, against a model of both logs: records, gaps, crashes, foreign writers, cut logs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.identical_offsets import (
    BATCHES,
    COMPARED,
    EMPTY_AT_MOST,
    NO_RECORD,
    Aligned,
    Compare,
    Diverged,
    Fill,
    Log,
    Step,
    alignment,
    are_equal,
    filler,
    filler_of_next_transaction,
    next_step,
)
from mirror.model.offset_map import OffsetRun
from mirror.model.record_batches import batches, raws, with_producer_state

MOST = 4  # records of a batch, and of a batch of filler
FOREIGN = "foreign"


def test_a_gap_is_filled_before_the_next_record():
    assert next_step(5, first=5, passed=5) is Step.APPEND
    assert next_step(5, first=8, passed=5) == Fill(5, 8)
    assert next_step(5, first=None, passed=8) == Fill(5, 8)
    assert next_step(5, first=None, passed=5) is Step.WAIT
    assert next_step(6, first=5, passed=5) is Step.DIVERGE


def test_disposable_offsets_are_filled_separately():
    assert next_step(5, first=20, passed=10, disposable_before=12) == Fill(5, 12)
    assert next_step(12, first=20, passed=10, disposable_before=12) == Fill(12, 20)


@given(st.integers(1, 10**7), st.integers(1, 10**6))
def test_transactions_fill_a_gap_exactly(offsets, most):
    left, transactions = offsets, 0
    while left > 0 and transactions < 100:
        sizes = filler_of_next_transaction(left, most)
        assert len(sizes) <= BATCHES + 1
        assert all(0 < size <= most for size in sizes)
        left -= sum(sizes) + 1
        transactions += 1
    assert left == 0 or transactions == 100
    if offsets <= EMPTY_AT_MOST:
        assert transactions == offsets, "small gaps have no filler, which an uncommitted reader would see"


@pytest.mark.parametrize("count", [1, 2, 300, 5000])
def test_filler_is_a_batch_that_compacted_topics_accept(count):
    made = filler(count, 1234)
    header, body = with_producer_state(made.data, 7, 1, 0, transactional=True)
    (batch,) = batches(header + bytes(body))
    found = list(raws(batch))
    assert [record.offset for record in found] == list(range(count))
    assert {record.timestamp for record in found} == {1234}
    assert all(record.body[0] not in (0, 1) for record in found), "it has a key"
    assert (batch.count, batch.last_offset, batch.max_timestamp) == (count, count - 1, 1234)


# --- alignment ---------------------------------------------------------------------------------------------------

IDENTICAL = OffsetRun(0, 0, 10)


@pytest.mark.parametrize(
    ("position", "target", "source", "mapped", "expected"),
    [
        (10, Log(0, 10), Log(0, 12), IDENTICAL, Aligned(10, 10)),
        (12, Log(0, 10), Log(0, 12), IDENTICAL, Aligned(12, 10)),  # markers follow that were not filled yet
        (10, Log(0, 7), Log(0, 12), IDENTICAL, Aligned(7, 7)),  # the target's log was cut
        (10, Log(0, 7), Log(8, 12), IDENTICAL, Aligned(8, 7, Fill(7, 8))),  # and the source no longer has it
        (10, Log(0, 11), Log(0, 12), IDENTICAL, Compare(10, 11, Aligned(11, 11))),  # a crash before the commit
        (30, Log(0, 0), Log(30, 40), None, Aligned(30, 0)),  # a new topic
        (30, Log(30, 30), Log(30, 40), None, Aligned(30, 30)),
        (0, Log(0, 20), Log(0, 40), None, Compare(0, 20, Aligned(20, 20))),  # a topic that was there before
        (0, Log(0, 5000), Log(0, 6000), None, Compare(5000 - COMPARED, 5000, Aligned(5000, 5000))),
    ],
)
def test_how_logs_fit_a_position(position, target, source, mapped, expected):
    assert alignment(position, target, source, mapped) == expected


@pytest.mark.parametrize(
    ("position", "target", "source", "mapped", "reason"),
    [
        (10, Log(0, 13), Log(0, 12), IDENTICAL, "after the source's end"),
        (10, Log(0, 8), Log(0, 12), OffsetRun(2, 0, 8), "source offset 2 is offset 0 on the target"),
        (10, Log(11, 11), Log(0, 12), None, "is empty"),
    ],
)
def test_logs_that_differ(position, target, source, mapped, reason):
    found = alignment(position, target, source, mapped)
    assert isinstance(found, Diverged)
    assert reason in found.reason


def test_equal_records_have_something_in_common():
    assert are_equal({}, {})
    assert are_equal({1: b"a", 2: b"b"}, {1: b"a", 3: b"c"}), "compaction took one of each"
    assert not are_equal({1: b"a"}, {1: b"b"})
    assert not are_equal({1: b"a"}, {})
    assert not are_equal({}, {1: b"a"})


def test_a_marker_in_the_place_of_a_record_is_a_difference():
    """Compaction leaves nothing at an offset; a marker does."""
    assert are_equal({1: b"a", 2: NO_RECORD}, {1: b"a", 2: NO_RECORD})
    assert are_equal({1: b"a", 2: NO_RECORD}, {1: b"a"})
    assert are_equal({2: NO_RECORD}, {})
    assert not are_equal({1: b"a", 2: NO_RECORD}, {1: b"a", 2: b"b"})
    assert not are_equal({1: b"a", 2: b"b"}, {1: b"a", 2: NO_RECORD})
    assert not are_equal({2: NO_RECORD}, {3: b"c"})


# --- a model of both logs -------------------------------------------------------------------------------------------


class Mirror:
    """One partition: lists are logs, None is an offset that no reader sees. `draw` decides what goes wrong."""

    def __init__(self, draw, source: list[str | None], start: int) -> None:
        self.draw = draw
        self.source, self.start = source, start
        self.target: list[str | None] = []
        self.position, self.mapped = start, 0  # committed, and how far the offset map reaches
        self.has_diverged = False
        self.has_extra_marker = False

    def window(self) -> None:
        """One window: compare, then copy until something goes wrong or everything is there."""
        aligned = self.aligned()
        if aligned is None:
            return
        at, end = aligned.position, aligned.log_end
        while True:
            first = next((n for n in range(at, len(self.source)) if self.source[n] is not None), None)
            step = next_step(end, first, len(self.source))
            if step is Step.WAIT:
                self.position, self.mapped = at, end
                return
            assert step is not Step.DIVERGE
            written = self.filler(step) if isinstance(step, Fill) else self.batch(at)
            if (fault := self.draw(st.sampled_from(["", "", "", "kill", "foreign", "marker again"]))) == "kill":
                self.target += written[: self.draw(st.integers(0, len(written)))]
                return
            if fault == "marker again" and isinstance(step, Fill):
                self.target += [*written, None]  # no record is sent before the coordinator has ended the transaction
                self.has_extra_marker = True
                return
            if fault == "foreign":
                self.target.append(FOREIGN)
            base = len(self.target)
            self.target += written
            if base != end:
                self.has_diverged = True  # the response shows it
                return
            at = end = end + len(written)
            if self.draw(st.booleans()):
                self.position, self.mapped = at, end

    def batch(self, at: int) -> list[str | None]:
        found = []
        for record in self.source[at : at + self.draw(st.integers(1, MOST))]:
            if record is None:
                break
            found.append(record)
        return found

    def filler(self, fill: Fill) -> list[str | None]:
        return [None] * (sum(filler_of_next_transaction(fill.offsets, MOST)) + 1)

    def aligned(self) -> Aligned | None:
        mapped = OffsetRun(0, 0, self.mapped) if self.mapped else None
        found = alignment(self.position, Log(0, len(self.target)), Log(self.start, len(self.source)), mapped)
        if isinstance(found, Compare):
            ours, theirs = (
                {n: log[n] or NO_RECORD for n in range(found.first, min(found.end, len(log)))}
                for log in (self.target, self.source)
            )
            found = found.then if are_equal(ours, theirs) else Diverged("")
        if isinstance(found, Diverged):
            self.has_diverged = True
            return None
        return found


@given(st.data())
def test_no_record_of_ours_gets_another_offset_whatever_goes_wrong(data):
    draw = data.draw
    holes = draw(st.lists(st.booleans(), max_size=40))
    source = [None if is_hole else f"record {n}" for n, is_hole in enumerate(holes)]
    start = draw(st.integers(0, len(source) // 2))
    mirror = Mirror(draw, [None] * start + source[start:], start)
    for _ in range(draw(st.integers(1, 6))):
        mirror.window()
        if not mirror.has_diverged and draw(st.integers(0, 5)) == 0:
            del mirror.target[draw(st.integers(0, len(mirror.target))) :]  # an unclean leader election
        if draw(st.integers(0, 5)) == 0:
            mirror.position, mirror.mapped = start, 0  # forgotten
    if FOREIGN not in mirror.target:
        assert mirror.has_extra_marker or not mirror.has_diverged, "nothing else wrote"
        assert all(ours is None or ours == theirs for ours, theirs in zip(mirror.target, mirror.source, strict=False))
        mirror.position, mirror.mapped = start, 0
        mirror.aligned()
        assert mirror.has_diverged or mirror.target == mirror.source[: len(mirror.target)], "no record is left out"
    else:
        first = mirror.target.index(FOREIGN)
        # In a gap of the source's log, a foreign record moves none of ours.
        moved = [
            record
            for offset, record in enumerate(mirror.target)
            if offset > first and record not in (None, FOREIGN) and mirror.source[offset : offset + 1] != [record]
        ]
        assert len(moved) <= MOST, "at most the batch in flight came after the foreign record"
