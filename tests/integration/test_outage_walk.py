"""Whatever fails, within three polls no place shows OK, fresh or 0 for what nobody knows: /metrics, boards, page and terminal."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dashboards import queries
from metrics.partition_status import Status
from mirror.config.load import load
from mirror.embedded import prometheus_server
from mirror.embedded.broker import Broker
from mirror.lag.flow_summary import summaries
from mirror.lag.inspector import CLUSTER_S, Inspector
from mirror.runtime.prometheus import Prometheus
from tests.alerting import scraped
from tests.fault_proxy import FaultProxy, proxied
from tests.integration.appliance import RunningAppliance, descendants, signal_all
from tests.integration.records import await_replicated, create, rows, write
from tests.preview import filled_in
from tests.waiting import eventually

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus (Debian: prometheus) is not installed"),
]
START_S = 20.0  # of a command, on a machine that does other things

THREE_POLLS_S = 12.0  # and what it takes to see that a cluster does not answer
BACK_S = 60.0
TAKEN_OVER_S = 40.0
WELL = {"OK"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A broker, and what the appliance and its watchers reach it through."""

    broker: Broker
    link: FaultProxy
    bootstrap: str


class Places:
    """Where people look, and what each place says of one flow that is level."""

    def __init__(
        self,
        folder: Path,
        clusters: dict[str, Cluster],
        appliance: RunningAppliance,
        server: Prometheus,
        inspector: Inspector,
    ) -> None:
        self.folder = folder
        self.clusters = clusters
        self.appliance = appliance
        self._server = server
        self._inspector = inspector

    def watch(self, *appliances: RunningAppliance) -> None:
        """Have Prometheus scrape these processes; it looks at its list of targets by itself."""
        scraped(self.folder / "watch", [appliance.port for appliance in appliances])

    def board(self, query: str) -> list[float]:
        """The values of a board's query."""
        return [float(series["value"][1]) for series in self._server.query(filled_in(query))]

    def terminal(self) -> tuple[list[dict[str, object]], float]:
        """The flow's rows of `kafka-mirror lag`, and the seconds that it took."""
        began = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "mirror.cli",
            "lag",
            str(self.appliance.file),
            "--json",
            "--group",
            "primary->backup",
        ]
        found = subprocess.run(command, capture_output=True, text=True, check=False, env=self.appliance.environment)
        return json.loads(found.stdout)["rows"], time.monotonic() - began

    def assert_well(self) -> None:
        """Every place says that all is level."""
        assert self.appliance.served("partition_status") == [Status.OK] * 2
        assert self.appliance.served("lag_seconds") == [0, 0]
        assert self.board(queries.fresh_ratio()) == [1]
        (summary,) = summaries(self._inspector.poll())
        assert (summary.worst, summary.fresh, summary.unknown) == (Status.OK, 1.0, 0)

    def assert_metrics_know_nothing(self) -> None:
        """No series says that anything is well."""
        assert all(status != Status.OK for status in self.appliance.served("partition_status"))
        assert self.appliance.served("partitions", status="ok") == [0]
        assert self.appliance.served("fresh_partitions") == [0]
        assert all(lag > 0 for lag in self.appliance.served("lag_records"))
        assert all(seconds > 0 for seconds in self.appliance.served("lag_seconds"))

    def assert_boards_know_nothing(self) -> None:
        """No number on a board says that anything is well."""
        assert self.board(queries.fresh_ratio()) == [0]
        assert all(seconds > 0 for seconds in self.board(queries.lag_seconds_max()))
        assert all(count > 0 for count in self.board(queries.partitions_not_ok()))

    def assert_page_knows_nothing(self) -> None:
        """The inspector shows every row, and none of them as well or with a lag of 0."""
        (summary,) = summaries(self._inspector.poll())
        assert summary.partitions == 2
        assert summary.fresh == 0
        assert summary.worst >= Status.UNKNOWN
        assert Status.OK not in summary.statuses
        assert summary.waits != "0 s"

    def assert_terminal_knows_nothing(self, *, down: int) -> None:
        """`kafka-mirror lag` prints every row in time, and none of them as well or with a lag of 0."""
        found, took_s = self.terminal()
        assert len(found) == 2
        assert all(row["status"] not in WELL for row in found), found
        assert all(row["lag"] != 0 or row["status"] == "UNKNOWN" for row in found), found
        assert took_s < 2 * CLUSTER_S * down + START_S


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> Iterator[Places]:
    folder: Path = tmp_path_factory.mktemp("walk")
    with ExitStack() as stack:
        clusters = {side: Cluster(*stack.enter_context(proxied(side, folder / side))) for side in ("source", "target")}
        source, target = clusters["source"].broker, clusters["target"].bootstrap
        create(source, "walked", 2)
        for partition in range(2):
            write(source, "walked", rows(50), partition)
        appliance = RunningAppliance(folder, primary=clusters["source"].bootstrap, backup=target, topics="walked")
        stack.enter_context(appliance)
        (folder / "watch").mkdir()
        file = prometheus_server.configured(folder / "watch", [f"127.0.0.1:{appliance.port}"], every="1s")
        server = stack.enter_context(prometheus_server.running(file, folder / "watch" / "data"))
        inspector = Inspector(load(appliance.file, options={}, targets=[]))
        stack.callback(inspector.close)
        for partition in range(2):
            await_replicated(appliance, source, "walked", "primary.walked", partition)
        yield Places(folder, clusters, appliance, server, inspector)


def holds(check: Callable[[], None]) -> bool:
    """Say that a check found nothing wrong."""
    check()
    return True


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    cluster.broker.pause()
    try:
        yield
    finally:
        cluster.broker.resume()


@contextmanager
def killed(cluster: Cluster) -> Iterator[None]:
    cluster.broker.kill()
    try:
        yield
    finally:
        cluster.broker.restart()


@contextmanager
def cut_off(cluster: Cluster) -> Iterator[None]:
    """No packet goes through, and no connection hears of it."""
    cluster.link.drop_packets()
    try:
        yield
    finally:
        cluster.link.heal()


@pytest.mark.parametrize("failure", [frozen, killed, cut_off])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_that_does_not_answer_makes_its_flow_unknown(places: Places, side: str, failure: Callable):
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="all is level")
    with failure(places.clusters[side]):
        eventually(
            lambda: holds(places.assert_metrics_know_nothing), within_s=THREE_POLLS_S, because="/metrics says so"
        )
        eventually(lambda: holds(places.assert_page_knows_nothing), within_s=THREE_POLLS_S, because="the page says so")
        eventually(
            lambda: holds(places.assert_boards_know_nothing), within_s=15, because="boards follow at the next scrapes"
        )
        places.assert_terminal_knows_nothing(down=1)
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="it is known again")


def test_a_frozen_mirror_is_unknown_on_boards_and_the_page_reads_the_clusters(places: Places):
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="all is level")
    with places.appliance.frozen():
        eventually(
            lambda: places.board(queries.fresh_ratio()) == [0], within_s=30, because="nobody tells what is fresh"
        )
        assert all(seconds > 0 for seconds in places.board(queries.lag_seconds_max()))
        found, _ = places.terminal()
        assert {(row["status"], row["lag"], row["owner"]) for row in found} == {("OK", 0, "")}
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="it is known again")


def test_workers_that_die_make_nothing_unknown_that_polls_know(places: Places):
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="all is level")
    signal_all(places.appliance.workers(), 9)
    for _ in range(10):
        assert Status.UNKNOWN not in places.appliance.served("partition_status")
        time.sleep(0.3)
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="all is level")


def test_a_worker_that_hangs_hides_no_waiting_record(places: Places):
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="all is level")
    source = places.clusters["source"].broker
    asleep = places.appliance.workers()
    signal_all(asleep, signal.SIGSTOP)
    try:
        for partition in range(2):
            write(source, "walked", rows(20), partition)
        eventually(
            lambda: sorted(places.appliance.served("lag_records")) == [20, 20],
            within_s=THREE_POLLS_S,
            because="what nobody copies is lag",
        )
        assert all(seconds > 0 for seconds in places.appliance.served("lag_seconds"))
        eventually(
            lambda: Status.OK not in places.appliance.served("partition_status"),
            within_s=THREE_POLLS_S,
            because="ten polls without a step are a verdict",
        )
        eventually(
            lambda: all(seconds > 0 for seconds in places.board(queries.lag_seconds_max())),
            within_s=15,
            because="boards follow at the next scrapes",
        )
        found, _ = places.terminal()
        assert [row["lag"] for row in found] == [20, 20]
    finally:
        signal_all(asleep, signal.SIGCONT)
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="all is level")


def test_a_frozen_process_of_two_is_unknown_on_boards_until_the_takeover(places: Places):
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="all is level")
    folder = places.folder / "second"
    folder.mkdir()
    addresses = {name: places.clusters[side].bootstrap for name, side in (("primary", "source"), ("backup", "target"))}
    with RunningAppliance(folder, **addresses, topics="walked") as second:
        places.watch(places.appliance, second)
        try:
            eventually(
                lambda: places.appliance.slots() == second.slots() == 1, within_s=BACK_S, because="slots are shared"
            )
            eventually(
                lambda: places.board(queries.fresh_ratio()) == [1], within_s=BACK_S, because="each tells of its own"
            )
            with second.frozen():
                eventually(
                    lambda: places.board(queries.fresh_ratio()) == [0.5],
                    within_s=TAKEN_OVER_S,
                    because="of what the other one served nobody tells",
                )
                eventually(lambda: holds(places.assert_well), within_s=TAKEN_OVER_S, because="its slots are taken over")
        finally:
            places.watch(places.appliance)
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="one process serves all")


def test_a_prometheus_that_hangs_affects_boards_only(places: Places):
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="all is level")
    (server,) = [pid for pid, command in descendants(os.getpid()).items() if "prometheus --config" in command]
    os.kill(server, signal.SIGSTOP)
    try:
        for _ in range(3):
            assert places.appliance.served("partition_status") == [Status.OK] * 2
            found, took_s = places.terminal()
            assert [row["status"] for row in found] == ["OK", "OK"]
            assert took_s < 2 * CLUSTER_S + START_S
    finally:
        os.kill(server, signal.SIGCONT)
    eventually(lambda: holds(places.assert_well), within_s=BACK_S, because="boards go on with what is scraped")
