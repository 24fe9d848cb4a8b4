"""Choose loopback ports for servers, each port for only one caller."""

from __future__ import annotations

import contextlib
import random
import socket

from mirror.errors import MirrorError

HOST = "127.0.0.1"

# Below Linux's and macOS' ephemeral ranges: no client's outgoing port takes a broker's port while the broker restarts, and no
# client that retries on loopback connects to itself.
PORTS = range(20_000, 32_000)

_held: list[socket.socket] = []  # until this process ends: a server may start seconds after its port was chosen


def free_port() -> int:
    """Return an unused loopback port. No other caller gets it, in this process or another.

    The port stays bound until this process ends. That keeps out sockets without SO_REUSEADDR (like the ones with which this
    function tries ports), and lets in servers, which set it.

    Raises:
        MirrorError: No port was free.
    """
    for _ in range(1000):
        holder = socket.socket()
        with contextlib.suppress(OSError):
            holder.bind((HOST, port := random.choice(PORTS)))  # noqa: S311 - no secret
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _held.append(holder)
            return port
        holder.close()
    raise MirrorError(f"no free port on {HOST} between {PORTS.start} and {PORTS.stop}.")
