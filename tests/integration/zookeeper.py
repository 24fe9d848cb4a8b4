"""A broker of before KRaft: of 2.8, beside a ZooKeeper of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirror.embedded import jars
from mirror.embedded.broker import Broker
from mirror.embedded.ports import free_port
from mirror.runtime.java import java

VERSION = "2.8.2"


@contextmanager
def broker_with_zookeeper(name: str, folder: Path) -> Iterator[Broker]:
    """Start both; end both."""
    port = free_port()
    classes = jars.classpath(jars.resolve(version=VERSION))
    options = ["-Xmx128m", "-Dzookeeper.admin.enableServer=false", "-cp", classes]
    keeper = subprocess.Popen(
        [java(), *options, "org.apache.zookeeper.server.ZooKeeperServerMain", str(port), str(folder / "zookeeper")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # What tells the broker class that there is nothing to format: such a storage needs none.
    (folder / "broker" / "data").mkdir(parents=True)
    (folder / "broker" / "data" / "meta.properties").write_text("cluster.id=with-zookeeper\n")
    overrides = {
        "process.roles": "",
        "controller.quorum.voters": "",
        "controller.listener.names": "",
        "broker.id": "1",
        "zookeeper.connect": f"127.0.0.1:{port}",
        "zookeeper.session.timeout.ms": "4000",
        "zookeeper.connection.timeout.ms": "120000",  # ZooKeeper's JVM starts at the same time as the broker's
        "log.dirs": str(folder / "broker" / "logs"),
    }
    try:
        with Broker.start(name, folder / "broker", overrides=overrides, version=VERSION) as broker:
            yield broker
    finally:
        keeper.kill()
        keeper.wait()
