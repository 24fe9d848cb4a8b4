"""docker-compose.yml starts, shows a load that is replicated, survives restarts, and keeps its data. Grafana is left out."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from mirror.embedded.ports import HOST
from tests.containers import compose, images
from tests.containers.compose import Project
from tests.containers.podman import missing
from tests.waiting import eventually

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.xdist_group("containers"),
    pytest.mark.skipif(missing() != "", reason=missing()),
]
LEFT_OUT = ("grafana",)  # no Debian package has it
PORTS = {"mirror": 9404, "app": 8501, "prometheus": 9090, "alertmanager": 9093}
PATHS = {"mirror": "/ready", "app": "/_stcore/health", "prometheus": "/-/ready", "alertmanager": "/-/ready"}


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    """All services of the file but Grafana."""
    images.build()
    images.build_stand_ins()
    with compose.up(LEFT_OUT) as started:
        yield started


def get(project: Project, service: str, path: str) -> str:
    """Return the response of a service, "" if it does not respond with 200."""
    try:
        with urllib.request.urlopen(
            f"http://{project.addresses[service]}:{PORTS[service]}{path}", timeout=10
        ) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def query(project: Project, expression: str) -> list[dict[str, Any]]:
    """Return what Prometheus finds."""
    text = get(project, "prometheus", f"/api/v1/query?query={expression}")
    return list(json.loads(text)["data"]["result"]) if text else []


def replicated(project: Project) -> float:
    """Return how many records of the load the mirror has counted since its start."""
    found = re.findall(
        r'^kafka_mirror_record_count_total{.*topic="primary\.orders"} (\S+)$', get(project, "mirror", "/metrics"), re.M
    )
    return sum(map(float, found))


def end_offsets(project: Project) -> int:
    """Return the end of the replicated topic, from the cluster itself."""
    tool = ("/opt/kafka/bin/kafka-get-offsets.sh", "--bootstrap-server", "localhost:9092", "--topic", "primary.orders")
    lines = project.containers["backup"].inside(*tool).split()
    return sum(int(line.rpartition(":")[2]) for line in lines)


@pytest.mark.parametrize("service", PORTS)
def test_each_service_listens_on_the_port_that_is_published(project, service):
    published = [port.rpartition(":")[2] for port in project.services[service]["ports"]]
    assert published == [str(PORTS[service])]
    assert all(port.startswith(HOST) for port in project.services[service]["ports"])
    eventually(lambda: get(project, service, PATHS[service]), 90, f"{service} responds")


def test_the_load_is_replicated_and_the_group_is_translated(project):
    eventually(lambda: replicated(project) > 1000, 120, "the load is replicated")
    groups = 'kafka_mirror_group_partitions{group="billing",state="translated"}'
    eventually(
        lambda: query(project, f"sum({groups})%3E0".replace('"', "%22")), 120, "Prometheus has the reader's group"
    )
    assert query(project, "up{job=%22kafka-mirror%22}==1")
    assert "kafka-mirror-alerts" in get(project, "prometheus", "/api/v1/rules")
    assert '"activeAlertmanagers":[{' in get(project, "prometheus", "/api/v1/alertmanagers")


def test_health_checks(project):
    for name in ("primary", "backup", "mirror", "app"):
        eventually(project.containers[name].is_healthy, 60, f"{name} is healthy")


def test_the_mirror_is_started_again_after_a_kill(project):
    mirror = project.containers["mirror"]
    before = mirror.state()["StartedAt"]
    os.kill(
        int(mirror.state()["Pid"]), signal.SIGKILL
    )  # as the kernel does; the engine does not restart after its own kill
    eventually(lambda: mirror.is_running() and mirror.state()["StartedAt"] != before, 60, "podman starts it again")
    eventually(lambda: replicated(project) > 100, 120, "it replicates again")


def test_all_services_stop_in_time_and_keep_their_data(project):
    eventually(lambda: replicated(project) > 100, 120, "it replicates")
    took: dict[str, float] = {}
    for name in reversed(list(project.containers)):
        grace_s = project.grace_s(name)
        _, took[name] = project.containers[name].stop(grace_s)
        assert took[name] < grace_s, f"{name} was killed: {took}"
    assert "stopped; every position is committed" in project.containers["mirror"].logs()
    for name in ("primary", "backup"):
        project.containers[name].start_again()
        eventually(project.containers[name].is_healthy, 60, f"{name} is healthy again")
    kept = end_offsets(project)
    assert kept > 1000
    for name in ("mirror", "prometheus", "load"):
        project.containers[name].start_again()
    eventually(lambda: end_offsets(project) > kept + 500, 120, "the load is replicated from where it was")
    hour_ago = time.time() - 3600
    old = query(project, f"count_over_time(up{{job=%22kafka-mirror%22}}[1h])&time={hour_ago + 3600:.0f}")
    assert old, "Prometheus has the samples from before its restart"
