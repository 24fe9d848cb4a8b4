"""The settings table: complete, consistent with its readers, and the source of the options and of docs/configuration.md."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from mirror.commands.options import add_own_settings, own_settings
from mirror.config.setting_types import Scope
from mirror.config.settings import KEYS_OF_MIRROR, Mirror
from mirror.config.table import FLOW_DEFAULTS, IDENTICAL_KEY, OPTIONS, PROCESS_DEFAULTS, SETTINGS, TABLE, reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
BLOCKS = {
    "flows": (Scope.FILE, Scope.CLUSTER, Scope.FLOW, Scope.TARGET),
    "clients": (Scope.CLIENT,),
    "consumers": (Scope.CONSUMER,),
    "producers": (Scope.PRODUCER,),
    "process": (Scope.PROCESS,),
}
READ_TOGETHER = {"mirror.http.username", "mirror.http.password", "mirror.http.tls.certificate", "mirror.http.tls.key"}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_page_has_the_tables_of_the_settings(name, request):
    start, end = f"<!-- generated from mirror/config/table.py: {name} -->\n", "<!-- end -->\n"
    before, _, rest = PAGE.read_text().partition(start)
    found, _, after = rest.partition(end)
    expected = reference(*BLOCKS[name])
    if request.config.getoption("--update-golden"):
        PAGE.write_text(before + start + expected + end + after)
    else:
        assert found == expected, "docs/configuration.md differs; --update-golden writes it again"


def test_each_setting_has_one_row_and_is_documented():
    assert len(SETTINGS) == len(TABLE)
    for setting in TABLE:
        assert setting.doc.endswith("."), setting.key
        assert setting.type.name, setting.key
        assert setting.default is not None or setting.shown_default, setting.key
        assert "|" not in setting.documented_default + setting.doc, setting.key


@pytest.mark.parametrize("key", [setting.key for setting in TABLE if setting.default is not None])
def test_the_type_of_a_setting_accepts_its_default(key):
    SETTINGS[key].default_value()


def test_a_number_with_a_unit_has_it_in_its_name():
    timed = [setting.key for setting in TABLE if setting.type.metavar == "MS" or "How often" in setting.doc]
    assert len(timed) >= 10
    assert [key for key in timed if not key.endswith((".ms", ".seconds"))] == []


def test_the_page_shows_every_setting():
    shown = [scope for scopes in BLOCKS.values() for scope in scopes]
    assert sorted(shown, key=list(Scope).index) == list(Scope)


def test_each_setting_of_the_process_is_loaded():
    assert {*KEYS_OF_MIRROR.values(), *READ_TOGETHER} == set(PROCESS_DEFAULTS)


def test_settings_with_a_separate_reader_follow_the_table(settings):
    mirror = settings("mirror.poll.interval.ms = 250", "mirror.app.grafana.url = http://g/").mirror
    assert (mirror.poll_interval_s, mirror.app_grafana_url) == (0.25, "http://g")
    assert Mirror().poll_interval_s == 5.0


def test_options_are_rows_with_their_defaults():
    parser = argparse.ArgumentParser()
    add_own_settings(parser)
    text = re.sub(r"\s+", " ", parser.format_help())
    for setting in OPTIONS:
        assert f"{setting.option} {setting.type.metavar} " in text
        assert setting.help in text
    parsed = parser.parse_args(["--window-ms", "7", "--spark", "spark.a=b"])
    assert own_settings(parsed) == {"mirror.window.ms": "7", "mirror.spark.a": "b"}


def test_flow_defaults_come_in_the_order_of_the_table():
    of_a_flow = [setting for setting in TABLE if setting.scope is Scope.FLOW]
    assert list(FLOW_DEFAULTS) == [setting.key for setting in of_a_flow if setting.default is not None]
    assert [setting.key for setting in of_a_flow if setting.default is None] == [IDENTICAL_KEY]
