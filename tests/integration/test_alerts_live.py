"""A real stall wakes the right person: the target stands still under load, beside a real Prometheus and Alertmanager."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirror.local import prometheus_server
from mirror.local.broker import free_port
from mirror.local.prometheus_server import CONFIGURATION
from mirror.prometheus import Prometheus
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, create, load
from tests.integration.test_boards_live import empty_panels, number
from tests.waiting import eventually

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("prometheus-alertmanager") is None,
        reason="prometheus and prometheus-alertmanager (Debian packages of these names) are not installed",
    ),
]

# A start takes seconds at any pace, which are minutes of a budget that is short by as much.
BUDGET = {"KafkaMirrorFreshnessBurnsSlowly"}
PACE = 60  # the rules at a sixtieth of their times: what takes a quarter of an hour takes fifteen seconds


def paced(rules: str) -> str:
    """The rules with every duration divided by PACE."""
    unit_s = {"s": 1, "m": 60, "h": 3600, "d": 86400}

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}{max(1, round(int(found[2]) * unit_s[found[3]] / PACE))}s"

    return re.sub(r"(\[|for: )(\d+)([smhd])\b", shorter, rules)


@contextmanager
def alertmanager(folder: Path) -> Iterator[str]:
    """A real Alertmanager with the example's configuration; its address."""
    port = free_port()
    command = ["prometheus-alertmanager", f"--config.file={CONFIGURATION / 'prometheus' / 'alertmanager.yml'}",
               f"--storage.path={folder / 'alertmanager'}", f"--web.listen-address=127.0.0.1:{port}",
               "--cluster.listen-address="]  # fmt: skip
    with (folder / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def states(address: str) -> dict[str, str]:
    """What Alertmanager does with each alert that it was told of: active or suppressed."""
    with urllib.request.urlopen(f"http://{address}/api/v2/alerts", timeout=5) as answer:
        return {alert["labels"]["alertname"]: alert["status"]["state"] for alert in json.load(answer)}


@contextmanager
def watched(folder: Path, port: int, told: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the appliance each second and evaluates the paced rules."""
    file = prometheus_server.configured(folder, [f"127.0.0.1:{port}"], every="1s")
    (file.parent / "targets" / "alertmanager.yml").write_text(json.dumps([{"targets": [told]}]))
    rules = folder / "generated" / "kafka-mirror.rules.yml"
    rules.write_text(paced(rules.read_text()))
    with prometheus_server.running(file, folder / "data") as server:
        yield server


def test_a_stalled_target_fires_the_right_alerts_and_they_clear(primary, backup, topic, tmp_path):
    create(primary, topic, 2)
    with (
        RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic) as appliance,
        alertmanager(tmp_path) as told,
        watched(tmp_path, appliance.port, told) as server,
    ):
        with load(primary, topic):
            eventually(lambda: empty_panels(server) == [], within_s=60, because="every panel has something to show")
            assert number(server, "Fresh") == 1
            # At this pace a busy machine's second is a minute: what is pending for a moment is gone in the next.
            eventually(lambda: not pending(server), within_s=30, because="nothing is wrong yet")
            backup.pause()
            try:
                while_the_target_stands_still(server, told)
            finally:
                backup.resume()
            eventually(lambda: nothing_fires(server), within_s=120, because="all clears by itself")
        await_replicated(appliance, primary, topic, f"primary.{topic}")
        eventually(lambda: number(server, "Not OK") == 0, within_s=30, because="the mirror is level again")
        assert number(server, "Lanes and clusters down") == 0


def while_the_target_stands_still(server: Prometheus, told: str) -> None:
    eventually(
        lambda: {"KafkaMirrorClusterUnreachable", "KafkaMirrorStalled"} <= firing(server),
        within_s=90,
        because="the silent cluster and the partitions that stand still are told of",
    )
    assert number(server, "Lanes and clusters down") == 1
    assert number(server, "Records waiting") > 0
    eventually(lambda: number(server, "Not OK") > 0, within_s=90, because="ten polls without a step are a verdict")
    eventually(
        lambda: states(told).get("KafkaMirrorStalled") == "suppressed",
        within_s=30,
        because="the cluster's alert explains the partition's, and silences it",
    )
    assert states(told)["KafkaMirrorClusterUnreachable"] == "active"
    assert not {"KafkaMirrorDown", "KafkaMirrorRecordsLost"} & server.alerts().keys()


def pending(server: Prometheus) -> bool:
    assert server.alerts().keys() - BUDGET == set()
    return False


def nothing_fires(server: Prometheus) -> bool:
    assert firing(server) - BUDGET == set()
    return True


def firing(server: Prometheus) -> set[str]:
    return {name for name, state in server.alerts().items() if state == "firing"}
