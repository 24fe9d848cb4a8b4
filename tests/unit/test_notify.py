"""systemd hears when the process is ready."""

from __future__ import annotations

import socket

import pytest

from mirror.runtime.notify import READY, notify


@pytest.mark.parametrize("is_abstract", [False, True])
def test_a_state_arrives_at_the_socket_that_systemd_names(monkeypatch, tmp_path, is_abstract):
    address = f"@{tmp_path}/notify" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address.replace("@", "\0"))
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify(READY)
        assert systemd.recv(100) == b"READY=1"


def test_nothing_happens_without_systemd(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify(READY)
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/notify")
    notify(READY)
