"""What Spark is asked for before anything is replicated."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mirror.errors import SettingsError
from mirror.spark import session


def cluster(*cores: int):
    """A session of a cluster whose executors come one after the other."""
    offers = iter(cores)

    class Context:
        offered = 0

        @property
        def defaultParallelism(self) -> int:  # noqa: N802 - Spark's name
            self.offered = next(offers, self.offered)
            return self.offered

    return SimpleNamespace(sparkContext=Context(), stop=lambda: None)


def test_a_cluster_without_room_for_both_lanes_is_refused_by_what_it_lacks(monkeypatch):
    monkeypatch.setattr(session, "CORES_WITHIN_S", 0.0)
    with pytest.raises(SettingsError, match="the cluster offers 2 cores, expected 6"):
        session._await_cores(cluster(2, 4), 6)


def test_executors_may_take_their_time(monkeypatch):
    monkeypatch.setattr(session.time, "sleep", lambda _: None)
    session._await_cores(cluster(2, 2, 4, 8), 6)
