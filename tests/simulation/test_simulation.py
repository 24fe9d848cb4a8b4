"""Simulated runs with faults: each record arrives once and in order. And the simulation notices what it is there to notice.

Each mode is played for 15 seconds, from the same first seed each time: nothing fails by chance.
`python -m tests.simulation` plays other seeds each time, for an hour at night.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mirror.checkpoints import flow
from mirror.checkpoints.rules import translated
from mirror.handover.lease import LeaseTerm
from mirror.kafka.producer import Producer
from mirror.kafka.remote_logs import RemoteLogs
from mirror.kafka.transactional_producer import TransactionalProducer
from mirror.model.record_batches import with_producer_state
from mirror.replication.alignment import Alignment
from tests.simulation.clock import EPOCH_S, World, ticking
from tests.simulation.playing import MODES, Summary, play_for
from tests.simulation.scenario import play

# A process that is killed leaves coroutines that have not begun.
pytestmark = [
    pytest.mark.separate,
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]

PLAYED_S = 15.0
FIRST_SEED = 1
TRIES = 60  # seeds within which a broken mirror is noticed


@pytest.mark.parametrize("mode", MODES)
def test_each_record_arrives_once_and_in_order_after_any_failure(mode):
    summary = Summary(mode)
    for outcome in play_for(mode, FIRST_SEED, until_s=time.monotonic() + PLAYED_S, summary=summary):
        assert outcome.is_good, f"{outcome}\nreplay: {summary.replay(outcome)}"
    print(summary)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", [11, 15, 18])
def test_the_same_seed_plays_the_same_run(mode, seed):
    first, second = play(seed, mode), play(seed, mode)
    assert (first.digest, first.fate, first.virtual_s) == (second.digest, second.fate, second.virtual_s)
    assert play(seed + 1, mode).digest != first.digest


def test_other_threads_see_the_real_time():
    """Clients that tests have left open would otherwise wait for hours when the virtual time is over."""
    before_s = time.time()
    with ThreadPoolExecutor(1) as thread, ticking(World(1)):
        assert thread.submit(time.time).result() - before_s < 60
        assert time.time() == EPOCH_S


def _is_noticed(mode: str) -> bool:
    return any(not play(seed, mode).fate.is_clean for seed in range(TRIES))


def test_a_batch_that_is_sent_again_with_another_number_is_noticed(monkeypatch):
    """The broker takes it for a new batch."""

    def numbered(self, delivery):
        number = self._sequences[delivery.where]
        self._sequences[delivery.where] += delivery.outgoing.count
        return with_producer_state(delivery.outgoing.data, self._id, self._epoch, number, transactional=False)

    monkeypatch.setattr(Producer, "_numbered", numbered)
    assert _is_noticed("disabled")


def test_a_process_that_wakes_and_writes_without_a_fence_is_noticed(monkeypatch):
    """Batches without producer ids, and a lease that is always valid."""

    def unnumbered(self, delivery):
        return with_producer_state(delivery.outgoing.data, -1, -1, -1, transactional=False)

    monkeypatch.setattr(Producer, "_numbered", unnumbered)
    monkeypatch.setattr(LeaseTerm, "is_valid", property(lambda _: True))
    assert _is_noticed("disabled")


def test_batches_that_are_outside_of_their_transaction_are_noticed(monkeypatch):
    """An abort does not take them back."""

    def outside(self, delivery):
        return with_producer_state(delivery.outgoing.data, -1, -1, -1, transactional=False)

    monkeypatch.setattr(TransactionalProducer, "_numbered", outside)
    assert _is_noticed("enabled")


def test_a_group_that_is_set_an_offset_too_far_is_noticed(monkeypatch):
    def too_far(*given):
        found = translated(*given)
        return found._replace(downstream=found.downstream + 1) if found.downstream is not None else found

    monkeypatch.setattr(flow, "translated", too_far)
    assert any(play(seed, "disabled").failures for seed in range(TRIES))


def test_a_log_that_is_not_compared_before_the_first_write_is_noticed(monkeypatch):
    """What the process before wrote and did not commit is written again, at other offsets."""

    def admit(self, partition):
        if partition.remote_log is not None and partition.remote_log.end is None:
            partition.remote_log.compared(partition.acked, disposable_before=0)
        return True

    monkeypatch.setattr(Alignment, "admit", admit)
    assert any(not play(seed, "identical").is_good for seed in range(TRIES))


def test_a_marker_that_is_not_awaited_is_noticed(monkeypatch):
    """A record that comes before the marker gets the marker's offset."""

    async def at_once(self, gaps, ends):
        for place, end in ends.items():
            gaps[place].outcome.set_result(end)

    async def not_at_all(self):
        pass

    monkeypatch.setattr(TransactionalProducer, "await_markers", not_at_all)
    monkeypatch.setattr(RemoteLogs, "_await_ends", at_once)
    assert any(not play(seed, "identical").is_good for seed in range(TRIES))
