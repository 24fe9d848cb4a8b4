"""The same backlog with the slots in the driver's own Spark, on one worker of a standalone cluster, and on two.

All of it runs on one machine, so it shows what a cluster costs, not what more machines would bring. See docs/deployment.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.bench import CASES, Bench
from tests.integration.spark_cluster import spark_cluster

SLOTS = 2
CORES = 6  # two lanes of each slot, and what reads plans and checkpoints
PLACES = {"the driver's own": 0, "one worker": 1, "two workers": 2}


def main() -> int:
    """Run each place in turns and print a table of medians."""
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each place, in turns (default %(default)s)")
    asked = parser.parse_args()
    case = CASES[2]
    runs: dict[str, list[dict[str, float]]] = {place: [] for place in PLACES}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-mirror-bench-")))
        bench = Bench(stack, folder)
        bench.produce(case, "cluster")
        for turn in range(asked.rounds):
            for place, workers in PLACES.items():
                with ExitStack() as here:
                    extra = f"mirror.slots = {SLOTS}\n"
                    if workers:
                        spark = here.enter_context(spark_cluster(folder / f"spark-{turn}-{workers}"))
                        for _ in range(workers):
                            spark.worker(cores=CORES // workers)
                        extra += f"mirror.spark.master = {spark.url}\nmirror.spark.driver.host = 127.0.0.1\n"
                    figures = bench.run("ours", case, "cluster", bench.source.bootstrap, extra=extra)
                runs[place].append(figures)
                print(
                    f"  round {turn + 1}, {place}: {figures['records/s']:,.0f} records/s", file=sys.stderr, flush=True
                )
    print(f"{case.name}; medians of {asked.rounds} rounds.\n\n| tasks on | start s | records/s |\n|---|---|---|")
    for place, figures_of in runs.items():
        start, rate = (statistics.median(run[name] for run in figures_of) for name in ("start s", "records/s"))
        print(f"| {place} | {start:.1f} | {rate:,.0f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
