"""What the lag inspector costs at size: a page over many rows in a real Chromium. `python -m tests.benchmarks.inspector`."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import sync_playwright

from app.tables import narrowed, table
from metrics.verdict import Status
from mirror.embedded.broker import free_port
from mirror.lag.flow_summary import worst_first
from mirror.lag.rows import LagRow

# Streamlit runs this in place of app/main.py: the same pages over made-up rows, and no cluster.
SCRIPT = """
import streamlit as st
from app import lag, session
from app.watch import Watch
from mirror.lag.rows import Snapshot
from tests.benchmarks.inspector import made_up
import time

class Polls:
    def poll(self):
        return Snapshot(time_s=time.time(), rows=tuple(made_up({count})), clusters=(("a", True),))
    def window(self, row):
        return []

@st.cache_resource
def watch():
    return Watch(Polls(), every_s=5)

session.watch = watch
st.set_page_config(layout="wide")
lag.page()
"""


def made_up(count: int) -> list[LagRow]:
    """Return this many rows, a tenth of them behind."""
    return [
        LagRow(
            group="a->b",
            cluster="a",
            topic=f"topic-{number // 20:04d}",
            partition=number % 20,
            offset=1000 + number,
            log_end=1000 + number + (number % 10 == 0) * number,
            owner="127.0.0.1:9404",
            is_flow=True,
            lag_seconds=float((number % 10 == 0) * number),
            status=Status.WARN if number % 100 == 0 else Status.OK,
            reason="copies, but falls behind" if number % 100 == 0 else "everything is replicated",
            records_per_s=10.0,
        )
        for number in range(count)
    ]


def server_ms(count: int) -> float:
    """Median time to narrow, order and lay out the rows: what a refresh costs the server beside sending it."""
    rows, took = made_up(count), []
    for _ in range(9):
        began = time.perf_counter()
        table(worst_first(narrowed(rows, only_lagging=False)))
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


def first_paint_s(count: int) -> float:
    """Time from opening the page in a cold browser to its table being drawn."""
    root, port = Path(__file__).resolve().parents[2], free_port()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "page.py"
        script.write_text(SCRIPT.format(count=count))
        command = [
            *(sys.executable, "-m", "streamlit", "run", str(script), "--server.headless=true"),
            *(f"--server.port={port}", "--server.address=127.0.0.1", "--browser.gatherUsageStats=false"),
        ]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        try:
            _await(f"http://127.0.0.1:{port}/_stcore/health")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1500, "height": 1000})
                began = time.perf_counter()
                page.goto(f"http://127.0.0.1:{port}/")
                page.get_by_text(f"{count:,} of {count:,} rows").wait_for(timeout=60_000)
                page.locator("[data-testid=stDataFrame] canvas").first.wait_for(timeout=60_000)
                took = time.perf_counter() - began
                browser.close()
        finally:
            process.terminate()
            process.wait(20)
    return took


def _await(url: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(url)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    count = parser.parse_args().rows
    print("| rows | server time of a refresh ms | first paint, cold browser s |\n|---|---|---|")
    print(f"| {count:,} | {server_ms(count):.0f} | {first_paint_s(count):.1f} |")


if __name__ == "__main__":
    main()
