"""The quick start without clusters: a pair of embedded ones, a mirror, and Kafka's own console producer, command by command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from mirror.embedded.ports import free_port
from tests.waiting import eventually

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).resolve().parents[2]
PORT = 9404


def blocks() -> list[str]:
    """Return the shell blocks of the quick start."""
    return re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "quickstart.md").read_text(), re.DOTALL)


def metrics(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=15) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, TimeoutError):
        return ""


@pytest.mark.nightly
def test_the_quick_starts_commands_mirror_what_kafkas_console_producer_wrote(tmp_path):
    start = next(block for block in blocks() if "clusters up" in block)
    tools = next(block for block in blocks() if "ConsoleProducer" in block)
    bin_folder = tmp_path / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "kafka-mirror").write_text(f'#!/bin/sh\nexec {sys.executable} -m mirror.cli "$@"\n')
    (bin_folder / "kafka-mirror").chmod(0o755)
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    up, run = (line.partition("  #")[0] for line in start.strip().splitlines())
    said = subprocess.run(["sh", "-c", up], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    log = (tmp_path / "run.log").open("wb")
    appliance = subprocess.Popen(
        ["sh", "-c", f"exec {run} --metrics-listen 127.0.0.1:{port}"],
        cwd=tmp_path,
        env=environment,
        stdout=log,
        stderr=log,
    )
    try:
        address = re.search(r"primary is at (127\.0\.0\.1:\d+)", said.stdout)
        assert address, said.stdout
        script = tools.replace("127.0.0.1:PORT", address[1]).replace(str(PORT), str(port))
        produce = "".join(line + "\n" for line in script.splitlines() if "curl" not in line and "down" not in line)
        subprocess.run(["sh", "-ec", produce], cwd=tmp_path, env=environment, check=True, timeout=300)
        counted = re.compile(r'^kafka_mirror_record_count_total{.*topic="primary\.orders"} (\S+)$', re.MULTILINE)
        eventually(
            lambda: sum(float(count) for count in counted.findall(metrics(port))) == 1000,
            within_s=120,
            because="the 1000 records of the console producer are mirrored and counted",
        )
        curl = next(line for line in script.splitlines() if line.startswith("curl"))
        shown = subprocess.run(["sh", "-c", curl], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert 'topic="primary.orders"' in shown
    finally:
        appliance.send_signal(signal.SIGTERM)
        began = time.monotonic()
        code = appliance.wait(180)
        log.close()
        down = next(line.partition("  #")[0] for line in tools.splitlines() if "clusters down" in line)
        subprocess.run(["sh", "-c", down], cwd=tmp_path, env=environment, check=True)
    assert code == 0, (tmp_path / "run.log").read_text()
    assert time.monotonic() - began < 40
