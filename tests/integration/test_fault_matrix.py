"""A bounded part of `./soak --matrix`: each fault once, under load, at a moment that a seed decides."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.soak.faults import FAULTS
from tests.soak.oracle import Fate
from tests.soak.rounds import a_round
from tests.soak.stage import MODES, Stage, staged

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ELSEWHERE = ("let a second process join, kill -9 one of the two",)  # test_processes.py
SEED = 1


def matters(fault: str, mode: str) -> bool:
    """In the second mode only what hits the mirror or the target: the source does not know how the target is written."""
    return fault not in ELSEWHERE and (mode == MODES[0] or not re.search("source|link|seven", fault))


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Everything that a fault can hit, in one mode; all faults of that mode hit the same one."""
    with staged(request.param, tmp_path_factory.mktemp("stage")) as running:
        yield running


@pytest.mark.parametrize(
    ("stage", "fault"),
    [(mode, fault) for mode in MODES for fault in FAULTS if matters(fault, mode)], indirect=["stage"],
)  # fmt: skip
def test_no_fault_loses_repeats_or_reorders_a_record(stage, fault):
    found = a_round(stage, FAULTS[fault], SEED, f"soak-{list(FAULTS).index(fault)}").fate
    assert found == Fate(sent=found.sent)
    assert found.sent > 100
