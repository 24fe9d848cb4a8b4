"""What the boards cost at size: every panel's queries, over a Prometheus that scrapes a mirror of 10,000 topic-partitions.

`python -m tests.benchmarks.panels`; the mirror's numbers are made up, the exposition, the rules and Prometheus are real.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

from dashboards.boards import boards
from dashboards.panels import Board, Panel
from metrics.exporter import serve
from metrics.exposition import Format, exposition
from metrics.recorder import Recorder
from mirror.embedded import prometheus_server
from mirror.runtime.prometheus import Prometheus
from tests.lag_rows import record, row_of
from tests.preview import filled_in
from tests.unit.test_metrics import report

POINTS = 120  # of a panel a third of a screen wide
TICK_S = 5.0
PER_TOPIC = 20
FIRST = "a.topic-00000"  # what a board shows that has no All


class Mirror:
    """A mirror of so many topic-partitions, a tenth of them behind, whose numbers move."""

    def __init__(self, partitions: int) -> None:
        self.recorder = Recorder()
        places = (divmod(number, PER_TOPIC) for number in range(partitions))
        self._places = [("a", "b", f"a.topic-{topic:05d}", str(partition)) for topic, partition in places]
        self._ends = 1_000_000
        self.recorder.record_flow(("a", "b"), has_begun=True)
        self.recorder.record_served_partitions(("a", "b"), self._places, expected=partitions, slots=range(2))

    def tick(self) -> None:
        """Let ten records arrive on each."""
        now_s, recorder = time.time(), self.recorder
        self._ends += 10
        rows = [
            report(place[2], int(place[3]), records=10)._replace(last_timestamp_ms=now_s * 1000)
            for place in self._places
        ]
        recorder.windows.record(rows, now_s=now_s)
        behind = [5 if number % 10 == 0 else 0 for number in range(len(self._places))]
        lags = [
            row_of(place, offset=self._ends - lag, end=self._ends, replicated_until_s=now_s - lag)
            for place, lag in zip(self._places, behind, strict=True)
        ]
        record(recorder, *lags, now_s=now_s)

    def run(self, ends: threading.Event) -> None:
        """Tick until the event is set."""
        while not ends.wait(TICK_S):
            self.tick()

    def scrape(self, wanted: Format) -> bytes:
        """Return what is scraped."""
        return exposition(
            self.recorder.snapshot(), self.recorder.store.began(), wanted=wanted, max_series=10**9
        ).encode()


def took_ms(server: Prometheus, board: Board, panel: Panel, *, range_s: float) -> float:
    """Return the time that Prometheus needs for all of a panel's queries, the best of three."""
    return min(_once_ms(server, panel, range_s, dict.fromkeys(board.chosen, FIRST)) for _ in range(3))


def _once_ms(server: Prometheus, panel: Panel, range_s: float, chosen: dict[str, str]) -> float:
    began, end_s = time.perf_counter(), time.time()
    for query in panel.queries:
        if panel.kind in ("stat", "table"):
            server.query(filled_in(query.expr, **chosen))
        else:
            server.query_range(
                filled_in(query.expr, **chosen), start_s=end_s - range_s, end_s=end_s, step_s=range_s / POINTS
            )
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Print a Markdown table of the slowest panels."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.panels", description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=12, help="how long is scraped first (default %(default)s)")
    parser.add_argument("--slowest", type=int, default=12, help="how many panels are listed (default %(default)s)")
    asked = parser.parse_args()
    mirror, ends = Mirror(asked.partitions), threading.Event()
    mirror.tick()
    threading.Thread(target=mirror.run, args=(ends,), daemon=True).start()
    with tempfile.TemporaryDirectory() as name, serve(mirror.scrape, "127.0.0.1", 0, is_ready=lambda: True) as port:
        folder = Path(name)
        file = prometheus_server.configured(folder, [f"127.0.0.1:{port}"])
        with prometheus_server.running(file, folder / "data") as server:
            time.sleep(asked.minutes * 60)
            ends.set()  # what is measured is Prometheus alone
            panels = [(board, panel) for board in boards() for row in board.rows for panel in row.panels]
            found = [(took_ms(server, *each, range_s=asked.minutes * 60), *each) for each in panels]
    print(f"{len(found)} panels, {sum(took < 200 for took, *_ in found)} of them in less than 200 ms. The slowest:\n")
    print("| board | panel | ms |\n|---|---|---|")
    for took, board, panel in sorted(found, key=lambda each: -each[0])[: asked.slowest]:
        print(f"| {board.title} | {panel.title} | {took:.0f} |")


if __name__ == "__main__":
    main()
