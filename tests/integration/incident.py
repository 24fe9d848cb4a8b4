"""A mirror as people watch it: two clusters under load with groups that read, a Prometheus with the rules, the lag inspector."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from dashboards.build import files
from dashboards.monitoring import Monitoring
from mirror.embedded import prometheus_server
from mirror.embedded.broker import Broker
from mirror.embedded.ports import free_port
from mirror.runtime.prometheus import FiringAlert, Prometheus
from tests.alerting import paced
from tests.integration.appliance import RunningAppliance
from tests.integration.inspector import serving
from tests.integration.records import beside, create, load
from tests.waiting import eventually

TOPICS = ("orders", "payments", "users")
GROUPS = {"billing": "payments", "search": "orders"}  # and what they read
BACK = "returns"  # the topic that crosses the other way
RATE = 60  # records/s and topic
CHECKPOINTS = (
    "emit.checkpoints.enabled = true\nemit.checkpoints.interval.seconds = 5\nsync.group.offsets.enabled = true\n"
)
OTHER_WAY = f"backup->primary.enabled = true\nbackup->primary.topics = {BACK}\n"
RULES = "dashboards/chart/generated/kafka-mirror.rules.yml"


@dataclass(frozen=True, slots=True)
class Watched:
    """What runs; `inspector` is the address of its pages."""

    folder: Path
    primary: Broker
    backup: Broker
    appliance: RunningAppliance
    prometheus: Prometheus
    inspector: str

    def refuse(self, topic: str) -> None:
        """Let a remote topic take no record any more."""
        self._set(topic, AlterConfigOpType.SET, "20")

    def accept(self, topic: str) -> None:
        """Let it take records again."""
        self._set(topic, AlterConfigOpType.DELETE, None)

    def _set(self, topic: str, what: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry("max.message.bytes", value, incremental_operation=what)
        one = ConfigResource(ConfigResource.Type.TOPIC, f"primary.{topic}", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": self.backup.bootstrap})
        admin.incremental_alter_configs([one])[one].result(30)

    def await_alert(self, name: str, within_s: float) -> FiringAlert:
        """Wait until an alert fires, and return it as a pager shows it."""

        return eventually(lambda: self._firing(name), within_s=within_s, because=f"{name} wakes somebody")[0]

    def await_end(self, name: str, within_s: float) -> None:
        """Wait until an alert fires no more."""
        eventually(lambda: not self._firing(name), within_s=within_s, because=f"{name} ends")

    def _firing(self, name: str) -> list[FiringAlert]:
        return [alert for alert in self.prometheus.firing() if alert.name == name]


@contextmanager
def watched(folder: Path, *, pace: float) -> Iterator[Watched]:
    """Start everything, and wait until all flows. The rules' times are divided by `pace`."""
    with ExitStack() as stack:
        primary = stack.enter_context(Broker.start("primary", folder / "primary"))
        backup = stack.enter_context(Broker.start("backup", folder / "backup"))
        for topic in TOPICS:
            create(primary, topic, 2)
        create(backup, BACK, 2)
        appliance = RunningAppliance(
            folder,
            primary=primary.bootstrap,
            backup=backup.bootstrap,
            topics=",".join(TOPICS),
            extra=CHECKPOINTS + OTHER_WAY,
        )
        stack.enter_context(appliance)
        for cluster, topic in (*((primary, topic) for topic in TOPICS), (backup, BACK)):
            stack.enter_context(load(cluster, topic, rate=RATE))
        for group, topic in GROUPS.items():
            stack.enter_context(reading(primary, group, topic))
        port = free_port()
        watch = folder / "watch"
        watch.mkdir()
        configuration = prometheus_server.configured(watch, [f"127.0.0.1:{appliance.port}"], every="1s")
        made = files(Monitoring(inspector=f"http://127.0.0.1:{port}", runbook="http://127.0.0.1/runbook"))[RULES]
        prometheus_server.rules_of(watch).write_text(paced(made, pace))
        server = stack.enter_context(prometheus_server.running(configuration, watch / "data"))
        shown = folder / "inspector.properties"
        shown.write_text(
            f"{appliance.file.read_text()}mirror.app.prometheus.url = {server.url}\n"
            "mirror.app.grafana.url = http://127.0.0.1:3000\n"
        )
        address = stack.enter_context(serving(shown, folder / "app.log", port=port))
        eventually(
            lambda: appliance.value("kafka_mirror_record_count_total", topic="primary.payments", partition=0),
            within_s=60,
            because="the load flows",
        )
        yield Watched(folder, primary, backup, appliance, server, address)


@contextmanager
def reading(cluster: Broker, group: str, topic: str) -> Iterator[None]:
    """Read a topic as a group, all the while."""

    def run(stop: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        while not stop.is_set():
            consumer.consume(500, 0.2)
        consumer.close()

    with beside(run, group):
        yield
