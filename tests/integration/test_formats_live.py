"""A real Prometheus asks for OpenMetrics, and takes it whole."""

from __future__ import annotations

import json
import shutil
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from metrics.exporter import serve
from metrics.exposition import Format, exposition
from metrics.recorder import Recorder
from mirror.embedded import prometheus_server
from mirror.model.reports import Spread
from mirror.runtime.prometheus import Prometheus
from tests.unit.test_metrics import report
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus (Debian: prometheus) is not installed"
)
LATENCY = "kafka_mirror_replication_latency_seconds"


class Mirror:
    """A recorder that gets a report whenever it is scraped, and knows in which formats it was asked."""

    def __init__(self) -> None:
        self.recorder, self.asked = Recorder(), Counter()  # type: ignore[var-annotated]

    def answer(self, wanted: Format) -> bytes:
        self.asked[wanted] += 1
        latency = Spread()
        for low in range(40, 240, 10):  # milliseconds: single records, and one batch from 1 to 1.2 s
            latency.add(low, low, low, 1)
        latency.add(1000, 1200, 11_000, 10)
        measured = latency.measured()
        row = report(partition=7, records=sum(measured.counts))._replace(latency=measured)
        self.recorder.windows.record([row], now_s=time.time())
        return exposition(
            self.recorder.snapshot(), self.recorder.store.began(), wanted=wanted, max_series=10**6
        ).encode()


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


@pytest.mark.parametrize("features", ["exemplar-storage", "native-histograms,exemplar-storage"])
def test_prometheus_asks_for_openmetrics_and_takes_it_whole(tmp_path, features):
    """A Prometheus that takes native histograms would rather have protocol buffers, and takes OpenMetrics."""
    with scraped(tmp_path, f"--enable-feature={features}") as (server, mirror):
        count = f'{LATENCY}_count{{topic="a.t"}}'
        eventually(lambda: (value(server, f"changes({count}[1m])") or 0) > 3, within_s=30, because="it is scraped")
        assert set(mirror.asked) == {Format.OPENMETRICS}
        eventually(lambda: value(server, 'up{job="kafka-mirror"}') == 1, within_s=10, because="the text is valid")
        created = value(server, 'kafka_mirror_record_count_created{topic="a.t"}')
        assert created is not None
        assert abs(time.time() - created) < 120
        assert value(server, f"count({LATENCY}_bucket)") == 21
        (example,) = {json.dumps(each["labels"]) for each in examples(server, f"{LATENCY}_bucket")}
        assert json.loads(example) == {"partition": "7", "window": "5"}
