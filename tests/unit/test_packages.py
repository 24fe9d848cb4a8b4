"""The Helm chart and the mixin hold the generated rules and boards, with what a team sets filled in."""

from __future__ import annotations

import json
from typing import Any

import _jsonnet
import helm_python as helm
import pytest
import yaml

from dashboards.boards import boards
from dashboards.build import ROOT, rules
from dashboards.grafana import board_json
from dashboards.monitoring import DEFAULT, Monitoring
from mirror import __version__

CHART = ROOT / "dashboards" / "chart"
MIXIN = ROOT / "dashboards" / "mixin.libsonnet"
OURS = Monitoring(
    selector='job="mirror-eu",env=~"a|b\\\\.c"',
    rpo_warning_s=60,
    rpo_critical_s=600,
    runbook='https://wiki/"mirror"',
    grafana="https://grafana",
    inspector="https://lag",
)
each_setting = pytest.mark.parametrize("monitoring", [DEFAULT, OURS], ids=["defaults", "a team's"])


def rendered(**values: object) -> list[dict[str, Any]]:
    """What Helm makes of the chart."""
    with helm.Chart.load(CHART) as chart:
        made = chart.render(values, name="mirror", namespace="monitoring")
    return [document for text in made.values() for document in yaml.safe_load_all(text) if document]


def values_of(monitoring: Monitoring) -> dict[str, Any]:
    return {
        "selector": monitoring.selector,
        "rpo": {"warningSeconds": monitoring.rpo_warning_s, "criticalSeconds": monitoring.rpo_critical_s},
        "urls": {
            "runbook": monitoring.runbook,
            "grafana": monitoring.grafana,
            "inspector": monitoring.inspector,
        },
    }


def mixed(monitoring: Monitoring, field: str) -> Any:
    """One field of the mixin, with a team's settings."""
    config = json.dumps({name: getattr(monitoring, name) for name in Monitoring.__dataclass_fields__})
    return json.loads(
        _jsonnet.evaluate_snippet("team.jsonnet", f"((import '{MIXIN}') + {{ _config+:: {config} }}).{field}")
    )


def boards_of(monitoring: Monitoring) -> dict[str, Any]:
    """Every board as its file has it, with a team's inspector."""
    made = {f"{board.uid}.json": json.dumps(board_json(board, monitoring.runbook)) for board in boards()}
    if not monitoring.inspector:
        return {name: json.loads(text) for name, text in made.items()}
    inspector = json.dumps(monitoring.inspector)
    return {name: json.loads(text.replace('"http://localhost:8501"', inspector)) for name, text in made.items()}


@each_setting
def test_the_charts_rules_are_the_generated_ones(monitoring):
    (rule,) = [each for each in rendered(**values_of(monitoring)) if each["kind"] == "PrometheusRule"]
    assert rule["spec"] == rules(monitoring)


@each_setting
def test_the_charts_boards_are_the_generated_ones(monitoring):
    maps = [each for each in rendered(**values_of(monitoring)) if each["kind"] == "ConfigMap"]
    found = {name: json.loads(text) for each in maps for name, text in each["data"].items()}
    assert found == boards_of(monitoring)
    assert len({each["metadata"]["name"] for each in maps}) == len(maps)


@each_setting
def test_the_mixins_rules_are_the_generated_ones(monitoring):
    groups = [*mixed(monitoring, "prometheusRules")["groups"], *mixed(monitoring, "prometheusAlerts")["groups"]]
    assert {"groups": groups} == rules(monitoring)


@each_setting
def test_the_mixins_boards_are_the_generated_ones(monitoring):
    assert mixed(monitoring, "grafanaDashboards") == boards_of(monitoring)


def test_helm_finds_nothing_to_complain_of():
    found = helm.lint(CHART, strict=True)
    assert found["errors"] == []
    assert [message["error"] for message in found["messages"]] == ["icon is recommended"]


def test_labels_that_a_cluster_selects_by_are_set_and_parts_can_be_left_out():
    made = rendered(
        rules={"enabled": True, "labels": {"release": "prometheus"}},
        pods={"enabled": False},
        boards={"enabled": True, "annotations": {"grafana_folder": "Kafka"}},
    )
    assert {each["kind"] for each in made} == {"PrometheusRule", "ConfigMap"}
    (rule,) = [each for each in made if each["kind"] == "PrometheusRule"]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    board = next(each for each in made if each["kind"] == "ConfigMap")
    assert board["metadata"]["annotations"] == {"grafana_folder": "Kafka"}
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert not rendered(rules={"enabled": False}, pods={"enabled": False}, boards={"enabled": False})


@pytest.mark.parametrize(
    "values",
    [
        {"selecter": 'job="a"'},
        {"rpo": {"warningSeconds": "5m"}},
        {"urls": {"runbook": ""}},
        {"boards": {"labels": {"grafana_dashboard": 1}}},
    ],
)
def test_a_value_that_is_none_of_the_charts_is_refused(values):
    with pytest.raises(helm.HelmError, match=next(iter(values))):
        rendered(**values)


def test_the_chart_has_the_version_of_the_program():
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["version"] == __version__
