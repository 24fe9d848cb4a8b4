"""Run one real Kafka broker as a child process: KRaft, one node, loopback, its data in one folder."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mirror.embedded import jars
from mirror.embedded.ports import HOST, free_port
from mirror.errors import ClusterUnavailable, MirrorError
from mirror.runtime.java import java

START_TIMEOUT_S = 120  # on a loaded two-core machine, a cold JVM took 40 s
STOP_TIMEOUT_S = 30  # a clean stop takes about 2 s
LOG_TAIL_LINES = 15
CHECKPOINT = "bootstrap.checkpoint"
LARGE_HEAP = "1g"

# Added to the broker's own value instead of replacing it: the plain listener must stay, because this process uses it.
_JOINED = ("listeners", "advertised.listeners", "listener.security.protocol.map")

# The kernel sends the signal when the thread that started the process ends. So all starts go through one thread that lives as
# long as this interpreter.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="broker-starter")

# Asks the kernel to kill the process when its parent dies (prctl 1 = PR_SET_PDEATHSIG), then executes the given program.
_TIED_TO_PARENT = (
    "import ctypes, os, sys\n"
    "parent = int(sys.argv[1])\n"
    "ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)\n"
    "if os.getppid() != parent: sys.exit(1)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


class Broker:
    """A running broker. As a context manager, it is stopped at the end, and its data stay.

    It can be stopped, killed and restarted; port, data and cluster id stay the same.
    """

    def __init__(
        self,
        *,
        name: str,
        data_dir: Path,
        port: int,
        cluster_id: str,
        heap: str,
        detached: bool,
        controller_port: int | None = None,
        node: int = 2,
        version: str = jars.KAFKA_VERSION,
        jvm_options: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.data_dir = data_dir
        self.port = port
        self.cluster_id = cluster_id
        self._heap = heap
        self._detached = detached
        self._node = node
        self._version = version
        self._jvm_options = jvm_options
        self._controller_port = controller_port  # of the broker whose cluster this broker joins
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        name: str,
        data_dir: Path,
        *,
        overrides: Mapping[str, str] | None = None,
        heap: str = "512m",
        port: int | None = None,
        detached: bool = False,
        joins: Broker | None = None,
        node: int = 2,
        version: str = jars.KAFKA_VERSION,
        jvm_options: Sequence[str] = (),
    ) -> Self:
        """Start a broker and return when it responds to a metadata request.

        Args:
            name: Its name in messages, such as "primary".
            data_dir: Its folder; created if missing. If the folder exists, data, port and cluster id stay the same.
            overrides: Broker properties. `listeners`, `advertised.listeners` and `listener.security.protocol.map`
                are added to the broker's own plain-text loopback listener; all others replace the default.
            heap: Java's -Xmx. With LARGE_HEAP the JVM also takes the time to compile hot code, as benchmarks need.
            port: Port of the plain listener; by default the port used before, or a free one.
            detached: The broker outlives this process, in a separate session. Otherwise the kernel (Linux)
                kills it when this process dies.
            joins: Become a node of this broker's cluster, which keeps the controller, instead of starting a separate cluster.
            node: Node id in the joined cluster.
            version: Version of Kafka.
            jvm_options: Additional options of Java.

        Raises:
            ClusterUnavailable: The broker ended, or did not respond in time; the message has the end of its log.
        """
        data_dir = data_dir.absolute()
        data_dir.mkdir(parents=True, exist_ok=True)
        used = read_properties(data_dir / "server.properties")
        port = port or int(used.get("mirror.port", 0)) or free_port()
        cluster_id = read_properties(data_dir / "data" / "meta.properties").get("cluster.id")
        broker = cls(
            name=name,
            data_dir=data_dir,
            port=port,
            cluster_id=joins.cluster_id if joins else cluster_id or _new_cluster_id(),
            heap=heap,
            detached=detached,
            controller_port=joins.controller_port if joins else None,
            node=node,
            version=version,
            jvm_options=jvm_options,
        )
        broker._write_config(overrides or {})
        if cluster_id is None:
            broker._format()
        try:
            broker._launch()
        except BaseException:
            broker.kill()
            raise
        return broker

    @property
    def bootstrap(self) -> str:
        """The plain-text address for clients, `127.0.0.1:port`."""
        return f"{HOST}:{self.port}"

    @property
    def controller_port(self) -> int:
        """Port of the controller in this process."""
        return int(read_properties(self.data_dir / "server.properties")["controller.quorum.voters"].rpartition(":")[2])

    @property
    def version(self) -> str:
        """Kafka's."""
        return self._version

    @property
    def pid(self) -> int:
        """Process id of the broker."""
        if self._process is None:
            raise MirrorError(f"{self.name} was never started.")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True while the process exists; it may be paused, or not respond."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        """The output of all starts of the broker."""
        return self.data_dir / "broker.log"

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the broker with SIGTERM, or kill it if that takes too long. Does nothing if it has stopped."""
        if self._process is None:
            return
        if self.is_running:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        """Kill the broker with SIGKILL, like a power failure. Does nothing if it has stopped."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Restart the broker on the same port with the same data; start it if stopped."""
        self.stop()
        self._launch()

    def pause(self) -> None:
        """Freeze the broker with SIGSTOP: connections stay open without responses. `resume` ends that."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a frozen broker (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write_config(self, overrides: Mapping[str, str]) -> None:
        properties = _defaults(self.data_dir / "data", self.port, self._controller_port or free_port())
        if self._controller_port:
            properties |= {
                "process.roles": "broker",
                "node.id": str(self._node),
                "listeners": properties["advertised.listeners"],
            }
        for key, value in overrides.items():
            properties[key] = f"{properties[key]},{value}" if key in _JOINED else value
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        (self.data_dir / "server.properties").write_text(lines)

    def _format(self) -> None:
        """Write the first metadata of the storage, like `kafka-storage.sh format`.

        The tool runs once per version of Kafka: clusters differ only in their ids, and the tool's JVM takes a third of a broker's
        start.
        """
        folder = jars.resolve(version=self._version)
        kept = folder.with_name(f"{folder.name}.{CHECKPOINT}")
        data = self.data_dir / "data"
        if kept.is_file():
            data.mkdir()
            shutil.copyfile(kept, data / CHECKPOINT)
            node = self._node if self._controller_port else 1
            ids = {"version": 1, "cluster.id": self.cluster_id, "node.id": node, "directory.id": _new_cluster_id()}
            (data / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in ids.items()))
            return
        self._format_by_its_tool()
        if (data / CHECKPOINT).is_file():  # Kafka before 3.3 has none
            partial = kept.with_name(f"{kept.name}.{self.cluster_id}")  # others may be formatted at the same time
            shutil.copyfile(data / CHECKPOINT, partial)
            partial.replace(kept)

    def _format_by_its_tool(self) -> None:
        tool = [*_java("128m", self._version), "kafka.tools.StorageTool", "format", "--cluster-id", self.cluster_id]
        tool += ["--config", str(self.data_dir / "server.properties"), "--ignore-formatted"]
        done = subprocess.run(tool, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise ClusterUnavailable(f"{self.name}: its storage could not be formatted:\n{done.stdout.strip()}")

    def _launch(self) -> None:
        command = [
            *_java(self._heap, self._version, self._jvm_options),
            "kafka.Kafka",
            str(self.data_dir / "server.properties"),
        ]
        if not self._detached and sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _TIED_TO_PARENT, str(os.getpid()), *command]
        with self.log.open("ab") as log:
            self._process = _starter.submit(
                subprocess.Popen,
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.data_dir,
                start_new_session=True,  # Ctrl-C reaches only this process, which stops the broker cleanly
            ).result()
        self._await_ready()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _is_listening(self.port):
            self._check_starting(deadline)
            time.sleep(0.1)
        # The empty callback and log level keep librdkafka from printing each refused attempt.
        options: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "log_level": 0, "error_cb": lambda _: None}
        admin = AdminClient(options)
        while True:
            self._check_starting(deadline)
            with contextlib.suppress(KafkaException):
                if admin.list_topics(timeout=2).brokers:
                    return
            time.sleep(0.1)

    def _check_starting(self, deadline: float) -> None:
        if not self.is_running:
            raise ClusterUnavailable(f"{self.name} ended while starting (log: {self.log}):\n{self._log_tail()}")
        if time.monotonic() > deadline:
            raise ClusterUnavailable(
                f"{self.name} did not answer on {self.bootstrap} within {START_TIMEOUT_S} s "
                f"(log: {self.log}):\n{self._log_tail()}"
            )

    def _log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-LOG_TAIL_LINES:]) or "(its log is empty)"


def read_properties(path: Path) -> dict[str, str]:
    """Return the entries of a properties file; empty if the file does not exist."""
    if not path.exists():
        return {}
    lines = (line.partition("=") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in lines if key.strip()}


def _defaults(data: Path, port: int, controller_port: int) -> dict[str, str]:
    """Return the properties of a small single-node cluster without start delays."""
    return {
        "mirror.port": str(port),  # our own key, so that the next start finds the port; Kafka ignores it
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
        "auto.create.topics.enable": "true",  # as on most clusters: even so, deleted topics must stay deleted
        "num.partitions": "1",
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.ms": "-1",  # demo and test data never expires by age
        # After a kill, the controller rejects the broker until its old session has ended (Kafka's default: 9 s).
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "1000",
        "metadata.max.idle.interval.ms": "0",  # no empty record each half second: a third less CPU time while idle
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),  # the default 128 MB is a quarter of our heap
    }


def _java(heap: str, version: str, more: Sequence[str] = ()) -> list[str]:
    """Return the first part of a Java command: little memory, no console output below WARN."""
    options = [f"-Xmx{heap}", "-XX:+UseSerialGC", *more]
    if archive := jars.class_archive(version=version).use_option():
        options.append(archive)
    if heap != LARGE_HEAP:
        options.append("-XX:TieredStopAtLevel=1")  # half the CPU time of a broker that starts, or does little
    return [
        java(),
        *options,
        "-Djava.awt.headless=true",
        "-Dlog4j2.level=WARN",
        "-cp",
        jars.classpath(jars.resolve(version=version)),
    ]


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def _new_cluster_id() -> str:
    """Return a random id in Kafka's notation: 16 bytes, base64 for URLs, no padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # a leading dash would read as an option of the storage tool
            return text
