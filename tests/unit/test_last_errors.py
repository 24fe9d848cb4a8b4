"""Why a topic-partition was paused last, and until when: told as JSON, bounded."""

from __future__ import annotations

import pytest

from metrics.error_kind import ErrorKind
from metrics.last_errors import MOST, LastError, LastErrors, parsed

PLACE = ("a", "b", "a.t", "3")


def test_an_error_lasts_until_a_window_without_it():
    errors = LastErrors()
    errors.record(PLACE, "", 1.0)
    assert parsed(errors.text()) == []
    errors.record(PLACE, "MESSAGE_TOO_LARGE", 2.0)
    errors.record(PLACE, "NOT_LEADER", 3.0)
    assert parsed(errors.text()) == [LastError("a", "b", "a.t", 3, "NOT_LEADER", 2.0)]
    errors.record(PLACE, "", 4.0)
    errors.record(PLACE, "", 5.0)
    assert parsed(errors.text()) == [LastError("a", "b", "a.t", 3, "NOT_LEADER", 2.0, 4.0)]
    errors.record(PLACE, "MESSAGE_TOO_LARGE", 6.0)
    assert parsed(errors.text()) == [LastError("a", "b", "a.t", 3, "MESSAGE_TOO_LARGE", 6.0)]


def test_the_newest_are_first_and_the_oldest_are_forgotten():
    errors = LastErrors()
    for number in range(MOST + 5):
        errors.record((*PLACE[:3], str(number)), "refused", float(number))
    errors.record((*PLACE[:3], "7"), "", 9_999.0)
    errors.record((*PLACE[:3], "7"), "refused again", 10_000.0)
    found = parsed(errors.text())
    assert len(found) == MOST
    assert (found[0].partition, found[1].partition, found[-1].partition) == (7, MOST + 4, 5)


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
