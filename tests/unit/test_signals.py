"""A signal that comes at the worst moment is obeyed all the same."""

from __future__ import annotations

import os
import signal

import pytest

from mirror.appliance import Appliance
from mirror.config.load import load
from tests.waiting import eventually


@pytest.fixture
def handlers():
    """Put the handlers back."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def test_a_signal_while_the_main_thread_holds_what_a_stop_needs_does_not_hang(tmp_path, handlers):
    """So it was: the handler waited for the lock of the event that the interrupted wait had just taken."""
    (tmp_path / "f").write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
        f"mirror.state.dir = {tmp_path}\n"
    )
    appliance = Appliance(load(tmp_path / "f"))
    appliance._on_signals()
    with appliance._stop._cond:
        os.kill(os.getpid(), signal.SIGTERM)
        assert not appliance.is_stopping
    eventually(lambda: appliance.is_stopping, within_s=5, because="the thread that obeys stops it")
