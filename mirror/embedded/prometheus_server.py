"""Run a real Prometheus on a free loopback port, with the files that docker-compose.yml mounts."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirror.embedded.ports import free_port
from mirror.errors import MirrorError
from mirror.runtime.prometheus import Prometheus

CONFIGURATION = Path(__file__).resolve().parents[2] / "dashboards"
READY_S = 30.0


def is_installed() -> bool:
    """Return whether Prometheus is installed."""
    return shutil.which("prometheus") is not None


def rules_of(folder: Path) -> Path:
    """Return the folder of rules that the prometheus.yml of a `dashboards/` folder names."""
    return folder / "chart" / "generated" / "kafka-mirror.rules.yml"


def configured(folder: Path, targets: list[str], *, every: str = "15s") -> Path:
    """Copy the configuration for some targets, without an Alertmanager; return its main file.

    Args:
        folder: An existing folder without configuration.
        targets: The scraped addresses (host:port).
        every: The interval of scrapes and rule evaluations, in Prometheus' notation.
    """
    shutil.copytree(CONFIGURATION / "prometheus", folder / "prometheus")
    rules_of(folder).parent.mkdir(parents=True)
    shutil.copy(rules_of(CONFIGURATION), rules_of(folder))
    (folder / "prometheus" / "targets" / "mirror.yml").write_text(json.dumps([{"targets": targets}]))
    (folder / "prometheus" / "targets" / "alertmanager.yml").write_text("[]")
    file = folder / "prometheus" / "prometheus.yml"
    file.write_text(file.read_text().replace("_interval: 15s", f"_interval: {every}"))
    return file


@contextmanager
def running(file: Path, data: Path, *options: str) -> Iterator[Prometheus]:
    """Run a server with this configuration file and these options; its data are in `data`.

    Raises:
        MirrorError: Prometheus is not installed, or does not start; the message has the end of its log.
    """
    program = shutil.which("prometheus")
    if program is None:
        raise MirrorError("no Prometheus found on the PATH. Install it (Debian: apt-get install prometheus).")
    port = free_port()
    server = Prometheus(f"http://127.0.0.1:{port}")
    log = data.with_suffix(".log")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={file}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{port}",
                *options,
            ],
            stdout=out,
            stderr=out,
        )
    try:
        _await_ready(server, process, log)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(server: Prometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            with urllib.request.urlopen(f"{server.url}/-/ready", timeout=2):  # noqa: S310 - our own server
                return
        except (urllib.error.URLError, TimeoutError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            if process.poll() is not None or time.monotonic() > deadline:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise MirrorError(f"Prometheus did not start: {' '.join(last)}") from error
            time.sleep(0.1)
