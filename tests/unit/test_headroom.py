"""How long retention leaves the first unreplicated record."""

from __future__ import annotations

import pytest

from metrics.headroom import Retention, headroom
from metrics.partition_status import Sample

HOUR = Retention(ms=3_600_000)


def moving_start(*starts: int, position: int = 1000) -> list[Sample]:
    """One poll every 10 s with these log starts."""
    return [Sample(10.0 * at, position, 2000, 0, start) for at, start in enumerate(starts)]


@pytest.mark.parametrize(
    ("what", "retention", "samples", "lag_s", "left_s"),
    [
        ("nothing is ever deleted", Retention(), moving_start(0, 100), 50.0, None),
        ("by age, level", HOUR, moving_start(0), 0.0, 3600.0),
        ("by age, a quarter of an hour behind", HOUR, moving_start(0), 900.0, 2700.0),
        ("by age, behind for longer than it is kept", HOUR, moving_start(0), 7200.0, 0.0),
        ("by size, the start does not move", Retention(bytes=1 << 30), moving_start(5, 5), 9.0, None),
        ("by size, 10 offsets a second, 800 to go", Retention(bytes=1 << 30), moving_start(0, 100, 200), 9.0, 80.0),
        ("by size, seen once only", Retention(bytes=1 << 30), moving_start(0), 9.0, None),
        ("by size, already past us", Retention(bytes=1 << 30), moving_start(0, 1500), 9.0, 0.0),
        ("by both, size is nearer", Retention(3_600_000, 1 << 30), moving_start(0, 100, 200), 9.0, 80.0),
        ("by both, age is nearer", Retention(60_000, 1 << 30), moving_start(0, 100, 200), 9.0, 51.0),
    ],
)
def test_headroom(what, retention, samples, lag_s, left_s):
    assert headroom(retention, samples, lag_s) == left_s, what
