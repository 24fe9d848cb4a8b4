"""Keep the class-data archive of a JVM. With it, the JVM starts in half the time.

If there is no archive, the JVM of a run writes one at its end, and later runs map the file. If writing does not finish in time,
as on a busy machine, it is tried again an hour later: writing costs more than one start saves. The file name depends on the Java
and the jars, so an upgrade creates a new archive. The JVM itself ignores an archive of another JVM.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

JVM_END_S = 20.0  # how long a stop waits for the JVM, which writes the archive when it ends
ASKED_FOR_S = 300.0  # the same, if the only purpose of the run is the archive
ABANDONED_S = 3600.0  # a partial file of this age belongs to a process that was killed, or had too little time


class ClassArchive:
    """One archive in a folder, for a Java program and the jars of one program."""

    def __init__(self, folder: Path, java: str, name: str, jars: Path, *, is_asked_for: bool = False) -> None:
        """Describe the archive.

        Args:
            folder: The folder of the archives.
            java: Path of the Java program.
            name: Start of the file name: the program of the jars, with its version.
            jars: The folder of the jars.
            is_asked_for: Write it even if the last attempt was less than an hour ago.
        """
        self._is_asked_for = is_asked_for
        self._has_base = (_home(java) / "lib" / "server" / "classes.jsa").is_file()
        self._path = folder / f"{name}-{_fingerprint(java, jars)}.jsa"
        self._partial = self._path.with_suffix(f".{os.getpid()}.partial")

    @property
    def jvm_end_s(self) -> float:
        """How long to wait for the end of the JVM."""
        return ASKED_FOR_S if self._is_asked_for else JVM_END_S

    @property
    def is_there(self) -> bool:
        """True if the archive exists, so that the JVM maps it."""
        return self._path.is_file()

    def use_option(self) -> str:
        """Return the option that uses the archive, "" if there is none."""
        return f"-XX:SharedArchiveFile={self._path}" if self.is_there else ""

    def jvm_option(self) -> str:
        """Return the options that use or write the archive.

        Return "" if the folder is read-only, or if Java lacks its base archive, as after jlink: the JVM would not start.
        """
        if option := self.use_option():
            return option
        if not self._has_base:
            return ""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for other in self._path.parent.glob("*.partial"):
                if time.time() - other.stat().st_mtime > ABANDONED_S:
                    other.unlink(missing_ok=True)
            is_tried = any(self._path.parent.glob(f"{self._path.stem}.*.partial"))
        except OSError:
            return ""
        if not os.access(self._path.parent, os.W_OK) or (is_tried and not self._is_asked_for):
            return ""
        # The JVM would log each class that cannot be archived, and why. An operator cannot change that.
        return f"-XX:ArchiveClassesAtExit={self._partial} -Xlog:cds=off -Xlog:cds+dynamic=off"

    def keep(self) -> None:
        """Give the JVM's file its final name after a clean end of the JVM: no run maps half an archive."""
        if self._partial.is_file():
            self._partial.replace(self._path)


def _home(java: str) -> Path:
    return Path(java).resolve().parents[1]


def _fingerprint(java: str, jars: Path) -> str:
    """Return a short name for this Java and these jars. If they are changed in place, the JVM refuses the archive."""
    program = Path(java).resolve()
    modules = _home(java) / "lib" / "modules"
    stamp = modules.stat().st_mtime_ns if modules.is_file() else 0
    installed = jars.stat().st_mtime_ns if jars.is_dir() else 0  # changes when the jars are installed again
    return hashlib.sha256(f"{program} {stamp} {jars} {installed}".encode()).hexdigest()[:12]
