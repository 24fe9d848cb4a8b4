"""A real stall wakes the right person: the target stands still under load, beside a real Prometheus and Alertmanager."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirror.embedded import prometheus_server
from mirror.runtime.prometheus import Prometheus
from tests.alerting import alertmanager, paced, states, told_to
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, create, load
from tests.integration.test_boards_live import empty_panels, number
from tests.waiting import eventually

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("prometheus-alertmanager") is None,
        reason="prometheus and prometheus-alertmanager (Debian packages of these names) are not installed",
    ),
]

# A start takes seconds at any pace, which are minutes of a budget that is short by as much.
BUDGET = {"KafkaMirrorFreshnessBurnsSlowly"}
PACE = 60  # the rules at a sixtieth of their times: what takes a quarter of an hour takes fifteen seconds


@contextmanager
def watched(folder: Path, port: int, manager: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the appliance each second and evaluates the paced rules."""
    file = prometheus_server.configured(folder, [f"127.0.0.1:{port}"], every="1s")
    told_to(folder, manager)
    rules = prometheus_server.rules_of(folder)
    rules.write_text(paced(rules.read_text(), PACE))
    with prometheus_server.running(file, folder / "data") as server:
        yield server


def test_a_stalled_target_fires_the_right_alerts_and_they_clear(primary, backup, topic, tmp_path):
    create(primary, topic, 2)
    with (
        RunningAppliance(tmp_path, primary=primary.bootstrap, backup=backup.bootstrap, topics=topic) as appliance,
        alertmanager(tmp_path) as manager,
        watched(tmp_path, appliance.port, manager) as server,
    ):
        with load(primary, topic):
            eventually(lambda: empty(server) == [], within_s=60, because="every panel has something to show")
            # Of a topic-partition that has just begun nothing is known until its position has moved.
            eventually(lambda: number(server, "Fresh") == 1, within_s=30, because="what has begun is seen to keep pace")
            # At this pace a busy machine's second is a minute: what is pending for a moment is gone in the next.
            eventually(lambda: not pending(server), within_s=30, because="nothing is wrong yet")
            backup.pause()
            try:
                while_the_target_stands_still(server, manager)
            finally:
                backup.resume()
            eventually(lambda: nothing_fires(server), within_s=120, because="all clears by itself")
        await_replicated(appliance, primary, topic, f"primary.{topic}")
        eventually(lambda: number(server, "Not OK") == 0, within_s=30, because="the mirror is level again")
        eventually(lambda: number(server, "Down") == 0, within_s=30, because="both clusters respond")


def empty(server: Prometheus) -> list[str]:
    """Panels that show nothing; those of Spark's phases do so without Spark (test_appliance.py has them)."""
    return [panel for panel in empty_panels(server) if "batch_duration_seconds" not in panel]


def while_the_target_stands_still(server: Prometheus, manager: str) -> None:
    eventually(
        lambda: {"KafkaMirrorClusterUnreachable", "KafkaMirrorStalled"} <= firing(server),
        within_s=90,
        because="the silent cluster and the partitions that stand still have alerts",
    )
    eventually(lambda: number(server, "Down") == 1, within_s=30, because="one cluster does not respond")
    eventually(lambda: number(server, "Records waiting") > 0, within_s=30, because="records wait")
    eventually(lambda: number(server, "Not OK") > 0, within_s=90, because="ten polls without a step are a verdict")
    eventually(
        lambda: states(manager).get("KafkaMirrorStalled") == "suppressed",
        within_s=30,
        because="the cluster's alert explains the partition's, and silences it",
    )
    eventually(
        lambda: states(manager).get("KafkaMirrorClusterUnreachable") == "active",
        within_s=30,
        because="the cluster's alert is not silenced",
    )
    assert "KafkaMirrorRecordsLost" not in server.alerts()
    eventually(lambda: "KafkaMirrorDown" not in server.alerts(), within_s=30, because="the mirror itself responds")


def pending(server: Prometheus) -> bool:
    assert server.alerts().keys() - BUDGET == set()
    return False


def nothing_fires(server: Prometheus) -> bool:
    assert firing(server) - BUDGET == set()
    return True


def firing(server: Prometheus) -> set[str]:
    return {name for name, state in server.alerts().items() if state == "firing"}
