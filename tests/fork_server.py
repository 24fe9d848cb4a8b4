"""Fork `kafka-mirror` processes from one that has loaded everything: `python -m tests.fork_server DESCRIPTOR`.

pytest starts one server and talks to it over a socket. A request is a pickled `Request` and a connection, on which the server
sends the new process' id, and its exit code when it has ended. The server ends with its client, and its processes with it.

multiprocessing's own fork server is no alternative: it runs `__main__` in each process, which Streamlit's tests replace.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import pickle
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
LOADED = (
    "tests.engine",
    "tests.soak.hooks.sitecustomize",
    "mirror.commands.run",
    "mirror.commands.classic",
    "mirror.commands.lag",
    "mirror.commands.plan",
    "mirror.commands.positions",
    "mirror.commands.switch",
)
LARGEST = 1 << 17  # of a request, which holds an environment
NUMBER = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class Request:
    """What to run, in which folder and environment, and the files that its output and errors are appended to."""

    arguments: Sequence[str]
    folder: Path
    out: Path
    errors: Path
    environment: Mapping[str, str]


class ForkServer:
    """The client's side."""

    def __init__(self) -> None:
        """Start the server."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def fork(self, request: Request) -> socket.socket:
        """Start a process; return the connection on which its id and its exit code arrive."""
        own, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [pickle.dumps(request)], [theirs.fileno()])
        return own

    def close(self) -> None:
        """End the server and all processes that still run."""
        self._control.close()
        self._process.wait()


def serve(control: socket.socket) -> None:
    """Fork on request until the client is gone; then end what still runs."""
    woken, wakes = socket.socketpair()
    for each in (woken, wakes):
        each.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    clients: dict[int, socket.socket] = {}  # by process id
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if woken in ready:
                woken.recv(4096)
                _report_ended(clients)
            if control in ready:
                message, descriptors, _, _ = socket.recv_fds(control, LARGEST, 1)
                if not message:
                    break
                client = socket.socket(fileno=descriptors[0])
                if (pid := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for each in (control, woken, wakes, client, *clients.values()):
                        each.close()
                    _become(pickle.loads(message))
                clients[pid] = client
                client.sendall(NUMBER.pack(pid))
    for pid in clients:
        os.kill(pid, signal.SIGTERM)


def _report_ended(clients: dict[int, socket.socket]) -> None:
    for pid in list(clients):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with clients.pop(pid) as client, contextlib.suppress(OSError):  # the client may not care
                client.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(request: Request) -> NoReturn:
    from tests.engine import run_command

    run_command(request)


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    # The class that pickles know is that of `tests.fork_server`, not of this `__main__`.
    served = importlib.import_module("tests.fork_server")
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the pages that all share
    served.serve(socket.socket(fileno=int(sys.argv[1])))
