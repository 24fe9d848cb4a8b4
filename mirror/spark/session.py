"""Start Spark in a separate JVM, and end both."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from mirror.errors import SettingsError, StreamTerminated
from mirror.runtime.class_archive import ClassArchive
from mirror.runtime.java import cache_folder, java
from mirror.runtime.user import has_passwd_entry, home_folder, user_name
from mirror.spark.checkpoint_source import CheckpointSource
from mirror.spark.replication_source import ReplicationSource

log = logging.getLogger("mirror")

_JVM_OPTIONS = "spark.driver.extraJavaOptions"
_DEFAULTS = {
    "spark.driver.memory": "512m",  # Spark refuses less than 450 MiB
    _JVM_OPTIONS: "-XX:+UseSerialGC -Xms40m -Xmn24m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 "
    "-XX:TieredStopAtLevel=1 -XX:MaxMetaspaceSize=256m "
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
    "spark.python.daemon.module": "mirror.spark.worker_daemon",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stopTimeout": "3s",  # the windows have had their time to end before
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A micro-batch has only one row per partition: to write, compile and load code for the rows costs more than it saves.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.speculation": "false",  # a second attempt of a slot would write concurrently with the first
    "spark.task.maxFailures": "4",  # an attempt to serve a window again waits for its turn
    "spark.ui.showConsoleProgress": "false",
}
_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_ON_A_CLUSTER = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": "-XX:+UseSerialGC"}
CORES_WITHIN_S = 60.0
_ASKED_FOR = ("org.apache.spark.api.python.PythonUtils", "org.apache.spark.sql.api.python.PythonSQLUtils")
_PYTHON = Path(__file__).with_name("python.sh")
# Variables that would start another Spark than the installed one, or configure it for another purpose.
_FOREIGN = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_REMOTE",
    "SPARK_CONNECT_MODE_ENABLED",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
)
_FOREIGN_HERE = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")  # variables that matter only for a Spark cluster


def class_archive(*, is_asked_for: bool = False) -> ClassArchive:
    """Return the class archive of the Spark and the Java in use."""
    jars = Path(pyspark.__file__).parent / "jars"
    return ClassArchive(cache_folder(), java(), f"spark-{pyspark.__version__}", jars, is_asked_for=is_asked_for)


class Spark:
    """A session and its own JVM; one per process."""

    def __init__(self, session: SparkSession, gateway: Any, archive: ClassArchive) -> None:
        self.session = session
        self._gateway = gateway
        self._archive = archive

    @classmethod
    def start(cls, settings: Mapping[str, str], archive: ClassArchive, *, tasks: int) -> Spark:
        """Start Spark with room for `tasks` concurrent tasks. They wait for networks, so cores may be fewer.

        Spark runs in a JVM on this machine unless `settings` name a cluster as spark.master.

        Raises:
            SettingsError: the cluster has no room for so many tasks, or there is no folder for temporary files.
            StreamTerminated: the JVM does not start.
        """
        is_here = settings.get("spark.master", "local").startswith("local")
        _prepare_environment(is_here=is_here)
        conf = SparkConf().setAppName("kafka-mirror").setMaster(f"local[{tasks},4]")
        defaults = {**_DEFAULTS, _JVM_OPTIONS: f"{_DEFAULTS[_JVM_OPTIONS]} {archive.jvm_option()}"}
        defaults |= _HERE if is_here else {**_ON_A_CLUSTER, "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}
        conf.setAll([*{**defaults, **settings}.items()])
        conf.set(_JVM_OPTIONS, f"{conf.get(_JVM_OPTIONS)} {_folders()}")
        gateway = _launched(conf)
        if not has_passwd_entry():
            _log_in(gateway)
        _keep_what_is_asked_for(gateway)
        SparkContext(gateway=gateway, conf=conf)
        spark = SparkSession.builder.getOrCreate()
        if not is_here:
            _await_cores(spark, tasks)
        spark.dataSource.register(ReplicationSource)
        spark.dataSource.register(CheckpointSource)
        return cls(spark, gateway, archive)

    def silence(self) -> None:
        """Turn off Spark's log: it reports rounds and tasks that a stop interrupts as errors."""
        with contextlib.suppress(Py4JError, OSError):
            self.session.sparkContext.setLogLevel("OFF")

    def close(self) -> None:
        """Stop Spark and its JVM; if the JVM is gone, do nothing."""
        with contextlib.suppress(Py4JError, OSError):
            self.session.stop()
        jvm = getattr(self._gateway, "proc", None)
        if jvm is None:  # another program started the gateway
            return
        with contextlib.suppress(Py4JError, OSError):
            self._gateway.shutdown()
            jvm.stdin.close()  # the JVM ends when its standard input is closed
        with contextlib.suppress(subprocess.TimeoutExpired):
            if jvm.wait(self._archive.jvm_end_s) == 0:
                self._archive.keep()


def _launched(conf: SparkConf) -> JavaGateway:
    """Start the JVM."""
    try:
        return launch_gateway(conf)
    except PySparkRuntimeError:
        raise StreamTerminated(
            "Spark's JVM ended at its start; the lines above have its reason. Check the memory, JAVA_HOME, and mirror.spark.*"
        ) from None


def _folders() -> str:
    """Return options for the folders that the JVM looks for in other places than Python.

    The JVM ignores TMPDIR. If the user has no passwd entry, the JVM uses "?" as the home folder.

    Raises:
        SettingsError: no folder for temporary files is writable.
    """
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError:
        raise SettingsError(
            "Spark needs a folder for temporary files, and none of $TMPDIR, /tmp and /var/tmp can be written. "
            "Mount a folder at /tmp, or set TMPDIR."
        ) from None
    home = "" if has_passwd_entry() else f' "-Duser.home={home_folder()}"'
    return f'"-Djava.io.tmpdir={temporary}"{home}'


def _log_in(gateway: JavaGateway) -> None:
    """Set Hadoop's user: without a passwd entry, Hadoop's own login fails with a NullPointerException."""
    users = getattr(gateway.jvm, "org.apache.hadoop.security.UserGroupInformation")
    users.setLoginUser(users.createRemoteUser(user_name()))


def _keep_what_is_asked_for(gateway: JavaGateway) -> None:
    """Cache the classes that PySpark looks up in the JVM again and again (docs/adr/0034).

    To find a name, the JVM searches two hundred jars. If the name has no package, it searches each jar for nine packages. These
    searches take most of the time for reading a progress event: PySpark looks up the class of an exception at the end of each
    iterator, and an event has several iterators.
    """
    jvm = gateway.jvm
    for name in _ASKED_FOR:
        setattr(jvm, name.rpartition(".")[2], getattr(jvm, name))
    jvm.py4j = SimpleNamespace(reflection=SimpleNamespace(TypeUtil=getattr(jvm, "py4j.reflection.TypeUtil")))


def _prepare_environment(*, is_here: bool) -> None:
    """Set the environment of Spark's JVM and Python processes, and remove other installations' values."""
    foreign = [name for name in (*_FOREIGN, *(_FOREIGN_HERE if is_here else ())) if os.environ.pop(name, None)]
    if foreign:
        log.info("ignoring environment variables %s: kafka-mirror has its own Spark", ", ".join(foreign))
    os.environ["PYSPARK_PYTHON"] = str(_PYTHON) if is_here and os.access(_PYTHON, os.X_OK) else sys.executable
    # Two Python processes would search installed packages for data sources; with a Python that does not exist, Spark skips that.
    os.environ["PYSPARK_DRIVER_PYTHON"] = "no-search-for-data-sources"
    root = str(Path(__file__).resolve().parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths:  # the workers import the modules that we imported, from the same place
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, paths)])
    if is_here:
        os.environ["KAFKA_MIRROR_PYTHON"] = sys.executable  # both for python.sh
        os.environ["KAFKA_MIRROR_PYTHONPATH"] = os.environ["PYTHONPATH"]
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _await_cores(spark: SparkSession, tasks: int) -> None:
    """Wait until a cluster has room for all tasks: a lane without cores is never warm in time."""
    deadline = time.monotonic() + CORES_WITHIN_S
    while (cores := spark.sparkContext.defaultParallelism) < tasks:
        if time.monotonic() > deadline:
            spark.stop()
            raise SettingsError(
                f"mirror.spark.master: the cluster offers {cores} cores, expected {tasks}: one for each slot and lane, and two "
                "more. Tasks wait for networks, so a worker may offer more cores than it has (SPARK_WORKER_CORES)."
            )
        time.sleep(0.5)
