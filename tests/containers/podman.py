"""Run containers with podman, without systemd and without a registry."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("podman", "buildah", "runc", "mmdebstrap", "ip")
# crun refuses hybrid cgroups; the limits are below those of a container that starts others.
RUN = ("--runtime", "runc", "--ulimit", "nofile=20000:20000", "--ulimit", "nproc=4096:4096")
HOST = ("--network", "host")
STARTS_WITHIN_S = 180.0


def missing() -> str:
    """Return why containers cannot be started on this machine, "" if they can."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"{', '.join(absent)} not installed"
    return "" if os.geteuid() == 0 else "not root"


def run(*command: object, check: bool = True) -> str:
    """Run a program in the clone; return its output.

    Raises:
        AssertionError: it fails; the message has its output.
    """
    done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True)
    assert not check or done.returncode == 0, f"{command}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@dataclass(frozen=True, slots=True)
class Container:
    """A started container; a context manager that removes it."""

    name: str

    @classmethod
    def start(cls, name: str, image: str, options: Sequence[object], command: Sequence[object]) -> Container:
        """Start a container in the background. A container with the same name is removed first."""
        run("podman", "rm", "-f", "-t", 0, name, check=False)
        run("podman", "run", "-d", "--name", name, *RUN, *options, image, *command)
        return cls(name)

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        run("podman", "rm", "-f", "-v", "-t", 30, self.name, check=False)

    def state(self) -> dict[str, Any]:
        """Return podman's description of its state."""
        (found,) = json.loads(run("podman", "inspect", self.name))
        return dict(found["State"])

    def is_running(self) -> bool:
        """Return whether its process runs."""
        return bool(self.state()["Running"])

    def is_healthy(self) -> bool:
        """Run its health check once. Without systemd, podman does not run it by itself."""
        return subprocess.run(["podman", "healthcheck", "run", self.name], capture_output=True).returncode == 0

    def logs(self) -> str:
        """Return its output and errors."""
        done = subprocess.run(
            ["podman", "logs", self.name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.stdout

    def inside(self, *command: object) -> str:
        """Run a program inside; return its output."""
        return run("podman", "exec", self.name, *command)

    def stop(self, grace_s: int) -> tuple[int, float]:
        """Stop it as a container engine does; return its exit code and the seconds that it took."""
        began = time.monotonic()
        run("podman", "stop", "-t", grace_s, self.name)
        return int(self.state()["ExitCode"]), time.monotonic() - began

    def start_again(self) -> None:
        """Start it with the same root file system and volumes."""
        run("podman", "start", self.name)
