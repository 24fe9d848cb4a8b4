"""Build images: the project's from its Dockerfile, and stand-ins for those that docker-compose.yml takes from a registry.

A stand-in has the name, the user, the folders and the programs of the original, from Debian's packages and Kafka's jars.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from mirror import __version__
from mirror.embedded import jars
from tests.containers.podman import ROOT, run

NAME = "localhost/kafka-mirror:latest"
FOLDER = Path(__file__).parent
BUILD = ("buildah", "bud", "-q", "--isolation", "chroot", "--format", "docker", "--layers")
STAND_INS = {
    "docker.io/apache/kafka:4.1.1": "kafka",
    "docker.io/prom/prometheus:v3.5.0": "prometheus",
    "docker.io/prom/alertmanager:v0.28.1": "alertmanager",
}


def build(*, name: str = NAME, cached: bool = True) -> str:
    """Build the image of kafka-mirror; return its id."""
    run(FOLDER / "base.sh")
    revision = run("git", "rev-parse", "HEAD").strip()
    committed_s = run("git", "log", "-1", "--format=%ct").strip()
    made = run(
        *(*BUILD, "--timestamp", committed_s, "-t", name),
        *("--label", f"org.opencontainers.image.version={__version__}"),
        *("--label", f"org.opencontainers.image.revision={revision}"),
        *(() if cached else ("--no-cache",)),
        ".",
    )
    return made.strip().splitlines()[-1]


def build_stand_ins() -> None:
    """Build the images of brokers, Prometheus and Alertmanager."""
    run(FOLDER / "base.sh")
    with tempfile.TemporaryDirectory() as name:
        context = Path(name)
        shutil.copytree(FOLDER / "stand_ins", context, dirs_exist_ok=True)
        shutil.copytree(jars.resolve(), context / "jars")
        for image, program in STAND_INS.items():
            run(*BUILD, "-f", context / f"{program}.dockerfile", "-t", image, context)


def size_bytes(image: str = NAME) -> int:
    """Return the size of an image, unpacked."""
    (found,) = json.loads(run("podman", "image", "inspect", image))
    return int(found["Size"])


def packed_bytes(image: str = NAME) -> int:
    """Return the size of an image as a registry stores it: each layer packed by gzip."""
    with subprocess.Popen(
        ["podman", "save", image], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
    ) as saved:
        packed = subprocess.run(["gzip", "-6"], stdin=saved.stdout, stdout=subprocess.PIPE, check=True)
    return len(packed.stdout)
