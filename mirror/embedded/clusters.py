"""Start and stop a pair of local clusters, primary and backup, that outlive their command."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from mirror.embedded import jars
from mirror.embedded.broker import STOP_TIMEOUT_S, Broker

NAMES = ("primary", "backup")
STATE_FILE = "clusters.json"
PROPERTIES_FILE = "connect-mirror-maker.properties"

Progress = Callable[[str], None]

# Brokers that this process started and left running. They are kept so that this process can reap them if it also ends them.
_left_running: list[Broker] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    """A running local cluster."""

    name: str
    bootstrap: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalClusters:
    """The pair of clusters, and the settings file that mirrors one to the other."""

    primary: LocalCluster
    backup: LocalCluster
    properties: Path


def up(folder: Path, progress: Progress = print) -> LocalClusters:
    """Start both clusters, or find them running. Data and ports in `folder` are used again.

    Raises:
        ClusterUnavailable: A cluster did not start; then neither cluster runs.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    jars.resolve(progress)
    running = {cluster.name: cluster for cluster in _read(folder) if _is_ours(cluster, folder)}
    with ThreadPoolExecutor(max_workers=len(NAMES)) as pool:
        starting = [pool.submit(_start, name, folder) for name in NAMES if name not in running]
    try:
        for start in starting:
            cluster = start.result()
            running[cluster.name] = cluster
    finally:
        _write(folder, list(running.values()))
        if len(running) < len(NAMES):
            down(folder, progress=lambda _: None)
    pair = LocalClusters(
        primary=running["primary"], backup=running["backup"], properties=_write_properties(folder, running)
    )
    for name in NAMES:
        progress(f"{name} is at {running[name].bootstrap} (pid {running[name].pid})")
    progress(f"settings to mirror primary to backup: {pair.properties}")
    return pair


def down(folder: Path, progress: Progress = print) -> None:
    """Stop only the clusters that `up` started in this folder. Their data stay."""
    folder = folder.absolute()
    clusters = [cluster for cluster in _read(folder) if _is_ours(cluster, folder)]
    for cluster in clusters:
        with contextlib.suppress(ProcessLookupError):
            os.kill(cluster.pid, signal.SIGTERM)
    for cluster in clusters:
        if not _ends_in_time(cluster.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(cluster.pid, signal.SIGKILL)
            _ends_in_time(cluster.pid)
        progress(f"{cluster.name} at {cluster.bootstrap} has stopped")
    if not clusters:
        progress(f"no cluster runs from {folder}")
    (folder / STATE_FILE).unlink(missing_ok=True)


def _start(name: str, folder: Path) -> LocalCluster:
    broker = Broker.start(name, folder / name, detached=True)
    _left_running.append(broker)
    return LocalCluster(name=name, bootstrap=broker.bootstrap, pid=broker.pid)


def _read(folder: Path) -> list[LocalCluster]:
    path = folder / STATE_FILE
    if not path.exists():
        return []
    return [LocalCluster(**cluster) for cluster in json.loads(path.read_text())]


def _write(folder: Path, clusters: list[LocalCluster]) -> None:
    text = json.dumps([asdict(cluster) for cluster in clusters], indent=2)
    (folder / STATE_FILE).write_text(text + "\n")


def _write_properties(folder: Path, clusters: dict[str, LocalCluster]) -> Path:
    """Write the settings file; keep one with the right addresses, which users may have changed."""
    path = folder / PROPERTIES_FILE
    addresses = {name: f"{name}.bootstrap.servers = {clusters[name].bootstrap}" for name in NAMES}
    if path.exists() and all(line in path.read_text() for line in addresses.values()):
        return path
    path.write_text(_PROPERTIES.format(**addresses))
    return path


# Kafka's own connect-mirror-maker.sh can use this file too, for a comparison.
_PROPERTIES = """\
clusters = primary, backup
{primary}
{backup}

primary->backup.enabled = true
primary->backup.topics = .*
backup->primary.enabled = false

refresh.topics.interval.seconds = 5
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 5
emit.checkpoints.interval.seconds = 5
emit.heartbeats.interval.seconds = 1

# One broker per cluster.
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
"""


def _is_ours(cluster: LocalCluster, folder: Path) -> bool:
    """Return whether the process is the broker that we started: the system may have reused its pid."""
    if not _is_running(cluster.pid):
        return False
    command = Path(f"/proc/{cluster.pid}/cmdline")
    if not command.exists():  # no /proc on this system
        return True
    return str(folder / cluster.name / "server.properties") in command.read_bytes().decode(errors="replace")


def _is_running(pid: int) -> bool:
    for broker in _left_running:
        if broker.pid == pid:
            return broker.is_running
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _ends_in_time(pid: int) -> bool:
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while _is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
