"""Keep runs in a compacted topic on the target; one conductor writes at a time.

So any machine can resume a run. A conductor writes in transactions by one transactional id for the flow: a later conductor fences
the earlier one, whose next write fails. Before that it checks for a while whether the other one still writes: a live conductor
keeps its run.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from mirror.config.clients import client_options
from mirror.config.settings import Flow
from mirror.errors import MirrorError
from mirror.kafka.clients import quiet_logger
from mirror.kafka.cluster import Cluster
from mirror.kafka.internal_topics import answered, read_topic, write, writer
from mirror.kafka.login_relay import librdkafka_options
from mirror.model.flow_plan import PREFIX
from mirror.model.topic_partition import TopicPartition
from mirror.policy.topic_acls import Acl
from mirror.switching.moved_groups import Moved
from mirror.switching.run import RunState, SwitchRun

RUN, MOVES, CONDUCTOR = "run/", "moves/{}/", "conductor"  # keys: a run's, a group's of a run, the last progress
FENCE = "fence/"  # of a run of the reverse flow: the ACLs that it added to topics of this target
BEAT_S = 2.0
LOOK_S = 3 * BEAT_S  # a conductor that has written nothing for so long is gone
WITHIN_S = 20.0
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


class JournalTopic(NamedTuple):
    """A topic on the target, internal by MirrorMaker's own rule, and its writer's transactional id."""

    topic: str
    writer: str


SWITCHES = JournalTopic("mm2-switches.{source}.internal", "mirror.switch.{flow}")


def book_of_drill(canary: str) -> JournalTopic:
    """Return the journal of a drill, for both directions, separate from all other journals."""
    pair = canary.removeprefix(PREFIX)
    return JournalTopic(f"mm2-drills.{pair}.internal", f"mirror.drill.{pair}")


class TakenOverError(MirrorError):
    """Another conductor has resumed the run."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The content of a journal's topic: the newest value by key."""

    values: dict[str, str] = field(default_factory=dict)

    def runs(self) -> list[SwitchRun]:
        """Return all runs, oldest first."""
        found = (SwitchRun.parse(value) for key, value in self.values.items() if key.startswith(RUN))
        return sorted(found, key=lambda run: run.began_s)

    def moves(self, run: SwitchRun) -> list[Moved]:
        """Return the moves of groups that a run has kept."""
        of_run = MOVES.format(run.id)
        kept = (value for key, value in self.values.items() if key.startswith(of_run))
        return [Moved(*each) for value in kept for each in json.loads(value)]

    def fences(self) -> set[Acl]:
        """Return the ACLs of fences that runs of the reverse flow left on this target."""
        kept = (value for key, value in self.values.items() if key.startswith(FENCE))
        return {Acl(*fields) for value in kept for fields in json.loads(value)}

    @property
    def progress(self) -> str:
        """The conductor's last progress, "" without a conductor."""
        return self.values.get(CONDUCTOR, "")


class Journal:
    """The runs of one flow. `taken` makes this process the writer, in a context with a heartbeat."""

    def __init__(self, flow: Flow, target: Cluster, book: JournalTopic = SWITCHES) -> None:
        self._flow = flow
        self._target = target
        self._book = book
        self._topic = book.topic.format(source=flow.source.alias)
        self._producer: Producer | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._beat: threading.Thread | None = None
        self._run: SwitchRun | None = None
        self._lost: KafkaException | None = None
        self._said = ""

    def read(self) -> Entries:
        """Return the present content of the topic; raise ClusterUnavailable."""

        async def read() -> Entries:
            found = Entries()
            async for _, record in read_topic(client_options(self._flow.target_admin), self._topic, 0):
                key = (record.key or b"").decode()
                if record.value is not None:
                    found.values[key] = record.value.decode()
                else:
                    found.values.pop(key, None)
            return found

        what = f"the runs of switches of {self._flow.name} cannot be read"
        return answered(read(), cluster=self._flow.target.alias, what=what)

    def unfinished(self) -> SwitchRun | None:
        """Return the run that has not ended."""
        return next((run for run in self.read().runs() if run.state is RunState.OPEN), None)

    def is_conducted(self) -> bool:
        """Watch for some seconds whether another process writes."""
        before = self._end()
        time.sleep(LOOK_S)
        return self._end() > before

    def _end(self) -> int:
        return self._target.end_offsets([TopicPartition(self._topic, 0)]).get(TopicPartition(self._topic, 0), 0)

    @property
    def kept(self) -> SwitchRun:
        """The run as it was saved last."""
        assert self._run is not None
        return self._run

    def taken(self, run: SwitchRun) -> Self:
        """Say which run is conducted; the context begins with writing it."""
        self._run = run
        return self

    def of(self, flow: Flow, target: Cluster) -> Journal:
        """Return the journal of another flow in the same book."""
        return Journal(flow, target, self._book)

    def __enter__(self) -> Self:
        self.open()
        self.save(self.kept)
        self._beat = threading.Thread(target=self._beats, name="switch", daemon=True)
        self._beat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._beat is not None:
            self._beat.join()

    def open(self) -> None:
        """Become the writer."""
        self._create()
        options = {
            **librdkafka_options(self._flow.producer),
            "transactional.id": self._book.writer.format(flow=self._flow.name),
            "transaction.timeout.ms": 30_000,
        }
        self._producer = Producer(options, logger=quiet_logger())
        self._asked(lambda: self._writing().init_transactions(WITHIN_S))

    def save(self, run: SwitchRun, moves: Iterable[Moved] = ()) -> None:
        """Write the state of the run, and group moves that are about to be made.

        Raises:
            TakenOverError: another conductor has begun to write.
            MirrorError: the target does not store it.
        """
        with self._lock:
            self._run = run
            by_group: dict[str, list[tuple[object, ...]]] = {}
            for each in moves:
                by_group.setdefault(each.group, []).append(tuple(each))
            kept = {MOVES.format(run.id) + group: json.dumps(found) for group, found in by_group.items()}
            self._write({**kept, RUN + run.id: run.text()})

    def keep(self, key: str, text: str) -> None:
        """Write an entry other than a run; raise as `save` does."""
        with self._lock:
            self._write({key: text})

    def forget(self, keys: Collection[str]) -> None:
        """Remove the entries of these keys; raise as `save` does."""
        if keys:
            with self._lock:
                self._write(dict.fromkeys(keys))

    def keep_fence(self, run_id: str, acls: Collection[Acl]) -> None:
        """Write the ACLs of a reverse flow's run on this target's topics; none: they are removed.

        A failover to this target reads them here, because the journal of the reverse flow is lost with the other cluster.
        They are written outside of transactions, so that they end no conductor.

        Raises:
            MirrorError: the topic cannot be created, or written.
        """
        self._create()
        value = json.dumps([list(acl) for acl in sorted(acls)]).encode() if acls else None

        async def keep() -> None:
            async with writer(self._flow.producer, [self._topic]) as target:
                await write(target, self._topic, [((FENCE + run_id).encode(), value)])

        what = f"which topics of {self._flow.target.alias} are fenced cannot be stored there"
        answered(keep(), cluster=self._flow.target.alias, what=what)

    def confirm(self) -> None:
        """Check that no other conductor has taken over. Call it right before each change; raises as `save` does.

        A conductor that was suspended may have missed that another conductor ended the run.
        """
        with self._lock:
            self._write({CONDUCTOR: self._said})

    def tell(self, sentence: str) -> None:
        """Set the reason for waiting; the next beat writes it for other processes."""
        self._said = sentence

    def _beats(self) -> None:
        while not self._stop.wait(BEAT_S):
            with self._lock:
                if self._lost is None:
                    try:
                        self._write({CONDUCTOR: self._said})
                    except MirrorError:
                        return  # the next `save` reports it

    def _write(self, records: Mapping[str, str | None]) -> None:
        if self._lost is not None:
            raise self._failure(self._lost)
        producer = self._writing()

        def write() -> None:
            producer.begin_transaction()
            for key, value in records.items():
                producer.produce(self._topic, None if value is None else value.encode(), key.encode(), 0)
            producer.commit_transaction(WITHIN_S)

        self._asked(write)

    def _asked(self, do: Callable[[], object]) -> None:
        try:
            do()
        except KafkaException as error:
            self._lost = error
            raise self._failure(error) from error

    def _failure(self, error: KafkaException) -> MirrorError:
        what: KafkaError = error.args[0]
        if what.code() in _FENCED:
            return TakenOverError(f"{self._flow.name}: another conductor has resumed this run; this one stops.")
        return MirrorError(
            f"{self._flow.name}: {self._topic} on {self._flow.target.alias} accepts no record ({what.str()}). "
            "Finished steps are kept; run the same command again to resume."
        )

    def _writing(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _create(self) -> None:
        objection = self._target.create(
            self._topic,
            partitions=1,
            replication_factor=self._flow.replication_factor,
            configs={"cleanup.policy": "compact", "segment.ms": "3600000"},  # it is read whole
        )
        if objection:
            raise MirrorError(f"{self._topic} cannot be created on {self._flow.target.alias}: {objection}")
