"""Convert dashboards to Grafana's JSON with grafanalib, which only this module uses. Pure.

grafanalib writes a schema of 2017, but current panels: this module removes its nulls and obsolete keys. It adds the panel kinds
that grafanalib lacks (current heatmaps and status histories).
"""

from __future__ import annotations

from typing import Any

import attr
from grafanalib import core

from dashboards.monitoring import DEFAULT
from dashboards.panels import COUNT, WIDTH, Board, Panel, Query, Row
from dashboards.queries import FIRING, FLOW, JOB, TOPIC, flows, restarts_now, starts_now, takeovers_now
from dashboards.recording import metric
from metrics.partition_status import FLOW_STATUSES, Status

SCHEMA = 39  # Grafana 10.4 and newer accept this schema version unchanged
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
TAG = "kafka-mirror"
INSPECTOR = "http://localhost:8501"
LABELS = ("source", "target", "group", "topic", "partition", "effect")  # the first columns of a table
_COLOURS = {
    Status.OK: "green",
    Status.WARN: "yellow",
    Status.UNKNOWN: "orange",
    Status.STOP: "red",
    Status.STALL: "red",
    Status.REWIND: "purple",
    Status.LOST: "dark-red",
    Status.ABSENT: "dark-red",
}
assert set(_COLOURS) == set(FLOW_STATUSES)
STATUSES = {status.value: (status.name, color) for status, color in _COLOURS.items()}
# Keys that grafanalib writes, but Grafana 10 does not read.
_DEAD = frozenset(
    (
        *("rows", "sharedCrosshair", "style", "hideControls", "gnetId", "step", "intervalFactor", "metric", "target"),
        *("interval", "maxDataPoints", "error", "cacheTimeout", "timeFrom", "timeShift", "transparent"),
        *("span", "iteration", "__inputs", "version", "time_options"),
    )
)
_BY_NAME = frozenset(("excludeByName", "indexByName", "renameByName"))  # their keys are labels, such as `target`
_DEAD_IN_PANELS = frozenset(("editable", "hideTimeOverride", "color", "columns", "fontSize", "mappings"))
_VARIABLES = {
    "job": f"label_values({metric('flow_info')}, job)",
    "source": f'label_values({metric("partitions")}{{job=~"$job"}}, source)',
    "target": f'label_values({metric("partitions")}{{job=~"$job",source=~"$source"}}, target)',
    "topic": f"label_values({metric('lag_records')}{{{FLOW}}}, topic)",
    "partition": f"label_values({metric('lag_records')}{{{TOPIC}}}, partition)",
    "group": f"label_values({metric('group_partitions')}{{{FLOW}}}, group)",
    "instance": f"label_values({metric('flow_info')}{{{JOB}}}, instance)",
    "flow": f"query_result({flows()})",
}
# Grafana's text for a sample of such a query: {flow="a->b",source="a",target="b"} 1 1700000000000
FLOW_REGEX = r"""/flow="(?<text>[^"]+)".*?(?<value>source="[^"]+",target="[^"]+")/"""


@attr.s
class _Plain(core.Panel):
    """A panel of a kind that grafanalib lacks."""

    kind: str = attr.ib(default="")
    options: dict[str, Any] = attr.ib(factory=dict)
    fields: dict[str, Any] = attr.ib(factory=dict)

    def to_json_data(self) -> dict[str, Any]:
        """Return the panel for grafanalib's encoder."""
        made: dict[str, Any] = self.panel_json(
            {"type": self.kind, "options": self.options, "fieldConfig": {"defaults": self.fields, "overrides": []}}
        )
        return made


def board_json(board: Board, runbook: str = DEFAULT.runbook) -> dict[str, Any]:
    """Return the JSON of one dashboard, identical on all machines."""
    dashboard = core.Dashboard(
        title=board.title,
        uid=board.uid,
        description=board.question,
        tags=[TAG],
        editable=False,
        schemaVersion=SCHEMA,
        refresh="30s",
        time=core.Time("now-1h", "now"),
        timezone="browser",
        panels=_laid_out(board.rows),
        templating=core.Templating(list=_templates(board)),
        annotations=core.Annotations(list=_annotations()),
        links=_links(board, runbook),
    )
    made: dict[str, Any] = _clean(_encoded(dashboard))
    made["graphTooltip"] = 1  # a shared crosshair
    made["panels"] = [_pruned(panel) for panel in made["panels"]]
    return made


def _pruned(panel: dict[str, Any]) -> dict[str, Any]:
    """Return a panel without the top-level keys of grafanalib that Grafana's schema lacks."""
    if panel["type"] == "row":
        known = ("collapsed", "gridPos", "id", "panels", "repeat", "title", "type")
        return {key: panel[key] for key in known if key in panel}
    kept = {key: value for key, value in panel.items() if key not in _DEAD_IN_PANELS}
    kept["targets"] = [
        {key: value for key, value in target.items() if key not in ("query", "hide")} for target in panel["targets"]
    ]
    return kept


def _encoded(value: Any) -> Any:
    """Return grafanalib's objects as plain JSON values."""
    if hasattr(value, "to_json_data"):
        return _encoded(value.to_json_data())
    if isinstance(value, dict):
        return {key: _encoded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(each) for each in value]
    return value


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        is_step = value.keys() == {"color", "value"}  # of a threshold: the value of the lowest one is null
        return {
            key: each if key in _BY_NAME else _clean(each)
            for key, each in value.items()
            if is_step or (each is not None and key not in _DEAD)
        }
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return value


def _laid_out(rows: tuple[Row, ...]) -> list[Any]:
    """Return panels with their positions: left to right, under one heading per row."""
    made: list[Any] = []
    y = 0
    for row in rows:
        place = core.GridPos(h=1, w=WIDTH, x=0, y=y)
        repeat = core.Repeat(variable="flow" if row.each_flow else None)
        made.append(core.RowPanel(title=row.title, gridPos=place, id=len(made) + 1, repeat=repeat))
        y, x, height = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                y, x, height = y + height, 0, 0
            place = core.GridPos(h=panel.height, w=panel.width, x=x, y=y)
            made.append(_panel(panel, place, len(made) + 1))
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return made


# --- panels ----------------------------------------------------------------------------------------------------------


def _panel(panel: Panel, place: core.GridPos, number: int) -> Any:
    common = {
        "title": panel.title,
        "description": panel.description,
        "dataSource": SOURCE,
        "gridPos": place,
        "id": number,
        "targets": [_target(panel, query, letter) for query, letter in zip(panel.queries, "ABCDEFGH", strict=False)],
    }
    return {
        "stat": _stat,
        "lines": _lines,
        "stack": _lines,
        "table": _table,
        "heatmap": _heatmap,
        "statuses": _statuses,
        "timeline": _timeline,
    }[panel.kind](panel, common)


def _target(panel: Panel, query: Query, letter: str) -> core.Target:
    is_now = panel.kind in ("stat", "table")
    return core.Target(
        expr=query.expr,
        legendFormat=query.legend,
        refId=letter,
        datasource=SOURCE,
        instant=is_now,
        format={"table": "table", "heatmap": "heatmap"}.get(panel.kind, "time_series"),
    )


def _stat(panel: Panel, common: dict[str, Any]) -> core.Stat:
    return core.Stat(
        **common,
        format=panel.unit,
        reduceCalc="lastNotNull",
        colorMode="value",
        graphMode="none",
        textMode="value",
        noValue="no data",
        thresholds=[{"color": color, "value": value} for value, color in panel.steps],
        extraJson={"fieldConfig": {"defaults": {"color": {"mode": "thresholds"}, **_words(panel)}}},
    )


def _words(panel: Panel) -> dict[str, Any]:
    if not panel.words:
        return {}
    options = {str(value): {"text": word, "color": color} for value, word, color in panel.words}
    return {"mappings": [{"type": "value", "options": options}]}


def _lines(panel: Panel, common: dict[str, Any]) -> core.TimeSeries:
    is_stacked = panel.kind == "stack"
    return core.TimeSeries(
        **common,
        unit=panel.unit,
        lineWidth=1,
        fillOpacity=30 if is_stacked else 5,
        stacking={"mode": "normal" if is_stacked else "none", "group": "A"},
        showPoints="never",
        tooltipMode="multi",
        tooltipSort="desc",
        legendDisplayMode="table",
        legendPlacement="bottom",
        legendCalcs=["lastNotNull", "max"],
        thresholdsStyleMode="dashed" if panel.steps else "off",
        valueMin=0,
        extraJson={
            "fieldConfig": {
                "defaults": {"color": {"mode": "palette-classic"}, **_thresholds(panel)},
                "overrides": _status_colours() if panel.queries[0].legend == "{{status}}" else [],
            },
            "options": {"legend": {"showLegend": True}},
        },
    )


def _thresholds(panel: Panel) -> dict[str, Any]:
    if not panel.steps:
        return {}
    steps = [{"color": "transparent" if value is None else color, "value": value} for value, color in panel.steps]
    return {"thresholds": {"mode": "absolute", "steps": steps}}


def _status_colours() -> list[dict[str, Any]]:
    return [
        {
            "matcher": {"id": "byName", "options": word.lower()},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }
        for word, color in STATUSES.values()
    ]


def _table(panel: Panel, common: dict[str, Any]) -> core.Table:
    """Return a table with one line per set of labels.

    Each value column has its own unit.
    """
    renamed = {f"Value #{letter}": query.column for query, letter in zip(panel.queries, "ABCDEFGH", strict=False)}
    renamed |= {"Value": panel.queries[0].column}  # if there is only one query, its column has no letter
    columns = [*LABELS, *renamed]
    organize = {
        "excludeByName": {"Time": True},
        "indexByName": {column: at for at, column in enumerate(columns)},
        "renameByName": renamed,
    }
    units = [_with_unit(query) for query in panel.queries if query.unit]
    return core.Table(
        **common,
        filterable=True,
        transformations=[{"id": "merge", "options": {}}, {"id": "organize", "options": organize}],
        sortBy=[core.TableSortByField(displayName=panel.queries[0].column, desc=True)],
        overrides=[
            *units,
            _linked("topic", "Dashboard of this topic", _topic_url()),
            _linked("partition", "Lag inspector", _inspector_url()),
            _worded_status(),
        ],
        extraJson={"fieldConfig": {"defaults": {"custom": {"align": "auto"}}}},
    )


def _with_unit(query: Query) -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": query.column},
        "properties": [
            {"id": "unit", "value": query.unit},
            {"id": "decimals", "value": 0 if query.unit == COUNT else 1},
        ],
    }


def _linked(column: str, title: str, url: str) -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": column},
        "properties": [{"id": "links", "value": [{"title": title, "url": url, "targetBlank": False}]}],
    }


def _worded_status() -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": "status"},
        "properties": [
            {"id": "mappings", "value": _mappings()},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
        ],
    }


def _mappings() -> list[dict[str, Any]]:
    options = {
        str(code): {"text": word, "color": color, "index": at}
        for at, (code, (word, color)) in enumerate(STATUSES.items())
    }
    return [{"type": "value", "options": options}]


def _topic_url() -> str:
    of_row = "".join(f"&var-{label}=${{__data.fields.{label}}}" for label in ("source", "target", "topic"))
    return f"/d/kafka-mirror-topic?var-datasource=${{datasource}}&${{job:queryparam}}{of_row}&${{__url_time_range}}"


def _inspector_url() -> str:
    labels = ("source", "target", "topic", "partition")
    return "${inspector}/partitions?" + "&".join(f"{label}=${{__data.fields.{label}}}" for label in labels)


def _heatmap(panel: Panel, common: dict[str, Any]) -> _Plain:
    options = {
        "calculate": False,
        "yAxis": {"unit": panel.unit},
        "color": {
            "mode": "scheme",
            "scheme": "Blues",
            "steps": 32,
            "exponent": 0.5,
            "fill": "dark-blue",
            "reverse": False,
        },
        "cellGap": 1,
        "filterValues": {"le": 1e-9},
        "tooltip": {"mode": "single", "yHistogram": False},
        "legend": {"show": True},
    }
    return _Plain(**common, kind="heatmap", options=options, fields={"custom": {}})


def _statuses(panel: Panel, common: dict[str, Any]) -> _Plain:
    options = {
        "showValue": "never",
        "rowHeight": 0.8,
        "colWidth": 0.9,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    fields = {"unit": panel.unit, "mappings": _mappings(), "custom": {"fillOpacity": 80, "lineWidth": 0}}
    return _Plain(**common, kind="status-history", options=options, fields=fields)


def _timeline(panel: Panel, common: dict[str, Any]) -> _Plain:
    options = {
        "mergeValues": True,
        "showValue": "auto",
        "alignValue": "center",
        "rowHeight": 0.8,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    fields = {"unit": panel.unit, "mappings": _mappings(), "custom": {"fillOpacity": 80, "lineWidth": 0}}
    return _Plain(**common, kind="state-timeline", options=options, fields=fields)


# --- the frame -------------------------------------------------------------------------------------------------------


def _templates(board: Board) -> list[dict[str, Any]]:
    """Return the dashboard's variables. Each variable's query uses the variables before it."""
    datasource = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    names = ("job", "source", "target", *board.variables)
    inspector = {
        "name": "inspector",
        "label": "Lag inspector",
        "type": "textbox",
        "query": INSPECTOR,
        "hide": 2,
        "current": {"text": INSPECTOR, "value": INSPECTOR},
    }
    chosen = [_variable(name, has_all=name not in board.chosen) for name in names]
    repeated = [_flow()] if any(row.each_flow for row in board.rows) else []
    return [datasource, *chosen, *repeated, inspector]


def _flow() -> dict[str, Any]:
    """Return the hidden variable for repeated rows: it shows a flow's name, and its value is the flow's matchers."""
    return {
        **_variable("flow", has_all=True),
        "hide": 2,
        "regex": FLOW_REGEX,
    }


def _variable(name: str, *, has_all: bool) -> dict[str, Any]:
    """Return a variable. Without All, its default is the first value.

    "All jobs" means the mirror's jobs by name: `.+` would include every process that Prometheus scrapes.
    """
    query = _VARIABLES[name]
    everything: dict[str, Any] = {"current": {"text": "All", "value": "$__all"}} if has_all else {}
    if has_all and name not in ("job", "flow"):
        everything["allValue"] = ".+"
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "Variable"},
        "refresh": 2,  # refresh when the time range changes
        "multi": True,
        "includeAll": has_all,
        **everything,
        "sort": 3 if name == "partition" else 1,
    }


def _annotations() -> list[dict[str, Any]]:
    def of(name: str, expr: str, color: str, title: str) -> dict[str, Any]:
        return {
            "name": name,
            "datasource": SOURCE,
            "enable": True,
            "expr": expr,
            "iconColor": color,
            "titleFormat": title,
            "textFormat": "{{source}}->{{target}} {{topic}}",
        }

    build = f"{metric('build_info')}{{{JOB}}}"
    return [
        of("Alerts", FIRING, "red", "{{alertname}}"),
        of("Query restarts", restarts_now(), "orange", "query restarted"),
        of("Starts", starts_now(), "blue", "{{instance}} started"),
        of("Takeovers", takeovers_now(), "purple", "slots taken over"),
        of(
            "Deploys",
            f"{build} unless {build} offset 5m",
            "blue",
            "version {{version}} appeared",
        ),
    ]


def _links(board: Board, runbook: str) -> list[dict[str, Any]]:
    keep = {"keepTime": True, "targetBlank": False}

    def link(title: str, url: str, icon: str, tooltip: str) -> dict[str, Any]:
        aside = {"type": "link", "tags": [], "includeVars": False, "asDropdown": False, **keep}
        return {"title": title, "url": url, "icon": icon, "tooltip": tooltip, **aside}

    others = {
        "type": "dashboards",
        "tags": [TAG],
        "icon": "external link",
        "tooltip": "The other dashboards, for the same flow and time range",
    }
    return [
        {"title": "Dashboards", **others, "includeVars": True, "asDropdown": True, **keep},
        link("Lag inspector", "${inspector}", "external link", "The status of every partition, with its reason"),
        link("Runbook", runbook, "doc", "Meaning of each alert, and how to respond"),
    ]
