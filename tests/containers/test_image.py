"""The image is small, runs as any user on a read-only root, and stops and restarts without losing or repeating a record."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirror import __version__
from mirror.embedded.ports import free_port
from tests.containers import images
from tests.containers.podman import HOST, RUN, STARTS_WITHIN_S, Container, missing, run
from tests.integration.records import create, differences, end_offset, load
from tests.waiting import eventually

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kafka,
    pytest.mark.xdist_group("containers"),
    pytest.mark.skipif(missing() != "", reason=missing()),
]
MOST_BYTES = 900_000_000
GRACE_S = 60
STRANGER = "12345:0"  # no passwd entry has this id
LOCKED = ("--read-only", "--read-only-tmpfs=false", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")


@pytest.fixture(scope="module")
def image() -> str:
    """The image of this clone."""
    images.build()
    return images.NAME


def settings(folder: Path, primary: str, backup: str, topic: str, port: int) -> Path:
    """Write a settings file; return its folder."""
    folder.mkdir()
    (folder / "mirror.properties").write_text(
        f"""clusters = primary, backup
primary.bootstrap.servers = {primary}
backup.bootstrap.servers = {backup}
primary->backup.enabled = true
primary->backup.topics = {topic}
replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
mirror.metrics.listen = 127.0.0.1:{port}
"""
    )
    return folder


@pytest.fixture
def volume(topic) -> Iterator[str]:
    """An empty volume, which gets the owner and mode of the image's folder."""
    run("podman", "volume", "create", topic)
    yield topic
    run("podman", "volume", "rm", "-f", topic)


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_size_user_and_labels(image, record_property):
    size = images.size_bytes(image)
    record_property("bytes", size)
    assert size < MOST_BYTES
    (found,) = json.loads(run("podman", "image", "inspect", image))
    assert found["Config"]["User"] == "10001:0"
    assert list(found["Config"]["Volumes"]) == ["/var/lib/kafka-mirror"]
    labels = found["Config"]["Labels"]
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.revision"] == run("git", "rev-parse", "HEAD").strip()
    assert run("podman", "run", "--rm", *RUN, *HOST, image, "--version") == f"kafka-mirror {__version__}\n"


def test_a_user_without_a_name_on_a_read_only_root(image, volume, primary, backup, topic, tmp_path):
    create(primary, topic, 2)
    port = free_port()
    conf = settings(tmp_path / "conf", primary.bootstrap, backup.bootstrap, topic, port)
    mounts = ("-v", f"{volume}:/var/lib/kafka-mirror", "-v", f"{conf}:/etc/kafka-mirror:ro")
    options = (*HOST, *LOCKED, "--user", STRANGER, *mounts)
    check = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/ready', timeout=2)"
    health = ("--health-cmd", json.dumps(["python", "-c", check]))
    command = ("run", "/etc/kafka-mirror/mirror.properties")
    with Container.start(topic, image, (*options, *health), command) as container:
        with load(primary, topic):
            stops_and_restarts(container, port, lambda: end_offset(backup, f"primary.{topic}", 0))
        eventually(lambda: not differences(primary, backup, topic, f"primary.{topic}"), 60, "both logs are equal")
        assert container.inside("id", "-u").strip() == STRANGER.partition(":")[0]
        assert "Read-only" in container.inside("sh", "-c", "touch /opt/x 2>&1 || true")


def stops_and_restarts(container: Container, port: int, arrived: Callable[[], int]) -> None:
    """Wait until it replicates, stop it within its grace, and start it again."""
    eventually(lambda: is_ready(port) or not container.is_running(), STARTS_WITHIN_S, "the process is ready")
    assert container.is_running(), container.logs()
    assert container.is_healthy()
    eventually(lambda: arrived() > 500, 60, "records arrive")
    code, took_s = container.stop(GRACE_S)
    assert (code, took_s < GRACE_S) == (0, True), container.logs()
    assert "stopped; every position is committed" in container.logs()
    assert not container.is_healthy()
    container.start_again()
    before = arrived()
    eventually(lambda: arrived() > before + 500, 90, "records arrive again")


def test_the_lag_inspector(image, primary, backup, topic, tmp_path):
    port = free_port()
    conf = settings(tmp_path / "conf", primary.bootstrap, backup.bootstrap, topic, free_port())
    options = (*HOST, *LOCKED, "--user", STRANGER, "-v", f"{conf}:/etc/kafka-mirror:ro")
    command = ("app", "/etc/kafka-mirror/mirror.properties", "--listen", f"127.0.0.1:{port}")

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    with Container.start(f"{topic}-app", image, (*options, "--tmpfs", "/tmp"), command) as container:
        eventually(lambda: answers() or not container.is_running(), STARTS_WITHIN_S, "the pages are served")
        assert container.is_running(), container.logs()
        assert container.stop(20)[0] == 0


def test_two_builds_are_equal():
    """Both without a cache: a cached layer has the time of the commit that it was built for."""
    names = [f"localhost/kafka-mirror:build-{number}" for number in (1, 2)]
    for name in names:
        images.build(name=name, cached=False)
    first, second = (json.loads(run("podman", "image", "inspect", name))[0]["RootFS"]["Layers"] for name in names)
    run("podman", "rmi", *names)
    assert first == second
