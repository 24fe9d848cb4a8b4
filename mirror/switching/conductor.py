"""Conduct a switch, and record each step so that any machine can resume the run."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from metrics.partition_status import Sample
from mirror import __version__
from mirror.errors import MirrorError, SettingsError
from mirror.lag.text import duration
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.text_columns import one_line
from mirror.runtime.user import user_name
from mirror.switching.fence_step import undo_fence
from mirror.switching.journal import Journal
from mirror.switching.run import STEPS, Kind, RunState, Step, StepState, SwitchRun
from mirror.switching.scope import Scope
from mirror.switching.steps import does
from mirror.switching.work import StepContext, StepResult

HOOK_S = 600.0
REPORTS = "switches"  # folder below mirror.state.dir


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOptions:
    """The options of a switch.

    Attributes:
        within_s: How long a step waits for producers, consumers or the mirror.
        window_ms: Length of the mirror's windows.
        folder: Folder for texts that are too long for the journal.
        seen: The last poll of each partition by the mirror's process, as far as this machine has it.
        hooks: By step: a command to run after the step, before the next one.
        say: Prints progress.
        may_go_on: Called before each step; raises to stop.
    """

    within_s: float
    window_ms: int
    folder: Path
    seen: Mapping[TopicPartition, Sample] = field(default_factory=dict)
    hooks: Mapping[Step, str] = field(default_factory=dict)
    say: Callable[[str], None] = print
    may_go_on: Callable[[Step], None] = lambda _: None


def new_run(scope: Scope, kind: Kind, *, last: int) -> SwitchRun:
    """Return a new run."""
    now_s = time.time()
    return SwitchRun(
        id=new_id(now_s),
        flow=scope.flow.name,
        kind=kind,
        topics=scope.topics,
        groups=scope.groups,
        without=tuple(sorted(scope.without)),
        last=last,
        by=conductor(),
        version=__version__,
        began_s=now_s,
    )


def new_id(now_s: float) -> str:
    """Return an id that starts with the time, so that ids sort by time."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now_s))}-{uuid.uuid4().hex[:6]}"


def conductor() -> str:
    """Return the name of this conductor: user, machine, process."""
    return f"{user_name()}@{socket.gethostname()}:{os.getpid()}"


def unfinished(journal: Journal, scope: Scope, kind: Kind) -> SwitchRun | None:
    """Return the run to resume, None if there is none.

    Topics that the run or the request leaves out are left out of both.

    Raises:
        SettingsError: the unfinished run differs from the request (kind, topics or groups), or another process is conducting it.
    """
    run = journal.unfinished()
    if run is None:
        return None
    if (kind, scope.topics, scope.groups) != (run.kind, run.topics, run.groups):
        raise SettingsError(
            f"{kind.value}: a run of {run.flow} has not ended: {run.id}, '{called(run)}'. Finish that run, or revert "
            "it with --abort."
        )
    if journal.is_conducted():
        raise SettingsError(f"{kind.value}: {run.by} is running {run.id} of {run.flow}. Wait until it ends.")
    scope.without |= frozenset(run.without)
    return replace(run, by=conductor(), without=tuple(sorted(scope.without)))


def called(run: SwitchRun) -> str:
    """Return the command of a run."""
    chosen = [f"--{name} {text}" for name, text in (("topics", run.topics), ("groups", run.groups)) if text]
    chosen += [f"--without-topic {topic}" for topic in run.without]
    return " ".join([run.kind.value, run.flow, *chosen])


def conduct(scope: Scope, journal: Journal, run: SwitchRun, how: SwitchOptions) -> SwitchRun:
    """Do the remaining steps of a run, and return the finished run.

    Raises:
        MirrorError: a step failed. Finished steps are kept, and a repeated call resumes after them.
    """
    with journal.taken(run):
        while (step := run.next) is not None:
            how.may_go_on(step)
            run = _done(scope, journal, run, step, how)
    return run


def _done(scope: Scope, journal: Journal, run: SwitchRun, step: Step, how: SwitchOptions) -> SwitchRun:
    run = run.with_step(
        step, state=StepState.RUNNING, began_s=run.step(step).began_s or time.time(), ended_s=None, said=()
    )
    journal.save(run)
    how.say(f"{step.value} ...")
    try:
        found = does(run.kind, step)(_work(scope, journal, run, how))
        if step in how.hooks:
            journal.confirm()
            found.said.append(_hooked(how.hooks[step], run, step))
    except MirrorError as error:
        # `kept` has the facts that the step itself has recorded: an abort needs them.
        journal.save(journal.kept.with_step(step, state=StepState.FAILED, ended_s=time.time(), said=(str(error),)))
        raise
    run = _ended(journal.kept, step, found, StepState.DONE)
    journal.save(run)
    for sentence in found.said:
        _indented(how.say)(sentence)
    _indented(how.say)(f"done in {duration(run.step(step).took_s)}")
    return run


def _work(scope: Scope, journal: Journal, run: SwitchRun, how: SwitchOptions) -> StepContext:
    def say(sentence: str) -> None:
        journal.tell(sentence)
        _indented(how.say)(sentence)

    journal.tell("")
    return StepContext(
        scope=scope,
        run=run,
        journal=journal,
        within_s=how.within_s,
        window_ms=how.window_ms,
        folder=how.folder,
        seen=how.seen,
        say=say,
    )


def _ended(run: SwitchRun, step: Step, found: StepResult, state: StepState) -> SwitchRun:
    facts = {**run.step(step).facts, **found.facts}
    return run.with_step(step, state=state, ended_s=time.time(), said=tuple(found.said), facts=facts)


def _indented(say: Callable[[str], None]) -> Callable[[str], None]:
    return lambda sentence: say(f"  {sentence}")


def abort(scope: Scope, journal: Journal, run: SwitchRun, how: SwitchOptions) -> SwitchRun:
    """Revert the steps of a run, and return the aborted run.

    Raises:
        SettingsError: groups have been moved. Finish the run; then another switch can move everything back.
        MirrorError: the source refuses.
    """
    if not run.may_abort:
        raise SettingsError(
            f"{run.kind.value}: groups of {run.flow} have been moved, which cannot be reverted. Run it again without --abort "
            "to finish it; then use 'kafka-mirror switch-back'."
        )
    with journal.taken(run):
        found = undo_fence(_work(scope, journal, run, how))
        for step in STEPS[run.kind]:
            if run.step(step).state is not StepState.WAITING:
                run = run.with_step(step, state=StepState.UNDONE)
        run = replace(_ended(run, STEPS[run.kind][0], found, StepState.UNDONE), is_aborted=True)
        journal.save(run)
    for sentence in found.said:
        how.say(sentence)
    assert run.state is RunState.ABORTED
    return run


def _hooked(command: str, run: SwitchRun, step: Step) -> str:
    """Run an operator's command; return its output."""
    own = {"KAFKA_MIRROR_RUN": run.id, "KAFKA_MIRROR_FLOW": run.flow, "KAFKA_MIRROR_STEP": step.value}
    try:
        done = subprocess.run(  # noqa: S602 - it is the operator's own command line
            command,
            shell=True,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=HOOK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MirrorError(f"the hook of {step.value} has not ended in {HOOK_S:.0f} s: {command}") from None
    said = one_line(" ".join((done.stdout + done.stderr).split()))
    if done.returncode:
        raise MirrorError(f"the hook of {step.value} ended with {done.returncode}: {said or command}")
    return f"hook: {said or 'said nothing'}"
