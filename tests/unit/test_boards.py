"""The boards: nothing that Grafana does not know, no query on what is not exposed, no panel without a word about it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.boards import boards
from dashboards.build import ROOT, alerts, recording
from dashboards.grafana import board_json
from dashboards.panels import WIDTH
from metrics.catalogue import BY_NAME, CATALOGUE
from tests.preview import filled_in
from tests.series import series_names

register_default_plugins()
BOARDS = {board.uid: board for board in boards()}
MADE = {uid: board_json(board) for uid, board in BOARDS.items()}
each_board = pytest.mark.parametrize("uid", BOARDS)

# What Prometheus itself, and prometheus-client, expose beside the catalogue.
NOT_OURS = {"ALERTS", "up", "scrape_duration_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes"}
# Units of Grafana that suit what a query returns.
UNITS = {"locale", "s", "ms", "short", "cps", "Bps", "bytes", "percentunit"}
# Grafana's Prometheus plug-in reads these, though its schema has no word for them.
UNKNOWN_BUT_READ = {
    ".annotations.list[].titleFormat",
    ".annotations.list[].textFormat",
    ".templating.list[].definition",
    ".panels[].options.tooltip.mode",  # of a heatmap: newer than these types
}
# On no board and in no rule: a topic's two names, offsets (the lag inspector's matter), and the histogram beside
# MirrorMaker's age, for objectives of one's own.
FOR_QUERIES_OF_ONES_OWN = {
    f"kafka_mirror_{name}" for name in ("topic_info", "replicated_offset", "source_start_offset", "record_age_seconds")
}


def panels(uid: str) -> list[dict[str, Any]]:
    return [panel for panel in MADE[uid]["panels"] if panel["type"] != "row"]


def expressions(uid: str) -> list[tuple[str, str]]:
    return [(panel["title"], target["expr"]) for panel in panels(uid) for target in panel["targets"]]


def missing(made: Any, known: Any, path: str = "") -> set[str]:
    """Paths in `made` that `known` (the same after a round trip through the schema's types) has lost."""
    if isinstance(made, dict):
        found: set[str] = set()
        for key, value in made.items():
            if not isinstance(known, dict) or (key not in known and value is not None):
                found.add(f"{path}.{key}")
            else:
                found |= missing(value, known.get(key), f"{path}.{key}")
        return found
    if isinstance(made, list):
        return set().union(*(missing(one, other, f"{path}[]") for one, other in zip(made, known or [], strict=False)))
    return set()


@each_board
def test_grafanas_schema_knows_every_key(uid):
    back = json.loads(json.dumps(Dashboard.from_json(MADE[uid]), cls=JSONEncoder))
    assert missing(MADE[uid], back) - UNKNOWN_BUT_READ == set()


@each_board
def test_panels_do_not_overlap_and_fit_the_grid(uid):
    taken: dict[tuple[int, int], str] = {}
    for panel in MADE[uid]["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    ids = [panel["id"] for panel in MADE[uid]["panels"]]
    assert len(ids) == len(set(ids))


def units(panel: dict) -> set[str]:
    """The units of a panel's values; a table's labels have none, and each of its values has its own."""
    of_all = panel["fieldConfig"]["defaults"].get("unit")
    if panel["type"] == "table":
        assert not of_all
        of_columns = (entry for override in panel["fieldConfig"]["overrides"] for entry in override["properties"])
        return {entry["value"] for entry in of_columns if entry["id"] == "unit"}
    return {of_all or panel["options"]["yAxis"]["unit"]}


@each_board
def test_every_panel_has_words_a_unit_queries_and_the_chosen_data_source(uid):
    for panel in panels(uid):
        assert panel["title"]
        assert panel["description"].endswith((".", "?")), panel["title"]
        assert panel["targets"], panel["title"]
        assert units(panel)
        assert units(panel) <= UNITS
        for source in (panel["datasource"], *(target["datasource"] for target in panel["targets"])):
            assert source == {"type": "prometheus", "uid": "${datasource}"}
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEFGH"[: len(panel["targets"])])


@each_board
def test_every_line_has_a_legend_of_labels_that_its_query_keeps(uid):
    for panel in panels(uid):
        if panel["type"] != "timeseries":
            continue
        for target in panel["targets"]:
            assert target["legendFormat"], panel["title"]
            kept = re.search(
                r"^(?:60 \* |\(?1 - |time\(\) - )?\(?(?:sum|max|min|avg|count) by \(([^)]*)\)", target["expr"]
            )
            if kept:
                labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                assert labels <= {label.strip() for label in kept[1].split(",")}, (panel["title"], target["expr"])


@each_board
def test_the_frame(uid):
    made = MADE[uid]
    assert made["editable"] is False
    assert made["schemaVersion"] == 39
    assert made["description"].endswith("?")
    variables = {variable["name"]: variable for variable in made["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    for name, variable in variables.items():
        if variable["type"] == "query":
            assert variable["refresh"] == 2, name  # when the time changes
            (family,) = set(re.findall(r"kafka_mirror_\w+", variable["definition"]))
            assert family in BY_NAME
            assert variable["definition"].startswith("query_result(" if name == "flow" else "label_values(")
    used = set(re.findall(r"\$(source|target|topic|partition|group)\b", json.dumps(made["panels"])))
    assert used <= variables.keys()
    assert {link["title"] for link in made["links"]} == {"Dashboards", "Lag inspector", "Runbook"}
    assert {annotation["name"] for annotation in made["annotations"]["list"]} == {
        "Alerts",
        "Query restarts",
        "Starts",
        "Takeovers",
        "Deploys",
    }


@each_board
def test_queries_read_what_is_exposed_or_recorded_only(uid):
    known = {name for spec in CATALOGUE for name in series_names(spec)} | set(recording()) | NOT_OURS
    for title, expr in expressions(uid):
        named = set(re.findall(r"[a-zA-Z_:][\w:]*(?=[{\[])|(?<![\w:])(?:kafka_mirror|source_target)[\w:]*", expr))
        assert named <= known, (title, named - known)


def test_a_row_of_each_flow_is_repeated_over_the_flows_that_a_query_names():
    """Grafana matches its regex with what a result looks like as text; `value` is what the row's queries get."""
    made = MADE["kafka-mirror-overview"]
    (row,) = [panel for panel in made["panels"] if panel.get("repeat")]
    assert (row["type"], row["repeat"], row["title"]) == ("row", "flow", "Flow $flow")
    variable = next(each for each in made["templating"]["list"] if each["name"] == "flow")
    assert (variable["hide"], variable["includeAll"], variable["current"]["value"]) == (2, True, "$__all")
    assert "allValue" not in variable
    pattern = variable["regex"].strip("/").replace("(?<", "(?P<")
    found = re.search(pattern, '{flow="eu-1->us",source="eu-1",target="us"} 1 1700000000000')
    assert found.groupdict() == {"text": "eu-1->us", "value": 'source="eu-1",target="us"'}


def test_only_repeated_rows_use_the_flow_variable():
    for board in BOARDS.values():
        for row in board.rows:
            for panel in row.panels:
                for query in panel.queries:
                    assert ("${flow:raw}" in query.expr) == row.each_flow, (board.uid, panel.title)


@each_board
def test_counters_are_read_by_rates_and_gauges_are_not(uid):
    by_series = {name: spec.kind != "gauge" for spec in CATALOGUE for name in series_names(spec)}
    for title, expr in expressions(uid):
        for name, is_counter in by_series.items():
            for around in re.finditer(rf"(?:(\w+)\()?(?<![\w:]){name}\b(?:{{[^}}]*}})?(\[)?", expr):
                inside = around[1] in ("rate", "increase")
                assert inside == is_counter, (title, expr, name)


@each_board
def test_rates_reach_over_grafanas_own_interval_or_a_named_one(uid):
    for title, expr in expressions(uid):
        for window in re.findall(r"\[([^\]]+)\]", expr):
            assert window in ("$__rate_interval", "$__range", "5m", "10m", "15m", "1h", "6h", "1d", "3d", "30d"), (
                title,
                window,
            )


@each_board
def test_every_query_is_of_the_job_and_of_the_flows_or_processes_that_are_chosen(uid):
    of_processes = re.compile(
        r"kafka_mirror_(query|cluster|listener|exposed|dropped|build|batch)|scrape_|process_|\bup\b"
    )
    for title, expr in expressions(uid):
        if "ALERTS" in expr:  # one of them is of no job: that none is there
            continue
        for selected in re.findall(r"{([^}]*)}", expr.replace("${flow:raw}", "$flow")):
            assert selected.startswith('job=~"$job"'), (title, expr)
        flows = ('source=~"$source",target=~"$target"', "${flow:raw}")
        assert of_processes.search(expr) or any(chosen in expr for chosen in flows), (title, expr)
        assert "{" in expr, (title, expr)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
def test_promtool_parses_every_query(tmp_path):
    every = [expr for uid in BOARDS for _, expr in expressions(uid)]
    rules = [{"record": f"query:{number}", "expr": filled_in(expr)} for number, expr in enumerate(every)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))
    found = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "rules.yml")], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_family_is_on_a_board_or_in_a_rule():
    """What nobody looks at need not be exposed."""
    asked = [*(expr for uid in BOARDS for _, expr in expressions(uid)), *recording().values()]
    asked += [alert.expr for alert in alerts()] + [json.dumps(made["annotations"]) for made in MADE.values()]
    seen = set(re.findall(r"\w+", " ".join(asked)))
    assert {spec.name for spec in CATALOGUE if not seen & set(series_names(spec))} == FOR_QUERIES_OF_ONES_OWN


def test_thresholds_of_freshness_are_those_of_the_objective():
    (fresh,) = [panel for panel in panels("kafka-mirror-overview") if panel["title"] == "Fresh"]
    assert [step["value"] for step in fresh["fieldConfig"]["defaults"]["thresholds"]["steps"]] == [None, 0.99, 0.999]


# --- what runs beside the boards -------------------------------------------------------------------------------------


def test_compose_mounts_files_that_exist_and_names_services_that_do():
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    services, volumes = compose["services"], compose["volumes"]
    for name, service in services.items():
        assert "build" in service or re.fullmatch(r"[\w.-]+/[\w.-]+:v?\d+\.\d+(\.\d+)?", service["image"]), name
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in volumes, (name, mount)
        for other in service.get("depends_on", []):
            assert other in services
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), (name, "is reachable from outside")
    targets = ROOT / "dashboards" / "prometheus" / "targets.compose"
    hosts = {
        host.split(":")[0]
        for file in targets.iterdir()
        for entry in yaml.safe_load(file.read_text())
        for host in entry["targets"]
    }
    assert hosts <= services.keys()
    assert {file.name for file in targets.iterdir()} == {
        file.name for file in (ROOT / "dashboards" / "prometheus" / "targets").iterdir()
    }


def test_composes_mirror_file_is_read_without_a_word():
    from mirror.config.load import load

    settings = load(ROOT / "compose" / "connect-mirror-maker.properties", options={}, targets=[])
    assert settings.ignored == ()
    assert [flow.name for flow in settings.flows] == ["primary->backup"]
    assert settings.mirror.metrics_listen == ("0.0.0.0", 9404)


def test_grafana_finds_the_boards_and_prometheus():
    grafana = ROOT / "dashboards" / "grafana"
    (source,) = yaml.safe_load((grafana / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((grafana / "dashboards" / "kafka-mirror.yml").read_text())["providers"]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    mounts = dict(mount.split(":")[:2] for mount in compose["services"]["grafana"]["volumes"])
    assert provider["options"]["path"] == f"{mounts['./dashboards']}/chart/generated"
    home = compose["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.removeprefix(f"{mounts['./dashboards']}/chart/generated/").removesuffix(".json") in BOARDS
