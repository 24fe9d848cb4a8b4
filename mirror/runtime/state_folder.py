"""Keep the state folder: it belongs to one process at a time, and has the ids of its runs.

The folder may be deleted while no mirror runs.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mirror.errors import SettingsError, StreamTerminated

log = logging.getLogger("mirror")

MOST_HERE = 16  # processes on one machine that get a state folder and a metrics port without settings
_RUNS_KEPT = 16
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def keep_private() -> None:
    """Make this process and its children write files that only their owner can read.

    The files contain names of topics and groups, and the records of a tail. An existing folder keeps its permissions.
    """
    os.umask(0o077)


def is_taken(path: Path) -> bool:
    """Return whether a running mirror uses a folder."""
    try:
        with (path / "runs").open("a+") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # the folder does not exist yet, or `take` reports the error
        pass
    return False


class StateFolder:
    """A folder that belongs to this process until it ends. `run_id` names this run.

    `gone`: earlier runs with this same folder. Each of them had the lock that this process has now, so each has ended. A copy of
    the folder has another identity (`_place`), so the runs in its file do not count: one of them may still be running.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_id = 0
        self.gone: frozenset[int] = frozenset()
        self._held: IO[str] | None = None

    @classmethod
    def of_several(cls, path: Path) -> StateFolder:
        """Return the folder, or the first of "state-2", "state-3", ... that no running mirror uses."""
        candidates = [path, *(path.with_name(f"{path.name}-{n}") for n in range(2, MOST_HERE + 1))]
        free = next((one for one in candidates if not is_taken(one)), path)
        if free != path:
            log.info("mirror.state.dir: %s belongs to a running mirror; this one keeps its state in %s", path, free)
        return cls(free)

    def take(self) -> None:
        """Lock the folder for this process; raises SettingsError if it is used or unwritable."""
        keep_private()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            held = (self.path / "runs").open("a+")
        except OSError as error:
            raise SettingsError(
                f"mirror.state.dir: {self.path.absolute()} cannot be written ({error.strerror}). "
                "Name another folder, or --state-dir."
            ) from error
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held.close()
            raise SettingsError(
                f"mirror.state.dir: {self.path} belongs to a running mirror. To share its work, start this one with "
                "another folder and another address: --state-dir DIR --metrics-listen HOST:PORT."
            ) from None
        held.seek(0)
        self._held = held  # the lock lasts as long as the file is open
        before, here = _runs(held.read()), _place(held)
        self.gone = frozenset(run for run, place in before.items() if place == here)
        self.run_id = max([time.time_ns() // 1000, *(run + 1 for run in before)])
        runs = [*before.items(), (self.run_id, here)]
        held.truncate(0)
        held.write("".join(f"{run} {place}\n" for run, place in runs[-_RUNS_KEPT:]))
        held.flush()
        os.fsync(held.fileno())

    @contextmanager
    def written(self) -> Iterator[None]:
        """Raise StreamTerminated, naming the folder, if a disk error ends the block."""
        try:
            yield
        except OSError as error:
            if error.errno not in _DISK:
                raise
            raise StreamTerminated(
                f"mirror.state.dir: {self.path} cannot be written ({error.strerror}). Make room, and start kafka-mirror again."
            ) from error

    def leave(self) -> None:
        """Release the folder for another process."""
        if self._held is not None:
            self._held.close()
            self._held = None


def _runs(text: str) -> dict[int, str]:
    """Return the runs in the file, each with its place; "" in an older file."""
    lines = [line.partition(" ") for line in text.splitlines()]
    return {int(run): place for run, _, place in lines if run.isdecimal()}


def _place(file: IO[str]) -> str:
    """Return the identity of an open file and of the machine's boot; copies differ."""
    try:
        boot = _BOOT.read_text().strip()
    except OSError:
        boot = platform.node()
    found = os.fstat(file.fileno())
    return f"{boot} {found.st_dev} {found.st_ino}"
