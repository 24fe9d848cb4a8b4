"""The virtual clock of unit tests, and threads that other tests have left."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from tests.unit.virtual_clock import VirtualClock

HOUR_S = 3600.0


def test_a_thread_that_is_older_than_the_clock_sees_the_real_time():
    """Clients in its event loop would otherwise wait until the virtual time is reached."""
    with ThreadPoolExecutor(1) as older:
        older.submit(time.monotonic).result()
        clock = VirtualClock()
        clock.sleep(HOUR_S)
        assert clock.monotonic() - time.monotonic() > HOUR_S - 60
        assert older.submit(clock.monotonic).result() - time.monotonic() < 60
        assert abs(older.submit(clock.time).result() - time.time()) < 60
