"""Run Spark's Python daemon, with the workers' modules loaded before it forks them.

Spark starts it as `python -m mirror.spark.worker_daemon pyspark.worker` (spark.python.daemon.module). Processes that only plan
use Spark's own daemon.
"""

from __future__ import annotations

import gc
import importlib
import sys
import traceback

from mirror.runtime.without_pandas import leave_out_pandas


class Tracebacks:
    """Replaces the daemon's `traceback`: prints nothing if Spark has ended and closed the socket."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        """Print the error that is handled, but for a closed socket."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()


if __name__ == "__main__":
    leave_out_pandas()
    importlib.import_module("mirror.spark.replication_source")
    importlib.import_module(sys.argv[1])
    importlib.import_module("mirror.replication.worker")
    gc.collect()
    gc.freeze()  # a collection in a fork would touch, and so copy, every page they share
    daemon = importlib.import_module("pyspark.daemon")
    daemon.traceback = Tracebacks  # type: ignore[attr-defined]
    daemon.manager()
