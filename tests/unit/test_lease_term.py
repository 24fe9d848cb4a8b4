"""A window writes no longer than others wait before they take its slot over, whatever becomes of its process meanwhile."""

from __future__ import annotations

import pytest

from mirror.handover import lease
from mirror.handover.lease import VALID_S, LeaseTerm
from mirror.model.slot_lease import DEAD_AFTER_S
from mirror.model.slot_ownership import COMMIT_S


class Clock:
    """Both clocks of a machine."""

    monotonic_s, wall_s = 100.0, 1_000.0

    def monotonic(self) -> float:
        return self.monotonic_s

    def time(self) -> float:
        return self.wall_s


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(lease, "time", made)
    return made


def test_it_is_not_valid_before_it_is_confirmed(clock):
    assert not LeaseTerm().is_valid


@pytest.mark.parametrize(
    ("monotonic_s", "wall_s", "is_valid"),
    [
        (0, 0, True),
        (VALID_S - 0.1, VALID_S - 0.1, True),
        (VALID_S, VALID_S, False),
        (0.1, 30, False),  # the machine slept, and its monotonic clock with it
        (30, 0.1, False),  # the process was frozen while the clock was set back
        (0.1, -1, False),  # set back to before it was confirmed
    ],
)
def test_it_is_valid_for_some_seconds_by_both_clocks(clock, monotonic_s, wall_s, is_valid):
    """B."""
    ours = LeaseTerm()
    ours.confirm(LeaseTerm.now())
    clock.monotonic_s += monotonic_s
    clock.wall_s += wall_s
    assert ours.is_valid is is_valid


def test_it_counts_from_when_it_was_asked_for_not_from_when_the_answer_came(clock):
    """A."""
    ours, asked = LeaseTerm(), LeaseTerm.now()
    clock.monotonic_s += VALID_S - 1
    clock.wall_s += VALID_S - 1
    ours.confirm(asked)
    assert ours.is_valid
    clock.monotonic_s += 1
    assert not ours.is_valid
    ours.confirm(LeaseTerm.now())
    ours.confirm(asked)
    assert ours.is_valid, "an answer that comes late takes nothing back"


def test_it_ends_before_a_successor_may_begin():
    """C: by the window's own number, or a few seconds after the slot became another process' (mirror.handover.lease)."""
    assert VALID_S > COMMIT_S
    assert VALID_S < DEAD_AFTER_S
