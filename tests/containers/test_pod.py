"""The container starts with exactly what the Deployment gives its pod, and a rolling update loses and repeats nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mirror.embedded.ports import free_port
from tests.containers import images
from tests.containers.podman import HOST, STARTS_WITHIN_S, Container, missing
from tests.containers.test_image import is_ready
from tests.integration.records import create, differences, end_offset, load
from tests.unit.test_kubernetes import MANIFESTS
from tests.waiting import eventually

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kafka,
    pytest.mark.xdist_group("containers"),
    pytest.mark.skipif(missing() != "", reason=missing()),
]
POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
CONVERTED = {"runAsNonRoot", "runAsUser", "fsGroup", "seccompProfile"}
CONVERTED_OF_CONTAINER = {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"}


def secured() -> list[str]:
    """Return podman's options for both security contexts."""
    pod, own = POD["securityContext"], CONTAINER["securityContext"]
    assert (pod.keys(), own.keys()) == (CONVERTED, CONVERTED_OF_CONTAINER), "a new field is not tested"
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    options = ["--read-only", "--read-only-tmpfs=false", "--security-opt", "no-new-privileges"]
    options += ["--user", f"{pod['runAsUser']}:0", "--group-add", str(pod["fsGroup"])]
    return [*options, *(f"--cap-drop={name}" for name in own["capabilities"]["drop"])]


class Mounts:
    """Writes the pod's volumes below a folder, with the owners and modes that the kubelet gives them."""

    def __init__(self, folder: Path, settings: str) -> None:
        self._folder = folder
        self._files = {
            "settings": {"connect-mirror-maker.properties": settings},
            "secrets": MANIFESTS["Secret"]["stringData"],
        }

    def options(self) -> list[str]:
        """Return podman's options for all mounts."""
        volumes = {volume["name"]: volume for volume in POD["volumes"]}
        for name, volume in volumes.items():
            self._write(name, volume)
        found = []
        for mount in CONTAINER["volumeMounts"]:
            source = self._folder / mount["name"] / mount.get("subPath", "")
            is_fixed = mount.get("readOnly") or "emptyDir" not in volumes[mount["name"]]
            found.append(f"--volume={source}:{mount['mountPath']}:{'ro' if is_fixed else 'rw'}")
        return found

    def _write(self, name: str, volume: dict[str, Any]) -> None:
        folder, group = self._folder / name, POD["securityContext"]["fsGroup"]
        folder.mkdir(parents=True)
        os.chown(folder, 0, group)
        folder.chmod(0o2775)
        for file, text in self._files.get(name, {}).items():
            (folder / file).write_text(text)
            os.chown(folder / file, 0, group)
            (folder / file).chmod(volume.get("secret", {}).get("defaultMode", 0o644))


def started(name: str, folder: Path, clusters: Sequence[str], topic: str) -> tuple[Container, int]:
    """Start a pod's container for two clusters without TLS; return it and its port."""
    text, port = MANIFESTS["ConfigMap"]["data"]["connect-mirror-maker.properties"], free_port()
    for alias, bootstrap in zip(("primary", "backup"), clusters, strict=True):
        text = text.replace(f"{alias}-kafka-bootstrap:9093", bootstrap)
    text = text.replace("topics = .*", f"topics = {topic}").replace("0.0.0.0:9404", f"127.0.0.1:{port}")
    text = re.sub(r"^(security|sasl|ssl)\..*\n", "", text, flags=re.M).replace("sasl.jaas.config", "client.rack")
    text += "replication.factor = 1\n" + "".join(
        f"{what}.topic.replication.factor = 1\n" for what in ("checkpoints", "offset-syncs", "heartbeats")
    )
    options = (*HOST, *secured(), *Mounts(folder, text).options())
    return Container.start(name, images.NAME, options, CONTAINER["args"]), port


def await_ready(container: Container, port: int) -> None:
    """Wait as the startup probe does, and fail after as long."""
    probe = CONTAINER["startupProbe"]
    assert probe["httpGet"]["path"] == "/ready"
    assert probe["periodSeconds"] * probe["failureThreshold"] <= STARTS_WITHIN_S
    eventually(lambda: is_ready(port) or not container.is_running(), STARTS_WITHIN_S, "the pod is ready")
    assert container.is_running(), container.logs()


def test_a_rolling_update_of_one_pod_loses_and_repeats_nothing(primary, backup, topic, tmp_path):
    """As with maxSurge 1: the second process starts, takes its share, and then the first one stops."""
    images.build()
    create(primary, topic, 2)
    clusters, grace_s = (primary.bootstrap, backup.bootstrap), POD["terminationGracePeriodSeconds"]
    remote = f"primary.{topic}"
    with ExitStack() as stack:
        with load(primary, topic):
            old, port = started(f"{topic}-1", tmp_path / "1", clusters, topic)
            stack.enter_context(old)
            await_ready(old, port)
            eventually(lambda: end_offset(backup, remote, 0) > 300, 60, "the first pod replicates")
            new, port = started(f"{topic}-2", tmp_path / "2", clusters, topic)
            stack.enter_context(new)
            await_ready(new, port)
            code, took_s = old.stop(grace_s)
            assert (code, took_s < grace_s) == (0, True), old.logs()
            before = end_offset(backup, remote, 0)
            eventually(lambda: end_offset(backup, remote, 0) > before + 300, 90, "the second pod replicates")
        eventually(lambda: not differences(primary, backup, topic, remote), 60, "both logs are equal")
        assert POD["securityContext"]["fsGroup"] in json.loads(
            new.inside("python", "-c", "import os, json; print(json.dumps(os.getgroups()))")
        )
