"""Which records a round of `kafka-mirror verify --every` compares, and what it takes down."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from mirror.verification.pieces import Finding, Piece
from mirror.verification.watch import Progress, due, newest_only


def piece(topic: str, source: int, records: int) -> Piece:
    return Piece(topic, 0, source, 1000 + source, records, f"A.{topic}")


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), max_size=12),
    st.integers(1, 40),
)
def test_rounds_compare_every_record_once_and_no_round_more_than_it_may(sizes, most):
    ends: dict[str, int] = defaultdict(int)
    pieces = []
    for topic, records in sizes:
        pieces.append(piece(topic, ends[topic], records))
        ends[topic] += records
    progress, seen = Progress(), set()
    for _ in range(sum(ends.values()) // most + 1):
        chosen, left = due(pieces, progress.until, most=most)
        assert sum(one.records for one in chosen) <= most
        now = {(one.topic, one.source + n, one.target + n) for one in chosen for n in range(one.records)}
        assert not now & seen
        seen |= now
        assert len(seen) + left == sum(ends.values())
        progress.took(chosen, defaultdict(Finding))
    assert seen == {(topic, n, 1000 + n) for topic, end in ends.items() for n in range(end)}


def test_topic_partitions_take_turns():
    chosen, left = due([piece("a", 0, 100), piece("a", 100, 100), piece("b", 0, 10)], {}, most=150)
    assert [(one.topic, one.source, one.records) for one in chosen] == [("a", 0, 100), ("b", 0, 10), ("a", 100, 40)]
    assert left == 60


def test_unread_pieces_are_read_again_and_differences_are_counted():
    progress, pieces = Progress(), [piece("a", 0, 10), piece("b", 0, 10)]
    found = {("a", 0): Finding(compared=9, different=1, first="a-0 offset 3"), ("b", 0): Finding(failure="b-0: gone")}
    assert progress.took(pieces, found) == ["a-0 offset 3", "b-0: gone"]
    assert progress.until == {("a", 0): 10}
    assert progress.wrong == 1


def test_it_may_begin_with_the_newest_records():
    assert newest_only([piece("a", 0, 100), piece("a", 500, 10), piece("b", 0, 3)], 30) == {("a", 0): 80, ("b", 0): 0}
