"""A settings file of one flow, to which tests add lines."""

from __future__ import annotations

import pytest

from mirror.config.load import load
from mirror.errors import SettingsError

BASE = """\
clusters = primary, backup
primary.bootstrap.servers = p1:9092,p2:9092
backup.bootstrap.servers = b1:9092
primary->backup.enabled = true
"""


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
