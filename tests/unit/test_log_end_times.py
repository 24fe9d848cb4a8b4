"""The time lag of a consumer group, estimated from the log ends of earlier polls."""

from __future__ import annotations

import pickle
from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from mirror.lag.log_end_times import POINTS, LogEndTimes

POLL_S = 5.0


def polled(*points: tuple[float, int]) -> LogEndTimes:
    times = LogEndTimes()
    for time_s, log_end in points:
        times.record(log_end, time_s)
    return times


def test_records_between_two_polls_count_as_written_evenly():
    times = polled((100.0, 10), (110.0, 30), (120.0, 30))
    assert [times.time_lag_s(offset) for offset in (10, 20, 29)] == [20.0, 15.0, 10.5]


def test_nothing_waits_at_the_log_end_or_after_it():
    times = polled((100.0, 10))
    assert [times.time_lag_s(offset) for offset in (10, 11)] == [0.0, 0.0]


def test_a_record_from_before_the_first_poll_has_an_unknown_time_lag():
    assert LogEndTimes().time_lag_s(0) is None
    assert polled((100.0, 10), (110.0, 12)).time_lag_s(9) is None


def test_a_record_after_a_silence_has_not_waited_since_the_silence_began():
    """An hour without records, then one: it was written between the last two polls."""
    silence = [(float(second), 7) for second in range(0, 3600, 5)]
    times = polled(*silence, (3600.0, 8), (3605.0, 8))
    assert times.time_lag_s(7) == 10.0


def test_a_shorter_log_begins_anew():
    """The topic was created again: its offsets are those of other records."""
    times = polled((100.0, 1000), (110.0, 2000), (120.0, 5), (130.0, 9))
    assert times.time_lag_s(5) == 10.0
    assert times.time_lag_s(4) is None


def test_a_clock_that_is_set_back_begins_anew():
    times = polled((100.0, 10), (110.0, 20), (60.0, 30), (70.0, 40))
    assert times.time_lag_s(30) == 10.0
    assert times.time_lag_s(15) is None


@given(bursts=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 1000)), min_size=1, max_size=30))
def test_an_estimate_is_off_by_a_poll_or_a_small_part_of_the_age(bursts):
    """However records arrive: `bursts` are silent polls, followed by polls with that many records each."""
    times, ends, now_s = LogEndTimes(), [0], 0.0
    times.record(0, now_s)
    for silent, records in bursts:
        for each in [0] * silent + [records] * 20:
            now_s += POLL_S
            ends.append(ends[-1] + each)
            times.record(ends[-1], now_s)
    for offset in {*range(0, ends[-1], max(1, ends[-1] // 50))}:
        after_s = bisect_right(ends, offset) * POLL_S  # the poll that saw the record first
        found = times.time_lag_s(offset)
        assert found is not None
        age_s = now_s - after_s
        assert age_s * 0.9 - POLL_S <= found <= age_s * 1.1 + 2 * POLL_S


def test_a_partition_needs_little_memory_however_long_it_is_polled():
    times = LogEndTimes()
    for poll in range(20_000):
        times.record(poll, poll * POLL_S)
    assert len(pickle.dumps(times)) < 20 * POINTS
