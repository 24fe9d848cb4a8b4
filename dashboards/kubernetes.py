"""Turn rules, scrape targets and boards into Kubernetes objects: for the Prometheus operator and Grafana's sidecar. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboards.monitoring import Monitoring
from dashboards.rules import rules

NAME = "kafka-mirror"
_LABELS = {"app.kubernetes.io/name": NAME}
_SIDECAR = {"grafana_dashboard": "1"}  # what the sidecar of Grafana's chart looks for


def manifests(monitoring: Monitoring, boards: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a PrometheusRule, a PodMonitor, and a ConfigMap for each board, given as JSON by uid."""
    return [
        _object("monitoring.coreos.com/v1", "PrometheusRule", NAME, spec=rules(monitoring)),
        _object("monitoring.coreos.com/v1", "PodMonitor", NAME, spec=_scraped()),
        *(_object("v1", "ConfigMap", uid, labels=_SIDECAR, data={f"{uid}.json": text}) for uid, text in boards.items()),
    ]


def _scraped() -> dict[str, Any]:
    """Return which pods are scraped: those of docs/kubernetes/kafka-mirror.yaml, as the job that the rules select."""
    return {
        "jobLabel": "app.kubernetes.io/name",
        "selector": {"matchLabels": _LABELS},
        "podMetricsEndpoints": [{"port": "metrics", "path": "/metrics", "interval": "15s"}],
    }


def _object(
    version: str, kind: str, name: str, *, labels: Mapping[str, str] | None = None, **body: Any
) -> dict[str, Any]:
    metadata = {"name": name, "labels": {**_LABELS, **(labels or {})}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
