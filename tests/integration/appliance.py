"""Run the appliance as a user does, as a process, and look at both clusters and its metrics."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from mirror.embedded.ports import free_port
from tests import processes
from tests.fork_server import ROOT
from tests.waiting import eventually

START_WITHIN_S = 180  # of which Spark needs ten on a quiet machine
LINES_SHOWN = 60  # of the log, if a test fails
WINDOW_S = 2.0  # of each window
WORKER = "km-worker"  # the name of a forked worker, as /proc shows it
# On an overloaded machine, a lane completes no window for a minute, or Spark's Python process needs more than the ten
# seconds that Spark waits for it. The lane is then started again.
STARVED = re.compile(
    r"^.* ERROR .*has completed no window for.*\n"
    r"|^.* ERROR +lane \d ended: Python worker failed to connect back\.; started again.*\n"
    r"|^.* ERROR .* terminated with error\norg\.apache\.spark\.SparkException: Python worker failed to connect back\.\n"
    r"|^Traceback \(most recent call last\):\n(?:  .*\n)+.*\[CANNOT_OPEN_SOCKET\].*\n",
    re.MULTILINE,
)


class Engine(Enum):
    """What runs the windows: the product's Spark, or forked processes (tests/engine.py)."""

    SPARK = "spark"
    LOCAL = "local"


class RunningAppliance:
    """`kafka-mirror run` on a file written for two clusters; a context manager that stops it with SIGTERM.

    `engine` is of the class: pytest sets it before each test (tests/conftest.py); soak and benchmarks run on Spark.
    """

    engine = Engine.SPARK

    def __init__(self, folder: Path, *, primary: str, backup: str, topics: str, extra: str = "") -> None:
        self.port = free_port()
        self.log = folder / "appliance.log"
        self.file = folder / "connect-mirror-maker.properties"
        self.file.write_text(
            f"""clusters = primary, backup
primary.bootstrap.servers = {primary}
backup.bootstrap.servers = {backup}
primary->backup.enabled = true
primary->backup.topics = {topics}
replication.factor = 1
tasks.max = 2
refresh.topics.interval.seconds = 1
sync.topic.configs.enabled = false
sync.topic.acls.enabled = false
emit.checkpoints.enabled = false
emit.heartbeats.enabled = false
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
heartbeats.replication.enabled = false
mirror.metrics.listen = 127.0.0.1:{self.port}
mirror.state.dir = {folder / "state"}
mirror.window.ms = {WINDOW_S * 1000:.0f}
mirror.poll.interval.ms = 500
{extra}
"""
        )
        self.arguments = ["run", str(self.file)]
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process: processes.Running | None = None
        self.engine = type(self).engine  # for its life: a restart is on the same one

    def call_source(self, alias: str) -> Self:
        """Give the source another alias: the flow, its groups and internal topics are this test's alone."""
        self.file.write_text(self.file.read_text().replace("primary", alias))
        return self

    def __enter__(self) -> Self:
        return self.start()

    def launch(self) -> processes.Running:
        """Start it and wait for nothing."""
        folder = self.file.parent
        if self.engine is Engine.SPARK:
            self.process = processes.start(self.arguments, folder=folder, out=self.log, environment=self.environment)
        else:
            self.log.touch()
            self.process = processes.fork(
                self.arguments, folder=folder, out=self.log, errors=self.log, environment=self.environment
            )
        return self.process

    def start(self) -> Self:
        started = self.launch()
        eventually(
            lambda: started.poll() is not None or self.is_ready(),
            within_s=START_WITHIN_S,
            because="the process starts its engine and lanes",
        )
        assert started.poll() is None, self.log.read_text()
        return self

    def logged(self) -> str:
        """Return the log, without the lines of an overloaded machine. These lines, and no others, may be in any log."""
        return STARVED.sub("", self.log.read_text())

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError as refused:  # URLError is one, and so is a connection that ends with the process
            if isinstance(refused, urllib.error.HTTPError):
                refused.close()
            return False

    def exposition(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=15) as answer:
            return str(answer.read().decode())

    def value(self, name: str, *, topic: str, partition: int | None) -> float | None:
        """Return the value of a topic-partition's series, or of a topic's, None when it is not exposed."""
        place = "" if partition is None else rf'(?=.*partition="{partition}")'
        pattern = rf'^{name}{{{place}(?=.*topic="{re.escape(topic)}").*}} (\S+)$'
        found = re.search(pattern, self.exposition(), re.MULTILINE)
        return float(found[1]) if found else None

    def gauge(self, name: str) -> float | None:
        """Return the value of a family with one series, that of a flow, None when it is not exposed."""
        found = re.search(rf"^{name}{{[^}}]*}} (\S+)$", self.exposition(), re.MULTILINE)
        return float(found[1]) if found else None

    def served(self, short: str, **labels: str) -> list[float]:
        """Return the values of the series of one of our families that have these labels."""
        where = "".join(f'(?=.*{label}="{value}")' for label, value in labels.items())
        found = re.findall(rf"^kafka_mirror_{short}{{{where}.*}} (\S+)$", self.exposition(), re.MULTILINE)
        return [float(value) for value in found]

    def total(self, name: str) -> float:
        """Return the sum over all series of a family."""
        return sum(map(float, re.findall(rf"^{name}{{[^}}]*}} (\S+)$", self.exposition(), re.MULTILINE)))

    def slots(self) -> float | None:
        """How many slots of its flow it serves."""
        return self.gauge("kafka_mirror_slots_owned")

    def tree(self) -> list[int]:
        """Its process and all below."""
        assert self.process is not None
        return list(dict.fromkeys([self.process.pid, *descendants(self.process.pid), *self.workers()]))

    def workers(self) -> list[int]:
        """The processes that replicate, also if Spark goes on with them after the daemon that forked them was killed."""
        if self.engine is Engine.LOCAL:
            assert self.process is not None
            return [pid for pid in descendants(self.process.pid) if _name_of(pid) == WORKER]
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes().rstrip(b"\0")
                if command.endswith(b"pyspark.worker") and (folder / "cwd").readlink() == self.file.parent:
                    found.append(int(folder.name))
        return found

    def jvm(self) -> int:
        """Spark's."""
        assert self.process is not None
        (found,) = [pid for pid, command in descendants(self.process.pid).items() if "SparkSubmit" in command]
        return found

    def refresh(self) -> None:
        """SIGHUP: look for topics now."""
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> tuple[int, float]:
        """SIGTERM; return exit code and seconds it took."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(180), time.monotonic() - began

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP to it and all below, SIGCONT at the end."""
        asleep = self.tree()
        signal_all(asleep, signal.SIGSTOP)
        try:
            yield
        finally:
            signal_all(asleep, signal.SIGCONT)

    def kill_all(self) -> None:
        """SIGKILL to it and all below."""
        assert self.process is not None
        signal_all(self.tree(), signal.SIGKILL)
        self.process.wait(60)

    def kill(self) -> None:
        """SIGKILL to the driver alone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is not None:  # pytest shows it beside the failure
            print(self.log, *self.log.read_text().splitlines()[-LINES_SHOWN:], sep="\n")

    def close(self) -> None:
        """Stop it if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.stop()


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants(pid: int) -> dict[int, str]:
    """All processes below `pid`, with their command lines; those that end meanwhile are left out."""
    found: dict[int, str] = {}
    try:
        children = [int(n) for task in Path(f"/proc/{pid}/task").iterdir() for n in _children(task)]
    except (FileNotFoundError, ProcessLookupError):
        return found
    for child in children:
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found |= {child: command, **descendants(child)}
    return found


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _children(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
