"""Run the streaming queries: the lanes, and the checkpoints."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import collect_list, struct
from pyspark.sql.streaming.readwriter import DataStreamWriter

from mirror.errors import StreamTerminated
from mirror.model.flow_plan import window_at
from mirror.runtime.state_folder import StateFolder
from mirror.spark.checkpoint_source import NAME as CHECKPOINTS
from mirror.spark.replication_source import NAME, lane_options

OBSERVED = "replication"
OBSERVED_CHECKPOINTS = "checkpoints"


def lane_name(lane: int) -> str:
    """Return the name of a lane's query."""
    return f"lane-{lane}"


class Lanes:
    """The running queries. `revive` restarts queries that Spark has ended."""

    def __init__(
        self, spark: SparkSession, folder: StateFolder, *, plan: Path, lanes: int, slots: int, window_ms: int
    ) -> None:
        self._spark = spark
        self._checkpoints = folder.path / "spark"
        self._options = lane_options(folder, plan=plan, lanes=lanes, slots=slots, window_ms=window_ms)
        self._lanes = lanes
        self._window_ms = window_ms
        self._queries: dict[int, Any] = {}

    def start(self) -> None:
        """Start all lanes. Their checkpoint locations hold window numbers only, so each run starts empty."""
        shutil.rmtree(self._checkpoints, ignore_errors=True)
        for lane in range(self._lanes):
            self._start(lane)

    def _start(self, lane: int) -> None:
        first = window_at(time.time() * 1000, self._window_ms)
        first += (lane - first) % self._lanes
        location = self._checkpoints / f"lane-{lane}-{time.time_ns()}"
        reports = self._spark.readStream.format(NAME).options(**self._options, lane=str(lane), first=str(first))
        self._queries[lane] = _started(_observed(reports.load(), OBSERVED, lane_name(lane), location), location)

    def revive(self) -> list[StreamTerminated]:
        """Restart queries that ended; return the reasons.

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
        """Wait until the running windows have ended; return False on a timeout.

        Before that, the plan file must be marked as stopping.
        """
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
    """The query whose rows are the checkpoints of all flows, one round per interval."""

    def __init__(self, spark: SparkSession, state_dir: Path, *, plan: Path, every_s: float) -> None:
        self._spark = spark
        self._checkpoints = state_dir / "spark"
        self._plan = plan
        self._every_s = every_s
        self._query: Any = None

    def start(self) -> None:
        """Start the query. Like the lanes, it keeps nothing between runs."""
        location = self._checkpoints / f"checkpoints-{time.time_ns()}"
        rows = self._spark.readStream.format(CHECKPOINTS).options(plan=str(self._plan)).load()
        writer = _observed(rows, OBSERVED_CHECKPOINTS, "checkpoints", location)
        self._query = _started(writer.trigger(processingTime=f"{self._every_s} seconds"), location)

    def revive(self) -> list[StreamTerminated]:
        """Restart the query if it ended; return the reason."""
        if _is_active(self._query):
            return []
        ended = StreamTerminated(f"the checkpoints ended: {_first_line(self._query.exception())}")
        self.start()
        return [ended]

    def stop(self) -> None:
        """Stop immediately: the next run's first round completes an unfinished one."""
        if self._query is not None:
            # A round that waits for a cluster outlasts Spark's timeout; it ends with the JVM.
            with contextlib.suppress(Py4JError, PySparkException):
                self._query.stop()


def _observed(rows: DataFrame, name: str, query: str, location: Path) -> DataStreamWriter:
    """Return a stream whose rows only the listener uses."""
    observed = rows.observe(name, collect_list(struct("*")).alias("reports"))
    return observed.writeStream.format("noop").queryName(query).option("checkpointLocation", str(location))


def _started(writer: DataStreamWriter, location: Path) -> Any:
    """Start a query; raises StreamTerminated if Spark cannot start it."""
    try:
        return writer.start()
    except (Py4JError, PySparkException, OSError) as error:
        raise StreamTerminated(
            f"Spark cannot start {location.name.rpartition('-')[0]}: {_reason(error)}. Is there room in {location.parent}?"
        ) from error


def _reason(error: Exception) -> str:
    """Return the JVM's text for an error if the JVM still responds."""
    try:
        return _first_line(error.java_exception.toString() if isinstance(error, Py4JJavaError) else error)
    except (Py4JError, OSError):
        return "its JVM is ending"


def _is_active(query: Any) -> bool:
    try:
        return bool(query.isActive)
    except (Py4JError, OSError) as error:
        raise StreamTerminated("Spark's JVM is gone (killed, or out of memory?); start kafka-mirror again") from error


def _processed(query: Any) -> None:
    if query.isActive:
        query.processAllAvailable()


def _first_line(error: object) -> str:
    return str(error).strip().splitlines()[0] if error else "no reason given"
