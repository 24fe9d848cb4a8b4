"""The last hour of a flow: what is kept of a minute, since when it is ill, and that a file brings it back."""

from __future__ import annotations

import pytest

from metrics.partition_status import Status
from metrics.trend import Point, Trend, UnhealthySince, joined, unhealthy_since

OK, WARN, STALL = Status.OK, Status.WARN, Status.STALL


def point(at_s: float, status: Status = OK, waits_s: float | None = 0.0) -> Point:
    return Point(at_s, status, waits_s, 0, 1.0, 1.0)


def test_of_a_minute_the_worst_is_kept():
    trend = Trend()
    for each in (point(0), point(20, STALL, 30.0), point(40, OK, 0.0), point(61)):
        trend.record("a->b", each)
    assert [(kept.status, kept.waits_s) for kept in trend.of("a->b")] == [(STALL, 30.0), (OK, 0.0)]
    assert trend.of("b->a") == []


def test_an_hour_is_kept():
    trend = Trend()
    for minute in range(100):
        trend.record("a->b", point(60.0 * minute))
    assert [kept.minute for kept in trend.of("a->b")] == list(range(40, 100))


def test_a_file_restores_the_last_hour_only(tmp_path):
    trend = Trend()
    for each in (point(0), point(4000, STALL, None), point(4060, WARN, 2.5)):
        trend.record("a->b", each)
    trend.save(tmp_path / "trend.json")
    again = Trend()
    again.load(tmp_path / "trend.json", now_s=4100)
    assert again.of("a->b") == [point(4000, STALL, None), point(4060, WARN, 2.5)]


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", '{"a->b": [[1]]}', '{"a->b": [[null, 1, 0, 0, 0, 0]]}', '{"a->b": 5}']
)
def test_a_file_that_is_missing_or_damaged_holds_nothing(tmp_path, content):
    file = tmp_path / "trend.json"
    if content is not None:
        file.write_text(content)
    trend = Trend()
    trend.load(file, now_s=10)
    assert trend.of("a->b") == []


@pytest.mark.parametrize(
    ("what", "points", "found"),
    [
        ("nobody looked yet", [], None),
        ("well now", [point(0, STALL), point(60)], None),
        ("ill since it was seen to begin", [point(0), point(60, WARN), point(120, STALL)], UnhealthySince(60, True)),
        ("ill again", [point(0, WARN), point(60), point(120, WARN)], UnhealthySince(120, True)),
        ("ill when first looked at", [point(0, STALL), point(60, STALL)], UnhealthySince(0, False)),
        ("nobody looked for ten minutes", [point(0), point(600, STALL), point(660, STALL)], UnhealthySince(600, False)),
    ],
)
def test_since_when(what, points, found):
    assert unhealthy_since(points) == found, what


def test_two_sources_are_one_line_and_the_own_one_wins():
    older = [point(0, WARN), point(60, WARN)]
    own = [point(70, STALL), point(130)]
    assert joined(older, own) == [point(0, WARN), point(70, STALL), point(130)]
