"""A cable that can be pulled: a network namespace behind a veth pair, where packets vanish and no connection hears of it."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

_NEW_NETWORK = 0x40000000  # setns(2): CLONE_NEWNET
_PREFIX = "kafka-mirror-"  # of namespaces, followed by the process that has made them
_numbers = count()


@dataclass(frozen=True, slots=True)
class Cable:
    """`host` is the address at its far end."""

    namespace: str
    host: str

    def pull(self) -> None:
        """Let no packet through, and tell nobody."""
        _ip("-n", self.namespace, "link", "set", "far", "down")

    def plug_in(self) -> None:
        """Let packets through again."""
        _ip("-n", self.namespace, "link", "set", "far", "up")

    def listener(self, port: int) -> socket.socket:
        """Return a socket that listens at the far end."""
        made: list[socket.socket] = []

        def make() -> None:  # in a thread: each has a network namespace of its own
            with Path(f"/run/netns/{self.namespace}").open() as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _NEW_NETWORK):
                    raise OSError(ctypes.get_errno(), f"cannot enter {self.namespace}")
            made.append(socket.create_server((self.host, port)))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]


def is_possible() -> bool:
    """Tell whether this process may lay cables: as root on Linux, with Debian's iproute2."""
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("ip") is not None


@contextmanager
def cable() -> Iterator[Cable]:
    """Lay one; at the end it is gone, with all connections over it."""
    _clear_away()
    number = next(_numbers)
    name, near = f"{_PREFIX}{os.getpid()}-{number}", f"km{os.getpid()}x{number}"
    # A network of its own for each process and cable, of four addresses.
    block = ((os.getpid() * 16 + number % 16) % (1 << 14)) << 2
    hosts = [f"10.213.{(block + n) >> 8}.{(block + n) & 255}" for n in (1, 2)]
    _ip("netns", "add", name)
    try:
        _ip("link", "add", near, "type", "veth", "peer", "name", "far", "netns", name)
        _ip("addr", "add", f"{hosts[0]}/30", "dev", near)
        _ip("link", "set", near, "up")
        _ip("-n", name, "addr", "add", f"{hosts[1]}/30", "dev", "far")
        _ip("-n", name, "link", "set", "far", "up")
        # As from behind a router: the kernel does not learn that nobody is there, and goes on sending.
        address = json.loads(_ip("-n", name, "-j", "link", "show", "far"))[0]["address"]
        _ip("neigh", "replace", hosts[1], "lladdr", address, "nud", "permanent", "dev", near)
        yield Cable(name, hosts[1])
    finally:
        _ip("netns", "del", name)  # the pair goes with it


def _clear_away() -> None:
    """Remove the cables of processes that were killed."""
    for line in _ip("netns", "list").splitlines():
        owner = line.split()[0].removeprefix(_PREFIX).partition("-")[0]
        if line.startswith(_PREFIX) and not Path(f"/proc/{owner}").exists():
            # Another worker may find the same one and be faster.
            subprocess.run(["ip", "netns", "del", line.split()[0]], check=False, stderr=subprocess.DEVNULL)


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout
