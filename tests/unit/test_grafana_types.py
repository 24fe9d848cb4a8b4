"""The boards as literals of Grafana's own TypeScript types: unknown keys, wrong kinds and bad enum values are errors."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.test_boards import MADE

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="npm (Debian: npm) is not installed")

# Our JSON has an enum's value where TypeScript wants its member.
HEAD = """\
import type { Dashboard, GraphFieldConfig } from '@grafana/schema';
import type { Options as Heatmap } from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type { Options as Stat } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type { Options as Statuses } from '@grafana/schema/dist/esm/raw/composable/statushistory/panelcfg/x/StatusHistoryPanelCfg_types.gen';
import type { Options as Lines } from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
import type { Options as Table } from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
type Loose<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Loose<T[K]> } : T;
"""  # noqa: E501 - import paths
OPTIONS = {"heatmap": "Heatmap", "stat": "Stat", "status-history": "Statuses", "timeseries": "Lines", "table": "Table"}
COMPILE = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grafana")
    shutil.copy(Path(__file__).parent / "grafana" / "package.json", folder)
    installed = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode != 0:
        pytest.skip(f"npm cannot fetch Grafana's types: {installed.stderr.strip()[-200:]}")
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
    board["panels"][1]["descripton"] = "misspelt"
    board["panels"][1]["options"]["colorMode"] = "loud"
    said = complaints(project, {"broken": board})
    assert "descripton" in said
    assert "loud" in said
