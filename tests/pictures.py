"""Renew the pictures of docs/images: boards over a seeded Prometheus, pages over real clusters. `python -m tests.pictures`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ViewportSize

from dashboards.boards import boards
from tests.benchmarks.inspector import made_up_fleet, made_up_pages
from tests.integration.incident import BACK, TOPICS, Watched, watched
from tests.integration.inspector import SETTLED, launched, serving
from tests.integration.test_boards_live import store
from tests.preview import preview

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SCREEN = ViewportSize(width=1440, height=900)
PHONE = ViewportSize(width=390, height=844)
DRAWN_MS = 7000  # what a page needs to draw its tables
LEVEL_S = 240.0  # how long all is well before the incident
SCROLLED_MS = 2000  # what it needs to draw what comes into sight
REFUSED_S = 20.0  # until a record that is refused is in the ledger, and the page reads it
SWITCH_S = 12.0  # until a switch waits for who still writes
PACE = 3  # the alerts' times are divided by it
STALLED = "payments"


def picture_boards(browser: Browser) -> None:
    """Draw each board over a store in which one of four topic-partitions has stood still for half an hour."""
    with tempfile.TemporaryDirectory() as folder, store(Path(folder), "stalled") as server:
        page = browser.new_page(viewport=SCREEN)
        for board in boards():
            page.set_content(preview(server, [board]))
            page.screenshot(path=IMAGES / f"{board.uid}.png", full_page=True)
            print(f"{board.uid}.png")
        page.close()


def picture_pages(browser: Browser) -> None:
    """Walk through an incident: level, a topic that stands still, its alert, what was found, and what else may happen."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scene = stack.enter_context(watched(folder, pace=PACE))

        def picture(name: str, path: str = "/", **options: Any) -> None:
            _picture(browser, name, scene.inspector + path, **options)

        picture("inspector-healthy")  # the inspector polls from its first page on
        time.sleep(LEVEL_S)
        picture("inspector-healthy")
        picture("inspector-lag", "/partitions")
        scene.refuse(STALLED)
        alert = scene.await_alert("KafkaMirrorStalled", within_s=900 / PACE + 120)
        picture("inspector-stalled")
        picture("inspector-stalled-dark", is_dark=True)
        picture("inspector-phone", size=PHONE)
        picture("inspector-alert", alert.inspector.removeprefix(scene.inspector))
        place = f"group=primary->backup&cluster=primary&topic={STALLED}&partition=0"
        picture("inspector-topic", f"/topics?group=primary->backup&topic={STALLED}")
        picture("inspector-partition", f"/partition?{place}")
        picture("inspector-failover-check", "/failover")
        picture("inspector-groups", "/groups?group=billing")
        picture("inspector-health", "/health")
        scene.accept(STALLED)
        time.sleep(60)
        picture("inspector-incidents", "/incidents?back=1+h")
        for name, cluster in (("source", scene.primary), ("target", scene.backup)):
            cluster.pause()
            time.sleep(25)
            picture(f"inspector-{name}-down")
            cluster.resume()
            time.sleep(30)
        scene.appliance.kill_all()
        time.sleep(45)
        picture("inspector-process-down")
        file = folder / "empty.properties"
        settings = scene.appliance.file.read_text()
        file.write_text(settings.replace(",".join(TOPICS), "none-of-this").replace(f"topics = {BACK}", "topics = none"))
        with serving(file, folder / "empty.log") as empty:
            _picture(browser, "inspector-empty", empty)


def picture_switch(browser: Browser) -> None:
    """Look at a switch that waits for who still writes, and at the ledger once a record was refused."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scene = stack.enter_context(watched(folder, pace=PACE))
        failover = scene.inspector + "/failover"
        with _switching(scene):
            time.sleep(SWITCH_S)
            _picture(browser, "inspector-switch", failover, below="Switches")
        scene.refuse(STALLED)
        time.sleep(REFUSED_S)
        _picture(browser, "inspector-ledger", failover, below="Gap ledger", opens="primary->backup:")


@contextmanager
def _switching(scene: Watched) -> Iterator[None]:
    """Begin a switch, whose producers do not stop; take it back at the end."""
    command = [sys.executable, "-m", "mirror.cli", "switch", str(scene.appliance.file), "primary->backup", "--yes"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=scene.appliance.environment)
    try:
        yield
    finally:
        process.kill()
        process.wait(20)
        subprocess.run([*command, "--abort"], check=True, env=scene.appliance.environment)


def picture_size(browser: Browser) -> None:
    """Draw the overview of ten thousand made-up topic-partitions, and a fleet of fifty flows."""
    with tempfile.TemporaryDirectory() as folder, made_up_pages(Path(folder), 10_000) as address:
        _picture(browser, "inspector-10000", address)
    with tempfile.TemporaryDirectory() as folder, made_up_fleet(Path(folder), mirrors=10, flows=5) as address:
        _picture(browser, "inspector-fleet", address)


def _picture(
    browser: Browser,
    name: str,
    url: str,
    *,
    is_dark: bool = False,
    size: ViewportSize = SCREEN,
    below: str = "",
    opens: str = "",
) -> None:
    """Take a picture of a page, from its top or from the heading `below` on, with what `opens` there open."""
    page = browser.new_page(viewport=size, color_scheme="dark" if is_dark else "light")
    page.goto(url)
    page.get_by_test_id("stMainBlockContainer").wait_for(timeout=60_000)
    page.wait_for_timeout(DRAWN_MS)
    page.wait_for_function(SETTLED, timeout=60_000)
    if opens:
        page.locator("summary", has_text=opens).last.click()
    if below:
        page.get_by_role("heading", name=below).evaluate("heading => heading.scrollIntoView()")
        page.wait_for_timeout(SCROLLED_MS)
    page.screenshot(path=IMAGES / f"{name}.png")
    page.close()
    print(f"{name}.png", flush=True)


def main() -> None:
    """Renew all pictures, or some."""
    kinds = {"boards": picture_boards, "pages": picture_pages, "switch": picture_switch, "size": picture_size}
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument("--only", choices=kinds, help="these alone")
    asked = parser.parse_args()
    with launched() as browser:
        for name, picture in kinds.items():
            if asked.only in (None, name):
                picture(browser)


if __name__ == "__main__":
    main()
