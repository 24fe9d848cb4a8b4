"""Why a topic-partition was paused last, and until when: told as JSON, bounded."""

from __future__ import annotations

import pytest

from metrics.error_kind import ErrorKind
from metrics.last_errors import MOST, LastError, LastErrors, parsed

PLACE = ("a", "b", "a.t", "3")


def test_an_error_lasts_until_a_window_copies_records():
    errors = LastErrors()
    errors.record_none(PLACE, 1.0, has_copied=True)
    assert parsed(errors.text()) == []
    errors.record(PLACE, "MESSAGE_TOO_LARGE", 2.0)
    errors.record(PLACE, "NOT_LEADER", 3.0)
    assert parsed(errors.text()) == [LastError("a", "b", "a.t", 3, "NOT_LEADER", 2.0)]
    errors.record_none(PLACE, 3.5, has_copied=False)  # the window ended before it had tried the partition again
    errors.record(PLACE, "NOT_LEADER", 3.7)
    errors.record_none(PLACE, 4.0, has_copied=True)
    errors.record_none(PLACE, 5.0, has_copied=True)
    assert parsed(errors.text()) == [LastError("a", "b", "a.t", 3, "NOT_LEADER", 2.0, 4.0)]
    errors.record(PLACE, "MESSAGE_TOO_LARGE", 6.0)
    assert parsed(errors.text()) == [LastError("a", "b", "a.t", 3, "MESSAGE_TOO_LARGE", 6.0)]


def test_the_newest_are_first_and_the_oldest_are_forgotten():
    errors = LastErrors()
    for number in range(MOST + 5):
        errors.record((*PLACE[:3], str(number)), "refused", float(number))
    errors.record_none((*PLACE[:3], "7"), 9_999.0, has_copied=True)
    errors.record((*PLACE[:3], "7"), "refused again", 10_000.0)
    found = parsed(errors.text())
    assert len(found) == MOST
    assert (found[0].partition, found[1].partition, found[-1].partition) == (7, MOST + 4, 5)


def test_a_poll_without_lag_ends_a_pause_that_the_last_window_did_not_have():
    errors = LastErrors()
    errors.record(PLACE, "no leader", 1.0)
    assert not errors.awaits_poll
    errors.end({PLACE}, 2.0)
    assert parsed(errors.text())[0].until_s is None
    errors.record_none(PLACE, 3.0, has_copied=False)
    assert errors.awaits_poll
    errors.end(set(), 4.0)
    assert parsed(errors.text())[0].until_s is None
    errors.end({PLACE}, 5.0)
    assert (parsed(errors.text())[0].until_s, errors.awaits_poll) == (5.0, False)


def test_the_pause_of_a_partition_that_left_its_flow_has_ended():
    errors = LastErrors()
    errors.record(PLACE, "no leader", 1.0)
    errors.keep_only([PLACE], 2.0)
    assert parsed(errors.text())[0].until_s is None
    errors.keep_only([], 3.0)
    assert parsed(errors.text())[0].until_s == 3.0


def test_an_error_has_the_kind_of_its_newest_reason():
    errors = LastErrors()
    errors.record(PLACE, "no leader", 1.0, ErrorKind.TARGET_UNAVAILABLE)
    errors.record(PLACE, "MESSAGE_TOO_LARGE", 2.0, ErrorKind.RECORD_TOO_LARGE)
    (found,) = parsed(errors.text())
    assert (found.kind, found.since_s) == (ErrorKind.RECORD_TOO_LARGE, 1.0)


@pytest.mark.parametrize("kind", ["", ', "kind": "of a later version"'])
def test_an_error_of_another_version_has_no_special_kind(kind):
    text = '{"errors": [{"source": "a", "target": "b", "topic": "t", "partition": 0, "reason": "x", "since_s": 1%s}]}'
    assert parsed(text % kind)[0].kind is ErrorKind.OTHER


@pytest.mark.parametrize("text", ["", "{}", '{"errors": [{"x": 1}]}', "[]"])
def test_an_invalid_list_of_errors_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        parsed(text)
