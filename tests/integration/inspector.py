"""Serve the lag inspector as a user does, and open a real Chromium on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from playwright.sync_api import TimeoutError as Blank

from mirror.config.load import load
from mirror.embedded.ports import free_port
from tests.waiting import PATIENCE, eventually

CHROMIUM = shutil.which("chromium")
PAGES = ("overview", "lag", "topic", "partition", "groups", "health", "incidents", "glossary")
ROOT = Path(__file__).resolve().parents[2]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium (Debian: chromium) is not installed")
SOON_MS = PATIENCE * 40_000  # what a page is given to show something
expect.set_options(timeout=SOON_MS)
BLANK_MS, RELOADS = 40_000, 5


@contextmanager
def serving(file: Path, log: Path, *, port: int | None = None) -> Iterator[str]:
    """`kafka-mirror app`, its address."""
    port = port or free_port()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "mirror.cli", "app", str(file), "--listen", f"127.0.0.1:{port}"],
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
        process.wait(20)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def visit(page: Page, address: str) -> None:
    """Open a page, and reload it if it stays blank.

    On a busy machine about one load in fifty stayed blank: no text, and no error of the server. The cause is not known. If a page
    stays blank, this prints what the browser noted.
    """
    heard = noted(page)
    page.goto(address)
    for _ in range(RELOADS):
        try:
            page.get_by_role("heading", level=1).first.wait_for(timeout=BLANK_MS)
        except Blank:
            print(f"{address} stayed blank for {BLANK_MS} ms; the browser noted:", *heard, sep="\n")
            page.reload()
        else:
            return


def noted(page: Page) -> list[str]:
    """Return a list that a page's console messages, errors, failed requests and closed websockets are added to."""
    heard: list[str] = []
    page.on("console", lambda message: heard.append(f"console: {message.type}: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("requestfailed", lambda request: heard.append(f"failed: {request.url}: {request.failure}"))
    page.on("websocket", lambda socket: heard.append(f"websocket: {socket.url}"))
    page.on("websocket", lambda socket: socket.on("close", lambda _: heard.append("websocket: closed")))
    return heard
