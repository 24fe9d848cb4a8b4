"""Run Spark's Python daemon; load the workers' modules before it forks the workers.

Spark starts this module as `python -m mirror.spark.worker_daemon pyspark.worker` (spark.python.daemon.module). Processes that
only plan use Spark's own daemon.
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
        """Print the current error, unless it is a closed socket."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()


if __name__ == "__main__":
    leave_out_pandas()  # python.sh has done so, but a Spark cluster has its own Python
    importlib.import_module("mirror.spark.replication_source")
    importlib.import_module(sys.argv[1])
    importlib.import_module("mirror.replication.worker")
    gc.collect()
    gc.freeze()  # a garbage collection in a fork would touch, and so copy, every shared page
    daemon = importlib.import_module("pyspark.daemon")
    daemon.traceback = Tracebacks  # type: ignore[attr-defined]
    daemon.manager()
