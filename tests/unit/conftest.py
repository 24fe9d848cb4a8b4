"""Fixtures of several files: settings of one flow, to which tests add lines, and a virtual clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from mirror.config.load import load
from mirror.errors import SettingsError
from tests.unit.virtual_clock import VirtualClock

BASE = """\
clusters = primary, backup
primary.bootstrap.servers = p1:9092,p2:9092
backup.bootstrap.servers = b1:9092
primary->backup.enabled = true
"""


@pytest.fixture(scope="module")
def virtual_clock() -> Iterator[VirtualClock]:
    """Replace `asyncio.run` and the clocks of `time` for a file; see `tests/unit/virtual_clock.py`."""
    clock = VirtualClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "run", clock.run)
        for name in ("time", "monotonic", "sleep"):
            patch.setattr(time, name, getattr(clock, name))
        yield clock


@pytest.fixture(scope="module")
def standing_clock(virtual_clock: VirtualClock) -> VirtualClock:
    """Let the virtual clock of a file stand still, outside of event loops too."""
    virtual_clock.stand()
    return virtual_clock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.properties"


@pytest.fixture
def settings(path):
    """Load BASE plus some lines."""

    def read(*lines, base=BASE, **arguments):
        path.write_text(base + "\n".join(lines))
        return load(path, **arguments)

    return read


@pytest.fixture
def refusal(settings):
    """Return the message with which BASE plus some lines is refused, after the file name."""

    def read(*lines, base=BASE, **arguments):
        with pytest.raises(SettingsError) as caught:
            settings(*lines, base=base, **arguments)
        message = str(caught.value)
        assert len(message.splitlines()) == 1
        assert "hunter2" not in message
        return message.split("m.properties:", 1)[-1]

    return read
