"""Start Spark: the session, and the streaming queries that are the lanes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import collect_list, struct
from pyspark.sql.streaming.readwriter import DataStreamWriter

from mirror.errors import SettingsError, StreamTerminated
from mirror.model.flow_plan import window_at
from mirror.runtime.state_folder import StateFolder
from mirror.spark.checkpoint_source import NAME as CHECKPOINTS
from mirror.spark.checkpoint_source import CheckpointSource
from mirror.spark.class_archive import ClassArchive
from mirror.spark.replication_source import NAME, ReplicationSource

OBSERVED = "replication"
OBSERVED_CHECKPOINTS = "checkpoints"
JVM_END_S = 20.0  # at its end the first one writes its class archive
_JVM_OPTIONS = "spark.driver.extraJavaOptions"
_DEFAULTS = {
    "spark.driver.memory": "512m",  # Spark refuses less than 450 MiB
    _JVM_OPTIONS: "-XX:+UseSerialGC -Xms40m -Xmn24m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 "
    "-XX:TieredStopAtLevel=1 -XX:MaxMetaspaceSize=256m "
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
    "spark.python.daemon.module": "mirror.spark.worker_daemon",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stopTimeout": "3s",  # the windows were given their time before
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.speculation": "false",  # a second attempt of a slot would write beside the first
    "spark.task.maxFailures": "4",  # a window that is served again finds its own turn
    "spark.ui.showConsoleProgress": "false",
}
_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_ON_A_CLUSTER = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": "-XX:+UseSerialGC"}
CORES_WITHIN_S = 60.0


def session(settings: Mapping[str, str], archive: ClassArchive, *, tasks: int) -> SparkSession:
    """Start Spark with room for `tasks` at once; they wait for networks, so they may outnumber the cores.

    Spark runs in this machine's own JVM unless `settings` name a cluster as spark.master.

    Raises:
        SettingsError: a cluster has no room for so many.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Two Python processes would look for data sources in installed packages; Spark leaves that out without this Python.
    os.environ["PYSPARK_DRIVER_PYTHON"] = "no-search-for-data-sources"
    root = str(Path(__file__).resolve().parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths:  # the workers import what we imported, from where we did
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, paths)])
    is_here = settings.get("spark.master", "local").startswith("local")
    if is_here:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("kafka-mirror").master(f"local[{tasks},4]")
    defaults = {**_DEFAULTS, _JVM_OPTIONS: f"{_DEFAULTS[_JVM_OPTIONS]} {archive.jvm_option()}"}
    defaults |= _HERE if is_here else {**_ON_A_CLUSTER, "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}
    for key, value in {**defaults, **settings}.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    if not is_here:
        _await_cores(spark, tasks)
    spark.dataSource.register(ReplicationSource)
    spark.dataSource.register(CheckpointSource)
    return spark


def _await_cores(spark: SparkSession, tasks: int) -> None:
    """Wait until a cluster has room for all tasks at once: a lane that waits for the other's cores is never warm in time."""
    deadline = time.monotonic() + CORES_WITHIN_S
    while (cores := spark.sparkContext.defaultParallelism) < tasks:
        if time.monotonic() > deadline:
            spark.stop()
            raise SettingsError(
                f"mirror.spark.master: the cluster offers {cores} cores, expected {tasks}: one for each slot and lane, and two "
                "more. Tasks wait for networks, so a worker may offer more cores than it has (SPARK_WORKER_CORES)."
            )
        time.sleep(0.5)


def silence_spark(spark: SparkSession) -> None:
    """Let Spark say no more: rounds and tasks that a stop interrupts are errors to it."""
    with contextlib.suppress(Py4JError, OSError):
        spark.sparkContext.setLogLevel("OFF")


def close(spark: SparkSession, archive: ClassArchive) -> None:
    """Stop Spark and its JVM; nothing is left to stop when that is gone."""
    with contextlib.suppress(Py4JError, OSError):
        spark.stop()
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    jvm = getattr(gateway, "proc", None)
    if gateway is None or jvm is None:  # a gateway that somebody else started
        return
    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
        jvm.stdin.close()  # what the JVM waits for
    with contextlib.suppress(subprocess.TimeoutExpired):
        if jvm.wait(JVM_END_S) == 0:
            archive.keep()


class Lanes:
    """The running queries; started again by `revive` when Spark ended one."""

    def __init__(
        self, spark: SparkSession, folder: StateFolder, *, plan: Path, lanes: int, slots: int, window_ms: int
    ) -> None:
        self._spark = spark
        self._checkpoints = folder.path / "spark"
        self._options = {
            "plan": str(plan),
            "lanes": str(lanes),
            "slots": str(slots),
            "window_ms": str(window_ms),
            "run_id": str(folder.run_id),
            "gone": " ".join(map(str, sorted(folder.gone))),
        }
        self._lanes = lanes
        self._window_ms = window_ms
        self._queries: dict[int, Any] = {}

    def start(self) -> None:
        """Start all lanes. Their checkpoint locations hold window numbers only, so each run begins with none."""
        shutil.rmtree(self._checkpoints, ignore_errors=True)
        for lane in range(self._lanes):
            self._start(lane)

    def _start(self, lane: int) -> None:
        first = window_at(time.time() * 1000, self._window_ms)
        first += (lane - first) % self._lanes
        location = self._checkpoints / f"lane-{lane}-{time.time_ns()}"
        reports = self._spark.readStream.format(NAME).options(**self._options, lane=str(lane), first=str(first))
        self._queries[lane] = _started(_observed(reports.load(), OBSERVED, f"lane-{lane}", location), location)

    def revive(self) -> list[StreamTerminated]:
        """Start queries again that ended; return what ended them.

        Raises:
            StreamTerminated: the JVM itself has ended.
        """
        ended = []
        for lane, query in list(self._queries.items()):
            if not _is_active(query):
                ended.append(StreamTerminated(f"lane {lane} ended: {_first_line(query.exception())}"))
                self._start(lane)
        return ended

    def finish(self, within_s: float) -> bool:
        """Wait until the running windows have ended (the plan says stop); False when they did not in time."""
        waiters = [threading.Thread(target=_processed, args=(q,), daemon=True) for q in self._queries.values()]
        for waiter in waiters:
            waiter.start()
        deadline = time.monotonic() + within_s
        for waiter in waiters:
            waiter.join(max(0.0, deadline - time.monotonic()))
        return not any(waiter.is_alive() for waiter in waiters)

    def stop(self) -> None:
        """Stop at once."""
        for query in self._queries.values():
            query.stop()


class CheckpointStream:
    """The query whose rows are the checkpoints of all flows, one round every so often."""

    def __init__(self, spark: SparkSession, state_dir: Path, *, plan: Path, every_s: float) -> None:
        self._spark = spark
        self._checkpoints = state_dir / "spark"
        self._plan = plan
        self._every_s = every_s
        self._query: Any = None

    def start(self) -> None:
        """Start the query; like those of the lanes it keeps nothing between runs."""
        location = self._checkpoints / f"checkpoints-{time.time_ns()}"
        rows = self._spark.readStream.format(CHECKPOINTS).options(plan=str(self._plan)).load()
        writer = _observed(rows, OBSERVED_CHECKPOINTS, "checkpoints", location)
        self._query = _started(writer.trigger(processingTime=f"{self._every_s} seconds"), location)

    def revive(self) -> list[StreamTerminated]:
        """Start the query again when it ended; return what ended it."""
        if _is_active(self._query):
            return []
        ended = StreamTerminated(f"the checkpoints ended: {_first_line(self._query.exception())}")
        self.start()
        return [ended]

    def stop(self) -> None:
        """Stop at once: what a round leaves undone, the next run's first one does."""
        if self._query is not None:
            # A round that waits for a cluster outlasts Spark's patience; it ends with the JVM.
            with contextlib.suppress(Py4JError, PySparkException):
                self._query.stop()


def _observed(rows: DataFrame, name: str, query: str, location: Path) -> DataStreamWriter:
    """Return a stream whose rows nobody keeps but the listener sees."""
    observed = rows.observe(name, collect_list(struct("*")).alias("reports"))
    return observed.writeStream.format("noop").queryName(query).option("checkpointLocation", str(location))


def _started(writer: DataStreamWriter, location: Path) -> Any:
    """Start a query; raises StreamTerminated where Spark cannot."""
    try:
        return writer.start()
    except (Py4JError, PySparkException, OSError) as error:
        raise StreamTerminated(
            f"Spark cannot start {location.name.rpartition('-')[0]}: {_reason(error)}. Is there room in {location.parent}?"
        ) from error


def _reason(error: Exception) -> str:
    """Return what the JVM says of an error, as long as it can be asked."""
    try:
        return _first_line(error.java_exception.toString() if isinstance(error, Py4JJavaError) else error)
    except (Py4JError, OSError):
        return "its JVM is ending"


def _is_active(query: Any) -> bool:
    try:
        return bool(query.isActive)
    except (Py4JError, OSError) as error:
        raise StreamTerminated("Spark's JVM is gone (killed, or out of memory?); start the appliance again") from error


def _processed(query: Any) -> None:
    if query.isActive:
        query.processAllAvailable()


def _first_line(error: object) -> str:
    return str(error).strip().splitlines()[0] if error else "no reason given"
