"""The proxy's network partition: packets are lost, and no connection hears of it."""

from __future__ import annotations

import socket

import pytest

from mirror.embedded.ports import HOST, free_port
from tests.fault_proxy import FaultProxy

SHORT_S, LONG_S = 0.2, 30.0


def test_lost_packets_neither_open_nor_end_a_connection_and_arrive_when_the_network_is_good_again():
    with (
        socket.create_server((HOST, 0)) as broker,
        FaultProxy(free_port(), broker.getsockname()[1]) as proxy,
        socket.create_connection((HOST, proxy.port), timeout=LONG_S) as client,
        broker.accept()[0] as accepted,
    ):
        accepted.settimeout(LONG_S)
        client.sendall(b"before")
        assert accepted.recv(100) == b"before"
        proxy.drop_packets()
        client.sendall(b"meanwhile")
        client.shutdown(socket.SHUT_WR)
        with pytest.raises(TimeoutError):
            socket.create_connection((HOST, proxy.port), timeout=SHORT_S)
        accepted.settimeout(SHORT_S)
        with pytest.raises(TimeoutError):
            accepted.recv(100)
        accepted.settimeout(LONG_S)
        proxy.heal()
        assert accepted.recv(100) == b"meanwhile"
        with pytest.raises(ConnectionResetError):  # one side has ended: so does the other
            accepted.recv(100)
