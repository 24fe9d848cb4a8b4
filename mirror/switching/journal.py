"""Keep runs in a compacted topic on the target; one conductor writes at a time.

So any machine can resume a run. A conductor writes in transactions with one transactional id per flow: a later conductor fences
the earlier one, whose next write then fails. Before that, the later one checks for a while whether the earlier one still writes.
If it does, it keeps its run.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

from mirror.config.clients import client_options
from mirror.config.settings import Flow
from mirror.errors import MirrorError
from mirror.kafka.appender import FencedError
from mirror.kafka.cluster import Cluster
from mirror.kafka.internal_topics import answered, read_topic
from mirror.model.flow_plan import PREFIX
from mirror.model.topic_partition import TopicPartition
from mirror.policy.topic_acls import Acl
from mirror.switching.moved_groups import Moved
from mirror.switching.run import RunState, SwitchRun

RUN, MOVES, CONDUCTOR = "run/", "moves/{}/", "conductor"  # keys: of a run, of a run's group moves, of the last progress
FENCE = "fence/"  # key of a reverse flow's run: the ACLs that it added to topics of this target
BEAT_S = 2.0
LOOK_S = 3 * BEAT_S  # a conductor that has written nothing for this time is gone


class JournalTopic(NamedTuple):
    """A topic on the target, internal by MirrorMaker's rule, and its writer's transactional id."""

    topic: str
    writer: str


SWITCHES = JournalTopic("mm2-switches.{source}.internal", "mirror.switch.{flow}")


def book_of_drill(canary: str) -> JournalTopic:
    """Return the journal of a drill, for both directions. Switches have other journals."""
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
        """Return the group moves that a run has recorded."""
        of_run = MOVES.format(run.id)
        kept = (value for key, value in self.values.items() if key.startswith(of_run))
        return [Moved(*each) for value in kept for each in json.loads(value)]

    def fences(self) -> set[Acl]:
        """Return the ACLs of fences that runs of the reverse flow left on this target."""
        kept = (value for key, value in self.values.items() if key.startswith(FENCE))
        return {Acl(*fields) for value in kept for fields in json.loads(value)}

    @property
    def progress(self) -> str:
        """The last progress of the conductor, "" without a conductor."""
        return self.values.get(CONDUCTOR, "")


class Journal:
    """The runs of one flow. As a context manager after `taken`, it makes this process the writer."""

    def __init__(self, flow: Flow, target: Cluster, book: JournalTopic = SWITCHES) -> None:
        self._flow = flow
        self._target = target
        self._book = book
        self._topic = book.topic.format(source=flow.source.alias)
        self._writer = Cluster(flow.target.alias, flow.producer)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._beat: threading.Thread | None = None
        self._run: SwitchRun | None = None
        self._lost: MirrorError | None = None
        self._said = ""

    def read(self) -> Entries:
        """Return the current content of the topic; raises ClusterUnavailable."""

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
        """Return the run that has not ended, None without one."""
        return next((run for run in self.read().runs() if run.state is RunState.OPEN), None)

    def is_conducted(self) -> bool:
        """Return whether another process writes, after watching for some seconds."""
        before = self._end()
        time.sleep(LOOK_S)
        return self._end() > before

    def _end(self) -> int:
        return self._target.end_offsets([TopicPartition(self._topic, 0)]).get(TopicPartition(self._topic, 0), 0)

    @property
    def kept(self) -> SwitchRun:
        """The run as it was last saved."""
        assert self._run is not None
        return self._run

    def taken(self, run: SwitchRun) -> Self:
        """Set the run to conduct; entering the context writes it."""
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
        self._writer.close()

    def open(self) -> None:
        """Become the writer."""
        self._create()
        self._asked(lambda: self._writer.fence(self._book.writer.format(flow=self._flow.name)))

    def save(self, run: SwitchRun, moves: Iterable[Moved] = ()) -> None:
        """Write the state of the run, and group moves that are about to be made.

        Raises:
            TakenOverError: another conductor has started to write.
            MirrorError: the target does not store the entry.
        """
        with self._lock:
            self._run = run
            by_group: dict[str, list[tuple[object, ...]]] = {}
            for each in moves:
                by_group.setdefault(each.group, []).append(tuple(each))
            kept = {MOVES.format(run.id) + group: json.dumps(found) for group, found in by_group.items()}
            self._write({**kept, RUN + run.id: run.text()})

    def keep(self, key: str, text: str) -> None:
        """Write an entry other than a run; raises the same errors as `save`."""
        with self._lock:
            self._write({key: text})

    def forget(self, keys: Collection[str]) -> None:
        """Remove the entries of these keys; raises the same errors as `save`."""
        if keys:
            with self._lock:
                self._write(dict.fromkeys(keys))

    def keep_fence(self, run_id: str, acls: Collection[Acl]) -> None:
        """Write the ACLs that the reverse flow's run added here; without ACLs, remove the entry.

        A failover to this target reads the ACLs here, because the reverse flow's journal is lost with the other cluster. They are
        written outside of transactions, so that the write fences no conductor.

        Raises:
            MirrorError: the topic cannot be created, or written.
        """
        self._create()
        value = json.dumps([list(acl) for acl in sorted(acls)]).encode() if acls else None
        with closing(Cluster(self._flow.target.alias, self._flow.producer)) as writer:
            writer.append(self._topic, [((FENCE + run_id).encode(), value)])

    def confirm(self) -> None:
        """Check that no other conductor has taken over. Call it right before each change; raises like `save`.

        A conductor that was suspended may have missed that another conductor ended the run.
        """
        with self._lock:
            self._write({CONDUCTOR: self._said})

    def tell(self, sentence: str) -> None:
        """Set the reason for waiting; the next heartbeat writes it for other processes."""
        self._said = sentence

    def _beats(self) -> None:
        while not self._stop.wait(BEAT_S):
            with self._lock:
                if self._lost is None:
                    try:
                        self._write({CONDUCTOR: self._said})
                    except MirrorError:
                        return  # the next `save` reports the failure

    def _write(self, records: Mapping[str, str | None]) -> None:
        if self._lost is not None:
            raise self._lost
        encoded = [(key.encode(), None if value is None else value.encode()) for key, value in records.items()]
        self._asked(lambda: self._writer.append(self._topic, encoded))

    def _asked(self, do: Callable[[], None]) -> None:
        try:
            do()
        except FencedError as error:
            self._lost = TakenOverError(f"{self._flow.name}: another conductor has resumed this run; this one stops.")
            raise self._lost from error
        except MirrorError as error:
            self._lost = MirrorError(
                f"{self._flow.name}: the journal cannot be written. {error} "
                "Finished steps are kept; run the same command again to resume."
            )
            raise self._lost from error

    def _create(self) -> None:
        objection = self._target.create(
            self._topic,
            partitions=1,
            replication_factor=self._flow.replication_factor,
            configs={"cleanup.policy": "compact", "segment.ms": "3600000"},  # it is read from its start
        )
        if objection:
            raise MirrorError(f"{self._topic} cannot be created on {self._flow.target.alias}: {objection}")
