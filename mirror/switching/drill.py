"""Rehearse switch and failback with a canary topic and group, and keep the measurements."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from mirror import __version__
from mirror.errors import MirrorError
from mirror.flows.stored_positions import paused_topics, read_positions, write_paused
from mirror.kafka.groups import is_idle
from mirror.lag.text import duration, pluralized
from mirror.model.paused_topics import Paused
from mirror.model.topic_partition import TopicPartition
from mirror.policy.topic_acls import allowances, denials
from mirror.switching import fence
from mirror.switching.canary import PARTITIONS, Canary
from mirror.switching.conductor import SwitchOptions, conduct, conductor, new_id, new_run
from mirror.switching.journal import MOVES, RUN, Journal, book_of_drill
from mirror.switching.run import STEPS, Kind, RunState, Step, SwitchRun
from mirror.switching.scope import Scope
from mirror.switching.steps import pause_patterns

DRILL = "drill/"  # key of a drill's result
LOADED_S = 5.0  # how long the load runs on each cluster
LOOK_S = 0.5
KEPT, KEPT_RUNS = 50, 2  # how many drills, and how many complete runs, a journal keeps
RATE = 100  # records a second
WITHIN_S = 120.0  # limit of a step
LAST = 100  # records per partition to verify
RETENTION = {"retention.ms": "3600000", "segment.ms": "600000"}  # of the canary topic: nothing needs old records


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """The result of a drill.

    Attributes:
        records: Canary records that a cluster acknowledged.
        lost: Acknowledged records that the group never read.
        repeated: Number of times that the group read a record again.
        rpo_records: Largest number of records that the source had and the target lacked: lost if the source had failed then.
        rto_s: Time from the fence until the group read a record written on the target; None if it read none.
        back_s: The same for the failback.
        steps: Seconds by kind of run and step.
        failure: Why the drill did not finish, "" if it finished.
    """

    id: str
    flow: str
    by: str
    version: str
    began_s: float
    ended_s: float
    records: int = 0
    lost: int = 0
    repeated: int = 0
    rpo_records: int | None = None
    rto_s: float | None = None
    back_s: float | None = None
    steps: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    failure: str = ""

    @property
    def has_passed(self) -> bool:
        """True if the drill finished, and each record was read exactly once."""
        return not (self.failure or self.lost or self.repeated)

    @property
    def outcome(self) -> str:
        """The result in one word."""
        return "passed" if self.has_passed else "failed"

    def text(self) -> str:
        """Return the drill as JSON."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def parse(cls, text: str) -> Drill:
        """Parse `text`; raises ValueError if it is not a drill."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"no drill: {error}") from error


def drills(journal: Journal) -> list[Drill]:
    """Return the drills in the journal of a flow's target, oldest first; raises ClusterUnavailable."""
    found = (Drill.parse(value) for key, value in journal.read().values.items() if key.startswith(DRILL))
    return sorted(found, key=lambda drill: drill.began_s)


def journal_of(scope: Scope) -> Journal:
    """Return the journal of a flow's drills."""
    return Journal(scope.flow, scope.target, book_of_drill(scope.canary))


def rehearse(scope: Scope, how: SwitchOptions, *, rate: int) -> Drill:
    """Switch and fail back with the canary; keep and return the measurements.

    Raises:
        MirrorError: another process rehearses this flow, or the target does not store the result. A failed step is in the result.
    """
    journal = journal_of(scope)
    _refuse_a_second(scope, journal)
    now_s = time.time()
    run_id = new_id(now_s)
    rehearsal = _Rehearsal(scope, journal, how, Canary(scope.canary, run_id, rate=rate))
    failures = [_failure_of(rehearsal.run), _failure_of(rehearsal.settle)]
    found = rehearsal.found(run_id, began_s=now_s, failure=next(filter(None, failures), ""))
    back = rehearsal.journal_back()
    for each in (journal, back):
        each.open()
    journal.keep(DRILL + run_id, found.text())
    for each in (journal, back):
        each.forget(outdated(each.read().values))
    return found


def outdated(keys: Iterable[str]) -> list[str]:
    """Return the keys of old drills and their runs, which a journal need not keep. Pure.

    Ids start with a time, so the newest ones sort last.
    """
    old = []
    for prefix, kept in ((DRILL, KEPT), (RUN, KEPT_RUNS), (MOVES.partition("{")[0], KEPT_RUNS)):
        of_kind = sorted(key for key in keys if key.startswith(prefix))
        newest = sorted({key.split("/")[1] for key in of_kind})[-kept:]
        old += [key for key in of_kind if key.split("/")[1] not in newest]
    return old


def _refuse_a_second(scope: Scope, journal: Journal) -> None:
    """Raise MirrorError if another process rehearses the flow.

    The signs of another process: the canary group has a member, or a run of a drill is being conducted.
    """
    members = [
        group
        for each in (scope, scope.reversed())
        for group in each.groups_on_target([scope.canary]).values()
        if not is_idle(group.state)
    ]
    if members or (journal.unfinished() is not None and journal.is_conducted()):
        raise MirrorError(
            f"drill: another process rehearses {scope.flow.name}, or has just done so. Try again in a minute."
        )


def _failure_of(do: Callable[[], None]) -> str:
    """Call a function; return why it failed, or ""."""
    try:
        do()
    except MirrorError as error:
        return str(error)
    return ""


@dataclass(slots=True)
class _Rehearsal:
    """A running drill: its measurements so far."""

    scope: Scope
    journal: Journal
    how: SwitchOptions
    canary: Canary
    rpo_records: int | None = None
    took_s: dict[Kind, float] = field(default_factory=dict)
    runs: list[SwitchRun] = field(default_factory=list)

    def run(self) -> None:
        """Run the drill; raises MirrorError if it does not finish."""
        scope, back = self.scope, self.scope.reversed()
        self.how.say(f"the canary is topic and group {scope.canary}")
        self.settle()
        for each in (scope, back):
            create(each, scope.canary)
        with self.canary:
            self._begin_on(scope)
            self._await_crossing()
            self._watch_what_waits()
            self._go(Kind.SWITCH, scope, self.journal)
            time.sleep(LOADED_S)
            self._go(Kind.SWITCH_BACK, back, self.journal_back())
            self.canary.stop_writing()
            self.canary.await_all_read(within_s=self.how.within_s)
            self.canary.stop_reading()

    def settle(self) -> None:
        """Undo an unfinished drill on both clusters, except its topic and group; raises MirrorError."""
        settle(self.scope, self.journal)
        settle(self.scope.reversed(), self.journal_back())

    def journal_back(self) -> Journal:
        """Return the journal for the failback of the drill."""
        back = self.scope.reversed()
        return self.journal.of(back.flow, back.target)

    def _begin_on(self, scope: Scope) -> None:
        """Write and read on a flow's source."""
        assert scope.back is not None
        self.canary.write_on(scope.source.alias, scope.back.producer)
        self.canary.read_on(scope.source.alias, scope.flow.consumer, _topics_there(scope.reversed()))

    def _await_crossing(self) -> None:
        """Wait until the target has every record written so far."""
        scope = self.scope
        self.canary.await_read(scope.source.alias, within_s=self.how.within_s)
        first = self._ends()
        deadline = time.monotonic() + self.how.within_s
        self.how.say("waiting until the canary is replicated")
        while waiting := self._waiting(first):
            if time.monotonic() > deadline:
                raise MirrorError(
                    f"{scope.canary} was not replicated in {self.how.within_s:.0f} s: {waiting} of "
                    f"{pluralized(sum(first.values()), 'record')} are missing. Does 'kafka-mirror run' replicate "
                    f"{scope.flow.name}, with mirror.drill.enabled = true? It looks for new topics every "
                    f"{scope.flow.refresh_topics.interval_s:.0f} s, and at once on SIGHUP."
                )
            time.sleep(LOOK_S)

    def _watch_what_waits(self) -> None:
        """Measure for some seconds how many records a loss of the source would lose."""
        ends_s = time.monotonic() + LOADED_S
        while time.monotonic() < ends_s:
            self.rpo_records = max(self.rpo_records or 0, self._waiting(self._ends()))
            time.sleep(LOOK_S)
        self.how.say(f"at most {self.rpo_records} records would have been lost with {self.scope.source.alias}")

    def _ends(self) -> Mapping[TopicPartition, int]:
        places = [TopicPartition(self.scope.canary, partition) for partition in range(PARTITIONS)]
        return self.scope.source.end_offsets(places)

    def _waiting(self, ends: Mapping[TopicPartition, int]) -> int:
        """Return how many canary records before these ends are not on the target."""
        remote = self.scope.flow.policy.remote_topic(self.scope.canary)
        found = read_positions(self.scope.flow)
        at = {partition: position.offset for (topic, partition), position in found.items() if topic == remote}
        return sum(max(0, end - at.get(partition, 0)) for (_, partition), end in ends.items())

    def _go(self, kind: Kind, scope: Scope, journal: Journal) -> None:
        """Switch like an operator: stop producers and consumers on request, start them on the other cluster."""
        stopped_s, back = 0.0, scope.back
        assert back is not None

        def may_go_on(step: Step) -> None:
            nonlocal stopped_s
            self.how.may_go_on(step)
            if step is Step.FENCE:
                stopped_s = time.monotonic()
                self.canary.stop_writing()
            elif step is Step.GROUPS:
                self.canary.stop_reading()
            elif step is Step.PAUSE:  # before this step, the groups were moved
                self.canary.read_on(scope.target.alias, back.consumer, _topics_there(scope))

        self.how.say(f"{kind.value} {scope.flow.name}")
        run = new_run(scope, kind, last=LAST)
        try:
            self.runs.append(conduct(scope, journal, run, replace(self.how, may_go_on=may_go_on)))
        except MirrorError:
            self.runs.append(journal.kept)
            raise
        before = len(self.canary.acked.get(scope.target.alias, ()))
        self.canary.write_on(scope.target.alias, scope.flow.producer)
        self.canary.await_read(scope.target.alias, count=before + 1, within_s=self.how.within_s)
        self.took_s[kind] = time.monotonic() - stopped_s
        self.how.say(f"written and read on {scope.target.alias} again {duration(self.took_s[kind])} after the fence")

    def found(self, run_id: str, *, began_s: float, failure: str) -> Drill:
        """Return the measurements."""
        return Drill(
            id=run_id,
            flow=self.scope.flow.name,
            by=conductor(),
            version=__version__,
            began_s=began_s,
            ended_s=time.time(),
            records=self.canary.records,
            lost=self.canary.lost,
            repeated=self.canary.repeated,
            rpo_records=self.rpo_records,
            rto_s=self.took_s.get(Kind.SWITCH),
            back_s=self.took_s.get(Kind.SWITCH_BACK),
            steps={run.kind.value: _steps(run) for run in self.runs},
            failure=failure,
        )


def _steps(run: SwitchRun) -> dict[str, float]:
    return {step.value: took_s for step in STEPS[run.kind] if (took_s := run.step(step).took_s) is not None}


def _topics_there(scope: Scope) -> list[str]:
    """Return the canary topics on a flow's target: the replicated one, and the one written there."""
    return [scope.canary, scope.flow.policy.remote_topic(scope.canary)]


def create(scope: Scope, topic: str) -> None:
    """Create the canary topic on a flow's source, if it is missing.

    Raises:
        MirrorError: the cluster refuses.
    """
    assert scope.back is not None
    objection = scope.source.create(
        topic,
        partitions=PARTITIONS,
        replication_factor=scope.back.replication_factor,
        configs=RETENTION,
    )
    if objection:
        raise MirrorError(f"{topic} cannot be created on {scope.source.alias}: {objection}")


def settle(scope: Scope, journal: Journal) -> None:
    """Revert an unfinished drill: its runs, fence and pause.

    Raises:
        MirrorError: an operator has paused the flow, so there is nothing to rehearse; or a cluster refuses.
    """
    for run in journal.read().runs():
        if run.state is RunState.OPEN:
            with journal.of(scope.flow, scope.target).taken(replace(run, is_aborted=True)):
                pass
    topics = [scope.canary]
    left = scope.source.topic_acls() & {*denials(topics), *allowances(topics)}
    fence.lifted(scope.source, sorted(left))
    plan = scope.plan()
    known = paused_topics(read_positions(scope.flow), plan.paused_key)
    others = Paused(tuple(pattern for pattern in known.patterns if pattern not in pause_patterns(scope)))
    if others != known:
        write_paused(scope.flow, plan, others)
    pattern = others.pattern()
    if pattern is not None and pattern.matches(scope.canary):
        raise MirrorError(
            f"{scope.flow.name} is paused, as after a switch, so it cannot be rehearsed ('kafka-mirror positions resume')"
        )
