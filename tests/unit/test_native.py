"""Exponential buckets: every value is in one, and where it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metrics.native import FIRST_INDEX, SCHEMA, ZERO_THRESHOLD, Counts, add, bucket_of, runs

SECONDS = st.floats(min_value=-1e15, max_value=1e15, allow_nan=False)


def bounds(index: int) -> tuple[float, float]:
    """A bucket's lower and upper bound as Prometheus computes them: (lower, upper]."""
    base = 2.0 ** (1 / 2**SCHEMA)
    return base ** (index - 1), base**index


@given(SECONDS)
def test_a_value_is_in_its_bucket_and_its_negative_in_the_mirrored_one(value):
    bucket = bucket_of(abs(value))
    assert bucket_of(-abs(value)) == -bucket
    if abs(value) <= ZERO_THRESHOLD:
        assert bucket == 0
    else:
        lower, upper = bounds(bucket + FIRST_INDEX)
        assert lower * (1 - 1e-12) < abs(value) <= upper * (1 + 1e-12)


def test_bounds_belong_to_the_bucket_below():
    assert bucket_of(1.0) == bucket_of(0.95) == -FIRST_INDEX
    assert bucket_of(1.0001) == bucket_of(1.0) + 1
    assert (bucket_of(0.0), bucket_of(ZERO_THRESHOLD), bucket_of(0.001)) == (0, 0, 1)


def counted(*batches: tuple[float, float, int]) -> dict[int, int]:
    """What batches (low, high, count) come to."""
    counts = Counts()
    for batch in batches:
        counts.add(*batch)
    found: dict[int, int] = {}
    add(found, counts.flat())
    return found


BATCH = st.tuples(st.floats(-1e7, 1e7), st.floats(0, 1e7), st.integers(1, 10**9)).map(
    lambda b: (b[0], b[0] + b[1], b[2])
)


@given(st.lists(BATCH, min_size=1, max_size=20))
def test_what_is_spread_is_all_counted_between_its_ends(batches):
    counts = counted(*batches)
    assert sum(counts.values()) == sum(count for _, _, count in batches)
    assert all(number > 0 for number in counts.values())
    assert min(bucket_of(low) for low, _, _ in batches) <= min(counts)
    assert max(counts) <= max(bucket_of(high) for _, high, _ in batches)
    assert len(counts) < 700  # a row of a report stays small, whatever was measured


@given(st.lists(st.tuples(SECONDS, st.integers(1, 1000)), max_size=30))
def test_values_of_one_time_are_counted_exactly(values):
    exact: dict[int, int] = {}
    for value, count in values:
        exact[bucket_of(value)] = exact.get(bucket_of(value), 0) + count
    assert counted(*((value, value, count) for value, count in values)) == exact


def test_a_batch_is_spread_evenly():
    counts = counted((-1.0, 3.0, 4000))
    assert sum(count for bucket, count in counts.items() if bucket < 0) == 999  # but for the millisecond around zero
    assert counts[0] == 2
    assert sum(count for bucket, count in counts.items() if bucket > bucket_of(1.0)) == 2000
    assert sum(count for bucket, count in counts.items() if bucket > bucket_of(2.0)) == 1000


@given(st.lists(st.tuples(st.floats(0.001, 100), st.floats(0, 100), st.integers(1, 1000)), min_size=1, max_size=10))
def test_each_batch_is_where_it_would_be_alone(batches):
    """No more than half a record is put beside its bucket."""
    wide = [(low, low + width, count) for low, width, count in batches]
    together = counted(*wide)
    for edge in range(bucket_of(0.001), bucket_of(300.0)):
        upper_s = 2.0 ** ((edge + FIRST_INDEX) / 2**SCHEMA)
        below = 0.0
        for low, high, count in wide:
            inside = bucket_of(low) == bucket_of(high)
            share = float(bucket_of(low) <= edge) if inside else (upper_s - low) / (high - low)
            below += count * min(1.0, max(0.0, share))
        assert abs(sum(count for bucket, count in together.items() if bucket <= edge) - below) <= 0.501


def test_reports_add_up():
    counts: dict[int, int] = {3: 1}
    add(counts, [3, 2, -1, 5])
    assert counts == {3: 3, -1: 5}
    add(counts, [])
    assert counts == {3: 3, -1: 5}


def test_buckets_side_by_side_are_one_run():
    counts = {0: 9, 1: 4, 2: 5, 7: 6, -1: 1, -3: 2}
    assert runs(counts, negative=False) == [(FIRST_INDEX + 1, [4, 5]), (FIRST_INDEX + 7, [6])]
    assert runs(counts, negative=True) == [(FIRST_INDEX + 1, [1]), (FIRST_INDEX + 3, [2])]
    assert runs({}, negative=False) == []
