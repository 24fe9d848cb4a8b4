"""The lag inspector's pages and states, by Streamlit's own test runner; what is behind them is a list of rows."""

from __future__ import annotations

import re
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app import firing, groups, inspection, overview, switches
from app.incidents import by_weight, incident_table
from app.links import of_row
from app.partition import past_of
from app.past import HAPPENED, Event, Span
from app.session import plain, sparkline
from app.tables import (
    board_link,
    differing_settings,
    failovers,
    narrowed,
    table,
)
from app.watch import Watch
from dashboards.recording import recording
from metrics.error_kind import ErrorKind
from metrics.exporter import serve
from metrics.lag_row import LagRow
from metrics.last_errors import LastErrors
from metrics.partition_status import Sample, Status
from metrics.process_status import ProcessStatus
from metrics.recorder import Recorder
from metrics.reports import CheckpointReport
from mirror.config.given import Given
from mirror.config.load import load
from mirror.config.settings import Flow, Mirror, Settings
from mirror.lag.flow_summary import summaries, worst_first
from mirror.lag.leader_changes import LeaderChange
from mirror.lag.snapshot import Minute, Problem, RowTrends, Snapshot
from mirror.model.mm2_records import Checkpoint
from mirror.runtime.prometheus import FiringAlert
from mirror.switching.journal import Entries, Journal
from mirror.switching.run import STEPS, Kind, Step, StepState
from tests.status_text import status_of
from tests.unit.test_metrics import report
from tests.unit.test_switching import RUN
from tests.waiting import eventually

MAIN = str(Path(__file__).resolve().parents[2] / "app" / "main.py")
PATIENCE_S = 120  # the limit of a run, which takes a second: a machine that is busy fails no test
HOSTILE = "<img src=x onerror=alert(1)>[x](http://evil) **t**"


def flow(
    topic="orders", number=0, *, offset=10, end=10, waits=0.0, status=Status.OK, reason="everything is replicated"
):
    return LagRow(
        group="a->b",
        cluster="a",
        topic=topic,
        partition=number,
        offset=offset,
        log_end=end,
        is_flow=True,
        remote_topic=f"a.{topic}",
        lag_seconds=waits,
        status=status,
        reason=reason,
        owner="127.0.0.1:9404",
    )


def consumer(group="shop", topic="orders", number=0, *, offset=8, end=10, cluster="a"):
    return LagRow(group=group, cluster=cluster, topic=topic, partition=number, offset=offset, log_end=end)


STALLED = flow("payments", 3, offset=5, end=50, waits=900.0, status=Status.STALL, reason="stalled at offset 5 for 45 s")
HEALTHY = Snapshot(time_s=0.0, rows=(flow(), consumer()), clusters=(("a", True), ("b", True)))


class Polls:
    """Answers as mirror.lag.inspector.Inspector does."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def poll(self) -> Snapshot:
        return Snapshot(
            time_s=time.time(),
            rows=self._snapshot.rows,
            problems=self._snapshot.problems,
            clusters=self._snapshot.clusters,
        )

    def window(self, row):
        return [Sample(float(10 * at), 5, 20 + at) for at in range(10)]

    def leader_changes(self, row):
        return []


def one_page(name: str) -> None:
    """What Streamlit runs: one page without its frame, for its test runner finds pages by file only."""
    import importlib

    importlib.import_module(f"app.{name}").page()


def opened(monkeypatch, snapshot: Snapshot, page: str = "", *, flows: tuple[Flow, ...] = (), **own) -> AppTest:
    """A page over one snapshot; `own` are settings `mirror.*` of the file."""
    watch = Watch(Polls(snapshot), every_s=3600)
    settings = Settings(flows=flows, heartbeat_flows=(), mirror=Mirror(**own), ignored=(), ignored_why={})
    inspected = inspection.Inspected(Given("mirror", "mirror.properties", settings), watch)
    monkeypatch.setattr(inspection, "MIRRORS", {"mirror": inspected})
    test = (
        AppTest.from_function(one_page, default_timeout=PATIENCE_S, args=(page,))
        if page
        else AppTest.from_file(MAIN, default_timeout=PATIENCE_S)
    )
    test.run()
    assert not test.exception
    return test


def serving(recorder: Recorder, **own: Any) -> AbstractContextManager[int]:
    """Serve the status of a recorder on a free port."""

    def status() -> str:
        return ProcessStatus.of(recorder.snapshot()).text()

    return serve(lambda _: b"", "127.0.0.1", 0, is_ready=lambda: True, status=status, **own)


def everything(test: AppTest) -> str:
    elements = [*test.title, *test.subheader, *test.markdown, *test.caption, *test.info, *test.warning, *test.success]
    return "\n".join(str(element.value) for element in elements)


def test_the_overview_of_a_healthy_flow_shows_healthy(monkeypatch):
    test = opened(monkeypatch, HEALTHY)
    assert test.title[0].value == r"a\-\>b is healthy"
    assert "The partition is OK." in everything(test)
    assert not test.dataframe
    assert "a responds, b responds" in everything(test)


def test_an_overview_with_a_stall_shows_the_worst_first_with_its_reason(monkeypatch):
    rows = (flow(), flow("slow", offset=1, end=9, waits=20.0, status=Status.WARN, reason="falls behind"), STALLED)
    test = opened(monkeypatch, Snapshot(time_s=0.0, rows=rows, clusters=(("a", True),)))
    worst = test.dataframe[0].value
    assert [list(status) for status in worst["Status"]] == [["■ STALL"], ["▲ WARN"]]
    assert worst["Why"][0] == "stalled at offset 5 for 45 s"
    assert worst["Details"][0] == "/partition?group=a-%3Eb&cluster=a&topic=payments&partition=3"
    assert test.title[0].value == r"a\-\>b is stalled\: records are waiting and none is copied"


def test_an_overview_lists_only_what_is_not_ok(monkeypatch):
    """A partition that keeps pace has lag, and is no row to look at."""
    rows = (flow(end=12, waits=0.1), STALLED)
    test = opened(monkeypatch, Snapshot(time_s=0.0, rows=rows, clusters=(("a", True),)))
    assert list(test.dataframe[0].value["Topic"]) == ["payments"]
    assert "1 of 2 partitions not OK" in everything(test)
    assert "Both partitions are OK." in everything(opened(monkeypatch, replace(HEALTHY, rows=(rows[0], flow("users")))))


def test_alerts_are_a_strip_with_the_worst_first(monkeypatch):
    found = [
        FiringAlert(
            name=name, labels={"severity": severity}, since="now", summary="x", runbook="", board="", inspector=""
        )
        for name, severity in (("Late", "warning"), ("Stalled", "critical"))
    ]
    monkeypatch.setattr(firing, "_firing", lambda _: list(found))
    monkeypatch.setattr(firing, "_managers", lambda _: [])
    monkeypatch.setattr(overview, "_flow_points", lambda _: {})
    test = opened(monkeypatch, HEALTHY, "overview", app_prometheus_url="http://prometheus")
    (fold,) = test.expander
    assert fold.label.startswith(":red[**2 alerts are firing. Worst: Stalled**]")
    assert not fold.proto.expanded
    assert [each.value.split("**")[1] for each in fold.markdown[:2]] == ["Stalled", "Late"]


def test_without_flows_the_page_names_what_to_check(monkeypatch):
    assert "Check that topics match" in everything(opened(monkeypatch, Snapshot(time_s=0.0, rows=())))


def test_a_cluster_that_is_down_is_a_sentence(monkeypatch):
    silent = Problem(
        "Cluster b at x:1 does not respond.", "cluster b (x:1): no answer (Local: Broker transport failure)"
    )
    down = Snapshot(time_s=0.0, rows=(), problems=(silent,), clusters=(("a", True), ("b", False)))
    test = opened(monkeypatch, down)
    assert test.warning[0].value == plain(silent.sentence)
    fold = test.expander[0]
    assert (fold.label, fold.code[0].value) == ("Technical details", silent.detail)
    assert not fold.proto.expanded
    assert "b does not respond" in everything(test)


def test_a_sentence_more_moves_nothing_below_it(monkeypatch):
    """Streamlit knows elements by their place: what moves is shown twice until all is drawn."""

    def places(snapshot: Snapshot) -> dict[int, str]:
        (drawn,) = opened(monkeypatch, snapshot, "overview").main.children.values()
        return {at: element.type for at, element in drawn.children.items()}

    assert places(replace(HEALTHY, problems=(Problem("a is cut off"), Problem("b, too")))) == places(HEALTHY)


def test_a_failed_poll_is_shown_and_logged(monkeypatch, caplog):
    class Broken(Polls):
        def poll(self):
            raise RuntimeError("secret detail")

    watch = Watch(Broken(HEALTHY), every_s=3600)
    snapshot = watch.latest()
    assert [problem.sentence for problem in watch.trouble(snapshot, time.time())] == [
        "The last poll failed: RuntimeError. The log shows the reason.",
        "The clusters have not responded yet.",
    ]
    assert "secret detail" in caplog.text


def test_a_process_that_stops_and_starts_is_remembered():
    silent = replace(HEALTHY, rows=(replace(flow(), owner=""),))
    story = [replace(each, time_s=float(at)) for at, each in enumerate((HEALTHY, silent, silent, HEALTHY))]

    class Told(Polls):
        def poll(self):
            if not story:
                threading.Event().wait()
            return story.pop(0)

    watch = Watch(Told(HEALTHY), every_s=0)
    eventually(lambda: len(watch.process_changes) == 2, within_s=10, because="the last poll sees the process again")
    assert list(watch.process_changes) == [(1.0, False), (3.0, True)]


def test_old_numbers_are_called_old():
    watch = Watch(Polls(HEALTHY), every_s=5)
    snapshot = watch.latest()
    assert watch.trouble(snapshot, snapshot.time_s + 10) == []
    assert "60 s old" in watch.trouble(snapshot, snapshot.time_s + 60)[0].sentence


def test_a_silent_cluster_has_one_warning_while_its_poll_waits():
    silent = replace(HEALTHY, problems=(Problem("a does not respond"),))
    watch = Watch(Polls(silent), every_s=0.5)
    snapshot = watch.latest()
    assert [each.sentence for each in watch.trouble(snapshot, snapshot.time_s + 8)] == ["a does not respond"]
    assert len(watch.trouble(snapshot, snapshot.time_s + 60)) == 2


def test_the_lag_page_filters_by_the_parameters_of_its_address(monkeypatch):
    rows = (flow(), STALLED, consumer(), consumer("audit", "payments", 3, offset=1, end=50))
    test = opened(monkeypatch, Snapshot(time_s=0.0, rows=rows), "partitions")
    assert len(test.dataframe[0].value) == 4
    test.selectbox(key="topic").set_value("payments").run()
    assert set(test.dataframe[0].value["Group"]) == {"a->b", "audit"}
    test.selectbox(key="status").set_value("STALL").run()
    assert list(test.dataframe[0].value["Group"]) == ["a->b"]
    assert "1 of 4 rows" in everything(test)
    test.selectbox(key="lines").set_value("topics").run()
    (line,) = test.dataframe[0].value.to_dict("records")
    assert (line["Topic"], line["Partitions"], line["Lagging"], line["Records waiting"]) == (
        "payments",
        1,
        1,
        "45",
    )


def test_one_minute_alone_draws_no_sparkline():
    assert sparkline([7]) == []
    assert sparkline([7, 0]) == [7, 0]


def test_the_order_of_rows_is_in_the_address(monkeypatch):
    rows = (flow(), STALLED, consumer("audit", "payments", 3, offset=1, end=500))
    test = opened(monkeypatch, Snapshot(time_s=0.0, rows=rows), "partitions")
    assert list(test.dataframe[0].value["Lag"]) == [45, 499, 0]
    test.selectbox(key="sort").set_value("lag").run()
    assert list(test.dataframe[0].value["Lag"]) == [499, 45, 0]


def test_the_topic_page_searches_its_topics(monkeypatch):
    test = opened(monkeypatch, Snapshot(time_s=0.0, rows=(flow(), STALLED)), "topics")
    assert len(test.dataframe[0].value) == 2
    test.text_input(key="search").set_value("PAY").run()
    assert list(test.dataframe[0].value["Topic"]) == ["payments"]


def test_the_partition_page_draws_the_window_and_names_the_rule(monkeypatch):
    rows = (flow(), STALLED)
    test = opened(monkeypatch, Snapshot(time_s=0.0, rows=rows), "partition")
    test.text_input(key="topic").set_value("payments").run()
    said = everything(test)
    assert "stalled at offset 5 for 45 s" in said
    assert "records are waiting and none is copied" in said
    assert "Marked: the polls that determine the status, 10 of 10." in said
    assert test.code[-1].value.endswith("--group 'mirror.a->b'")


def test_the_partition_page_has_the_next_step_and_its_events(monkeypatch, tmp_path):
    file = tmp_path / "m.properties"
    file.write_text("clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n")
    errors = LastErrors()
    reason = "the target refuses source offset 5 and on: MESSAGE_TOO_LARGE. Raise its max.message.bytes."
    errors.record(
        ("a", "b", "a.payments", "3"), reason, 50.0, ErrorKind.RECORD_TOO_LARGE
    )  # the window of the polls is 0 to 90 s
    monkeypatch.setattr(Polls, "leader_changes", lambda *_: [LeaderChange(60.0, "b", 1, 2)])
    with serving(Recorder(), errors=errors.text) as port:
        own = {"flows": load(file).flows, "metrics_listen": ("127.0.0.1", port)}
        test = opened(monkeypatch, Snapshot(time_s=0.0, rows=(STALLED,)), "partition", **own)
    assert "**Next step:** Raise max" in everything(test)
    assert test.code[0].value.endswith("--entity-name a.payments --add-config max.message.bytes=BYTES")
    assert test.code[-1].value.startswith("kafka-consumer-groups.sh --bootstrap-server a:1 --describe")
    events = test.dataframe[0].value
    assert list(events["Event"]) == ["leader", "pause"]
    assert list(events["What happened"]) == ["b: from broker 1 to broker 2", reason]


def test_time_lag_is_drawn_where_it_is_known():
    minutes = [Minute(0, 5, 2.0), Minute(1, 9, None), Minute(5, 1, 1.0)]
    past = past_of([Sample(200.0, 1, 4), Sample(205.0, 1, 5)], minutes, now=(200.0, 7.0))
    lag, waits = past.dropna(subset=["lag"]), past.dropna(subset=["waits"])
    assert [(at.timestamp(), value) for at, value in zip(lag["time"], lag["lag"], strict=True)] == [
        (60, 5),
        (120, 9),
        (200, 3),
        (205, 4),
    ]
    assert [(at.timestamp(), value) for at, value in zip(waits["time"], waits["waits"], strict=True)] == [
        (60, 2),
        (200, 7),
    ]
    assert past_of([], [], now=(1.0, None)).empty


def test_the_partition_page_shows_the_last_error_if_there_is_one(monkeypatch):
    errors = LastErrors()
    errors.record(("a", "b", "a.payments", "3"), "the target refuses source offset 5", now_s=1_700_000_000.0)
    stalled = Snapshot(time_s=0.0, rows=(STALLED,))
    recorder = Recorder()
    with serving(recorder, errors=errors.text) as port:
        told = everything(opened(monkeypatch, stalled, "partition", metrics_listen=("127.0.0.1", port)))
    assert "**Last error**, from 2023-11-14 22:13:20 UTC: the target refuses source offset 5" in told
    with serving(recorder) as port:
        assert "Last error" not in everything(
            opened(monkeypatch, stalled, "partition", metrics_listen=("127.0.0.1", port))
        )
    untold = everything(opened(monkeypatch, stalled, "partition", metrics_listen=("127.0.0.1", 1)))
    assert plain("The last error is unknown: 127.0.0.1:1/errors cannot be read.") in untold
    assert "unknown, because the process does not respond" in untold


def test_the_topic_page_shows_every_partition_of_a_topic(monkeypatch):
    rows = (flow("payments", 0), flow("payments", 1, offset=5, end=9, waits=3.0), STALLED, flow())
    test = opened(monkeypatch, Snapshot(time_s=0.0, rows=rows), "topics")
    lines = test.dataframe[0].value
    assert list(zip(lines["Topic"], lines["Partitions"], lines["Lagging"], strict=True)) == [
        ("payments", 3, 2),
        ("orders", 1, 0),
    ]
    assert lines["Details"][0] == "/topics?group=a-%3Eb&topic=payments"
    test.text_input(key="topic").set_value("a.payments").run()  # the name on the target, as metrics have it
    assert [metric.value for metric in test.metric] == ["3", "2", "49", "15.0 min"]
    assert list(test.dataframe[0].value["Partition"]) == [3, 1, 0]
    test.text_input(key="topic").set_value("nothing").run()
    assert "No such topic" in everything(test)


def test_the_groups_page_shows_the_cost_of_a_failover_per_group(monkeypatch):
    rows = (flow("payments", 3, offset=40, end=50, waits=30.0), consumer("shop", "payments", 3, offset=35, end=50))
    test = opened(monkeypatch, Snapshot(time_s=0.0, rows=rows), "groups")
    (line,) = test.dataframe[0].value.to_dict("records")
    assert line["Unread"] == 15
    assert line["Of them not on target"] == "10"
    assert line["Oldest"] == "30.0 s"


def test_the_groups_page_shows_the_state_of_each_offset(monkeypatch):
    recorder = Recorder()
    row = CheckpointReport("a", "b", foreign=0)
    rows = [
        CheckpointReport("a", "b", group, "a.t", partition, 5, 5, state, reread, latency_ms=3.0)
        for group, partition, state, reread in (
            ("shop", 0, "synced", 7),
            ("shop", 1, "active", 2),
            ("bill", 0, "no_map", None),
        )
    ]
    recorder.record_checkpoints([row, *rows], now_s=time.time() - 30)
    snapshot = Snapshot(time_s=0.0, rows=(consumer("shop", "payments", 3, offset=35, end=50), flow("payments", 3)))
    with serving(recorder) as port:
        test = opened(monkeypatch, snapshot, "groups", metrics_listen=("127.0.0.1", port))
    bill, shop = test.dataframe[0].value.to_dict("records")
    assert (bill["Group"], bill["Flow"], bill["Partitions by state"], bill["After a failover"]) == (
        "bill",
        "a->b",
        "no_map 1",
        "✖ cannot resume",
    )
    assert bill["Why"] == "its offset is older than the offset map"
    assert (shop["Group"], shop["Partitions by state"]) == ("shop", "active 1, synced 1")
    assert shop["After a failover"] == "▲ re-reads 9 records"
    assert shop["Checkpoint age"].startswith("3")
    without = opened(monkeypatch, snapshot, "groups", metrics_listen=("127.0.0.1", 1))
    assert "does not respond" in everything(without)
    assert list(without.dataframe[0].value["After a failover"]) == ["? unknown"]


def test_a_group_shows_where_it_resumes_and_the_command(monkeypatch):
    rows = (flow("payments", 3, offset=40, end=50), consumer("my shop", "payments", 3, offset=35, end=50), consumer())
    there = [Checkpoint("my shop", "a.payments", 3, 30, 28), Checkpoint("other", "a.payments", 3, 9, 9)]
    monkeypatch.setattr(groups, "_checkpoints", lambda *_: there)
    test = opened(monkeypatch, Snapshot(time_s=0.0, rows=rows), "groups")
    assert not test.code or "translate" not in test.code[-1].value
    test.selectbox(key="group").set_value("my shop").run()
    (place,) = test.dataframe[1].value.to_dict("records")
    assert (place["Topic on the target"], place["Resumes at"], place["Offset on the source"]) == ("a.payments", 28, 35)
    assert place["Read since the checkpoint"] == 5
    assert test.code[-1].value == "kafka-mirror translate mirror.properties 'a->b' --group 'my shop'"


def test_a_warning_is_no_failed_check(monkeypatch):
    recorder = Recorder()
    recorder.record_query("lane-0", is_active=True)
    recorder.store.add("kafka_mirror_query_restarts_total", (), 3)
    with serving(recorder) as port:
        test = opened(monkeypatch, HEALTHY, "health", metrics_listen=("127.0.0.1", port))
    assert [each.value for each in test.error] == []
    assert test.warning[-1].value.endswith("checks; none failed.")


def test_the_health_page_shows_failed_and_passed_checks(monkeypatch):
    recorder = Recorder()
    recorder.windows.record([report(turn=(30.0, 0))], now_s=1_700_000_000.0)
    recorder.record_query("lane-0", is_active=True)
    with serving(recorder) as port:
        test = opened(monkeypatch, HEALTHY, "health", metrics_listen=("127.0.0.1", port))
    assert test.error[0].value == "1 of 2 checks failed."
    passed, metrics = test.expander
    assert (passed.label, metrics.label) == ("1 check passed", "Metrics")
    assert "STALL" not in passed.markdown[0].value
    shown = {(what, of): value for what, of, value, _ in test.dataframe[0].value.itertuples(index=False)}
    assert shown["query_active", "query=lane-0"] == "1"
    assert shown["last_progress_timestamp_seconds", "source=a target=b"] == "2023-11-14 22:13:20 UTC"
    assert shown["turn_wait_seconds", "slot=0 source=a target=b"] == "0.0 s"
    assert not [what for what, _ in shown if what.startswith("lag_")]  # topics have pages of their own


def test_without_a_process_the_health_page_shows_that_it_does_not_respond(monkeypatch):
    test = opened(monkeypatch, HEALTHY, "health", metrics_listen=("127.0.0.1", 1))
    assert "does not respond" in test.warning[0].value


def test_without_a_prometheus_the_past_is_a_sentence(monkeypatch):
    assert "mirror.app.prometheus.url" in everything(opened(monkeypatch, HEALTHY, "incidents"))


def test_a_prometheus_that_does_not_answer_is_a_sentence(monkeypatch):
    dead = {"app_prometheus_url": "http://127.0.0.1:1"}
    for page, unknown in (("incidents", "earlier events are unknown"), ("overview", "alerts are unknown")):
        test = opened(monkeypatch, HEALTHY, page, **dead)
        assert test.warning[0].value == plain(f"Prometheus at http://127.0.0.1:1 cannot be read, so {unknown}.")
        assert "does not respond" in test.expander[0].code[0].value


def test_the_past_is_read_from_series_that_the_rules_record():
    read = set(re.findall(r"source_target[\w:]*", " ".join(HAPPENED)))
    assert read
    assert read <= set(recording())


def test_incidents_are_listed_the_newest_first():
    down, stalled = Event("alert", "Down", "ill", "firing"), Event("status a->b", "STALL", "ill")
    frame = incident_table([Span(stalled, 0, 180), Span(down, 540, 600)])
    assert frame.to_dict("records") == [
        {
            "Kind": "alert firing",
            "Event": "Down",
            "From": "1970-01-01 00:09 UTC",
            "To": "1970-01-01 00:10 UTC",
            "Duration": "60.0 s",
        },
        {
            "Kind": "status a->b",
            "Event": "STALL",
            "From": "1970-01-01 00:00 UTC",
            "To": "1970-01-01 00:03 UTC",
            "Duration": "3.0 min",
        },
    ]
    assert incident_table([]).empty


def test_alerts_that_fired_are_above_those_that_were_only_pending():
    said = (
        Event("version", "1", "idle"),
        Event("alert", "Late", "pending", "pending"),
        Event("alert", "Down", "pending", "pending"),
        Event("status a->b", "STALL", "ill"),
        Event("alert", "Down", "ill", "firing"),
    )
    ordered = by_weight([Span(each, 0, 60) for each in said])
    assert [(span.said.what, span.said.state) for span in ordered] == [
        ("Down", "pending"),
        ("Down", "firing"),
        ("STALL", ""),
        ("Late", "pending"),
        ("1", ""),
    ]


def test_a_flows_partition_links_to_its_board_where_there_is_a_grafana(monkeypatch):
    assert board_link("http://g", STALLED) == (
        "http://g/d/kafka-mirror-topic?var-source=a&var-target=b&var-topic=a.payments&var-partition=3"
    )


def test_pages_have_the_names_of_their_addresses(monkeypatch):
    """The page of one partition is opened by links of rows only."""
    shown = []
    monkeypatch.setattr(st, "navigation", lambda pages, **_: shown.extend(pages) or SimpleNamespace(run=lambda: None))
    opened(monkeypatch, HEALTHY)
    named = [page.title for page in shown if page.visibility == "visible"]
    assert named == ["Overview", "Partitions", "Topics", "Groups", "Failover", "Health", "Incidents", "Glossary"]
    assert [page.url_path for page in shown if page.visibility == "visible"] == [
        "",
        *(each.lower() for each in named[1:]),
    ]
    assert [page.title for page in shown if page.visibility == "hidden"] == ["Partition"]


def test_the_glossary_has_every_metric(monkeypatch):
    from metrics.catalogue import CATALOGUE

    test = opened(monkeypatch, HEALTHY, "glossary")
    assert list(test.dataframe[0].value["Name"]) == [spec.name for spec in CATALOGUE]


@pytest.mark.parametrize("page", ["", "partitions", "topics", "partition", "groups", "failover"])
def test_ids_of_strangers_are_text(monkeypatch, page):
    """No id reaches a page as HTML or as Markdown that means something."""
    rows = (
        flow(HOSTILE, offset=1, end=5, status=Status.STALL, reason=HOSTILE),
        consumer(HOSTILE, HOSTILE, offset=1, end=5),
    )
    test = opened(
        monkeypatch,
        Snapshot(time_s=0.0, rows=rows, problems=(Problem(HOSTILE, HOSTILE),), clusters=((HOSTILE, False),)),
        page,
    )
    for element in [*test.markdown, *test.caption, *test.subheader, *test.warning]:
        assert not re.search(r"(?<!\\)(<img|\]\(http|\*\*t)", element.value), element.value


# --- tables ------------------------------------------------------------------------------------------------------------


def test_unknown_is_empty_in_the_table():
    frame = table([LagRow(group="g", cluster="a", topic="t", partition=0, offset=None, log_end=10)])
    assert frame["Lag"].isna().all()
    assert frame["Offset"].isna().all()
    assert list(frame["Owner"]) == ["none"]


def test_a_minute_of_a_row_has_its_largest_values():
    trends = RowTrends()
    for time_s, end, waits in ((60.0, 15, None), (90.0, 12, 3.0), (120.0, None, None), (180.0, 10, 0.0)):
        trends.record([replace(flow(end=10), log_end=end, lag_seconds=waits)], time_s)
    assert trends.of(flow()) == [Minute(1, 5, 3.0), Minute(3, 0, 0.0)]
    trends.record([], 240.0)
    assert trends.of(flow()) == []


def test_the_worst_is_first():
    rows = [flow(), flow(waits=5.0, end=11), STALLED, flow("lost", status=Status.LOST)]
    assert [row.status for row in worst_first(rows)] == [Status.LOST, Status.STALL, Status.OK, Status.OK]
    assert worst_first(rows)[2].lag == 1


@pytest.mark.parametrize(
    ("asked", "groups"),
    [
        ({"source": "a", "target": "b"}, ["a->b"]),  # as boards and alerts link
        ({"topic": "a.orders"}, ["a->b"]),  # the name on the target, as metrics have it
        ({"search": "SHO"}, ["shop"]),
        ({"only_lagging": True}, ["shop"]),
        ({"partition": "1"}, []),
    ],
)
def test_rows_are_narrowed_by_what_a_deep_link_names(asked, groups):
    assert [row.group for row in narrowed(HEALTHY.rows, **asked)] == groups


def test_a_flow_summary_has_the_worst_status():
    (summary,) = summaries(Snapshot(time_s=0.0, rows=(flow(), STALLED, consumer())))
    assert (summary.partitions, summary.fresh, summary.lag, summary.lag_seconds) == (2, 0.5, 45, 900.0)
    assert summary.worst == Status.STALL


def test_a_group_ahead_of_the_mirror_misses_only_what_it_has_not_read():
    rows = (flow(offset=5, end=10, waits=9.0), consumer(offset=8, end=10))
    (found,) = failovers(Snapshot(time_s=0.0, rows=rows))
    assert (found.unread, found.missing, found.missing_s) == (2, 2, 9.0)


def test_links_quote_what_they_carry():
    assert of_row(consumer("g&x=1", "t#1")) == "/partition?group=g%26x%3D1&cluster=a&topic=t%231&partition=0"


def test_settings_that_differ_are_those_of_the_flow_and_topic():
    text = "".join(
        f'kafka_mirror_config_drift_settings{{source="a",target="{target}",topic="a.t"}} {count}\n'
        for target, count in (("b", 2.0), ("c", 0.0))
    )
    assert differing_settings(status_of(text), "a->b", "a.t") == 2
    assert differing_settings(status_of(text), "a->c", "a.t") == 0
    assert differing_settings(status_of(text), "a->b", "a.other") is None


def test_the_failover_page_shows_a_running_switch(monkeypatch, tmp_path):
    file = tmp_path / "m.properties"
    file.write_text(
        "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\na->b.topics=p.*\n"
    )
    flows = load(file).flows
    begun = time.time() - 30
    run = replace(RUN, id="r2", began_s=begun)
    over = run
    for step in STEPS[Kind.SWITCH]:
        over = over.with_step(
            step, state=StepState.DONE, began_s=begun, ended_s=begun + 4, said=(f"{step.value} was done",)
        )
    now = run.with_step(Step.FENCE, state=StepState.DONE, began_s=begun, ended_s=begun + 5, said=("denied",))
    now = now.with_step(Step.DRAIN, state=StepState.RUNNING, began_s=begun + 5)
    switches._read.clear()
    entries = {f"run/{each.id}": each.text() for each in (replace(over, id="r1"), now)}
    entries["conductor"] = "7 records of 1 topic-partition wait"
    monkeypatch.setattr(Journal, "read", lambda _: Entries(entries))
    snapshot = Snapshot(time_s=0.0, rows=(flow("payments", 3),), clusters=(("a", True), ("b", True)))
    test = opened(monkeypatch, snapshot, "failover", flows=flows)
    said = everything(test)
    assert "switch a\\-\\>b: not ended" in said
    assert "now: 7 records of 1 topic\\-partition wait" in said
    steps = next(frame.value for frame in test.dataframe if "Step" in frame.value)
    assert list(steps["Step"]) == [step.value for step in STEPS[Kind.SWITCH]]
    assert list(steps["State"][:3]) == ["● done", "▶ running", "○ waiting"]
    assert steps["Duration"][0] == "5.0 s"
    assert re.fullmatch(r"for (2[5-9]|[3-5]\d)(\.\d)? s", steps["Duration"][1]), "25 s, and what the page takes"
    switches._read.clear()
    silent = replace(snapshot, clusters=(("a", True), ("b", False)))
    assert "does not respond" in everything(opened(monkeypatch, silent, "failover", flows=flows))
