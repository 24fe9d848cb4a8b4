"""The manifests are what Kubernetes reads, and what they say of the mirror is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import helm_python as helm
import kubernetes_validate
import pytest
import yaml

from dashboards.monitoring import DEFAULT
from mirror import __version__
from mirror.appliance import STOP_WITHIN_S
from mirror.config.load import load
from tests.unit.test_packages import rendered

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "docs" / "kubernetes" / "chart"
PLAIN = ROOT / "docs" / "kubernetes" / "kafka-mirror.yaml"
HEAD = """\
# Three processes that share the slots of one mirror: the chart with its default values, and a Secret.
# Written by `pytest --update-golden tests/unit/test_kubernetes.py` from docs/kubernetes/chart. Build the image from the
# Dockerfile, write your own settings and passwords, then: kubectl apply -f kafka-mirror.yaml
apiVersion: v1
kind: Secret
metadata:
  name: kafka-mirror
type: Opaque
stringData:
  ca.pem: "the authority of the brokers' certificates"
  mirror.properties: |
    primary.jaas = org.apache.kafka.common.security.scram.ScramLoginModule required username="mirror" password="change me";
    backup.jaas = org.apache.kafka.common.security.scram.ScramLoginModule required username="mirror" password="change me";
"""
MINORS = ("1.35", "1.36", "1.37")
EVERYTHING = {
    "persistence": {"enabled": True, "storageClass": "fast"},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "serviceAccountName": "mirror",
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "image": {"pullSecrets": [{"name": "registry"}]},
    "resources": {"limits": {"memory": "4Gi"}},
}
MONITORING = rendered()


def text_of_chart(**values: object) -> str:
    """Return what Helm makes of the chart, without blanks at the ends of lines."""
    with helm.Chart.load(CHART) as chart:
        made = chart.render(values, name="kafka-mirror", namespace="default")
    parts = [made[name].strip() for name in sorted(made, reverse=True) if made[name].strip()]
    return "".join(f"---\n{re.sub(r' +$', '', part, flags=re.M)}\n" for part in parts)


def documents(text: str) -> dict[str, Any]:
    """Return the documents by kind; each kind occurs once."""
    found = [document for document in yaml.safe_load_all(text) if document]
    assert len({document["kind"] for document in found}) == len(found)
    return {document["kind"]: document for document in found}


MANIFESTS = documents(PLAIN.read_text())


def test_the_plain_manifest_is_the_chart_with_its_defaults(request):
    made = HEAD + text_of_chart()
    if request.config.getoption("--update-golden"):
        PLAIN.write_text(made)
    assert PLAIN.read_text() == made


@pytest.mark.parametrize("kind", MANIFESTS)
@pytest.mark.parametrize("version", MINORS)
def test_each_manifest_matches_its_schema(kind, version):
    kubernetes_validate.validate(MANIFESTS[kind], version, strict=True)


@pytest.mark.parametrize("version", MINORS)
def test_the_chart_with_all_values_matches_the_schemas(version):
    made = documents(text_of_chart(**EVERYTHING))
    assert made.keys() == {"ConfigMap", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor"}
    for kind in made.keys() - {"PodMonitor"}:
        kubernetes_validate.validate(made[kind], version, strict=True)
    monitor = operators_model("PodMonitor").model_validate(made["PodMonitor"])
    assert lost(made["PodMonitor"], monitor.model_dump(mode="json", by_alias=True, exclude_none=True)) == []
    pod = made["StatefulSet"]["spec"]["template"]["spec"]
    assert "state" not in [volume["name"] for volume in pod["volumes"]], "the claim has this name"


def test_parts_of_the_chart_can_be_left_out():
    off = {"enabled": False}
    made = documents(
        text_of_chart(podDisruptionBudget=off, networkPolicy=off, secretName="", runAsUser=None, fsGroup=None)
    )
    assert made.keys() == {"ConfigMap", "Deployment"}
    pod = made["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert {volume["name"] for volume in pod["volumes"]} == {"settings", "state", "tmp"}


def test_memory_follows_the_formula_of_the_sizing_page():
    made = documents(text_of_chart(slots=4, flows=2, partitions=10_000))
    resources = made["Deployment"]["spec"]["template"]["spec"]["containers"][0]["resources"]
    wanted = 720 + 68 * 4 + 0.08 * 10_000 + 48 * 4 * 2
    assert resources["requests"]["memory"] == f"{wanted:.0f}Mi"
    assert resources["limits"]["memory"] == f"{wanted * 1.25:.0f}Mi"
    page = (ROOT / "docs" / "sizing.md").read_text().replace("\N{MULTIPLICATION SIGN}", "*")
    assert "720 + 68 * slots + 0.08 * partitions + 48 * slots * flows" in page


def test_other_settings_restart_the_pods():
    annotations = [
        documents(text_of_chart(slots=slots))["Deployment"]["spec"]["template"]["metadata"]["annotations"]
        for slots in (2, 4)
    ]
    assert annotations[0] != annotations[1]


def test_helm_lints_the_chart_and_refuses_unknown_values():
    found = helm.lint(CHART, strict=True)
    assert found["errors"] == []
    with pytest.raises(helm.HelmError, match="replica"):
        text_of_chart(replica=2)


def test_chart_and_program_have_one_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


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
    assert found.mirror.slots == found.flows[0].tasks_max == 6
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > STOP_WITHIN_S
    assert container["args"] == ["run", f"/etc/kafka-mirror/{file}"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert str(found.mirror.state_dir.parent) in mounts
    assert set(mounts.values()) == {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
    assert "jaas" in (tmp_path / "mirror.properties").read_text()
    assert "ScramLoginModule" in found.flows[0].producer["sasl.jaas.config"]


@pytest.mark.parametrize(
    "document", MONITORING, ids=lambda document: f"{document['kind']} {document['metadata']['name']}"
)
def test_the_monitoring_manifests_match_their_schemas(document):
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


def test_a_field_that_the_operators_schema_lacks_is_found():
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
