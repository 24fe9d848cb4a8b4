"""Every query of every board, asked of a real Prometheus: over seeded stores, and beside a running appliance."""

from __future__ import annotations

import html
import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dashboards.boards import boards
from dashboards.panels import Panel
from dashboards.recording import FLOW_LAG, FLOW_PRODUCED, LAG, PRODUCED, recording
from mirror.embedded import prometheus_server
from mirror.lag.failover import Answer
from mirror.runtime.prometheus import Prometheus
from tests.integration.seeds import BROKEN_FOR_S, GROUPS, PLACES, RATE, STEP_S, Scenario, record_the_past, seed
from tests.preview import filled_in, preview
from tests.unit.test_app import HEALTHY, opened
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus (Debian: prometheus) is not installed"
)
PANELS = [(board, panel) for board in boards() for row in board.rows for panel in row.panels]
FAILOVER = "kafka-mirror-failover"
FAILOVER_ANSWERS = ("Planned switch", "Loss if the source is lost now", "Failover check")
RECORDED = 'count by (__name__) ({__name__=~"source_target.*"})'
OF_LOG_ENDS = {PRODUCED, FLOW_PRODUCED, LAG, FLOW_LAG}  # which nobody knows while the source is down


@contextmanager
def store(folder: Path, scenario: Scenario) -> Iterator[Prometheus]:
    """A Prometheus over a seeded store, with the rules of the project evaluated each second.

    A slow machine asks later than five minutes after the last sample, and finds it, unless the scenario is about old samples.
    """
    data = fresh_data(folder, scenario)
    file = prometheus_server.configured(folder, [], every="1s")
    options = () if scenario == "source down" else ("--query.lookback-delta=1h",)
    with prometheus_server.running(file, data, *options) as server:
        wanted = recording().keys() - (OF_LOG_ENDS if scenario == "source down" else set())
        eventually(
            lambda: {series["metric"]["__name__"] for series in server.query(RECORDED)} == wanted,
            within_s=30,
            because="the recording rules are evaluated",
        )
        yield server


def fresh_data(folder: Path, scenario: Scenario) -> Path:
    """Return the data of a store whose last samples are of now: rates over a minute need them, however slow the machine is."""
    for made_in_s in (45, 120, 240):
        now_s = time.time() + made_in_s
        made = folder / f"made in {made_in_s} s"
        made.mkdir()
        (made / "prometheus.yml").write_text("{}")
        seed(made / "data", scenario, now_s=now_s)
        record_the_past(made / "data", made / "prometheus.yml", now_s=now_s)
        if time.time() <= now_s:
            time.sleep(now_s - time.time())
            return made / "data"
    raise AssertionError("a store was not made within four minutes")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory) -> Iterator[Prometheus]:
    with store(tmp_path_factory.mktemp("healthy"), "healthy") as server:
        yield server


@pytest.fixture(scope="module")
def stalled(tmp_path_factory) -> Iterator[Prometheus]:
    with store(tmp_path_factory.mktemp("stalled"), "stalled") as server:
        yield server


def answers(server: Prometheus, panel: Panel) -> list[list[float]]:
    """The values of each query of a panel; Grafana's variables chosen as All."""
    return [[float(series["value"][1]) for series in server.query(filled_in(query.expr))] for query in panel.queries]


def empty_panels(server: Prometheus) -> list[str]:
    """Panels with a query that finds nothing, and no reason for it."""
    return [f"{uid}: {panel.title}: {expr}" for uid, panel, expr in unanswered(server) if not panel.may_be_empty]


def unanswered(server: Prometheus) -> list[tuple[str, Panel, str]]:
    """Queries that find nothing, with their board and panel."""
    return [
        (board.uid, panel, query.expr)
        for (board, panel) in PANELS
        for query, found in zip(panel.queries, answers(server, panel), strict=True)
        if not found
    ]


def number(server: Prometheus, title: str, uid: str = "kafka-mirror-overview") -> float:
    """What a single-number panel shows."""
    (panel,) = [p for board, p in PANELS if board.uid == uid and p.title == title and p.kind == "stat"]
    ((value,),) = answers(server, panel)
    return value


def test_a_healthy_mirror_fills_every_panel(healthy):
    assert empty_panels(healthy) == []
    assert number(healthy, "Fresh") == 1
    assert number(healthy, "Not OK") == number(healthy, "Down") == number(healthy, "Alerts") == 0
    assert number(healthy, "Time lag") == 0
    assert number(healthy, "Cannot fail over", FAILOVER) == number(healthy, "Failed rounds", FAILOVER) == 0
    assert number(healthy, "Oldest checkpoint", FAILOVER) < 60
    assert number(healthy, "Failover check", FAILOVER) == Answer.GO
    assert (
        number(healthy, "Planned switch", FAILOVER) == number(healthy, "Loss if the source is lost now", FAILOVER) == 1
    )
    copied, produced = (healthy.query(filled_in(query))[0]["value"][1] for query in _rates())
    assert float(copied) == pytest.approx(40, rel=0.1)
    assert float(produced) == pytest.approx(40, rel=0.1)


def _rates() -> tuple[str, str]:
    (panel,) = [p for board, p in PANELS if board.uid == "kafka-mirror-overview" and p.title == "Records in and copied"]
    produced, copied = panel.queries
    return copied.expr, produced.expr


def test_a_stalled_partition_is_seen_on_every_board_that_should_show_it(stalled):
    assert empty_panels(stalled) == []
    assert number(stalled, "Fresh") == 0.75
    assert number(stalled, "Not OK") == 1
    assert number(stalled, "Time lag") == pytest.approx(BROKEN_FOR_S, abs=30)
    assert number(stalled, "Records waiting") == pytest.approx(BROKEN_FOR_S * 10, rel=0.05)
    assert number(stalled, "Paused", "kafka-mirror-topic") == 1
    assert number(stalled, "Lagging topics", FAILOVER) == 1
    assert number(stalled, "Cannot fail over", FAILOVER) == number(stalled, "Settings that differ", FAILOVER) == 1
    assert number(stalled, "Failover check", FAILOVER) == Answer.NO  # one group's offset was refused
    assert (
        number(stalled, "Planned switch", FAILOVER) == number(stalled, "Loss if the source is lost now", FAILOVER) == 0
    )
    assert number(stalled, "Would re-read", FAILOVER) == len(GROUPS) * len(PLACES) * RATE * STEP_S
    # A reason to be empty hides no typing error: these have nothing to show here, every other panel has.
    eventually(
        lambda: {panel.title for _, panel, _ in unanswered(stalled)} == {"Time to catch up"},
        within_s=30,
        because="alerts fire when their rules are evaluated, which come behind the others",
    )
    assert number(stalled, "Burn, 1 h", "kafka-mirror-slo") > 14.4
    worst = stalled.query(filled_in(_worst().queries[0].expr))
    assert max(worst, key=lambda series: float(series["value"][1]))["metric"]["topic"] == "a.t"


def _worst() -> Panel:
    (panel,) = [p for _, p in PANELS if p.title.startswith("The 20 partitions")]
    return panel


def test_the_preview_shows_every_panel_and_is_marked_as_preview(stalled):
    page = preview(stalled)
    assert "Preview, not Grafana" in page
    for _, panel in PANELS:
        assert f"<h4>{html.escape(panel.title)}</h4>" in page
    assert "<td>a.t-0</td><td>STALL</td>" in page
    assert page.count('class="empty"') <= sum(bool(panel.may_be_empty) for _, panel in PANELS)


def test_a_source_that_is_down_is_shown_with_old_values_marked(tmp_path):
    with store(tmp_path, "source down") as server:
        # What depends on the source's log ends is unknown, and has no number; all else is shown.
        unknown = [expr for _, panel, expr in unanswered(server) if not panel.may_be_empty]
        assert unknown
        assert [
            expr
            for expr in unknown
            if not any(name in expr for name in (*OF_LOG_ENDS, "lag_records", "rpo_within_objective"))
        ] == []
        assert number(server, "Down") == 1
        assert number(server, "Clusters down", FAILOVER) == 1
        assert number(server, "Failover check", FAILOVER) == Answer.GO_WITH_LOSS  # that is a reason to go, not a veto
        assert number(server, "Fresh") == 0
        assert number(server, "Not OK") == 4
        for old in ("Age of these values", "Oldest checkpoint"):
            assert number(server, old, FAILOVER) == pytest.approx(BROKEN_FOR_S, abs=60)
        assert number(server, "Failed rounds", FAILOVER) == pytest.approx(BROKEN_FOR_S / STEP_S, rel=0.05)


def test_the_lag_inspector_draws_the_past_from_the_same_store(stalled, monkeypatch):
    page = opened(monkeypatch, HEALTHY, "incidents", app_prometheus_url=stalled.url)
    assert not page.warning
    (table,) = page.dataframe
    assert "KafkaMirrorStalled" in table.value.to_string()
    assert len(page.get("vega_lite_chart")) == 2  # what happened, and the longest wait


def test_a_typing_error_in_a_query_would_be_seen(healthy):
    """The check above can fail: a metric that does not exist leaves its panel empty."""
    assert healthy.query("kafka_mirror_lag_secnds") == []
    with pytest.raises(Exception, match="parse error"):
        healthy.query("sum(kafka_mirror_lag_seconds")


def flows_listed(server: Prometheus, variable: dict[str, Any]) -> list[tuple[str, str]]:
    """What Grafana lists of a query's result: it writes each series as a text, and matches its regex with that."""
    expr = re.fullmatch(r"query_result\((.+)\)", variable["definition"])[1]
    pattern = re.compile(variable["regex"].strip("/").replace("(?<", "(?P<"))
    found = []
    for series in server.query(filled_in(expr)):
        labels = ",".join(f'{name}="{value}"' for name, value in series["metric"].items())
        found.append(pattern.search(f"{{{labels}}} {series['value'][1]} {series['value'][0] * 1000:.0f}"))
    return [(match["text"], match["value"]) for match in found]


def test_every_variable_of_the_boards_lists_something(healthy):
    from dashboards.grafana import board_json

    for board in boards():
        for variable in board_json(board)["templating"]["list"]:
            if variable["name"] == "flow":
                assert flows_listed(healthy, variable) == [("a->b", 'source="a",target="b"')]
            elif variable["type"] == "query":
                selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"]).groups()
                assert healthy.query(f"count by ({label}) ({filled_in(selector)})"), json.dumps(variable)


def test_a_chosen_topic_is_the_only_one_on_its_board(stalled):
    topic = [panel for board, panel in PANELS if board.uid == "kafka-mirror-topic"]
    (waiting,) = [panel for panel in topic if panel.title == "Records waiting" and panel.kind == "stat"]

    def chosen(name: str, **more: str) -> float:
        (series,) = stalled.query(filled_in(waiting.queries[0].expr, topic=name, **more))
        return float(series["value"][1])

    assert chosen("a.t") > 0
    assert chosen("a.u") == 0
    shown = {
        series["metric"].get("topic", "a.u")
        for panel in topic
        for query in panel.queries
        for series in stalled.query(filled_in(query.expr, topic="a.u"))
    }
    assert shown == {"a.u"}


def test_a_chosen_flow_is_the_only_one_of_the_failover_answers(stalled):
    answers = [p for board, p in PANELS if board.uid == FAILOVER and p.title in FAILOVER_ANSWERS]
    assert len(answers) == len(FAILOVER_ANSWERS)
    for panel in answers:
        (query,) = panel.queries
        assert stalled.query(filled_in(query.expr, source="a", target="b"))
        assert stalled.query(filled_in(query.expr, source="b", target="a")) == []
