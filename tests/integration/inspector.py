"""Serve the lag inspector as a user does, and open a real Chromium on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from mirror.config.load import load
from mirror.embedded.ports import free_port
from tests.waiting import PATIENCE, eventually

CHROMIUM = shutil.which("chromium")
PAGES = ("overview", "partitions", "topics", "partition", "groups", "failover", "health", "incidents", "glossary")
ROOT = Path(__file__).resolve().parents[2]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium (Debian: chromium) is not installed")
SOON_MS = PATIENCE * 40_000  # what a page is given to show something
expect.set_options(timeout=SOON_MS)
CHANGED = "net::ERR_NETWORK_CHANGED"
LOOK_MS = 100
# What Streamlit draws again, or fades in or out, has paler colours meanwhile: the script is at its end, nothing on the page
# is of a run before or a placeholder, and no fading is under way.
SETTLED = """() => document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]")
    && !document.querySelector("[data-stale=true], [data-testid=stSkeleton]")
    && document.getAnimations().every(each => each.playState !== "running")"""


@contextmanager
def serving(file: Path, log: Path, *, port: int | None = None, others: Sequence[Path] = ()) -> Iterator[str]:
    """`kafka-mirror app`, its address; `others` are further settings files."""
    port = port or free_port()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "mirror.cli", "app", str(file), *map(str, others), "--listen", f"127.0.0.1:{port}"],
            stdout=out,
            stderr=out,
            cwd=file.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    access = load(file).mirror.http
    address = f"{access.scheme}://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return access.read(f"127.0.0.1:{port}", "/_stcore/health", timeout_s=2) == "ok"
        except OSError:
            return False

    try:
        eventually(answers, within_s=60, because="Streamlit serves the app")
        yield address
    finally:
        process.terminate()
        assert process.wait(20) == 0, log.read_text()


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def visit(page: Page, address: str) -> None:
    """Open a page, and wait until it shows its headline.

    If this machine gets another address meanwhile, for example by a test of containers, Chromium gives up all that it loads
    (ERR_NETWORK_CHANGED), and the page stays blank. It is loaded again.
    """
    given_up: list[str] = []
    page.on(
        "requestfailed", lambda request: given_up.append(request.url) if CHANGED in (request.failure or "") else None
    )

    def load() -> None:
        try:
            page.goto(address)
        except Error as failure:
            if CHANGED not in failure.message:
                raise
            given_up.append(address)

    load()
    headline = page.get_by_role("heading", level=1).first
    until_s = time.monotonic() + SOON_MS / 1000
    while not headline.is_visible() or given_up:
        assert time.monotonic() < until_s, f"{address} shows no headline"
        if given_up:
            given_up.clear()
            load()
        page.wait_for_timeout(LOOK_MS)
