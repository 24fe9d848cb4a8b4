"""The tail of a lost source: which records never crossed, and what must be known to tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror.errors import MirrorError
from mirror.flows.stored_positions import Position
from mirror.model.flow_plan import Absent, PlannedPartition
from mirror.switching import tail
from tests.unit.fakes import FakeCluster

COPIED, NEW = PlannedPartition("t", "a.t", 0, ""), PlannedPartition("t", "a.t", 1, "")
ABSENT = Absent("u", "a.u", 0, "not created yet")


def logs(alias: str, **bounds: tuple[int, int]) -> FakeCluster:
    """Return a cluster with these bounds of its logs; `t_0` is partition 0 of t."""
    of = {(name.rpartition("_")[0], int(name[-1])): at for name, at in bounds.items()}
    return FakeCluster(
        alias,
        start={place: start for place, (start, _) in of.items()},
        end={place: end for place, (_, end) in of.items()},
    )


@pytest.fixture
def tails(monkeypatch):
    def found(source: FakeCluster, on_target: int | None, *, is_known: bool = False) -> Any:
        positions = {("a.t", 0): Position(5, ""), **({("a.t", 1): Position(8, "")} if is_known else {})}
        monkeypatch.setattr(tail, "read_positions", lambda *_: positions)
        target = logs("b", **({} if on_target is None else {"a.t_1": (0, on_target)}))
        back: Any = SimpleNamespace(
            flow=None,
            source=source,
            target=target,
            plan=lambda: SimpleNamespace(group="g"),
            partitions=lambda _: [COPIED, NEW],
            absent=lambda _: [ABSENT],
        )
        return tail._tails(back)

    return found


SOURCE = logs("a", t_0=(0, 7), t_1=(3, 9), u_0=(2, 4))


def test_a_tail_starts_at_the_position_or_at_the_log_start(tails):
    assert tails(SOURCE, 0) == {("t", 0): (5, 7), ("t", 1): (3, 9), ("u", 0): (2, 4)}
    assert tails(SOURCE, 6, is_known=True)["t", 1] == (8, 9)


@pytest.mark.parametrize("on_target", [6, None])
def test_a_missing_position_is_unknown_unless_the_target_is_empty(tails, on_target):
    with pytest.raises(MirrorError, match=r"progress of t-1 is unknown"):
        tails(SOURCE, on_target)


def test_a_log_whose_end_is_unknown_is_not_taken_for_one_without_a_tail(tails):
    with pytest.raises(MirrorError, match=r"a does not report the bounds of t-0"):
        tails(logs("a", t_1=(3, 9), u_0=(2, 4)), 0)
