"""Select the seeds, and other values, with which each change and the nightly run test a scenario."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int) -> list[Any]:
    """Return the first seeds: 0 for each change, the others for the nightly run."""
    return first_for_each_change(*range(count))


def first_for_each_change(first: object, *others: object) -> list[Any]:
    """Return values of a parameter: the first one for each change, the others for the nightly run."""
    return [first, *(pytest.param(other, marks=pytest.mark.nightly) for other in others)]
