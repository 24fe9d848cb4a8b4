"""The manifests are what Kubernetes reads, and what they say of the mirror is so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from dashboards.monitoring import DEFAULT
from mirror.config.load import load
from tests.unit.test_packages import rendered

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = {
    document["kind"]: document
    for document in yaml.safe_load_all((ROOT / "docs" / "kubernetes" / "kafka-mirror.yaml").read_text())
}


MONITORING = rendered()


@pytest.mark.parametrize("kind", MANIFESTS)
@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_each_is_as_its_schema_says(kind, version):
    kubernetes_validate.validate(MANIFESTS[kind], version, strict=True)


def test_a_key_that_the_schema_does_not_know_is_found():
    wrong = yaml.safe_load(yaml.safe_dump(MANIFESTS["Deployment"]))
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_the_settings_are_taken_and_fit_the_deployment(tmp_path):
    settings, secret = MANIFESTS["ConfigMap"]["data"], MANIFESTS["Secret"]["stringData"]
    for name, content in secret.items():
        (tmp_path / name).write_text(content)
    (file,) = settings
    text = settings[file].replace("/etc/kafka-mirror/secrets", str(tmp_path))
    (tmp_path / file).write_text(
        text.replace("ssl.truststore.type = PEM\n", "").replace(f"ssl.truststore.location = {tmp_path}/ca.pem\n", "")
    )
    found = load(tmp_path / file)
    spec = MANIFESTS["Deployment"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert not found.ignored
    assert found.mirror.metrics_listen == ("0.0.0.0", container["ports"][0]["containerPort"])
    assert found.mirror.slots % spec["replicas"] == 0
    assert container["args"] == ["run", f"/etc/kafka-mirror/{file}"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert str(found.mirror.state_dir.parent) in mounts
    assert set(mounts.values()) == {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
    assert "jaas" in (tmp_path / "mirror.properties").read_text()
    assert "ScramLoginModule" in found.flows[0].producer["sasl.jaas.config"]


@pytest.mark.parametrize(
    "document", MONITORING, ids=lambda document: f"{document['kind']} {document['metadata']['name']}"
)
def test_what_watches_it_is_as_its_schema_says(document):
    if document["apiVersion"] == "v1":
        kubernetes_validate.validate(document, "1.37", strict=True)
        return
    read = operators_model(document["kind"]).model_validate(document)
    assert lost(document, read.model_dump(mode="json", by_alias=True, exclude_none=True)) == []


def operators_model(kind: str) -> Any:
    """Return the Prometheus operator's model of a kind; the import takes two seconds, so that collection has none of it."""
    from cloudcoil.models.prometheus_operator import v1

    return getattr(v1, kind)


def lost(given: object, read: object, path: str = "") -> list[str]:
    """Paths of what a schema has not taken over."""
    if isinstance(given, dict):
        known = read if isinstance(read, dict) else {}
        return [found for key, value in given.items() for found in lost(value, known.get(key), f"{path}.{key}")]
    if isinstance(given, list):
        known = read if isinstance(read, list) else []
        return [found for at, value in enumerate(given) for found in lost(value, known[at], f"{path}[{at}]")]
    return [] if given == read else [path]


def test_what_the_operators_schema_does_not_know_is_found():
    (rule,) = [document for document in MONITORING if document["kind"] == "PrometheusRule"]
    wrong = yaml.safe_load(yaml.safe_dump(rule))
    wrong["spec"]["groups"][0]["rules"][0]["lables"] = {"a": "b"}
    read = operators_model("PrometheusRule").model_validate(wrong).model_dump(mode="json", by_alias=True)
    assert lost(wrong, read) == [".spec.groups[0].rules[0].lables.a"]


def test_the_pods_of_the_deployment_are_scraped_as_the_job_that_the_rules_select():
    (monitor,) = [document["spec"] for document in MONITORING if document["kind"] == "PodMonitor"]
    pods = MANIFESTS["Deployment"]["spec"]["template"]
    assert monitor["selector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    (container,) = pods["spec"]["containers"]
    assert endpoint["port"] in {port["name"] for port in container["ports"]}
    assert DEFAULT.selector == f'job="{pods["metadata"]["labels"][monitor["jobLabel"]]}"'
