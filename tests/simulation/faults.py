"""The kinds of faults, each drawn from the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.scenario import Stage


def play(stage: Stage) -> None:
    """Play the faults of a run."""
    stage.world.run_for(10)


def heal(stage: Stage) -> None:
    """End all faults."""
