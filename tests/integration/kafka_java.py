"""Kafka's own Java classes, called from Python: what MirrorMaker's users have their tools written with."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyspark.find_spark_home import _find_spark_home

from mirror.embedded import jars
from mirror.runtime.java import java
from tests.integration.records import messages

PRINTED_WITHIN_MS = 120_000


@contextmanager
def kafka_java() -> Iterator[Any]:
    """Start a JVM with Kafka's jars; yields py4j's view of it."""
    (py4j,) = Path(_find_spark_home(), "jars").glob("py4j-*.jar")
    classpath = jars.classpath(jars.resolve(lambda _: None))
    port, token = launch_gateway(
        jarpath=str(py4j), classpath=classpath, java_path=java(), die_on_exit=True, enable_auth=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def formatted(cluster: Any, topic: str, kind: str) -> list[str]:
    """Return a topic's records as MirrorMaker's formatter of that kind (Checkpoint, OffsetSync, Heartbeat) prints them."""
    count = len(messages(cluster, topic))
    command = [
        *(java(), "-cp", jars.classpath(jars.resolve(lambda _: None))),
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", cluster.bootstrap),
        *("--topic", topic),
        *("--formatter", f"org.apache.kafka.connect.mirror.formatters.{kind}Formatter"),
        *("--from-beginning", "--max-messages", str(count), "--timeout-ms", str(PRINTED_WITHIN_MS)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith(kind)]
    assert found, done.stderr
    return found


def translated(java: Any, bootstrap: str, source: str, group: str) -> dict[tuple[str, int], int]:
    """Return what RemoteClusterUtils.translateOffsets finds on a target for a group of the source."""
    found = java.org.apache.kafka.connect.mirror.RemoteClusterUtils.translateOffsets(
        {"bootstrap.servers": bootstrap}, source, group, java.java.time.Duration.ofSeconds(30)
    )
    return {(place.topic(), place.partition()): at.offset() for place, at in found.items()}
