"""Start the services of docker-compose.yml as `docker compose up` does, with podman.

Published ports are not forwarded: a test connects to the addresses of the containers. A key that this reader does not know
fails, so that no setting of the file is left out unseen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from tests.containers.network import network, options
from tests.containers.podman import ROOT, STARTS_WITHIN_S, Container, run
from tests.waiting import eventually

FILE = ROOT / "docker-compose.yml"
KNOWN = {
    *("image", "build", "command", "environment", "volumes", "ports", "depends_on", "healthcheck"),
    *("restart", "stop_grace_period", "read_only", "tmpfs"),
}
PREFIX = "kafka-mirror-compose"


@dataclass(frozen=True, slots=True)
class Project:
    """The started services, by name, with their addresses."""

    containers: Mapping[str, Container]
    addresses: Mapping[str, str]
    services: Mapping[str, Any]

    def grace_s(self, name: str) -> int:
        """Return how long the engine waits for the end of a service."""
        return _seconds(self.services[name].get("stop_grace_period", "10s"))


@contextmanager
def up(left_out: Sequence[str]) -> Iterator[Project]:
    """Start all services but some, in the order that they depend on each other; remove them and their volumes at the end."""
    compose = yaml.safe_load(FILE.read_text())
    services = {name: service for name, service in compose["services"].items() if name not in left_out}
    with ExitStack() as stack:
        addresses = stack.enter_context(network(list(services)))
        for volume in compose["volumes"]:
            stack.callback(run, "podman", "volume", "rm", "-f", f"{PREFIX}-{volume}", check=False)
        started: dict[str, Container] = {}
        while waiting := [name for name in services if name not in started]:
            name = next(name for name in waiting if set(services[name].get("depends_on", [])) <= started.keys())
            _await_dependencies(services[name], started)
            arguments = [*options(name, addresses), *_options(services[name])]
            container = Container.start(f"{PREFIX}-{name}", _image(services[name]), arguments, _command(services[name]))
            started[name] = stack.enter_context(container)
        yield Project(started, addresses, services)


def _await_dependencies(service: Mapping[str, Any], started: Mapping[str, Container]) -> None:
    needs = service.get("depends_on", {})
    for other in needs:
        if isinstance(needs, dict) and needs[other]["condition"] == "service_healthy":
            container = started[other]
            eventually(container.is_healthy, STARTS_WITHIN_S, f"{other} is healthy")


def _image(service: Mapping[str, Any]) -> str:
    name = service["image"]
    name = name if ":" in name else f"{name}:latest"
    return f"localhost/{name}" if "build" in service else f"docker.io/{name}"


def _command(service: Mapping[str, Any]) -> list[str]:
    return list(service.get("command", []))


def _options(service: Mapping[str, Any]) -> list[str]:
    """Return podman's options for a service."""
    assert service.keys() <= KNOWN, service.keys() - KNOWN
    found = [f"--env={name}={value}" for name, value in service.get("environment", {}).items()]
    found += [f"--volume={_mount(mount)}" for mount in service.get("volumes", [])]
    found += [f"--tmpfs={folder}" for folder in service.get("tmpfs", [])]
    if service.get("read_only"):
        found += ["--read-only", "--read-only-tmpfs=false"]
    if check := service.get("healthcheck"):
        test = check["test"]
        found += ["--health-cmd", test[1] if test[0] == "CMD-SHELL" else json.dumps(test[1:])]
    return [*found, f"--restart={service.get('restart', 'no')}"]


def _mount(text: str) -> str:
    source, rest = text.split(":", 1)
    return f"{ROOT / source}:{rest}" if source.startswith(".") else f"{PREFIX}-{source}:{rest}"


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)s", text)
    assert found, text
    return int(found[1])
