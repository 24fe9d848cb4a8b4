"""How what the driver and a window do grows with topic-partitions: plans, shares, positions, a scrape. No broker takes part.

`python -m tests.benchmarks.sizing` prints a table of seconds and bytes, with the slope from the second largest to the largest.
"""

from __future__ import annotations

import argparse
import math
import pickle
import resource
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from metrics.exposition import exposition
from metrics.recorder import Recorder
from mirror.model.flow_plan import FlowPlan, PlannedPartition, Window
from mirror.model.offset_map_tail import Tail
from mirror.replication.partition import Partition
from mirror.replication.positions import PositionCommits
from tests.benchmarks.scrape import cpu_s, filled

SIZES = (1_000, 10_000, 100_000)
SLOTS = 16
PER_TOPIC = 20
WINDOW = Window(number=1, window_ms=10_000, lanes=2, slots=1, slot=0, run_id=1)
CLIENT = {"bootstrap.servers": "b1:9092,b2:9092,b3:9092", "security.protocol": "SSL"}


class Everything:
    """A target whose metadata has every topic-partition."""

    def knows(self, topic: str, partition: int) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Row:
    """One measure at every size."""

    what: str
    unit: str
    values: list[float]

    def text(self) -> str:
        """Return it as a line of Markdown."""
        slope = math.log(self.values[-1] / self.values[-2]) / math.log(SIZES[-1] / SIZES[-2])
        return f"| {self.what} | {self.unit} | {' | '.join(f'{value:,.3g}' for value in self.values)} | {slope:.2f} |"


def plan_of(partitions: int) -> FlowPlan:
    """A flow of so many topic-partitions."""
    assigned = tuple(
        PlannedPartition(
            f"topic-{n // PER_TOPIC:06d}",
            f"a.topic-{n // PER_TOPIC:06d}",
            n % PER_TOPIC,
            "MkTRLMuhQaG0ALbDVjXjTA",
            remote_id="dd7rDTMHTLe1dMd0wYcVfQ",
        )
        for n in range(partitions)
    )
    return FlowPlan(source="a", target="b", tasks_max=SLOTS, consumer=CLIENT, producer=CLIENT, partitions=assigned)


def page_of(plan: FlowPlan) -> Callable[[], object]:
    """The positions that one window of one slot writes when all of its topic-partitions have moved."""
    share = plan.of_slots((0,), slots=SLOTS)
    places = [
        Partition(p, 5_000_000, 5_000_000, ids=f"{p.topic_id}:{p.remote_id}", tail=Tail("0,0,5000000"))
        for p in share.partitions
    ]
    commits = PositionCommits(plan, WINDOW, places)
    return lambda: commits.pending(Everything())  # type: ignore[arg-type]


def scraped(recorder: Recorder) -> str:
    """Return what a scrape gets."""
    return exposition(recorder.snapshot(), max_series=250_000)


def measured() -> list[Row]:
    """Measure everything at each size."""
    plans = [plan_of(size) for size in SIZES]
    pickled = [pickle.dumps(plan) for plan in plans]
    pages = [page_of(plan) for plan in plans]
    scrapes = [filled(size, per_topic=PER_TOPIC) for size in SIZES]
    bodies = [scraped(recorder) for recorder in scrapes]
    reads_s = [cpu_s(partial(pickle.loads, data)) for data in pickled]
    shares_s = [cpu_s(partial(plan.shares, SLOTS)) for plan in plans]
    scrapes_s = [cpu_s(partial(scraped, recorder)) for recorder in scrapes]
    return [
        Row("plan file", "bytes", [len(data) for data in pickled]),
        Row("plan file read (each window and lane)", "s", reads_s),
        Row(f"shares of {SLOTS} slots (each window)", "s", shares_s),
        Row("positions of a slot, all moved (each second)", "s", [cpu_s(page) for page in pages]),
        Row("a scrape, at most 250,000 series", "s", scrapes_s),
        Row("a scrape", "bytes", [len(body) for body in bodies]),
    ]


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows = measured()
    print(f"| what | unit | {' | '.join(f'{size:,}' for size in SIZES)} | slope |")
    print("|---" * (len(SIZES) + 3) + "|")
    for row in rows:
        print(row.text())
    print(f"\nThis process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB at its most.")


if __name__ == "__main__":
    main()
