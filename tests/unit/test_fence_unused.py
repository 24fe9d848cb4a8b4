"""Transactions of slots that no longer exist are ended by the transactional id that each slot wrote by. Asks no broker."""

from __future__ import annotations

import asyncio

import pytest

from mirror.config.load import load
from mirror.flows import start_positions
from mirror.flows.start_positions import fence_unused
from mirror.flows.topics import flow_plan
from mirror.model.slot_lease import LeaseState, WindowOutcome
from mirror.model.slot_ownership import lease_key

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""
TRANSACTIONS = WindowOutcome(is_transactional=True)


@pytest.fixture
def fenced(tmp_path, monkeypatch):
    """Return what is fenced, as (transactional id, number of the spare one), if slots 0 to 2 were before and none is now."""

    def found(leases: dict[tuple[int, int], LeaseState], *, mode: str) -> list[tuple[str, int]]:
        file = tmp_path / "m.properties"
        file.write_text(f"{FILE}B.exactly.once.source.support = {mode}\n")
        [flow] = load(file).flows
        plan = flow_plan(flow, [], {})
        done: list[tuple[str, int]] = []

        class Target:
            def __init__(self, _, *, request_bytes, transactional_id):
                self._name = transactional_id

            async def open(self, topics):
                pass

            async def fence(self, spare=0):
                done.append((self._name, spare))

            async def close(self):
                pass

        kept = {(plan.lease_topic, lease_key(*place)): lease.encode() for place, lease in leases.items()}
        monkeypatch.setattr(start_positions, "Target", Target)

        async def committed(*_):
            return kept

        monkeypatch.setattr(start_positions, "committed", committed)
        asyncio.run(fence_unused(plan, slots=1, slots_before=3))
        return done

    return found


def test_a_slot_that_wrote_by_a_spare_id_is_fenced_by_that_id(fenced):
    """The id without a number is an earlier one: its producer ended long ago, and readers waited for the other one."""
    leases = {
        (0, 0): LeaseState(7, 1, is_released=True, outcome=TRANSACTIONS),
        (1, 0): LeaseState(8, 1, is_released=False, outcome=TRANSACTIONS._replace(spare=2)),
        (1, 1): LeaseState(7, 1, is_released=True, outcome=TRANSACTIONS._replace(spare=1)),
    }
    assert fenced(leases, mode="enabled") == [("mirror.A->B.0", 0), ("mirror.A->B.1", 2), ("mirror.A->B.2", 0)]


def test_in_the_default_mode_only_slots_that_died_in_a_transaction_are_fenced(fenced):
    leases = {
        (0, 0): LeaseState(7, 1, is_released=True, outcome=TRANSACTIONS),
        (1, 0): LeaseState(8, 1, is_released=False, outcome=TRANSACTIONS._replace(spare=3)),
        (2, 0): LeaseState(8, 1, is_released=False),
    }
    assert fenced(leases, mode="disabled") == [("mirror.A->B.1", 3)]
