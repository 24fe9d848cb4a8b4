"""What a scrape costs: our formats beside prometheus-client's writer, the same series. `python -m tests.benchmarks.scrape`."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from metrics.catalogue import CATALOGUE
from metrics.exposition import Format, exposition
from metrics.recorder import Recorder
from metrics.series import Histogram
from tests.lag_rows import record, row_of
from tests.unit.test_metrics import report


def filled(partitions: int, *, per_topic: int = 20) -> Recorder:
    """A recorder as a mirror of this many topic-partitions fills it."""
    recorder, lags, now_s = Recorder(), [], time.time()
    for number in range(partitions):
        topic, partition = divmod(number, per_topic)
        place = ("a", "b", f"a.topic-{topic:05d}", str(partition))
        recorder.windows.record([report(place[2], partition)._replace(last_timestamp_ms=1.0)], now_s=1.0)
        lags.append(row_of(place, offset=999_000, end=1_000_000 + number, replicated_until_s=now_s - 1.5))
    record(recorder, *lags, now_s=now_s)
    return recorder


class Plain(Collector):
    """The same series (but for histograms, which would cost it more) for prometheus-client's writer."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterator[Metric]:
        snapshot = self._recorder.snapshot()
        for spec in CATALOGUE:
            if spec.kind != "histogram":
                kind = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
                family = kind(spec.name.removesuffix("_total"), spec.help, labels=spec.labels)
                for labels, value in snapshot[spec.name].items():
                    assert not isinstance(value, Histogram)
                    family.add_metric(labels, value)
                yield family


def cpu_s(work: Callable[[], object]) -> float:
    """Median processor time of five runs."""
    took = []
    for _ in range(5):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return statistics.median(took)


def whole(recorder: Recorder, wanted: Format) -> bytes:
    """The whole answer in a format."""
    return exposition(recorder.snapshot(), recorder.store.began(), wanted=wanted, max_series=10**9).encode()


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    recorder = filled(parser.parse_args().partitions)
    registry = CollectorRegistry()
    registry.register(Plain(recorder))
    folded = cpu_s(lambda: exposition(recorder.snapshot(), max_series=100_000))
    theirs = cpu_s(lambda: generate_latest(registry))
    print("| writer | series | MB | CPU s |\n|---|---|---|---|")
    for wanted, took in ((each, cpu_s(lambda each=each: whole(recorder, each))) for each in Format):  # type: ignore[misc]
        body = whole(recorder, wanted)
        lines = sum(not line.startswith(b"#") for line in body.splitlines())
        print(f"| ours, {wanted.name.lower()} | {lines:,} | {len(body) / 1e6:.1f} | {took:.2f} |")
    print(f"| ours, text, capped at 100,000 | | | {folded:.2f} |")
    print(f"| prometheus-client, without the histograms | | | {theirs:.2f} |")


if __name__ == "__main__":
    main()
