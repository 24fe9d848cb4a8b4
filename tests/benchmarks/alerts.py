"""Measure which alerts a failure fires, and after how long: the table of docs/results/alerts.md.

Each failure has clusters, an appliance, a Prometheus and an Alertmanager of its own, with the configuration and the rules as they
are: 15 seconds between scrapes, and every rule's own times. `python -m tests.benchmarks.alerts --help`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest.mock import patch

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from mirror.embedded import prometheus_server
from mirror.embedded.broker import Broker
from mirror.runtime.prometheus import Prometheus
from tests.alerting import alertmanager, scraped, states, told_to
from tests.fault_proxy import FaultProxy, proxied
from tests.integration.appliance import RunningAppliance, signal_all
from tests.integration.records import create, load, rows, write
from tests.waiting import eventually

TOPIC = "orders"
REMOTE = f"primary.{TOPIC}"
RATE = 20  # records a second: what a failure fires must not need much
STEP_S = 5.0
LIBFAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
TEN_MINUTES_AHEAD = {
    "LD_PRELOAD": str(LIBFAKETIME),
    "FAKETIME": "+600s",
    "FAKETIME_DISABLE_SHM": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # with it the JVM's timed waits return at once
}
_starts = multiprocessing.Lock()  # one start at a time: many at once would each look like a failure
SETTLED_S = 90.0  # a few scrapes and evaluations with nothing wrong
EXTRA = """emit.heartbeats.enabled = true
sync.topic.configs.enabled = true
mirror.window.ms = 10000
mirror.poll.interval.ms = 5000
"""  # the latter two are the defaults


@dataclass(slots=True)
class Scene:
    """What a failure can hit. `close` is the stack that ends everything."""

    folder: Path
    close: ExitStack
    links: dict[str, FaultProxy] = field(default_factory=dict)
    brokers: dict[str, Broker] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    appliances: list[RunningAppliance] = field(default_factory=list)

    @property
    def appliance(self) -> RunningAppliance:
        """The first process."""
        return self.appliances[0]

    def one_more(self, extra: str = "") -> RunningAppliance:
        """Start another process of the flow, and have it scraped."""
        folder = self.folder / f"mirror-{len(self.appliances)}"
        folder.mkdir()
        made = RunningAppliance(
            folder, primary=self.addresses["source"], backup=self.addresses["target"], topics=TOPIC, extra=EXTRA + extra
        )
        self.appliances.append(self.close.enter_context(made))
        if (self.folder / "watch").exists():
            scraped(self.folder / "watch", [each.port for each in self.appliances])
        return made


# --- failures --------------------------------------------------------------------------------------------------------


def _freeze(side: str, scene: Scene) -> None:
    scene.brokers[side].pause()
    scene.close.callback(scene.brokers[side].resume)


def _kill(side: str, scene: Scene) -> None:
    scene.brokers[side].kill()


def _lose_packets(side: str, scene: Scene) -> None:
    scene.links[side].drop_packets()
    scene.close.callback(scene.links[side].heal)


def _freeze_appliance(scene: Scene) -> None:
    scene.close.enter_context(scene.appliance.frozen())


def _kill_appliance(scene: Scene) -> None:
    scene.appliance.kill_all()


def _kill_one_of_two(scene: Scene) -> None:
    scene.appliances[1].kill_all()


def _freeze_workers(scene: Scene) -> None:
    asleep = scene.appliance.workers()
    signal_all(asleep, signal.SIGSTOP)
    scene.close.callback(lambda: signal_all(asleep, signal.SIGCONT))


def _crash_loop(scene: Scene) -> None:
    for _ in range(5):
        scene.appliance.kill_all()
        time.sleep(20)
        scene.appliance.start()
        time.sleep(60)


def _lose_records(scene: Scene) -> None:
    source = scene.brokers["source"]
    scene.appliance.stop()
    write(source, TOPIC, rows(100))
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    gone = TopicPartition(TOPIC, 0, -1)
    admin.delete_records([gone])[gone].result(30)
    scene.appliance.start()


def _refuse_records(scene: Scene) -> None:
    """The remote topic takes no batch of the load any more."""
    admin = AdminClient({"bootstrap.servers": scene.brokers["target"].bootstrap})
    one = ConfigResource(ConfigResource.Type.TOPIC, REMOTE, set_config={"max.message.bytes": "20"})
    admin.alter_configs([one])[one].result(30)


def _shift_clock(scene: Scene) -> None:
    """A producer whose clock is ahead begins to write beside the others."""
    source = scene.brokers["source"]

    def one() -> None:
        write(source, TOPIC, [(b"k", b"v", [], int((time.time() + 600) * 1000))], 1)

    scene.close.enter_context(_again(one))


def _shift_cluster_clock(scene: Scene) -> None:
    """The source comes back with a clock that is ten minutes ahead: Debian's libfaketime tells its JVM so."""
    assert LIBFAKETIME.exists(), "not installed (Debian: apt-get install libfaketime)"
    source = scene.brokers["source"]
    source.stop()
    with patch.dict(os.environ, TEN_MINUTES_AHEAD):
        source.restart()


def _begin_towards_nobody(scene: Scene) -> None:
    scene.appliance.stop()
    with scene.appliance.file.open("a") as file:
        file.write(
            "clusters = primary, backup, third\nthird.bootstrap.servers = 127.0.0.1:1\nprimary->third.enabled = true\n"
        )
    scene.appliance.start()


def _differ(scene: Scene) -> None:
    scene.one_more("backup.producer.batch.size = 4711\n")


@contextmanager
def _loaded(source: Broker) -> Iterator[None]:
    """Produce all the while; what a source that is down does not take is no news."""
    with ExitStack() as loading:
        loading.enter_context(load(source, TOPIC, rate=RATE))
        try:
            yield
        finally:
            with suppress(AssertionError):
                loading.close()


@contextmanager
def _again(do: Callable[[], None]) -> Iterator[None]:
    ends = threading.Event()

    def run() -> None:
        while not ends.wait(5):
            do()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join(10)


FAILURES: dict[str, Callable[[Scene], None]] = {
    "the target is frozen": partial(_freeze, "target"),
    "the target is killed": partial(_kill, "target"),
    "the target is cut off": partial(_lose_packets, "target"),
    "the source is frozen": partial(_freeze, "source"),
    "the source is killed": partial(_kill, "source"),
    "the source is cut off": partial(_lose_packets, "source"),
    "the mirror is frozen": _freeze_appliance,
    "the mirror is killed": _kill_appliance,
    "one process of two is killed": _kill_one_of_two,
    "all workers are frozen": _freeze_workers,
    "the mirror is killed again and again": _crash_loop,
    "retention deletes what was not copied": _lose_records,
    "the target refuses a topic's records": _refuse_records,
    "a producer's clock is ten minutes ahead": _shift_clock,
    "the source's brokers have a clock ten minutes ahead": _shift_cluster_clock,
    "a second flow's target was never there": _begin_towards_nobody,
    "two processes have different settings": _differ,
}


# --- measuring -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fired:
    """One alert: when it fired first, in seconds from the failure on, and whether Alertmanager silenced it in the end."""

    alert: str
    severity: str
    after_s: float
    is_suppressed: bool


def measure(name: str, minutes: float) -> list[Fired]:
    """Make one failure, and return what has fired within so many minutes, the first one first."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-mirror-alerts-")))
        scene = Scene(folder, stack)
        with _starts:
            start(scene, processes=2 if name.startswith("one process of two") else 1)
        (folder / "watch").mkdir()
        manager = stack.enter_context(alertmanager(folder))
        file = prometheus_server.configured(folder / "watch", [])
        told_to(folder / "watch", manager)
        scraped(folder / "watch", [each.port for each in scene.appliances])
        server = stack.enter_context(prometheus_server.running(file, folder / "watch" / "data"))
        stack.enter_context(_loaded(scene.brokers["source"]))
        time.sleep(SETTLED_S)
        eventually(lambda: nothing_fires(server), within_s=120, because="nothing is wrong yet")
        began = time.monotonic()
        _say(name, "begins")
        FAILURES[name](scene)
        seen: dict[str, tuple[str, float]] = {}
        while time.monotonic() < began + minutes * 60:
            for alert, severity in firing(server).items():
                if alert not in seen:
                    seen[alert] = (severity, time.monotonic() - began)
                    _say(name, f"{alert} ({severity}) after {seen[alert][1]:.0f} s")
            time.sleep(STEP_S)
        shown = states(manager)
        return [
            Fired(alert, severity, after_s, shown.get(alert) == "suppressed")
            for alert, (severity, after_s) in seen.items()
        ]


def start(scene: Scene, *, processes: int) -> None:
    """Start both clusters and the mirror."""
    for side in ("source", "target"):
        broker, link, address = scene.close.enter_context(proxied(side, scene.folder / side))
        scene.brokers[side], scene.links[side], scene.addresses[side] = broker, link, address
    create(scene.brokers["source"], TOPIC, 2)
    for _ in range(processes):
        scene.one_more()


def firing(server: Prometheus) -> dict[str, str]:
    """Return the alerts that fire, with their severity."""
    found = server.query('ALERTS{alertstate="firing"}')
    return {series["metric"]["alertname"]: series["metric"]["severity"] for series in found}


def nothing_fires(server: Prometheus) -> bool:
    """Raise AssertionError with what fires."""
    assert firing(server) == {}
    return True


def _say(name: str, what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {name}: {what}", file=sys.stderr, flush=True)


def attempt(name: str, minutes: float) -> list[Fired] | str:
    """Measure, or return why that was not possible."""
    try:
        return measure(name, minutes)
    except (AssertionError, OSError) as error:
        return f"not measured: {error}"


def table(found: dict[str, list[Fired] | str]) -> str:
    """Return the table of docs/results/alerts.md."""
    lines = ["| failure | alert | severity | after | who gets it |", "|---|---|---|---|---|"]
    for name, fired in found.items():
        if isinstance(fired, str) or not fired:
            lines.append(f"| {name} | {fired or 'none'} | | | |")
            continue
        for at, each in enumerate(fired):
            shown = "silenced" if each.is_suppressed else "the receiver"
            head = name if at == 0 else ""
            lines.append(f"| {head} | {each.alert} | {each.severity} | {_minutes(each.after_s)} | {shown} |")
    return "\n".join(lines)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def main() -> None:
    """Measure the failures that are asked for, several at a time."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.alerts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--failures", type=re.compile, default=re.compile(""), metavar="REGEX", help="those that match")
    parser.add_argument("--minutes", type=float, default=40, help="how long each lasts (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=4, help="at a time; each takes about 2.5 GiB (default %(default)s)")
    asked = parser.parse_args()
    names = [name for name in FAILURES if asked.failures.search(name)]
    with ProcessPoolExecutor(asked.jobs) as pool:
        found = dict(zip(names, pool.map(attempt, names, [asked.minutes] * len(names)), strict=True))
    print(table(found))


if __name__ == "__main__":
    main()
