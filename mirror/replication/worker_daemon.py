"""Spark's Python daemon, with what the workers need loaded before it forks them, so that they share it.

Spark starts it as `python -m mirror.replication.worker_daemon WORKER_MODULE` (spark.python.daemon.module), one daemon
for each worker module: those that only plan need no Kafka client.
"""

from __future__ import annotations

import gc
import importlib
import sys

from mirror.lean import leave_out_pandas

if __name__ == "__main__":
    leave_out_pandas()
    importlib.import_module("mirror.replication.datasource")
    importlib.import_module(sys.argv[1])
    if sys.argv[1] == "pyspark.worker":
        importlib.import_module("mirror.replication.worker")
    gc.collect()
    gc.freeze()  # a collection in a fork would touch, and so copy, every page they share
    importlib.import_module("pyspark.daemon").manager()
