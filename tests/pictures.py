"""Renew the pictures of docs/images: boards over a seeded Prometheus, pages over real clusters. `python -m tests.pictures`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from playwright.sync_api import Browser

from dashboards.boards import boards
from dashboards.preview import preview
from metrics.verdict import Status
from mirror.embedded.broker import Broker, free_port
from tests.benchmarks.inspector import SCRIPT
from tests.integration.appliance import RunningAppliance
from tests.integration.inspector import launched, serving
from tests.integration.records import create, load
from tests.integration.test_boards_live import store
from tests.waiting import eventually

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDE = {"width": 1500, "height": 900}
DRAWN_MS = 4000  # what a page needs to draw its tables
TOPICS = ("orders", "payments", "users")
STALLED = "payments"
GROUPS = ("billing", "search")


def picture_boards(browser: Browser) -> None:
    """Draw each board over a store in which one of four topic-partitions has stood still for half an hour."""
    with tempfile.TemporaryDirectory() as folder, store(Path(folder), "stalled") as server:
        page = browser.new_page(viewport=WIDE)
        for board in boards():
            page.set_content(preview(server, [board]))
            page.screenshot(path=IMAGES / f"{board.uid}.png", full_page=True)
            print(f"{board.uid}.png")
        page.close()


def picture_pages(browser: Browser) -> None:
    """Walk through an outage: level, a topic that stands still, a mirror that is stopped, a target that does not answer."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        primary = stack.enter_context(Broker.start("primary", folder / "primary"))
        backup = stack.enter_context(Broker.start("backup", folder / "backup"))
        for topic in TOPICS:
            create(primary, topic, 2)
        extra = "emit.checkpoints.enabled = true\nemit.checkpoints.interval.seconds = 5\n"
        appliance = RunningAppliance(
            folder, primary=primary.bootstrap, backup=backup.bootstrap, topics=",".join(TOPICS), extra=extra
        )
        stack.enter_context(appliance)
        address = stack.enter_context(serving(appliance.file, folder / "app.log"))

        def picture(name: str, path: str = "/", *, is_dark: bool = False) -> None:
            _picture(browser, name, address + path, is_dark=is_dark)

        for topic in TOPICS:
            stack.enter_context(load(primary, topic, rate=50))
        for topic in TOPICS:
            _await_some(appliance, topic)
        for number, group in enumerate(GROUPS):
            _read(primary, group, TOPICS[number], 20)
        time.sleep(30)  # for a window of polls
        picture("inspector-healthy")
        picture("inspector-dark", is_dark=True)
        picture("inspector-lag", "/lag")
        picture("inspector-groups", "/groups")
        picture("inspector-health", "/health")
        picture("inspector-no-prometheus", "/incidents")
        _refuse(backup, f"primary.{STALLED}")
        eventually(
            lambda: max(appliance.served("partition_status")) == Status.STALL, within_s=120, because="it stands still"
        )
        time.sleep(30)
        picture("inspector-stalled")
        picture("inspector-partition", f"/partition?group=primary->backup&cluster=primary&topic={STALLED}&partition=0")
        appliance.stop()
        time.sleep(30)
        picture("inspector-lagging", "/topic?group=primary->backup&topic=orders")
        backup.pause()
        try:
            time.sleep(20)
            picture("inspector-broker-down")
        finally:
            backup.resume()
        file = folder / "empty.properties"
        file.write_text(appliance.file.read_text().replace(",".join(TOPICS), "nothing-of-this-name"))
        with serving(file, folder / "empty.log") as empty:
            _picture(browser, "inspector-empty", empty)


def picture_size(browser: Browser) -> None:
    """Draw the page Lag over ten thousand made-up rows."""
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as address:
        _picture(browser, "inspector-10000", address)


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    port, script = free_port(), folder / "page.py"
    script.write_text(SCRIPT.format(count=10_000))
    command = [
        *(sys.executable, "-m", "streamlit", "run", str(script), "--server.headless=true"),
        *(f"--server.port={port}", "--server.address=127.0.0.1", "--browser.gatherUsageStats=false"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        time.sleep(8)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def _await_some(appliance: RunningAppliance, topic: str) -> None:
    """Wait until something of a topic has arrived."""
    eventually(
        lambda: appliance.value("kafka_mirror_record_count_total", topic=f"primary.{topic}", partition=0),
        within_s=60,
        because=f"{topic} flows",
    )


def _picture(browser: Browser, name: str, url: str, *, is_dark: bool = False) -> None:
    page = browser.new_page(viewport=WIDE, color_scheme="dark" if is_dark else "light")
    page.goto(url)
    page.get_by_test_id("stMainBlockContainer").wait_for(timeout=60_000)
    page.wait_for_timeout(DRAWN_MS + 3000)
    page.screenshot(path=IMAGES / f"{name}.png")
    page.close()
    print(f"{name}.png", flush=True)


def _read(cluster: Broker, group: str, topic: str, offset: int) -> None:
    """Commit an offset as a group that reads."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, part, offset) for part in range(2)], asynchronous=False)
    consumer.close()


def _refuse(cluster: Broker, topic: str) -> None:
    """Let a topic take no record any more."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    one = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={"max.message.bytes": "20"})
    admin.alter_configs([one])[one].result(30)


def main() -> None:
    """Renew all pictures, or some."""
    kinds = {"boards": picture_boards, "pages": picture_pages, "size": picture_size}
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument("--only", choices=kinds, help="these alone")
    asked = parser.parse_args()
    with launched() as browser:
        for name, picture in kinds.items():
            if asked.only in (None, name):
                picture(browser)


if __name__ == "__main__":
    main()
