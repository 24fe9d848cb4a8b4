"""This project beside MirrorMaker 2: same brokers, same data, same run, in turns. Prints ratios; see docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from mirror.embedded.broker import LARGE_HEAP, Broker
from mirror.embedded.latency import LatencyProbe, percentiles
from mirror.embedded.ports import free_port
from mirror.kafka.cluster import Cluster
from tests.benchmarks import peers, switching
from tests.benchmarks.limit import limit
from tests.benchmarks.options import SWITCH, bench_parser
from tests.benchmarks.processes import Meter
from tests.integration.records import create

SIDES = ("ours", "mm2")
LIMIT = "limit"  # beside case 1: bare clients, and no mirror
ALONE = "alone"  # beside case 8: a producer that writes straight to the target, and no mirror
FINISH_WITHIN_S = 300.0
MANY = 1_000  # partitions of a case whose remote topics are deleted after each run
SETTLED_S = 3.0  # under exactly once, no more arrives when nothing has for so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is mirrored: a backlog of `records`, or what is produced at `rate` records/s while it is measured, or nothing."""

    number: int
    name: str
    records: int
    size: int
    partitions: int  # of each topic
    topics: int = 1
    producer: dict[str, object] = field(default_factory=dict)
    busy: int | None = None  # produce only into the first so many partitions
    rate: int = 0
    seconds: float = 60.0
    delay_ms: float = 0.0
    compression: str = "lz4"
    is_exactly_once: bool = False
    is_idle: bool = False
    linger_ms: int = 0  # of the target's producer, on both sides
    limit: float = 0.0  # least share of what the brokers take from bare clients; 0: that is not measured
    targets: dict[str, float] = field(default_factory=dict)  # ratio ours / MirrorMaker 2

    def topics_of(self, name: str) -> list[str]:
        """Return the names of its topics."""
        return [name] if self.topics == 1 else [f"{name}-{number:03}" for number in range(self.topics)]


_BIG = {"linger.ms": 50, "batch.size": 262_144, "batch.num.messages": 10_000}
_LIVE = {"p50 ms": 1.0, "p95 ms": 1.0, "p99 ms": 1.0, "CPU s": 1.0, "PSS MiB": 1.0}
_STEADY = Case(
    number=4,
    name="latency at 500 records/s, 8 partitions",
    records=0,
    size=200,
    partitions=8,
    rate=500,
    producer={"linger.ms": 0},
    targets=_LIVE,
)
_WIDE = Case(
    number=12,
    name="wide: 2,000 partitions, 200 busy, 500 records/s",
    records=0,
    size=200,
    partitions=2000,
    busy=200,
    rate=500,
    seconds=40,
    producer={"linger.ms": 0},
    targets={"p99 ms": 1.0, "CPU s": 1.0, "PSS MiB": 1.0},
)
CASES = (
    Case(
        number=1,
        name="2 M x 200 B, lz4, big batches, 8 partitions",
        records=2_000_000,
        size=200,
        partitions=8,
        producer={**_BIG, "compression.type": "lz4"},
        limit=0.85,
        targets={"CPU s/M": 1 / 10},
    ),
    Case(
        number=2,
        name="one-record batches, 200 B, 8 partitions",
        records=200_000,
        size=200,
        partitions=8,
        producer={"linger.ms": 0, "batch.num.messages": 1},
        targets={"records/s": 2.5},
    ),
    Case(
        number=3,
        name="1 KiB uncompressed, big batches, 8 partitions",
        records=500_000,
        size=1024,
        partitions=8,
        producer=_BIG,
        compression="none",
        targets={"records/s": 2.0},
    ),
    _STEADY,
    Case(
        number=5,
        name="200 partitions, 10 busy, 500 records/s",
        records=0,
        size=200,
        partitions=200,
        busy=10,
        rate=500,
        seconds=30,
        producer={"linger.ms": 0},
    ),
    Case(
        number=6,
        name="source 50 ms away, 16 KiB batches, lz4",
        records=1_000_000,
        size=200,
        partitions=8,
        delay_ms=25,
        producer={"linger.ms": 50, "batch.size": 16_384, "compression.type": "lz4"},
        targets={"records/s": 2.5},
    ),
    Case(
        number=7,
        name="exactly once, 2 M x 200 B, lz4, big batches, 8 partitions",
        records=2_000_000,
        size=200,
        partitions=8,
        producer={**_BIG, "compression.type": "lz4"},
        is_exactly_once=True,
        targets={"records/s": 6.0},
    ),
    Case(
        number=8,
        name="exactly once, latency at 500 records/s, 8 partitions, committed records",
        records=0,
        size=200,
        partitions=8,
        rate=500,
        producer={"linger.ms": 0},
        is_exactly_once=True,
        targets={"p50 ms": 1.0, "p99 ms": 1.0},
    ),
    Case(
        number=9,
        name="catch-up of 1,000 partitions, 1 KiB uncompressed, big batches",
        records=500_000,
        size=1024,
        partitions=1000,
        producer=_BIG,
        compression="none",
        targets={"records/s": 1.0},
    ),
    Case(
        number=10,
        name="recode: 200 B uncompressed at the source, lz4 on the target, big batches",
        records=2_000_000,
        size=200,
        partitions=8,
        producer=_BIG,
        targets={"records/s": 3.0, "CPU s/M": 1 / 3},
    ),
    Case(
        number=11,
        name="recode: 1 KiB uncompressed at the source, lz4 on the target, big batches",
        records=500_000,
        size=1024,
        partitions=8,
        producer=_BIG,
        targets={"records/s": 3.0, "CPU s/M": 1 / 3},
    ),
    _WIDE,
    Case(
        number=13,
        name="idle: nothing flows, 8 partitions",
        records=0,
        size=200,
        partitions=8,
        is_idle=True,
        targets={"CPU s": 1.0, "PSS MiB": 1.0},
    ),
    replace(_STEADY, number=14, name=f"{_STEADY.name}, linger 5 ms", linger_ms=5),
    replace(_WIDE, number=16, name=f"{_WIDE.name}, linger 5 ms", linger_ms=5),
    Case(
        number=17,
        name="10,000 partitions with a record each, then nothing flows",
        records=10_000,
        size=200,
        partitions=20,
        topics=500,
        linger_ms=5,
        is_idle=True,
        targets={"CPU s": 1.0, "PSS MiB": 1.0},
    ),
)
WARM = Case(
    number=0, name="warm", records=1_000_000, size=200, partitions=8, producer={**_BIG, "compression.type": "lz4"}
)
WARM_PASSES = 3
WARM_LIVE = Case(
    number=0, name="warm", records=0, size=200, partitions=8, rate=500, seconds=5.0, producer={"linger.ms": 0}
)


class Bench:
    """Two clusters and the runs on them."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._folder = folder
        self._proxied = free_port()
        behind = free_port()
        self.source = stack.enter_context(
            Broker.start(
                "source",
                folder / "source",
                heap=LARGE_HEAP,
                overrides={
                    "listeners": f"FAR://127.0.0.1:{behind}",
                    "advertised.listeners": f"FAR://127.0.0.1:{self._proxied}",
                    "listener.security.protocol.map": "FAR:PLAINTEXT",
                },
            )
        )
        self.target = stack.enter_context(
            Broker.start(
                "target", folder / "target", heap=LARGE_HEAP, overrides={"log.segment.delete.delay.ms": "1000"}
            )
        )
        self._behind = behind
        self._stack = stack
        self._runs = 0

    def warm(self, *, is_live: bool) -> None:
        """Have both brokers compile what they do much: who is measured first would pay for it. `is_live`: also one by one."""
        self._warm(WARM, "warm", WARM_PASSES)
        if is_live:
            self._warm(WARM_LIVE, "warm-live", 1)

    def _warm(self, case: Case, topic: str, passes: int) -> None:
        self.produce(case, topic)
        for _ in range(passes):
            for side in SIDES:
                self.run(side, case, topic, self.source.bootstrap)

    def far(self, delay_ms: float) -> str:
        """Address of the source behind a proxy that delays each way; started when first asked for."""
        command = [sys.executable, "-m", "tests.benchmarks.proxy", str(self._proxied), str(self._behind), str(delay_ms)]
        proxy = subprocess.Popen(command, cwd=Path(__file__).resolve().parents[2])
        self._stack.callback(proxy.wait)
        self._stack.callback(proxy.terminate)
        time.sleep(1.0)  # it listens at once; a failed start shows as a run that never begins
        return f"127.0.0.1:{self._proxied}"

    def produce(self, case: Case, topic: str) -> None:
        """Fill a topic with the case's records."""
        topics = case.topics_of(topic)
        for name in topics:
            create(self.source, name, case.partitions)
        producer = Producer(
            {
                "bootstrap.servers": self.source.bootstrap,
                "log_level": 0,
                "queue.buffering.max.messages": 500_000,
                **case.producer,
            }
        )
        # Half of each value is random hexadecimal digits and half repeats, as ids and field names in records do.
        digits, same = random.Random(7), b"x" * (case.size // 2)
        values = [digits.randbytes(case.size // 4).hex().encode() + same for _ in range(9973)]
        refused: list[KafkaError] = []
        run = max(1, min(100, case.records // (case.partitions * case.topics)))  # one after the other in a partition
        for n in range(case.records):
            while True:
                try:
                    place = (n // run) % (case.partitions * case.topics)
                    producer.produce(
                        topics[place // case.partitions],
                        values[n % 9973],
                        partition=place % case.partitions,
                        on_delivery=lambda error, _: refused.append(error) if error is not None else None,
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
        if producer.flush(120) or refused:
            raise RuntimeError(f"the records of case {case.number} could not be produced: {refused[:1]}")

    def one(self, side: str, case: Case, topic: str, servers: str) -> dict[str, float]:
        """One run of a side, or of what is measured beside both; return its figures by name and unit."""
        if side == ALONE:
            return self.alone(case)
        return self.limit(case, topic) if side == LIMIT else self.run(side, case, topic, servers)

    def run(self, side: str, case: Case, topic: str, servers: str, *, extra: str = "") -> dict[str, float]:
        """One run of one side, with `extra` lines in its file; return its figures by name and unit."""
        self._runs += 1
        alias = f"r{self._runs}{side}"
        job = peers.Job(
            source=alias,
            source_servers=servers,
            target_servers=self.target.bootstrap,
            topics=topic if case.topics == 1 else f"{topic}-.*",
            compression=case.compression,
            is_exactly_once=case.is_exactly_once,
            linger_ms=case.linger_ms,
        )
        remote = f"{alias}.{topic}"
        began = time.monotonic()
        process = peers.start(side, job, self._folder / alias, extra=extra)
        try:
            meter = Meter(process.pid, beside=(self.source.pid, self.target.pid))
            if case.is_idle:
                return self._idle(case, remote, meter, began)
            if case.rate:
                return self._live(case, remote, meter, self._steadily(case, topic))
            return self._backlog(case, remote, meter, began)
        finally:
            peers.stop(process)
            if case.partitions * case.topics >= MANY:
                self._delete(case.topics_of(remote))

    def _delete(self, topics: list[str]) -> None:
        """Delete remote topics: a broker may map 65,530 files, and each partition has two indexes."""
        admin = AdminClient({"bootstrap.servers": self.target.bootstrap})
        present = admin.list_topics(timeout=30).topics.keys() & set(topics)
        for done in admin.delete_topics(list(present), operation_timeout=60).values():
            done.result(120)
        time.sleep(SETTLED_S)  # the files go a second later

    def alone(self, case: Case) -> dict[str, float]:
        """One run of a producer that writes the case's records straight to the target; return its figures as `run` does."""
        self._runs += 1
        topic = f"r{self._runs}{ALONE}"
        create(self.target, topic, case.partitions)
        process = peers.start_producer(self.target.bootstrap, topic, rate=case.rate, size=case.size)
        try:
            return self._live(case, topic, Meter(process.pid), time.sleep)
        finally:
            peers.stop(process)

    def limit(self, case: Case, topic: str) -> dict[str, float]:
        """One run of bare clients, without any mirror; return how fast the brokers were."""
        self._runs += 1
        remote = f"r{self._runs}limit"
        create(self.target, remote, case.partitions)
        before = Meter(os.getpid(), beside=(self.source.pid, self.target.pid))
        began = before.beside_s()
        rate = limit(
            self.source.bootstrap,
            self.target.bootstrap,
            topic,
            remote,
            partitions=case.partitions,
            records=case.records,
        )
        return {"records/s": rate, "brokers' CPU s/M": (before.beside_s() - began) / case.records * 1e6}

    def _arrived(self, admin: Cluster, topic: str, case: Case) -> int:
        """Log ends together; under exactly once they count the markers of transactions too."""
        places = [(name, p) for name in case.topics_of(topic) for p in range(case.partitions)]
        ends = admin.end_offsets(places, read_committed=case.is_exactly_once)
        return sum(ends.values())

    def _await_topics(self, *topics: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.target.bootstrap})
        deadline = time.monotonic() + FINISH_WITHIN_S
        while missing := set(topics) - admin.list_topics(timeout=10).topics.keys():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{min(missing)} did not appear on the target within {FINISH_WITHIN_S:.0f} s")
            time.sleep(0.05)

    def _backlog(self, case: Case, topic: str, meter: Meter, began: float) -> dict[str, float]:
        """Throughput and CPU between the first tenth and the last record: both sides have warmed up by then."""
        self._await_topics(topic)
        admin = Cluster("target", {"bootstrap.servers": self.target.bootstrap})
        first = tenth = None
        memory_at = 0.0
        # When the last record was seen to arrive, how many were there, CPU by then, and the brokers'.
        last = (began, 0, 0.0, 0.0)
        deadline = time.monotonic() + FINISH_WITHIN_S
        while True:
            arrived, now = self._arrived(admin, topic, case), time.monotonic()
            if arrived and first is None:
                first = now
            if arrived >= case.records / 10 and tenth is None:
                tenth = (now, arrived, meter.cpu_s(), meter.beside_s())
            if arrived != last[1]:
                last = (now, arrived, meter.cpu_s(), meter.beside_s())
            elif arrived >= case.records and (not case.is_exactly_once or now > last[0] + SETTLED_S):
                break
            if now > deadline:
                raise RuntimeError(f"{topic}: {arrived} of {case.records} records after {FINISH_WITHIN_S:.0f} s")
            if now >= memory_at:  # reading PSS takes long enough to disturb: rarely
                meter.sample_memory()
                memory_at = now + 0.5
            time.sleep(0.01)
        now, arrived, cpu, brokers = last
        meter.sample_memory()
        if case.is_exactly_once:
            arrived = self._counted(topic, case.partitions)
        assert first is not None
        assert tenth is not None
        moved = case.records - tenth[1]
        if arrived != case.records:
            raise RuntimeError(f"{topic}: {arrived} records arrived, {case.records} were sent")
        if not moved:
            raise RuntimeError(f"{topic}: everything arrived between two looks; use more records")
        return {
            "start s": first - began,
            "records/s": moved / (now - tenth[0]),
            "CPU s/M": (cpu - tenth[2]) / moved * 1e6,
            "brokers' CPU s/M": (brokers - tenth[3]) / moved * 1e6,
            "PSS MiB": meter.peak_pss_mib,
        }

    def _counted(self, topic: str, partitions: int) -> int:
        """Read all committed records; return how many there are."""
        options = {
            "bootstrap.servers": self.target.bootstrap,
            "group.id": "count",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
        consumer = Consumer(options)
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        found, ended = 0, set()
        while len(ended) < partitions:
            for message in consumer.consume(10_000, 1.0):
                failure = message.error()
                if failure is None:
                    found += 1
                elif failure.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        consumer.close()
        return found

    def _idle(self, case: Case, remote: str, meter: Meter, began: float) -> dict[str, float]:
        """What it costs to wait, after the case's records have arrived."""
        self._await_topics(*case.topics_of(remote))
        start: dict[str, float] = {}
        if case.records:
            admin = Cluster("target", {"bootstrap.servers": self.target.bootstrap})
            while self._arrived(admin, remote, case) < case.records:
                if time.monotonic() > began + FINISH_WITHIN_S:
                    raise RuntimeError(f"{remote}: not all records have arrived after {FINISH_WITHIN_S:.0f} s")
                time.sleep(1.0)
            start = {"start s": time.monotonic() - began}
        time.sleep(25.0)
        cpu, brokers = meter.cpu_s(), meter.beside_s()
        time.sleep(case.seconds)
        figures = {**start, "CPU s": meter.cpu_s() - cpu, "brokers' CPU s": meter.beside_s() - brokers}
        meter.sample_memory()
        return {**figures, "PSS MiB": meter.peak_pss_mib}

    def _live(self, case: Case, remote: str, meter: Meter, load: Callable[[float], None]) -> dict[str, float]:
        """Latency from the producer's clock to a reader of the target, under a load that lasts for so many seconds."""
        self._await_topics(remote)
        busy = case.busy or case.partitions
        isolation = "read_committed" if case.is_exactly_once else "read_uncommitted"
        with LatencyProbe(self.target.bootstrap, isolation=isolation) as probe:
            probe.watch({(remote, p) for p in range(busy)})
            deadline = time.monotonic() + FINISH_WITHIN_S
            while not probe.has_heard_all:  # who takes longer to start is not measured while it catches up
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"{remote}: not all topic-partitions have a record after {FINISH_WITHIN_S:.0f} s"
                    )
                load(5.0)
            load(25.0)  # both sides warm up under the same load
            probe.begin()
            cpu, brokers = meter.cpu_s(), meter.beside_s()
            meter.sample_memory()
            load(case.seconds)
            cpu, brokers = meter.cpu_s() - cpu, meter.beside_s() - brokers
            time.sleep(1.0)
            meter.sample_memory()
            latencies = list(probe.latencies_ms)
        expected = int(case.rate * case.seconds)
        if abs(len(latencies) - expected) > expected * 0.05:
            raise RuntimeError(f"{remote}: {len(latencies)} latencies measured, about {expected} expected")
        return {
            **{f"p{p} ms": value for p, value in percentiles(latencies).items()},
            "max ms": max(latencies),
            "CPU s": cpu,
            "brokers' CPU s": brokers,
            "PSS MiB": meter.peak_pss_mib,
        }

    def _steadily(self, case: Case, topic: str) -> Callable[[float], None]:
        """Return what writes records to the source at the case's rate for so many seconds, with one producer all the while."""
        producer = Producer({"bootstrap.servers": self.source.bootstrap, "log_level": 0, **case.producer})

        def write(seconds: float) -> None:
            began = time.monotonic()
            for n in range(int(case.rate * seconds)):
                due = began + n / case.rate
                while (left := due - time.monotonic()) > 0:
                    producer.poll(min(left, 0.01))
                producer.produce(topic, b"x" * case.size, partition=n % (case.busy or case.partitions))
            producer.flush(10)

        return write


def table(case: Case, runs: dict[str, list[dict[str, float]]]) -> str:
    """Markdown: the median of each figure and side, the ratio, and what was to reach."""
    lines = [
        f"### {case.number}. {case.name}",
        "",
        "| figure | ours | MirrorMaker 2 | ratio | to reach |",
        "|---|---|---|---|---|",
    ]
    for figure in runs["ours"][0]:
        ours, mm2 = (statistics.median(run[figure] for run in runs[side]) for side in SIDES)
        goal = case.targets.get(figure) or {"start s": 1.2, "PSS MiB": 0.8}.get(figure)
        sign = ">=" if figure == "records/s" else "<="
        lines.append(
            f"| {figure} | {ours:,.1f} | {mm2:,.1f} | {ours / mm2:.2f} | {f'{sign} {goal:.2f}' if goal else ''} |"
        )
    if runs.get(LIMIT):
        most = statistics.median(run["records/s"] for run in runs[LIMIT])
        share = statistics.median(run["records/s"] for run in runs["ours"]) / most
        lines += [
            "",
            f"The brokers alone, with bare clients that append and fetch: {most:,.0f} records/s; ours is {share:.2f} of that, "
            f"to reach >= {case.limit:.2f}.",
        ]
    if runs.get(ALONE):
        least = {figure: min(run[figure] for run in runs[ALONE]) for figure in runs[ALONE][0]}
        shown = ", ".join(f"{figure} {value:,.1f}" for figure, value in least.items() if figure.endswith(" ms"))
        lines += [
            "",
            "Kafka's own producer alone, straight into the target, one transaction after the other, the best of its "
            f"rounds: {shown}.",
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the cases asked for and print their tables."""
    parsed = bench_parser().parse_args()
    wanted = {int(number) for number in parsed.cases.split(",")}
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"
    page = [f"{machine}; medians of {parsed.rounds} rounds of each side, in turns.\n"]
    if wanted - {SWITCH}:
        page += beside_mirrormaker(wanted, parsed.rounds)
    if SWITCH in wanted:
        print(f"case {SWITCH}: a switch ...", file=sys.stderr, flush=True)
        page.append(f"### {SWITCH}. {switching.table(switching.GROUPS, switching.PARTITIONS)}")
        print(page[-1], flush=True)
    if parsed.output is not None:
        parsed.output.write_text("\n".join(page))
    return 0


def beside_mirrormaker(wanted: Collection[int], rounds: int) -> list[str]:
    """Run the cases with these numbers on brokers of their own; print and return their tables."""
    page = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-mirror-bench-")))
        bench = Bench(stack, folder)
        print("warming the brokers ...", file=sys.stderr, flush=True)
        bench.warm(is_live=any(case.rate for case in CASES if case.number in wanted))
        for case in CASES:
            if case.number not in wanted:
                continue
            topic = f"case{case.number}"
            print(f"case {case.number}: {case.name}: producing ...", file=sys.stderr, flush=True)
            bench.produce(case, topic)
            servers = bench.far(case.delay_ms) if case.delay_ms else bench.source.bootstrap
            # Alone first: brokers that were just started are slow for minutes.
            sides = (ALONE, *SIDES) if case.is_exactly_once and case.rate else SIDES
            sides = (*sides, LIMIT) if case.limit else sides
            runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
            for turn in range(rounds):
                for side in sides if turn % 2 == 0 else sides[::-1]:
                    figures = bench.one(side, case, topic, servers)
                    runs[side].append(figures)
                    shown = ", ".join(f"{name} {value:,.1f}" for name, value in figures.items())
                    print(f"  round {turn + 1} {side}: {shown}", file=sys.stderr, flush=True)
            page.append(table(case, runs))
            print(page[-1], flush=True)
    return page


if __name__ == "__main__":
    raise SystemExit(main())
