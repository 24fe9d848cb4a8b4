"""One run from a seed: records are written at the source, processes replicate them under faults, then calm, then the check."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mirror.handover import membership
from mirror.kafka.metadata import id_text
from mirror.model.flow_plan import GAPS_TOPIC, LEASE_TOPIC, OFFSET_MAP_TOPIC, FlowPlan, PlannedPartition
from mirror.model.record_batches import of_values, with_producer_state
from mirror.model.slot_ownership import SlotLayout, lease_topic_partitions
from tests.simulation import faults
from tests.simulation.clock import EPOCH_S, World, ticking
from tests.simulation.cluster import Cluster
from tests.simulation.members import Consumer, Members
from tests.simulation.network import Network
from tests.simulation.oracle import ClusterPair
from tests.simulation.process import Process
from tests.simulation.readers import Readers
from tests.soak.oracle import Fate

TOPICS = {"one": "A.one", "two": "A.two"}
PARTITIONS = 2
SLOTS, MOST_SLOTS, LANES = 2, 3, 2
CONSUMED = 0.3  # in how many runs a consumer group reads the source
READ_S = (0.05, 1.0)  # between two of its commits
OTHER_LAYOUTS = 0.3  # in how many runs processes start with another number of slots
OLD_RECORDS, OLD_S = 0.25, 2 * 86_400.0  # in how many runs records are older than brokers remember their producers
BROKERS = 3
CALM_S = 180.0  # until all records have to be there
IN_TRANSACTIONS = 0.2  # how many batches of the source are
LASTS_S = (0.001, 1.0)  # a transaction on the source
AFTER_S = 8.0  # and so long nothing more may come
COMPARED_S = 65.0  # until identical logs have been compared once more


@dataclass(slots=True)
class Outcome:
    """What became of a run."""

    seed: int
    mode: str
    fate: Fate
    has_arrived: bool
    failures: list[str]
    faults: Counter[str]
    digest: int
    virtual_s: float
    windows: int
    trace: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.fate.is_clean and self.has_arrived and not self.failures

    def __str__(self) -> str:
        state = "good" if self.is_good else "BAD"
        late = "" if self.has_arrived else ", not all arrived in time"
        wrong = "".join(f"\n  {failure}" for failure in self.failures)
        return f"{self.mode} seed {self.seed}: {state}: {self.fate}{late}{wrong}"


class Stage:
    """What faults act on: two clusters, the network, and the processes."""

    def __init__(self, seed: int, mode: str, *, keeps_trace: bool = False, has_readers: bool = False) -> None:
        self.world = World(seed, keeps_trace=keeps_trace)
        self.dice: random.Random = self.world.dice
        self.network = Network(self.world)
        self.changes_mode = mode == "changing"
        self.is_identical = mode == "identical"
        self.is_exactly_once = mode == "enabled" or (self.changes_mode and self.dice.random() < 0.5)
        has_transactions = self.is_exactly_once or self.changes_mode
        is_second = has_transactions and self.dice.random() < 0.5
        self.source = Cluster(self.world, self.network, "A", brokers=BROKERS, is_second=False)
        self.target = Cluster(self.world, self.network, "B", brokers=BROKERS, is_second=is_second)
        self.target.has_old_records = self.dice.random() < OLD_RECORDS
        self.is_read_committed = self.dice.random() < 0.4
        self._slots = (1, SLOTS, MOST_SLOTS) if self.dice.random() < OTHER_LAYOUTS else (SLOTS,)
        self.layout = SlotLayout(SLOTS, SLOTS, self.dice.choice((2000, 3000, 5000)), LANES)
        self._create_topics()
        self.sides = ClusterPair(
            self.source,
            self.target,
            TOPICS,
            from_committed=self.is_read_committed,
            to_committed=has_transactions or self.is_identical,
            is_identical=self.is_identical,
        )
        self.plan = self._plan()
        self.readers = Readers(self) if has_readers else None
        self._members: dict[str, Members] = {}  # by the name of the group
        self.processes: list[Process] = []
        self.counts: Counter[str] = Counter()
        self.records = 0
        self._runs: dict[str, list[int]] = {}  # by state folder
        self.is_calm = False
        self.has_lost_positions = False
        self._next_value: Counter[tuple[str, int]] = Counter()
        self.is_writing = False
        self._open: dict[int, tuple[str, int]] = {}  # partitions of open transactions on the source, by producer id
        self.written = [(topic, number) for topic in TOPICS for number in range(PARTITIONS)]

    def _create_topics(self) -> None:
        for topic, remote in TOPICS.items():
            self.source.create(topic, PARTITIONS)
            self.target.create(remote, PARTITIONS)
        self.target.create(LEASE_TOPIC.format(source="A"), lease_topic_partitions(MOST_SLOTS))
        self.target.create(OFFSET_MAP_TOPIC.format(source="A"), 1)
        self.target.create(GAPS_TOPIC.format(source="A"), 1)

    def _plan(self) -> FlowPlan:
        source_id, target_id = self.source.topic_ids.__getitem__, self.target.topic_ids.__getitem__
        assigned = tuple(
            PlannedPartition(
                topic,
                remote,
                number,
                id_text(source_id(topic)),
                remote_id=id_text(target_id(remote)),
                is_identical=self.is_identical,
            )
            for topic, remote in TOPICS.items()
            for number in range(PARTITIONS)
        )
        isolation = "read_committed" if self.is_read_committed else "read_uncommitted"
        return FlowPlan(
            source="A",
            target="B",
            tasks_max=SLOTS,
            consumer={"bootstrap.servers": self.source.bootstrap, "isolation.level": isolation},
            producer={"bootstrap.servers": self.target.bootstrap},
            partitions=assigned,
            transaction_ms=200 if self.is_exactly_once else 0,
        )

    # --- processes ----------------------------------------------------------------------------------------------

    def change_mode(self) -> None:
        """Have processes that start from now on replicate in the other mode."""
        self.is_exactly_once = not self.is_exactly_once
        self.plan = self._plan()
        self.world.note(f"exactly once: {self.is_exactly_once}")

    def start(self, folder: str, *, slots: int = 0) -> Process:
        """Start a process with a state folder, which names the runs before it; 0 slots: any number."""
        runs = self._runs.setdefault(folder, [])
        run_id = 1 + sum(map(len, self._runs.values()))
        name = f"p{run_id}"
        layout = self.layout._replace(slots=slots or self.dice.choice(self._slots))
        self.world.note(f"{name} starts in {folder} with {layout.slots} slots")
        made = Process(
            self.world,
            self.network,
            self.plan,
            layout,
            name=name,
            run_id=run_id,
            gone=frozenset(runs),
            checkpoints=self.readers.plan(self.plan) if self.readers is not None else None,
        )
        runs.append(run_id)
        self.processes.append(made)
        return made

    def members(self, group: str) -> Members:
        """Return the coordinator of the processes that share the slots of a layout."""
        if group not in self._members:
            layout = SlotLayout.parse(group.rpartition(".")[2])
            assert layout is not None
            self._members[group] = Members(
                self.world, layout.slots, lambda loop: self.is_cut_off(loop.name.split("/")[0])
            )
        return self._members[group]

    def alive(self) -> list[Process]:
        return [process for process in self.processes if not (process.is_dead or process.is_stopping)]

    def is_cut_off(self, process: str) -> bool:
        """Tell whether a process reaches no broker of the target."""
        return all(self.network.blocked.get((process, broker.name)) for broker in self.target.brokers.values())

    def delete_group(self) -> None:
        """Delete the flow's group on the target, with positions and leases."""
        self.target.group(self.plan.group).offsets.clear()
        self.has_lost_positions = True
        self.world.note("the group is deleted")

    def misplaced(self) -> list[str]:
        """Return the partitions in which the flow's offset map, or the mirror itself, places a group wrongly."""
        found = self.sides.misplaced(self.plan, is_exact=not self.has_lost_positions)
        return found if self.readers is None else found + self.readers.skipped + self.readers.misplaced()

    # --- the writer ---------------------------------------------------------------------------------------------

    def write(self, every_s: tuple[float, float]) -> None:
        """Write some records to the source now and then, as long as `is_writing`."""
        if not self.is_writing:
            return
        topic, number = self.dice.choice(self.written)
        values = []
        for _ in range(self.dice.randint(1, 8)):
            values.append((b"k", b"%s-%d-%d" % (topic.encode(), number, self._next_value[topic, number])))
            self._next_value[topic, number] += 1
        self.records += len(values)
        age_s = OLD_S if self.target.has_old_records else 0.0
        for batch in of_values(values, timestamp_ms=int((EPOCH_S + self.world.now_s - age_s) * 1000)):
            self._write(topic, number, batch.data)
        self.world.after(self.dice.uniform(*every_s), lambda: self.write(every_s))

    def _write(self, topic: str, number: int, data: bytes) -> None:
        """Write a batch, now and then in a transaction that is committed or aborted later."""
        if self.dice.random() > IN_TRANSACTIONS:
            self.source.write(topic, number, b"".join(with_producer_state(data, -1, -1, -1, transactional=False)))
            return
        producer_id = self.source.next_producer_id()
        self._open[producer_id] = topic, number
        self.source.write(topic, number, b"".join(with_producer_state(data, producer_id, 0, 0, transactional=True)))
        self.world.after(self.dice.uniform(*LASTS_S), lambda: self._end(producer_id))

    def _end(self, producer_id: int) -> None:
        if producer_id in self._open:
            self.source.end(*self._open.pop(producer_id), producer_id, is_commit=self.dice.random() < 0.5)

    def end_transactions(self) -> None:
        """End the open transactions on the source."""
        for producer_id in tuple(self._open):
            self._end(producer_id)

    def dispose(self) -> None:
        """End all processes without the network."""
        for broker in (*self.source.brokers.values(), *self.target.brokers.values()):
            broker.is_down = True
        self.network.links.clear()
        for process in self.processes:
            process.dispose()


def play(
    seed: int, mode: str, *, keeps_trace: bool = False, before: Callable[[Stage], None] = lambda _: None
) -> Outcome:
    """Play one run.

    Args:
        seed: Decides everything.
        mode: One of tests.simulation.playing.MODES.
        keeps_trace: Keep the lines of the trace, and the log.
        before: Called with the stage before anything happens.
    """
    has_readers = random.Random(f"readers of {seed}").random() < CONSUMED  # the other runs are the same without them
    stage = Stage(seed, mode, keeps_trace=keeps_trace, has_readers=has_readers)
    before(stage)
    world, dice = stage.world, stage.dice
    with staged(stage, keeps_trace=keeps_trace):
        stage.start("folder1")
        if dice.random() < 0.6:
            world.after(dice.uniform(0, 5), lambda: stage.start("folder2"))
        stage.is_writing = True
        stage.write((0.02, dice.choice((0.1, 0.5))))
        if stage.readers is not None:
            stage.readers.commit(READ_S)
        world.run_for(dice.uniform(1, 6))
        faults.play(stage)
        return calm(stage, seed, mode)


@contextmanager
def staged(stage: Stage, *, keeps_trace: bool = False) -> Iterator[None]:
    """Let clocks and the consumer group be those of a stage, and end its processes afterwards."""
    kept, membership.Consumer = membership.Consumer, lambda options, logger: _consumer(stage, options["group.id"])
    with ticking(stage.world), _logged(stage.world, keeps_trace=keeps_trace):
        try:
            yield
        finally:
            stage.dispose()
            membership.Consumer = kept


def calm(stage: Stage, seed: int, mode: str) -> Outcome:
    """End writes and faults, let the records arrive, and check them."""
    world = stage.world
    stage.is_writing = False
    stage.end_transactions()
    faults.heal(stage)
    arrived = world.run_until(_looks(stage), within_s=CALM_S)
    world.run_for(AFTER_S)
    found = stage.sides.fate()
    if arrived and stage.misplaced():
        world.run_for(COMPARED_S)
    return Outcome(
        seed,
        mode,
        found,
        arrived,
        [failure for process in stage.processes for failure in process.failures]
        + (stage.misplaced() if arrived else []),
        stage.counts,
        world.digest,
        world.now_s,
        sum(process.windows for process in stage.processes),
        world.trace or [],
    )


def _consumer(stage: Stage, group: str) -> Consumer:
    import asyncio

    return Consumer(stage.members(group), asyncio.get_running_loop())  # type: ignore[arg-type]


def _looks(stage: Stage) -> Callable[[], bool]:
    """Return what tells, once in a while, whether all records have arrived."""
    due_s = 0.0

    def look() -> bool:
        nonlocal due_s
        if stage.world.now_s < due_s:
            return False
        due_s = stage.world.now_s + 0.5
        return stage.sides.has_arrived()

    return look


class _logged:  # noqa: N801 - a context manager
    """Put the mirror's log into the trace, or nowhere."""

    def __init__(self, world: World, *, keeps_trace: bool) -> None:
        self._log = logging.getLogger("mirror")
        self._handler = _Notes(world)
        self._keeps_trace = keeps_trace

    def __enter__(self) -> None:
        self._kept = self._log.level, self._log.propagate
        self._log.propagate = False
        self._log.setLevel(logging.DEBUG if self._keeps_trace else logging.CRITICAL)
        if self._keeps_trace:
            self._log.addHandler(self._handler)

    def __exit__(self, *_: object) -> None:
        self._log.setLevel(self._kept[0])
        self._log.propagate = self._kept[1]
        self._log.removeHandler(self._handler)


class _Notes(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if self._world.trace is not None:  # not in the digest: whether it is logged changes nothing
            self._world.trace.append(f"{self._world.now_s:10.5f} {record.levelname} {record.getMessage()}")
