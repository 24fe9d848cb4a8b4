"""Start Spark once without work, so that its JVM writes the class archive in advance."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from metrics.recorder import Recorder
from mirror.runtime.class_archive import ClassArchive
from mirror.runtime.state_folder import StateFolder
from mirror.spark.engine import SparkEngine
from mirror.spark.plan_file import Plan, write_plan

LANES, WINDOW_MS = 2, 1000
RUNS_S = 5.0  # some windows of each lane, which load everything that a micro-batch needs
ENDS_WITHIN_S = 10.0


def write_archive(archive: ClassArchive) -> None:
    """Run empty lanes and checkpoints for some seconds, then end Spark: its JVM writes the archive."""
    with tempfile.TemporaryDirectory() as name:
        folder, plan = StateFolder(Path(name)), Path(name) / "plan"
        write_plan(plan, Plan(()))
        spark = SparkEngine.start({}, tasks=LANES + 2, archive=archive)
        try:
            spark.listen(Recorder(), {}, lambda _: None)
            lanes = spark.lanes(folder, plan=plan, lanes=LANES, slots=1, window_ms=WINDOW_MS)
            checkpoints = spark.checkpoints(folder, plan=plan, every_s=WINDOW_MS / 1000)
            lanes.start()
            checkpoints.start()
            time.sleep(RUNS_S)
            write_plan(plan, Plan((), is_stopping=True))
            lanes.finish(ENDS_WITHIN_S)
            spark.silence()
            checkpoints.stop()
            lanes.stop()
        finally:
            spark.close()
