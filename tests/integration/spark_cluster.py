"""A standalone Spark cluster of PySpark's own jars: a master and workers, each a process on loopback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from mirror.embedded.ports import HOST, free_port
from tests.waiting import eventually

HOME = Path(pyspark.__file__).parent


class SparkCluster:
    """Its `url` is what spark.master is to be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.url = f"spark://{HOST}:{self._port}"
        self._start("master", "-h", HOST, "-p", str(self._port), "--webui-port", "0")
        self._await("master", "I have been elected leader")

    def worker(self, *, cores: int) -> subprocess.Popen[bytes]:
        """Start a worker; return it when the master has it."""
        name = f"worker-{len(self._processes)}"
        arguments = ("-h", HOST, "-c", str(cores), "-m", "1g", "-d", str(self._folder / name), "--webui-port", "0")
        worker = self._start(name, *arguments, self.url)
        self._await(name, "Successfully registered with master")
        self.workers.append(worker)
        return worker

    def stop(self) -> None:
        """End all of them."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(120)

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        kind = name.partition("-")[0]
        command = [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}.{kind.capitalize()}", *arguments]
        environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"}
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self._folder)
        self._processes.append(process)
        return process

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _await(self, name: str, line: str) -> None:
        eventually(
            lambda: line in self._log(name).read_text(), within_s=60, because=f"Spark's {name} starts", every_s=0.2
        )


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Start a master; its workers end with it."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = SparkCluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()
