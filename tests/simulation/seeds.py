"""Which seeds a test of one scenario runs with."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int) -> list[Any]:
    """Return the seed that each change is tested with, and those of the nightly run."""
    return [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, count))]
