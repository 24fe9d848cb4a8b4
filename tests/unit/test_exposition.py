"""What `/metrics` answers, as Prometheus' own linter reads it."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request

import pytest
from prometheus_client import CollectorRegistry

from metrics.catalogue import CATALOGUE
from metrics.exporter import serve
from metrics.recorder import Recorder
from tests.unit.test_metrics import report

# MirrorMaker's measures are in milliseconds and keep their names; Prometheus' convention is seconds.
IN_MILLISECONDS = {spec.name for spec in CATALOGUE if "_ms" in spec.name}

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed"
)


def exposition(recorder: Recorder) -> str:
    registry = CollectorRegistry()
    registry.register(recorder)
    with (
        serve(registry, "127.0.0.1", 0, is_ready=lambda: True) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer,
    ):
        return str(answer.read().decode())


def complaints(text: str) -> dict[str, list[str]]:
    """Run `promtool check metrics`; return what it says by family."""
    found = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    said: dict[str, list[str]] = {}
    for line in found.stderr.splitlines():
        assert not line.startswith("error"), line
        name, _, what = line.partition(" ")
        said.setdefault(name, []).append(what)
    return said


def test_promtool_objects_to_nothing_but_the_milliseconds():
    recorder = Recorder()
    recorder.report(report(), now_s=1.0)
    recorder.offsets(("a", "b", "a.t", "0"), start=0, end=10, replicated=7)
    recorder.statuses(("a", "b"), {"ok": 1, "stall": 0})
    recorder.polled(("a", "b"), now_s=1.0, took_s=0.1)
    recorder.cluster("a", is_up=True)
    recorder.query("lane-0", is_active=True)
    text = exposition(recorder)
    said = complaints(text)
    assert set(said) <= IN_MILLISECONDS
    assert {name for name in said if f"# HELP {name} " not in text} == set()


@pytest.mark.parametrize("name", ['a"} 1\nup 0\n', "x\\", "a\nb", '"', "\u2028", "é"])
def test_a_hostile_topic_name_stays_one_label(name):
    recorder = Recorder()
    recorder.report(report(topic=name), now_s=1.0)
    text = exposition(recorder)
    assert set(complaints(text)) <= IN_MILLISECONDS
    assert not [line for line in text.split("\n") if line.startswith("up ")]
