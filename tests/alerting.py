"""A real Alertmanager beside a real Prometheus, for tests and measurements of alerts."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mirror.embedded.ports import free_port
from mirror.embedded.prometheus_server import CONFIGURATION


@contextmanager
def alertmanager(folder: Path) -> Iterator[str]:
    """A real Alertmanager with the example's configuration; its address."""
    port = free_port()
    command = [
        "prometheus-alertmanager",
        f"--config.file={CONFIGURATION / 'prometheus' / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (folder / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def states(address: str) -> dict[str, str]:
    """What Alertmanager does with each alert that it was sent: active, or suppressed where all of that name are."""
    with urllib.request.urlopen(f"http://{address}/api/v2/alerts", timeout=15) as answer:
        found = [(alert["labels"]["alertname"], alert["status"]["state"]) for alert in json.load(answer)]
    return dict(sorted(found, key=lambda each: each[1], reverse=True))  # the last one counts: active


def told_to(folder: Path, address: str) -> None:
    """Have the Prometheus that was configured in `folder` tell its alerts to an Alertmanager."""
    _list_targets(folder, "alertmanager", [address])


def scraped(folder: Path, ports: Sequence[int]) -> None:
    """Have the Prometheus that was configured in `folder` scrape these ports; it looks at its list by itself."""
    _list_targets(folder, "mirror", [f"127.0.0.1:{port}" for port in ports])


def _list_targets(folder: Path, what: str, addresses: Sequence[str]) -> None:
    listed = folder / "prometheus" / "targets" / f"{what}.yml"
    written = listed.with_suffix(".new")
    written.write_text(json.dumps([{"targets": list(addresses)}]))
    written.replace(listed)


def paced(rules: str, pace: float) -> str:
    """The rules with every duration divided by `pace`."""
    unit_s = {"s": 1, "m": 60, "h": 3600, "d": 86400}

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}{max(1, round(int(found[2]) * unit_s[found[3]] / pace))}s"

    return re.sub(r"(\[|offset |for: )(\d+)([smhd])\b", shorter, rules)
