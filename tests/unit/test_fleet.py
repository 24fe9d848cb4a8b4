"""The inspector over several settings files: their names, the first page, and the mirror that an address chooses."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app import inspection, links
from app.fleet_table import fleet_html, fleet_of, fleet_sentence
from app.watch import Watch
from metrics.partition_status import Status
from metrics.trend import Trend
from mirror.commands import app as command
from mirror.config.given import Given, mirrors_of
from mirror.config.load import load
from mirror.errors import SettingsError
from mirror.lag.snapshot import Snapshot
from tests.unit.test_app import HOSTILE, MAIN, PATIENCE_S, STALLED, Polls, everything, flow
from tests.unit.test_classic import parse_arguments

NOW_S = 36_000.0
FILE = (
    "clusters = a, {target}\na.bootstrap.servers = a:1\n{target}.bootstrap.servers = b:1\na->{target}.enabled = true\n"
)
OK = Snapshot(time_s=NOW_S, rows=(replace(flow(end=12, waits=0.2), group="a->c"),))
BAD = Snapshot(time_s=NOW_S, rows=(flow(), STALLED))


@pytest.fixture
def files(tmp_path):
    """Two settings files of one directory, for a->b and a->c."""
    for name, target in (("eu", "b"), ("us", "c")):
        (tmp_path / f"{name}.properties").write_text(FILE.format(target=target))
    return tmp_path


@pytest.fixture
def shown(monkeypatch, files):
    """Open the app over both files, with a page's address."""
    found = {}
    for name, snapshot in (("eu", BAD), ("us", OK)):
        own = Given(name, f"{name}.properties", load(files / f"{name}.properties"))
        found[name] = inspection.Inspected(own, Watch(Polls(snapshot), every_s=3600))
    monkeypatch.setattr(inspection, "MIRRORS", found)

    def opened(**query):
        test = AppTest.from_file(MAIN, default_timeout=PATIENCE_S)
        for name, value in query.items():
            test.query_params[name] = value
        test.run()
        assert not test.exception
        return test

    return opened


def test_the_pollers_of_all_mirrors_start_together(monkeypatch, files):
    polled = []
    monkeypatch.setattr(inspection, "Inspector", lambda settings: settings.flows[0].name)
    monkeypatch.setattr(inspection, "Watch", lambda inspector, **_: polled.append(inspector))
    monkeypatch.setattr(inspection, "MIRRORS", {})
    inspection.start_pollers(given(files))
    assert polled == ["a->b", "a->c"]
    assert list(inspection.mirrors()) == ["eu", "us"]


def given(*paths):
    return mirrors_of(parse_arguments(["app", *map(str, paths)]))


def test_a_directory_means_all_its_files(files):
    assert [(each.name, each.file) for each in given(files)] == [("eu", "eu.properties"), ("us", "us.properties")]
    assert [each.settings.flows[0].name for each in given(files, files / "us.properties")] == ["a->b", "a->c"]


def test_files_of_the_same_name_are_named_with_their_directories(files):
    other = files / "dr"
    other.mkdir()
    (other / "eu.properties").write_text(FILE.format(target="d"))
    names = [each.name for each in given(files / "eu.properties", other)]
    assert names == [f"{files.name}/eu", "dr/eu"]
    twin = other / "dr"
    twin.mkdir()
    (twin / "eu.properties").write_text(FILE.format(target="e"))
    with pytest.raises(SettingsError, match="dr/eu: two files have this directory and name"):
        given(other, twin)


@pytest.mark.parametrize("arguments", [[], ["eu.properties", "--producer.config", "p"]])
def test_nothing_or_both_kinds_of_files_are_refused(arguments):
    with pytest.raises(SettingsError, match="expected either FILE"):
        given(*arguments)


def test_a_directory_without_files_is_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"has no \*\.properties"):
        given(tmp_path)


def test_a_login_of_a_later_file_is_not_bypassed(files):
    file = files / "us.properties"
    file.write_text(file.read_text() + "mirror.http.username = sre\nmirror.http.password = hush\n")
    with pytest.raises(SettingsError, match=r"us\.properties requires a login .*, eu\.properties does not") as refused:
        command.run(parse_arguments(["app", str(files)]))
    assert "hush" not in str(refused.value)


def test_flows_without_partitions_are_unknown_and_the_worst_are_first():
    found = [*fleet_of("us", ["a->c", "a->z"], OK, Trend()), *fleet_of("eu", ["a->b"], BAD, Trend())]
    found.sort(key=lambda each: each.rank)
    assert [(each.mirror, each.name, each.status) for each in found] == [
        ("eu", "a->b", Status.STALL),
        ("us", "a->z", Status.UNKNOWN),
        ("us", "a->c", Status.OK),
    ]
    assert fleet_sentence(found) == "2 of 3 flows not OK; worst: a->b of eu, STALL"
    assert fleet_sentence(found[2:]) == "The flow is healthy"
    assert fleet_sentence([*found[2:], *found[2:]]) == "All 2 flows are healthy"
    html = fleet_html(found, NOW_S)
    assert html.count('href="/overview?mirror=us"') == 2
    assert html.index("15.0 min") < html.index("unknown") < html.index("0.2 s")


def test_names_of_strangers_are_text():
    hostile = replace(STALLED, reason=HOSTILE)
    html = fleet_html(fleet_of("<b>", [HOSTILE], Snapshot(time_s=0.0, rows=(hostile,)), Trend()), NOW_S)
    assert "<img" not in html
    assert "<b>" not in html


def test_the_first_page_has_all_flows_and_filters_by_status(shown, monkeypatch):
    drawn = []
    monkeypatch.setattr("app.components._fleet", lambda data, **_: drawn.append(data))
    test = shown()
    assert "1 of 2 flows not OK; worst: a->b of eu, STALL" in test.title[0].value.replace("\\", "")
    assert "2 of 2 flows of 2 mirrors" in everything(test)
    test.button_group(key="status").set_value(["● OK"]).run()
    assert "1 of 2 flows of 2 mirrors" in everything(test)
    assert "a-&gt;c" in drawn[-1]
    assert "a-&gt;b" not in drawn[-1]


@pytest.mark.parametrize(
    ("query", "mirror"),
    [
        ({"mirror": "us"}, "us"),
        ({"source": "a", "target": "c"}, "us"),  # as alerts link
        ({"group": "a->c"}, "us"),
        ({"group": "shop"}, "eu"),
        ({"group": "shop", "source": "a", "target": "c"}, "us"),
        ({}, "eu"),
    ],
)
def test_an_address_chooses_the_mirror(shown, monkeypatch, query, mirror):
    monkeypatch.setattr(st, "navigation", lambda *_, **__: SimpleNamespace(run=lambda: None))  # not the first page
    test = shown(**query)
    assert test.selectbox(key="mirror").value == mirror


def test_links_keep_the_mirror():
    before = links.MIRROR.set("us")
    try:
        assert links.address("failover") == "/failover?mirror=us"
        assert links.of_row(STALLED).endswith("&partition=3&mirror=us")
    finally:
        links.MIRROR.reset(before)
    assert links.address("failover") == "/failover"
