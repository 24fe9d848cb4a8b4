"""A clock that is set back is noticed; one that is slowed, or set forward, needs nothing."""

from __future__ import annotations

import pytest

from mirror.runtime.clock import Clock


@pytest.mark.parametrize(
    ("steps", "set_back"),
    [
        pytest.param([60.0, 0.2, 0.2], [0, 0, 0], id="it goes on"),
        pytest.param([-3600.0, 0.2], [3600.2, 0], id="an hour back"),
        pytest.param([3600.0, 0.2], [0, 0], id="an hour forward"),
        pytest.param([0.1] * 200, [0] * 200, id="slowed to half, seconds in all"),
        pytest.param([3600.0, -3599.8], [0, 3600.0], id="forward and back again"),
    ],
)
def test_a_clock_that_is_set_back_is_noticed(steps, set_back):
    now = {"wall": 1_700_000_000.0, "steady": 5.0}
    clock = Clock(lambda: now["wall"], lambda: now["steady"])
    found = []
    for step in steps:
        now["wall"] += step
        now["steady"] += 0.2 if abs(step) > 100 else max(step, 0.2)
        found.append(clock.set_back_s())
    assert found == pytest.approx(set_back, abs=0.5)
