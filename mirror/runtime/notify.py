"""Notify systemd that the process is ready, or stops: sd_notify(3). Without systemd, do nothing."""

from __future__ import annotations

import contextlib
import os
import socket

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify(state: str) -> None:
    """Send a state to the socket that systemd names in the environment."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
