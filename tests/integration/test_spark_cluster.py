"""The tasks run on a Spark cluster: its executors are killed, the driver comes back elsewhere, and nothing is lost or twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.appliance import RunningAppliance, descendants, signal_all
from tests.integration.records import await_replicated, create, differences, flows, load
from tests.integration.spark_cluster import SparkCluster, spark_cluster

pytestmark = pytest.mark.kafka

SLOTS = "mirror.slots = 2\nmirror.spark.master = {}\nmirror.spark.driver.host = 127.0.0.1\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("spark")) as running:
        running.worker(cores=3)
        running.worker(cores=3)
        yield running


def executors(cluster: SparkCluster) -> list[int]:
    """The executors' JVMs."""
    return [
        pid
        for process in cluster.workers
        for pid, command in descendants(process.pid).items()
        if "CoarseGrainedExecutorBackend" in command
    ]


@pytest.mark.nightly
def test_executors_are_killed_and_the_driver_starts_elsewhere(cluster, primary, backup, topic, tmp_path: Path):
    create(primary, topic, 2)
    extra = SLOTS.format(cluster.url)
    folders = [tmp_path / name for name in ("here", "elsewhere")]
    for folder in folders:
        folder.mkdir()
    here, elsewhere = (
        RunningAppliance(folder, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic, extra=extra)
        for folder in folders
    )
    with ExitStack() as loading:
        loading.enter_context(load(primary, topic))
        with here:
            flows(backup, f"primary.{topic}")
            assert not here.workers(), "nothing is replicated on the driver's machine"
            signal_all(executors(cluster)[:1], signal.SIGKILL)
            flows(backup, f"primary.{topic}")
            signal_all(executors(cluster), signal.SIGKILL)
            flows(backup, f"primary.{topic}")
            here.kill_all()
        with elsewhere:
            flows(backup, f"primary.{topic}")
            loading.close()
            for partition in (0, 1):
                await_replicated(elsewhere, primary, topic, f"primary.{topic}", partition)
            assert differences(primary, backup, topic, f"primary.{topic}") == []
