"""Verdicts from histories: each rule, its borders, and what a restart keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.history import History
from metrics.partition_status import WINDOW, Sample, Status, judge, written_by_s

NOW = 1000.0
EVERY_S = 5.0


def history(positions, ends, lost=None):
    """Polls 5 s apart, the newest at NOW."""
    lost = lost or [0] * len(positions)
    start = NOW - EVERY_S * (len(positions) - 1)
    return [Sample(start + EVERY_S * n, *values) for n, values in enumerate(zip(positions, ends, lost, strict=True))]


def status(positions, ends, lost=None, *, last_report_s=NOW - 1):
    return judge(history(positions, ends, lost), last_report_s=last_report_s, now_s=NOW, silence_s=40).status


TEN = range(10)
CASES = [
    ("idle: nothing is produced, nothing is behind", [50] * 10, [50] * 10, Status.OK),
    ("an idle empty partition", [0] * 10, [0] * 10, Status.OK),
    ("keeps up with a steady load", [100 * n for n in TEN], [100 * n + 3 for n in TEN], Status.OK),
    ("keeps up, and is sometimes at the end", [100 * n for n in TEN], [100 * n + 3 * (n != 4) for n in TEN], Status.OK),
    ("catches up a backlog", [100 * n for n in TEN], [5000 + 10 * n for n in TEN], Status.OK),
    ("falls behind, moving", [10 * n for n in TEN], [50 + 100 * n for n in TEN], Status.WARN),
    # Live traffic of 15 records a poll whose commits come a little later each time: still within what two polls copy.
    ("trails as usual, by chance growing", [15 * n for n in TEN], [15 * n + 10 + n for n in TEN], Status.OK),
    ("lag wavers", [0, 10, 20, 30, 80, 90, 100, 110, 120, 130], [100 + 15 * n for n in TEN], Status.OK),
    ("stands still with a backlog", [40] * 10, [100] * 10, Status.STALL),
    ("stands still while more arrives", [40] * 10, [100 + n for n in TEN], Status.STALL),
    ("stands still, but was at the end in the window", [40] * 10, [40] * 2 + [100] * 8, Status.OK),
    ("too few polls", [40] * 9, [100] * 9, Status.UNKNOWN),
    ("too few polls, but it copies", [40, 41, 41], [100] * 3, Status.OK),
    ("too few polls, but level", [40, 40, 40], [40] * 3, Status.OK),
    ("went back", [50, 50, 60, 20, 30, 30, 30, 30, 30, 30], [70] * 10, Status.REWIND),
    ("went back and came again", [50, 50, 60, 20, 30, 60, 61, 62, 63, 64], [70] * 10, Status.OK),
    ("went back to where the shorter log ends", [50] * 5 + [20] * 5, [50] * 5 + [20] * 5, Status.REWIND),
]


@pytest.mark.parametrize(
    ("positions", "ends", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_histories(positions, ends, expected):
    assert status(positions, ends) == expected


def test_lost_records_outrank_everything_and_pass_with_the_window():
    lost = [0] * 5 + [35] * 5
    found = judge(history([100] * 10, [100] * 10, lost), last_report_s=NOW, now_s=NOW, silence_s=40)
    assert found.status == Status.LOST
    assert "35 records" in found.reason
    assert status([100] * 10, [100] * 10, [35] * 10) == Status.OK


def test_a_flow_without_reports_is_stopped_not_stalled():
    assert status([40] * 10, [100] * 10, last_report_s=NOW - 46) == Status.STOP
    assert status([40] * 10, [100] * 10, last_report_s=NOW - 44) == Status.STALL
    assert status([100] * 10, [100] * 10, last_report_s=NOW - 500) == Status.OK
    assert judge(history([40] * 10, [100] * 10), last_report_s=NOW - 50, now_s=NOW, silence_s=60).status == Status.STALL


def test_a_status_of_few_polls_is_unknown_and_names_their_number():
    found = judge(history([40] * 3, [100] * 3), last_report_s=0.0, now_s=NOW, silence_s=40)
    assert (found.status, found.is_complete) == (Status.UNKNOWN, False)
    assert "3 of 10 polls" in found.reason
    nothing = judge([], last_report_s=0.0, now_s=NOW, silence_s=40)
    assert (nothing.status, nothing.is_complete) == (Status.UNKNOWN, False)


@pytest.mark.parametrize(
    ("what", "positions", "ends", "lost", "last_known"),
    [
        ("level", [50] * 10, [50] * 10, 0, Status.OK),
        ("busy", [100 * n for n in TEN], [100 * n + 3 for n in TEN], 0, Status.OK),
        ("slow", [10 * n for n in TEN], [50 + 100 * n for n in TEN], 0, Status.WARN),
        ("standing", [40] * 10, [100] * 10, 0, Status.STALL),
        ("lost", [40] * 10, [100] * 10, 35, Status.LOST),
    ],
)
def test_values_older_than_three_polls_are_unknown_with_the_last_known_value(what, positions, ends, lost, last_known):
    def judged(samples, after_s):
        return judge(samples, last_report_s=NOW + after_s, now_s=NOW + after_s, silence_s=40, known_s=3 * EVERY_S)

    samples = history(positions, ends, [0] * 9 + [lost])
    assert judged(samples, 14).status == last_known
    found = judged(samples, 120)
    assert found.status == (Status.LOST if what == "lost" else Status.UNKNOWN)
    if what != "lost":
        assert "log end has not been read for 120 s" in found.reason
        assert ("last known: lag 0" if what == "level" else "records behind") in found.reason
    # Only the target is silent: log ends are read, positions are of long ago. What stands may be said to stand.
    silent = [sample._replace(position_s=NOW - 100) for sample in samples]
    found = judged(silent, 0)
    assert found.status == (last_known if last_known > Status.UNKNOWN else Status.UNKNOWN)
    if found.status == Status.UNKNOWN:
        assert "position has not been read for 100 s" in found.reason


def test_catching_up_differs_from_keeping_pace():
    def reason(positions, ends):
        return judge(history(positions, ends), last_report_s=NOW, now_s=NOW, silence_s=40).reason

    assert reason([100 * n for n in TEN], [5000 + 10 * n for n in TEN]).endswith("catching up")
    assert reason([100 * n for n in TEN], [100 * n + 3 for n in TEN]).endswith(", keeping pace")


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 200)), min_size=1, max_size=15))
def test_every_history_has_one_status_with_a_reason(pairs):
    samples = [Sample(float(n), position, position + more) for n, (position, more) in enumerate(pairs)]
    found = judge(samples, last_report_s=0.0, now_s=20.0, silence_s=40)
    assert found.status in Status
    assert found.reason
    older = [Sample(-5.0, 10**9, 10**9), *samples]
    if len(samples) >= WINDOW:
        assert judge(older, last_report_s=0.0, now_s=20.0, silence_s=40) == found


def test_a_restart_keeps_the_window(tmp_path):
    path, key = tmp_path / "history.json", ("a", "b", 'a."t\n', "0")
    before, after = History(), History()
    for sample in history([40] * 12, [100] * 12):
        before.add(key, sample)
    before.save(path)
    after.load(path, within_s=(NOW - 600, NOW))
    assert after.of(key) == before.of(key)
    assert len(after.of(key)) == WINDOW
    assert judge(after.of(key), last_report_s=NOW, now_s=NOW, silence_s=40).status == Status.STALL
    old = History()
    old.load(path, within_s=(NOW + 9_400, NOW + 10_000))
    assert old.of(key) == []


def test_polls_from_a_clock_that_was_ahead_are_ignored(tmp_path):
    """They would count as fresh for as long as the clock was ahead, and a partition would stand for less than 0 s."""
    path = tmp_path / "history.json"
    before, after, everything = History(), History(), History()
    for time_s in (NOW - 1, NOW + 300):
        before.add(("a",), Sample(time_s, 5, 9))
    before.save(path)
    after.load(path, within_s=(NOW - 600, NOW))
    assert after.of(("a",)) == [Sample(NOW - 1, 5, 9)]
    everything.load(path)
    assert everything.of(("a",)) == before.of(("a",)), "a switch asks how far the source was ever seen to reach"


@pytest.mark.parametrize("damaged", ["", "[", '[[["a"],[[1]]]]', '[[["a"],[[1.0,2,3,0,0]]]]', "null", '{"a":1}'])
def test_a_damaged_file_counts_as_none(tmp_path, damaged):
    path = tmp_path / "history.json"
    path.write_text(damaged)
    found = History()
    found.load(path, within_s=(NOW - 600, NOW))
    found.load(tmp_path / "absent.json")
    assert found.of(("a",)) == []


def test_partitions_that_left_are_forgotten():
    found = History()
    for key in (("a",), ("b",)):
        found.add(key, Sample(1.0, 1, 1))
    found.keep_only({("a",)})
    assert (len(found.of(("a",))), found.of(("b",))) == (1, [])


# --- timestamps of the future ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp_s", "samples", "before_s", "written_s"),
    [
        (NOW - 70, history([5, 5], [9, 9]), NOW - 90, NOW - 70),  # a timestamp that can be is taken as it is
        (NOW + 60, history([5, 5, 5], [5, 9, 9]), NOW - 10, NOW - 10),  # first seen two polls ago, and marked so
        (NOW - 1, history([5, 5, 5], [5, 9, 9]), None, NOW - 5),  # ahead by less than it has waited
        (NOW + 60, history([7], [9]), None, NOW),  # a first poll knows of itself alone
        (NOW + 60, history([5, 8], [9, 12]), NOW - 5, NOW - 5),  # offset 8 was there at the poll before
        (NOW + 60, history([5, 8], [8, 12]), NOW - 5, NOW),  # and here it was not: the mirror keeps up
        (NOW + 60, history([5] * 10, [9] * 10), NOW - 600, NOW - 600),  # it has waited for longer than there are polls
        (NOW + 60, [], None, NOW + 60),
    ],
)
def test_a_record_counts_as_written_when_it_was_first_seen(timestamp_s, samples, before_s, written_s):
    assert written_by_s(timestamp_s, samples, before_s=before_s) == written_s


def test_a_deleted_record_does_not_age_the_first_remaining_one():
    """Offset 5 has waited for long; but the first that is left is 90, which is younger."""
    samples = [Sample(NOW - 100, 5, 60), Sample(NOW - 5, 5, 95, start=90), Sample(NOW, 5, 99, start=90)]
    assert written_by_s(NOW - 20, samples, before_s=NOW - 300) == NOW - 20
    assert written_by_s(NOW + 20, samples, before_s=NOW - 5) == NOW - 5
