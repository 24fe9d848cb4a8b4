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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

from app.serve import OPTIONS
from app.tables import narrowed, table
from metrics.lag_row import LagRow
from metrics.partition_status import Status
from mirror.config.given import Given
from mirror.embedded.ports import free_port
from mirror.lag.flow_summary import worst_first

# Streamlit runs this in place of app/main.py: the same pages over made-up rows, and no cluster.
SCRIPT = """
import runpy
import sys
import time
import streamlit as st
from app import inspection
from app.watch import Watch
from mirror.cli import parse
from mirror.config.given import mirrors_of
from mirror.lag.snapshot import Snapshot
from tests.benchmarks.inspector import {rows} as made_up

class Polls:
    def __init__(self, given):
        self._given = given
    def poll(self):
        rows = tuple(made_up(self._given, {count}))
        return Snapshot(time_s=time.time(), rows=rows, clusters=(("a", True), ("b", True)))
    def window(self, row):
        return []
    def leader_changes(self, row):
        return []

@st.cache_resource
def begin():
    for given in mirrors_of(parse(["app", *sys.argv[1:]])):
        inspection.MIRRORS[given.name] = inspection.Inspected(given, Watch(Polls(given), every_s=5))

begin()
runpy.run_path({main!r})
"""
SETTINGS = """clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:2
a->b.enabled = true
mirror.metrics.listen = 127.0.0.1:{port}
"""
ROOT = Path(__file__).resolve().parents[2]
UNHEALTHY = {(3, 2): Status.STALL, (5, 1): Status.UNKNOWN, (2, 4): Status.WARN}  # by mirror and flow of the fleet
PAGES = {"Overview": "/", "Partitions": "/partitions"}


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
            reason="copying, but falling behind" if number % 100 == 0 else "everything is replicated",
            records_per_s=10.0,
        )
        for number in range(count)
    ]


def made_up_flow(_: Given, count: int) -> list[LagRow]:
    """Return the rows of the only mirror."""
    return made_up(count)


def made_up_region(given: Given, count: int) -> list[LagRow]:
    """Return so many rows for each flow of a mirror, some of which are unhealthy."""
    found, region = [], int(given.name[-1])
    for number, flow in enumerate(given.settings.flows):
        status = UNHEALTHY.get((region, number), Status.OK)
        waits_s = {Status.OK: 0.2, Status.UNKNOWN: None}.get(status, 95.0 * (region + 1))
        found += [
            LagRow(
                group=flow.name,
                cluster=flow.source.alias,
                topic="orders",
                partition=partition,
                offset=1000,
                log_end=None if waits_s is None else 1000 + round(waits_s * 10),
                owner="127.0.0.1:9404",
                is_flow=True,
                lag_seconds=waits_s,
                status=status,
                reason=status.name,
                records_per_s=10.0,
            )
            for partition in range(count)
        ]
    return found


def server_ms(count: int) -> float:
    """Median time to narrow, order and lay out the rows: what a refresh costs the server beside sending it."""
    rows, took = made_up(count), []
    for _ in range(9):
        began = time.perf_counter()
        table(worst_first(narrowed(rows, only_lagging=False)))
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


@contextmanager
def made_up_pages(folder: Path, count: int) -> Iterator[str]:
    """Serve the pages over so many made-up rows; their address."""
    file = folder / "mirror.properties"
    file.write_text(SETTINGS.format(port=free_port()))
    with _serving(folder, [file], rows="made_up_flow", count=count) as address:
        yield address


@contextmanager
def made_up_fleet(folder: Path, *, mirrors: int, flows: int) -> Iterator[str]:
    """Serve the pages over so many mirrors with so many flows each; their address."""
    files = []
    for number in range(mirrors):
        aliases = ["hub", *(f"site-{number}{at}" for at in range(flows))]
        file = folder / f"region-{number}.properties"
        servers = (f"{alias}.bootstrap.servers = 127.0.0.1:{at + 1}\n" for at, alias in enumerate(aliases))
        enabled = (f"{alias}->hub.enabled = true\n" for alias in aliases[1:])
        file.write_text(f"clusters = {', '.join(aliases)}\n{''.join((*servers, *enabled))}")
        files.append(file)
    with _serving(folder, files, rows="made_up_region", count=4) as address:
        yield address


@contextmanager
def _serving(folder: Path, files: Sequence[Path], *, rows: str, count: int) -> Iterator[str]:
    script, port = folder / "page.py", free_port()
    script.write_text(SCRIPT.format(rows=rows, count=count, main=str(ROOT / "app" / "main.py")))
    command = [
        *(sys.executable, "-m", "streamlit", "run", str(script)),
        *(f"--{key}={value}" for key, value in {**OPTIONS, "server.port": port, "server.address": "127.0.0.1"}.items()),
        *("--", *map(str, files)),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        _await(f"http://127.0.0.1:{port}/_stcore/health")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def first_paint_s(address: str, path: str) -> float:
    """Time from opening a page in a cold browser to its table being drawn."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        began = time.perf_counter()
        page.goto(address + path)
        page.locator("[data-testid=stDataFrame] canvas").first.wait_for(timeout=60_000)
        took = time.perf_counter() - began
        browser.close()
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
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--times", type=int, default=3, help="the median of so many is printed (default: 3)")
    asked = parser.parse_args()
    print("| rows | page | server time of its table ms | first paint, cold browser s |\n|---|---|---|---|")
    for count in asked.rows:
        with tempfile.TemporaryDirectory() as folder, made_up_pages(Path(folder), count) as address:
            for name, path in PAGES.items():
                # The first process' first viewer waits for Streamlit's imports: every later one is what people see.
                first_paint_s(address, path)
                paint_s = statistics.median(first_paint_s(address, path) for _ in range(asked.times))
                print(f"| {count:,} | {name} | {server_ms(count):.0f} | {paint_s:.1f} |", flush=True)


if __name__ == "__main__":
    main()
