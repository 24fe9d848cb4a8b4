"""Logins that take longer than a coordinator may take to respond."""

from __future__ import annotations

import pytest

from mirror.kafka.protocol import COORDINATOR_S
from tests.simulation.scenario import Stage, calm, staged
from tests.simulation.seeds import seeds

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.mark.parametrize(("mode", "window_ms"), [("enabled", 20_000), ("disabled", 10_000)])
@pytest.mark.parametrize("seed", seeds(2))
def test_a_flow_replicates_although_a_login_takes_longer_than_a_coordinators_response_may(mode, window_ms, seed):
    """With exactly once, each window logs in again."""
    stage = Stage(seed, mode)
    with staged(stage):
        stage.network.login_s = COORDINATOR_S + 0.5
        stage.layout = stage.layout._replace(window_ms=window_ms)
        stage.start("folder1")
        stage.is_writing = True
        stage.write((0.02, 0.1))
        stage.world.run_for(60)
        outcome = calm(stage, seed, mode)
        assert outcome.is_good, outcome
