"""The boards by Grafana's own code: its TypeScript types accept them, and its transformations and formats make their tables.

As literals of those types, unknown keys, wrong kinds and bad enum values are errors.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror.runtime.prometheus import Prometheus
from tests.integration.seeds import BROKEN_FOR_S
from tests.integration.test_boards_live import store
from tests.preview import filled_in
from tests.unit.test_boards import MADE

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm (Debian: npm) is not installed"),
]

# Our JSON has an enum's value where TypeScript wants its member.
HEAD = """\
import type { Dashboard, GraphFieldConfig } from '@grafana/schema';
import type { Options as Heatmap } from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type { Options as Stat } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type { Options as Statuses } from '@grafana/schema/dist/esm/raw/composable/statushistory/panelcfg/x/StatusHistoryPanelCfg_types.gen';
import type { Options as Timeline } from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type { Options as Lines } from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
import type { Options as Table } from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
type Loose<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Loose<T[K]> } : T;
"""  # noqa: E501 - import paths
OPTIONS = {
    "heatmap": "Heatmap",
    "stat": "Stat",
    "status-history": "Statuses",
    "state-timeline": "Timeline",
    "timeseries": "Lines",
    "table": "Table",
}
LABELS = ("source", "target", "group", "topic", "partition", "effect")  # as tables show them, before any value
COMPILE = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"]


TABLES = [(uid, panel) for uid, board in MADE.items() for panel in board["panels"] if panel["type"] == "table"]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("grafana")
    shutil.copytree(Path(__file__).parent / "grafana", folder, dirs_exist_ok=True)
    installed = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--legacy-peer-deps"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode != 0:
        pytest.skip(f"npm cannot fetch Grafana's packages: {installed.stderr.strip()[-200:]}")
    return folder


def framed(board: dict) -> dict:
    """A board without what only the data source's plug-in reads, and the frame's type does not know."""

    def without(listed: list[dict], *names: str) -> dict:
        return {"list": [{key: value for key, value in each.items() if key not in names} for each in listed]}

    annotations = without(board["annotations"]["list"], "expr", "titleFormat", "textFormat")
    return {**board, "annotations": annotations, "templating": without(board["templating"]["list"], "definition")}


def complaints(folder: Path, boards: dict) -> str:
    lines = [HEAD]
    for uid, board in boards.items():
        name = uid.replace("-", "_")
        # Options are `unknown` records to the board's type; each kind of panel has its own type for them.
        lines.append(f"export const {name}: Loose<Dashboard> = {json.dumps(framed(board))};")
        for panel in board["panels"]:
            if panel["type"] in OPTIONS:
                kind, number = OPTIONS[panel["type"]], panel["id"]
                lines.append(f"export const {name}_{number}: Loose<Partial<{kind}>> = {json.dumps(panel['options'])};")
            if panel["type"] == "timeseries":
                custom = json.dumps(panel["fieldConfig"]["defaults"]["custom"])
                lines.append(f"export const {name}_{number}_custom: Loose<GraphFieldConfig> = {custom};")
    (folder / "boards.mts").write_text("\n".join(lines))
    found = subprocess.run(
        ["node_modules/.bin/tsc", *COMPILE, "boards.mts"], cwd=folder, capture_output=True, text=True, check=False
    )
    return found.stdout + found.stderr


def test_grafanas_types_accept_the_boards(project):
    assert complaints(project, MADE) == ""


def test_they_would_not_accept_a_typing_error(project):
    board = json.loads(json.dumps(MADE["kafka-mirror-overview"]))
    stat = next(panel for panel in board["panels"] if panel["type"] == "stat")
    stat["descripton"] = "misspelt"
    stat["options"]["colorMode"] = "loud"
    said = complaints(project, {"broken": board})
    assert "descripton" in said
    assert "loud" in said


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus (Debian: prometheus) is not installed")
    with store(tmp_path_factory.mktemp("stalled"), "stalled") as found:
        yield found


def shown(project: Path, server: Prometheus, panel: dict[str, Any]) -> list[dict[str, str | None]]:
    """What Grafana shows of a table, line by line, each by column."""
    answers = {target["refId"]: server.query(filled_in(target["expr"])) for target in panel["targets"]}
    asked = json.dumps({"panel": panel, "answers": answers, "time": 1_700_000_000_000})
    found = subprocess.run(
        ["node", "tables.cjs"], cwd=project, input=asked, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-2000:]
    made = json.loads(found.stdout)
    assert made["frames"] == 1
    return [dict(zip(made["columns"], row, strict=True)) for row in made["rows"]]


@pytest.mark.parametrize(("uid", "panel"), TABLES, ids=[f"{uid}: {panel['title']}" for uid, panel in TABLES])
def test_grafana_makes_one_line_of_each_set_of_labels(project, server, uid, panel):
    found = shown(project, server, panel)
    assert found
    labels = [column for column in found[0] if column in LABELS]
    assert list(found[0])[: len(labels)] == [name for name in LABELS if name in labels]
    assert not {"Time", "__name__", "job", "instance"} & found[0].keys()
    assert not [column for column in found[0] if column.startswith("Value")]
    places = [tuple(line[label] for label in labels) for line in found]
    assert len(set(places)) == len(places)


def test_each_column_of_a_table_has_its_own_unit(project, server):
    (panel,) = [panel for _, panel in TABLES if panel["title"].startswith("The 20 partitions")]
    first, *others = shown(project, server, panel)
    assert first == {
        "source": "a",
        "target": "b",
        "topic": "a.t",
        "partition": "0",
        "time lag": "30.0 mins",
        "records waiting": f"{BROKEN_FOR_S * 10:,}",
        "status": "STALL",
    }
    assert [(line["time lag"], line["records waiting"], line["status"]) for line in others] == [("0 s", "0", "OK")] * 3


def test_a_table_that_is_not_merged_would_be_seen(project, server):
    (panel,) = [panel for _, panel in TABLES if panel["title"].startswith("The 20 partitions")]
    with pytest.raises(AssertionError):
        shown(project, server, panel | {"transformations": []})
