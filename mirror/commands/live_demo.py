"""Run the demo: two embedded clusters, a load, the mirror, a live table, and a comparison."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from metrics.partition_status import Status
from metrics.recorder import Recorder
from metrics.series import Labels
from mirror.appliance import Appliance
from mirror.commands.verify import verified
from mirror.config.load import load
from mirror.embedded import jars, prometheus_server
from mirror.embedded.broker import Broker
from mirror.embedded.demo_settings import IDENTICAL, SETTINGS
from mirror.embedded.latency import LatencyProbe, percentiles
from mirror.embedded.load import Load
from mirror.embedded.ports import free_port
from mirror.kafka.cluster import Cluster
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.prometheus import Prometheus
from mirror.runtime.text_columns import aligned

log = logging.getLogger("mirror")

REDRAW_S = 2.0
DRAIN_S = 60.0
DEFAULT_PORT = 9404
COLUMNS = ("flow", "topic", "partition", "offset", "log end", "lag", "rec/s", "age ms", "latency ms", "status")
NUMBERS = range(2, len(COLUMNS) - 1)
VALUES = (
    "kafka_mirror_replicated_offset",
    "kafka_mirror_source_end_offset",
    "kafka_mirror_lag_records",
    "kafka_mirror_record_rate",
    "kafka_mirror_record_age_ms_avg",
    "kafka_mirror_replication_latency_ms_avg",
)


def demo(*, seconds: float | None, rate: int, is_identical: bool = False) -> int:
    """Run until Ctrl-C, or for `seconds`. Compare both sides then. Return 0 if they are equal.

    `is_identical`: with identical offsets, which are compared too.
    """
    jars.resolve()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-mirror-demo-")))
        print("starting clusters primary and backup ...", flush=True)
        primary = stack.enter_context(Broker.start("primary", folder / "primary"))
        backup = stack.enter_context(Broker.start("backup", folder / "backup"))
        print(f"primary is at {primary.bootstrap}, backup at {backup.bootstrap}", flush=True)
        file = folder / "connect-mirror-maker.properties"
        text = SETTINGS.format(
            primary=primary.bootstrap, backup=backup.bootstrap, port=_port(), state=folder / "state", window_ms=5000
        )
        text += IDENTICAL if is_identical else ""
        file.write_text(text)
        producing = Load(primary.bootstrap, records_per_s=rate, in_transactions=is_identical)
        producing.start()
        appliance = Appliance(load(file))
        watcher = _Watcher(appliance, primary, backup, producing, seconds)
        print("starting Spark ...", flush=True)

        def started(running: Appliance) -> None:
            if prometheus_server.is_installed():
                watching = stack.enter_context(_watched(folder, running.port))
                _show_prometheus(watching)
                file.write_text(f"{text}mirror.app.prometheus.url = {watching.url}\n")
            stack.enter_context(_inspected(file, folder))
            watcher.start()

        try:
            appliance.run(on_started=started)
        finally:
            watcher.join()
        return watcher.verdict()


@contextmanager
def _watched(folder: Path, port: int) -> Iterator[Prometheus]:
    """Run a Prometheus with the project's rules during the demo."""
    home = folder / "watch"
    home.mkdir()
    with prometheus_server.running(
        prometheus_server.configured(home, [f"127.0.0.1:{port}"], every="5s"), home / "data"
    ) as server:
        yield server


@contextmanager
def _inspected(file: Path, folder: Path) -> Iterator[None]:
    """Serve the lag inspector during the demo, and print its address."""
    port = free_port()
    command = [sys.executable, "-m", "mirror.cli", "app", str(file), "--listen", f"127.0.0.1:{port}"]
    with (folder / "app.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    print(f"lag inspector: http://127.0.0.1:{port}", flush=True)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _show_prometheus(server: Prometheus) -> None:
    print(f"Prometheus: {server.url}/alerts (the rules), {server.url}/graph (queries: docs/metrics.md)", flush=True)


def _port() -> int:
    """Return the documented port, or a free one if a running kafka-mirror has it."""
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError:
            return free_port()  # a number: the lag inspector reads it in the file
    return DEFAULT_PORT


class _Watcher:
    """Draws the table while the mirror runs; after the given time drains and stops it."""

    def __init__(
        self, appliance: Appliance, primary: Broker, backup: Broker, producing: Load, seconds: float | None
    ) -> None:
        self._appliance = appliance
        self._primary = primary
        self._backup = backup
        self._load = producing
        self._seconds = seconds
        self._thread = threading.Thread(target=self._run, name="demo", daemon=True)
        self._latencies: list[float] = []
        self._is_drained = False
        self._failure = ""

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:
            self._failure = str(error)
            log.exception("the demo ended early")
        finally:
            self._appliance.stop()

    def _watch(self) -> None:
        print(f"metrics: http://127.0.0.1:{self._appliance.port}/metrics", flush=True)
        deadline = time.monotonic() + self._seconds if self._seconds is not None else None
        with LatencyProbe(self._backup.bootstrap) as probe:
            while not self._appliance.is_stopping and (deadline is None or time.monotonic() < deadline):
                labels = self._labels()
                probe.watch({(remote, int(partition)) for _, _, remote, partition in labels})
                if any(self._appliance.recorder.store.value("kafka_mirror_record_age_ms", each) for each in labels):
                    probe.begin()
                self._draw(labels)
                time.sleep(REDRAW_S)
            self._load.stop()
            if self._seconds is not None and not self._appliance.is_stopping:
                self._drain()
            self._latencies = probe.latencies_ms
            if probe.failure:
                log.warning("latency was not measured to the end: %s", probe.failure)

    def _labels(self) -> list[tuple[str, ...]]:
        return [labels for state in self._appliance.flows if state.plan for labels in state.plan.labels.values()]

    def _draw(self, labels: list[tuple[str, ...]]) -> None:
        clear = "\x1b[2J\x1b[H" if sys.stdout.isatty() else "\n"
        left = f", {self._seconds:.0f} s in all" if self._seconds is not None else ", Ctrl-C ends it"
        print(
            f"{clear}{self._load.acknowledged:,} records produced{left}",
            lag_table(self._appliance.recorder, labels),
            sep="\n",
            flush=True,
        )

    def _drain(self) -> None:
        """Wait until every position has reached its final log end on primary."""
        print("\nproduction ended; waiting until everything is replicated ...", flush=True)
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline:
            if self._is_replicated():
                self._is_drained = True
                self._draw(self._labels())
                return
            time.sleep(0.2)

    def _is_replicated(self) -> bool:
        (state,) = self._appliance.flows
        if state.plan is None or not set(self._load.topics) <= {each.topic for each in state.plan.partitions}:
            return False
        # Read now, because the ends in the table may be older than the last record.
        ends = state.source.end_offsets([on_source for on_source, _ in state.plan.sides], read_committed=True)
        value = self._appliance.recorder.store.value
        return all(
            place in ends and (value("kafka_mirror_replicated_offset", labels) or 0) >= ends[place]
            for place, labels in state.plan.labels.items()
        )

    def verdict(self) -> int:
        if self._seconds is None:
            return 1 if self._failure else 0
        if self._failure or not self._is_drained:
            print(f"NOT EQUAL: {self._failure or f'not everything was replicated within {DRAIN_S:.0f} s'}")
            return 1
        found, differences = self._compared()
        for difference in differences:
            print(f"  {difference}")
        shown = ", ".join(f"p{p} {value:.1f}" for p, value in percentiles(self._latencies).items())
        print(f"latency to a reader of backup, ms: {shown or 'not measured'} ({len(self._latencies):,} records)")
        is_equal = not differences
        compared = "partition, offset" if self._is_identical else "partition, order"
        print(
            f"{'EQUAL' if is_equal else 'NOT EQUAL'}: {found:,} records of {len(self._load.topics)} topics compared "
            f"({compared}, key, value, headers, timestamp), and backup has no others"
        )
        return 0 if is_equal and found and not self._load.failed else 1

    @property
    def _is_identical(self) -> bool:
        return any(bool(state.flow.identical_topics.include) for state in self._appliance.flows)

    def _compared(self) -> tuple[int, list[str]]:
        """Compare as `kafka-mirror verify` does; return the number of records, and differences."""
        (state,) = self._appliance.flows
        assert state.plan is not None
        found, written = verified(state.flow), self._load.acknowledged
        places = dict(state.plan.sides)
        theirs, ends = self._ends(self._primary, places), self._ends(self._backup, places.values())
        differences = found.differences
        if self._is_identical:
            differences += [
                f"the log of {place.topic}-{place.partition} ends at {end}, and on backup at {ends[places[place]]}"
                for place, end in theirs.items()
                if end != ends[places[place]]
            ]
            return found.compared, differences
        if (read := sum(theirs.values())) != written:
            differences.append(f"primary has {read:,} records, the load wrote {written:,}")
        if found.mapped != written:
            differences.append(f"target offsets of {found.mapped:,} records are known, the load wrote {written:,}")
        if sum(ends.values()) != written:  # new topics without transactions: an end is a count
            differences.append(f"backup has {sum(ends.values()):,} records, the load wrote {written:,}")
        return found.compared, differences

    @staticmethod
    def _ends(cluster: Broker, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return Cluster(cluster.name, {"bootstrap.servers": cluster.bootstrap}).end_offsets(places, read_committed=True)


def lag_table(recorder: Recorder, partitions: Iterable[Labels]) -> str:
    """Return one line per partition (labels source, target, topic, partition); unknown shows as "-"."""
    rows = [COLUMNS]
    for labels in sorted(partitions, key=lambda labels: (*labels[:3], int(labels[3]))):
        source, target, topic, partition = labels
        values = (_show(recorder.store.value(name, labels)) for name in VALUES)
        code = recorder.store.value("kafka_mirror_partition_status", labels)
        status = "-" if code is None else Status(int(code)).name
        rows.append((f"{source}->{target}", topic, partition, *values, status))  # type: ignore[arg-type]
    return aligned(rows, right=NUMBERS)


def _show(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"
