"""Run `./demo --failover`: a load and a consumer group move to the other cluster and back."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from mirror.commands.verify import verified
from mirror.config.load import load
from mirror.embedded import jars
from mirror.embedded.broker import Broker
from mirror.embedded.demo_settings import BOTH_WAYS, SETTINGS
from mirror.embedded.load import TOPICS, Load
from mirror.embedded.ports import free_port
from mirror.errors import MirrorError
from mirror.kafka.cluster import Cluster
from mirror.kafka.group_reader import read_in_group
from mirror.lag.text import duration
from mirror.model.topic_partition import TopicPartition

FLOW = "primary->backup"
GROUP = "demo-billing"
KEPT = [
    topic.name for topic in TOPICS if not topic.config
]  # compaction would remove records, so they could not be counted
STARTS_S = 120.0
READS_S = 60.0
CROSSES_S = 2.0  # after this time, the last written records are on the other cluster


def failover_demo(*, seconds: float, rate: int) -> int:
    """Switch and fail back under load. Return 0 if no record is lost or read twice."""
    jars.resolve()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-mirror-failover-")))
        print("starting clusters primary and backup ...", flush=True)
        primary = stack.enter_context(Broker.start("primary", folder / "primary"))
        backup = stack.enter_context(Broker.start("backup", folder / "backup"))
        file = folder / "connect-mirror-maker.properties"
        addresses = {"primary": primary.bootstrap, "backup": backup.bootstrap}
        own = SETTINGS.format(**addresses, port=free_port(), state=folder / "state", window_ms=5000)
        file.write_text(own + BOTH_WAYS)
        print("starting the mirror, in both directions ...", flush=True)
        stack.enter_context(_mirroring(file, folder / "mirror.log"))
        group = _Group()
        with Load(primary.bootstrap, records_per_s=rate, late_after_s=0) as producing:
            _await_served(file)
            _serve("primary", group, primary, {"primary": "", "backup": "backup."}, seconds)
            _conduct("switch", file, producing, group)
        with Load(backup.bootstrap, records_per_s=rate, late_after_s=0) as producing:
            _serve("backup", group, backup, {"backup": "", "primary": "primary."}, seconds)
            _conduct("switch-back", file, producing, group)
        with Load(primary.bootstrap, records_per_s=rate, late_after_s=0) as producing:
            _serve("primary", group, primary, {"primary": "", "backup": "backup."}, seconds)
        return _verdict(file, folder / "state" / "switches", _written(primary) + _written(backup), group)


@contextmanager
def _mirroring(file: Path, log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "mirror.cli", "run", str(file)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=file.parent)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def _await_served(file: Path) -> None:
    """Wait until a switch could begin."""
    command = [sys.executable, "-m", "mirror.cli", "switch", str(file), FLOW, "--dry-run"]
    deadline = time.monotonic() + STARTS_S
    while (done := subprocess.run(command, capture_output=True, text=True, check=False)).returncode:
        if time.monotonic() > deadline:
            raise MirrorError(f"the mirror has not begun: {(done.stdout + done.stderr).strip()}")
        time.sleep(1)


def _serve(name: str, group: _Group, cluster: Broker, origins: Mapping[str, str], seconds: float) -> None:
    print(f"\n{name} serves: records are written there, and group {GROUP} reads them", flush=True)
    group.read(cluster.bootstrap, origins)
    time.sleep(seconds)
    print(f"group {GROUP} has read {group.count:,} records", flush=True)


def _conduct(command: str, file: Path, load: Load, group: _Group) -> None:
    """Run a switch like an operator: stop producers on request, and consumers that have caught up."""
    print(f"\n$ kafka-mirror {command} FILE '{FLOW}' --yes", flush=True)
    arguments = [sys.executable, "-m", "mirror.cli", command, str(file), FLOW, "--yes"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    on_line: dict[str, Callable[[], None]] = {"fence ...": load.stop, "groups ...": group.leave}
    for line in process.stdout:
        print(line, end="", flush=True)
        on_line.get(line.strip(), lambda: None)()
    if process.wait():
        raise MirrorError(f"{command} ended with {process.returncode}")


class _Group:
    """A consumer group with at most one member, and its records by origin."""

    def __init__(self) -> None:
        self.found: Counter[tuple[object, ...]] = Counter()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def count(self) -> int:
        """Number of read records, including repeated ones."""
        return self.found.total()

    def read(self, bootstrap: str, origins: Mapping[str, str]) -> None:
        """Read on a cluster; `origins`: the topic prefix of each cluster of origin."""
        topics = {f"{prefix}{topic}": (origin, topic) for origin, prefix in origins.items() for topic in KEPT}
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(bootstrap, topics), name="group", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Commit, and leave the group."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(READS_S)

    def _run(self, bootstrap: str, topics: Mapping[str, tuple[str, str]]) -> None:
        for messages in read_in_group({"bootstrap.servers": bootstrap}, GROUP, topics, self._stop):
            for message in messages:
                place = (*topics[str(message.topic())], message.partition(), message.timestamp()[1])
                self.found[*place, message.key(), message.value()] += 1


def _verdict(file: Path, reports: Path, written: int, group: _Group) -> int:
    """Compare both flows, and the records that the group has read with the written ones."""
    time.sleep(CROSSES_S)
    flows = [verified(flow) for flow in load(file).flows]
    deadline = time.monotonic() + READS_S
    while group.count < written and time.monotonic() < deadline:
        time.sleep(0.2)
    group.leave()
    twice = group.count - len(group.found)
    lost = written - len(group.found)
    differences = [difference for flow in flows for difference in flow.differences]
    for difference in differences:
        print(f"  {difference}")
    for report in sorted(reports.glob("*.json")):
        run = json.loads(report.read_text())
        steps = [step for step in run["steps"].values() if step["ended_s"]]
        took_s = max(step["ended_s"] for step in steps) - min(step["began_s"] for step in steps)
        ends = {(topic, part): end for topic, part, end in run["steps"]["fence"]["facts"]["ends"]}
        positions = {(topic, part): at for topic, part, at in run["steps"]["drain"]["facts"]["positions"]}
        missing = sum(max(0, end - positions.get(place, 0)) for place, end in ends.items())
        print(f"{run['kind']}: RTO {duration(took_s)}, RPO {missing:,} records")
    is_equal = not differences and not lost and not twice
    compared = f"{sum(flow.compared for flow in flows):,} records compared on both sides"
    read = f"group {GROUP} read {len(group.found):,} of {written:,} records, {twice} of them twice"
    print(f"{'EQUAL' if is_equal else 'NOT EQUAL'}: {compared}; {read}")
    return 0 if is_equal and written else 1


def _written(cluster: Broker) -> int:
    """Count the records of the topics that producers, not the mirror, wrote to a cluster."""
    written = [
        TopicPartition(topic.name, partition)
        for topic in TOPICS
        if topic.name in KEPT
        for partition in range(topic.partitions)
    ]
    with closing(Cluster(cluster.name, {"bootstrap.servers": cluster.bootstrap})) as asked:
        return sum(asked.end_offsets(written).values()) - sum(asked.start_offsets(written).values())
