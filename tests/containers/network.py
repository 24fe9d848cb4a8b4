"""Give each container a network namespace and an address, as a bridge network of Docker does."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from tests.containers.podman import run

_BRIDGE = f"km{os.getpid()}"


@contextlib.contextmanager
def network(names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Connect a namespace for each name to one bridge; yield the addresses by name."""
    block = f"10.214.{os.getpid() % 256}"
    addresses = {name: f"{block}.{number}" for number, name in enumerate(names, start=2)}
    try:
        run("ip", "link", "add", _BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{block}.1/24", "dev", _BRIDGE)
        run("ip", "link", "set", _BRIDGE, "up")
        for number, (name, address) in enumerate(addresses.items()):
            _connect(namespace_of(name), address, f"{_BRIDGE}x{number}")
        yield addresses
    finally:
        for name in names:
            run("ip", "netns", "del", namespace_of(name), check=False)
        run("ip", "link", "del", _BRIDGE, check=False)


def namespace_of(name: str) -> str:
    """Return the namespace of a container's name."""
    return f"{_BRIDGE}-{name}"


def options(name: str, addresses: dict[str, str]) -> list[str]:
    """Return podman's options for a container in the network; it resolves the names of all others."""
    hosts = [f"--add-host={other}:{address}" for other, address in addresses.items()]
    return [f"--network=ns:/run/netns/{namespace_of(name)}", f"--hostname={name}", *hosts]


def _connect(namespace: str, address: str, near: str) -> None:
    run("ip", "netns", "add", namespace)
    run("ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    run("ip", "link", "set", near, "master", _BRIDGE)
    run("ip", "link", "set", near, "up")
    run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
    for device in ("eth0", "lo"):
        run("ip", "-n", namespace, "link", "set", device, "up")
