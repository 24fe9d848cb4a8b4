"""Start `kafka-mirror` commands as processes: forked from a process that has loaded everything, or with a new Python.

A fork begins in 10 ms and costs no imports; a new Python takes half a second of a core. Both have their own signals, exit code,
environment and folder. The command line in /proc of a fork is the fork server's.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.fork_server import NUMBER, ForkServer, Request

WITHIN_S = 300.0
STARTS_WITHIN_S = 60.0  # of which the fork server needs two to load everything


class Running(Protocol):
    """A started process; the part of subprocess.Popen that tests use."""

    @property
    def pid(self) -> int:
        """The process id."""

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; raises subprocess.TimeoutExpired."""

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing if it has ended."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""


class Forked:
    """A process of the fork server."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._code: int | None = None
        self._lock = threading.Lock()  # one thread at a time may read the exit code
        connection.settimeout(STARTS_WITHIN_S)
        self.pid = self._number()

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; raises subprocess.TimeoutExpired."""
        with self._lock:
            if self._code is None:
                self._connection.settimeout(timeout)
                try:
                    self._code = self._number()
                except (TimeoutError, BlockingIOError):
                    raise subprocess.TimeoutExpired("kafka-mirror", timeout or 0.0) from None
                self._connection.close()
            return self._code

    def _number(self) -> int:
        """Return the next number that the server sends: the id, then the exit code. A message is whole or not there."""
        message = self._connection.recv(NUMBER.size)
        if not message:
            raise RuntimeError("the fork server has ended")
        (number,) = NUMBER.unpack(message)
        return int(number)

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing if it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _server() -> ForkServer:
    return ForkServer()


def fork(arguments: Sequence[str], *, folder: Path, out: Path, errors: Path, environment: Mapping[str, str]) -> Forked:
    """Start `kafka-mirror ARGUMENTS`, which appends its output and errors to files."""
    return Forked(_server().fork(Request(list(arguments), folder, out, errors, dict(environment))))


def start(
    arguments: Sequence[str], *, folder: Path, out: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start `kafka-mirror ARGUMENTS` with a new Python; output and errors go to one file."""
    with out.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "mirror.cli", *arguments], stdout=log, stderr=log, cwd=folder, env=dict(environment)
        )


def kafka_mirror(
    *arguments: object,
    check: bool = False,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    within_s: float = WITHIN_S,
) -> subprocess.CompletedProcess[str]:
    """Run `kafka-mirror ARGUMENTS` to its end; return its exit code, output and errors.

    Raises:
        subprocess.TimeoutExpired: it does not end in time; it is killed then.
        subprocess.CalledProcessError: `check` is set and the exit code is not 0.
    """
    words = [str(one) for one in arguments]
    with tempfile.TemporaryDirectory() as name:
        out, errors = Path(name) / "out", Path(name) / "errors"
        running = fork(
            words, folder=folder or Path.cwd(), out=out, errors=errors, environment=environment or os.environ
        )
        try:
            code = running.wait(within_s)
        finally:
            running.kill()
            running.wait(STARTS_WITHIN_S)
        done = subprocess.CompletedProcess(["kafka-mirror", *words], code, out.read_text(), errors.read_text())
        if check and code != 0:
            print(done.stdout, done.stderr, sep="\n")
            done.check_returncode()
        return done
