"""One caller only gets a port, and a server can listen on it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

from mirror.embedded import ports
from mirror.embedded.ports import HOST, free_port
from mirror.errors import MirrorError

FREE_PORT = "from mirror.embedded import ports; ports.PORTS = range({0}, {0} + 1); ports.free_port()"


def test_no_port_is_given_twice(monkeypatch):
    first = free_port()
    monkeypatch.setattr(ports, "PORTS", range(first, first + 1))

    with pytest.raises(MirrorError, match=rf"no free port on {HOST}"):
        free_port()


def test_no_port_is_given_to_another_process_too():
    asked = [sys.executable, "-c", FREE_PORT.format(free_port())]

    assert "no free port" in subprocess.run(asked, capture_output=True, text=True, check=False).stderr


def test_a_server_listens_on_it_again_and_again():
    port = free_port()

    async def serve() -> None:
        async with await asyncio.start_server(lambda *_: None, HOST, port):
            pass

    for _ in range(3):
        asyncio.run(serve())
    with socket.create_server((HOST, port)) as listening:
        assert listening.getsockname() == (HOST, port)
