"""Run windows and checkpoint rounds as Spark's streaming queries, in the engine of the product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from metrics.listener import MirrorQueryListener, Stream
from metrics.recorder import Recorder
from mirror.runtime.class_archive import ClassArchive
from mirror.runtime.state_folder import StateFolder
from mirror.spark.queries import CheckpointStream, Lanes
from mirror.spark.session import Spark, class_archive


class SparkEngine:
    """Implements `mirror.runtime.engine.Engine` with a Spark session."""

    def __init__(self, spark: Spark) -> None:
        self._spark = spark

    @classmethod
    def start(cls, settings: Mapping[str, str], *, tasks: int, archive: ClassArchive | None = None) -> Self:
        """Start Spark. `archive`: the JVM's class archive; by default, the one for the installed Spark and Java.

        Raises:
            SettingsError: the Spark cluster has no room for so many tasks.
        """
        return cls(Spark.start(settings, archive or class_archive(), tasks=tasks))

    def listen(self, recorder: Recorder, streams: Mapping[str, Stream[Any]], on_batch: Callable[[str], None]) -> None:
        """Add the listener of streaming queries."""
        listener = MirrorQueryListener(recorder, streams=streams, on_batch=on_batch)
        self._spark.session.streams.addListener(listener)

    def lanes(self, folder: StateFolder, *, plan: Path, lanes: int, slots: int, window_ms: int) -> Lanes:
        """Return the streaming queries that serve windows."""
        return Lanes(self._spark.session, folder, plan=plan, lanes=lanes, slots=slots, window_ms=window_ms)

    def checkpoints(self, folder: StateFolder, *, plan: Path, every_s: float) -> CheckpointStream:
        """Return the streaming query of checkpoint rounds."""
        return CheckpointStream(self._spark.session, folder.path, plan=plan, every_s=every_s)

    def silence(self) -> None:
        """Set Spark's log level to off."""
        self._spark.silence()

    def close(self) -> None:
        """Stop Spark and its JVM."""
        self._spark.close()
