"""A lane that hangs is noticed; a process that stood still itself notices nothing."""

from __future__ import annotations

import pytest

from mirror.runtime.lanes import SLACK_S, LaneProgress


@pytest.fixture
def now(monkeypatch):
    at = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: at[0])
    return at


def looks(progress: LaneProgress, now: list[float], seconds: float) -> str:
    """Look each second, and return what was found last."""
    found = ""
    for _ in range(int(seconds)):
        now[0] += 1
        found = progress.hung()
    return found


def test_a_lane_that_completes_no_window_is_named_until_it_completes_one(now):
    progress = LaneProgress(["lane-0", "lane-1"], longest_s=20)
    assert looks(progress, now, 15) == ""
    progress.completed("lane-1")
    progress.completed("checkpoints")
    assert looks(progress, now, 5 + SLACK_S) == ""
    assert looks(progress, now, 1) == f"lane-0 has completed no window for {21 + SLACK_S:.0f} s"
    progress.completed("lane-0")
    assert looks(progress, now, 1) == ""


def test_time_between_two_late_looks_does_not_count(now):
    progress = LaneProgress(["lane-0"], longest_s=20)
    now[0] += 3600
    assert progress.hung() == ""
    assert looks(progress, now, 20 + SLACK_S) == ""
    assert looks(progress, now, 1) != ""
