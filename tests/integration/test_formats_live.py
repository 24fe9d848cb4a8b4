"""A real Prometheus takes each format of `/metrics`, and answers quantiles from native histograms."""

from __future__ import annotations

import json
import math
import shutil
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dashboards.boards import boards
from dashboards.preview import preview
from dashboards.recording import LATENCY_P50, LATENCY_P99
from metrics.exporter import serve
from metrics.formats import Format
from metrics.recorder import Recorder
from metrics.scrape import answer
from mirror.embedded import prometheus_server
from mirror.model.reports import Spread
from mirror.runtime.prometheus import Prometheus
from tests.unit.test_metrics import report
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus (Debian: prometheus) is not installed"
)
LATENCY = "kafka_mirror_replication_latency_seconds"
OPTIONS = {
    Format.OPENMETRICS: ("--enable-feature=exemplar-storage",),
    Format.PROTOBUF: ("--enable-feature=native-histograms,exemplar-storage",),
}


class Mirror:
    """A recorder that gets a report whenever it is scraped, and knows in which formats it was asked."""

    def __init__(self) -> None:
        self.recorder, self.asked = Recorder(), Counter()  # type: ignore[var-annotated]
        self.values: list[float] = []

    def answer(self, wanted: Format) -> bytes:
        self.asked[wanted] += 1
        latency = Spread()
        for low in range(40, 240, 10):  # milliseconds: single records, and one batch from 1 to 1.2 s
            latency.add(low, low, low, 1)
            self.values.append(low / 1000)
        latency.add(1000, 1200, 11_000, 10)
        self.values += [1.0 + 0.02 * step for step in range(10)]
        measured = latency.columns()
        columns = {f"latency_{name.removeprefix('last_')}": value for name, value in measured._asdict().items()}
        row = report(partition=7, records=sum(measured.counts))._replace(**columns)
        self.recorder.record_windows([row], now_s=time.time())
        return answer(wanted, self.recorder.snapshot(), self.recorder.began(), max_series=10**6)


@contextmanager
def scraped(folder: Path, *options: str) -> Iterator[tuple[Prometheus, Mirror]]:
    """A Prometheus of the project's configuration that scrapes each second."""
    mirror = Mirror()
    with serve(mirror.answer, "127.0.0.1", 0, is_ready=lambda: True) as port:
        file = prometheus_server.configured(folder, [f"127.0.0.1:{port}"], every="1s")
        with prometheus_server.running(file, folder / "data", *options) as server:
            yield server, mirror


def value(server: Prometheus, expr: str) -> float | None:
    found = server.query(expr)
    return float(found[0]["value"][1]) if found else None


def examples(server: Prometheus, series: str) -> list[dict[str, object]]:
    asked = urllib.parse.urlencode({"query": series, "start": time.time() - 600, "end": time.time() + 60})
    with urllib.request.urlopen(f"{server.url}/api/v1/query_exemplars?{asked}", timeout=10) as found:
        return [exemplar for series in json.load(found)["data"] for exemplar in series["exemplars"]]


def test_prometheus_asks_for_openmetrics_and_takes_it_whole(tmp_path):
    with scraped(tmp_path, *OPTIONS[Format.OPENMETRICS]) as (server, mirror):
        count = f'{LATENCY}_count{{topic="a.t"}}'
        eventually(lambda: (value(server, f"changes({count}[1m])") or 0) > 3, within_s=30, because="it is scraped")
        assert set(mirror.asked) == {Format.OPENMETRICS}
        assert value(server, 'min_over_time(up{job="kafka-mirror"}[1m])') == 1
        created = value(server, 'kafka_mirror_record_count_created{topic="a.t"}')
        assert created is not None
        assert abs(time.time() - created) < 120
        assert value(server, f"count({LATENCY}_bucket)") == 21
        (example,) = {json.dumps(each["labels"]) for each in examples(server, f"{LATENCY}_bucket")}
        assert json.loads(example) == {"partition": "7", "window": "5"}


def test_prometheus_takes_native_histograms_and_tells_quantiles_from_them(tmp_path):
    with scraped(tmp_path, *OPTIONS[Format.PROTOBUF]) as (server, mirror):
        eventually(
            lambda: (value(server, f"histogram_count(rate({LATENCY}[1m]))") or 0) > 0,
            within_s=30,
            because="a native histogram grows",
        )
        assert set(mirror.asked) == {Format.PROTOBUF}
        assert value(server, 'min_over_time(up{job="kafka-mirror"}[1m])') == 1
        known = sorted(mirror.values)
        for share in (0.1, 0.5, 0.6, 0.9, 0.99):
            shown, exact = (
                value(server, f"histogram_quantile({share}, {LATENCY})"),
                known[math.ceil(share * len(known)) - 1],
            )
            assert shown is not None
            assert shown == pytest.approx(exact, rel=0.1), share  # a bucket's width is 9 %
        sums = value(server, f"histogram_sum({LATENCY}) / histogram_count({LATENCY})")
        assert sums == pytest.approx(sum(known) / len(known), rel=0.02)
        (example,) = {json.dumps(each["labels"]) for each in examples(server, LATENCY)}
        assert json.loads(example) == {"partition": "7", "window": "5"}
        quantiles = {LATENCY_P50: 0.18, LATENCY_P99: 1.18}
        recorded = eventually(
            lambda: all((found := {name: value(server, name) for name in quantiles}).values()) and found,
            within_s=30,
            because="the recording rules read native histograms",
        )
        assert recorded == pytest.approx(quantiles, rel=0.1)
        shown = preview(server, [board for board in boards() if board.uid == "kafka-mirror-topic"])
        heat = shown[shown.index("Latency of records") :]
        assert "fill-opacity" in heat[: heat.index("</svg>")], "the heat map draws native buckets"
        # What is not native comes as it does in the texts, and times of begin make no series.
        assert value(server, 'kafka_mirror_record_count_total{topic="a.t"}')
        assert value(server, "process_resident_memory_bytes{job='kafka-mirror'}")
        assert server.query('{__name__=~"kafka_mirror.*_created"}') == []
