"""Run `kafka-mirror switch`: move consumers and producers from a flow's source to its target."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from metrics.history import HISTORY_FILE, History
from metrics.partition_status import Sample
from mirror.commands.options import add_file, describe, positive, seconds
from mirror.config.given import settings_given
from mirror.config.settings import Settings
from mirror.errors import MirrorError, SettingsError
from mirror.lag.inspector import Inspector
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.state_folder import keep_private
from mirror.switching.conductor import REPORTS, SwitchOptions, abort, conduct, new_run, unfinished
from mirror.switching.journal import Journal
from mirror.switching.preflight import Preflight, looked_ahead, looked_ahead_without_source
from mirror.switching.run import STEPS, Kind, Step, SwitchRun
from mirror.switching.scope import Fencing, Scope
from mirror.switching.text import ahead_text, end_text, run_plain, run_text

BLOCKED = 5

FENCES = {"acls": Fencing.ACLS, "acls-and-read": Fencing.ACLS_AND_READ, "none": Fencing.NONE}

DESCRIPTION = """\
Move consumers and producers of a flow A->B from A to B: fence A's producers, wait until B has every record, compare the newest
records, move the consumer groups to their exact offsets, pause A->B, and check that B->A replicates new records of B.
The command prints the plan and requires confirmation. B stores each step: after a crash, run the same command on any machine to
resume. Until the first group is moved, --abort reverts everything."""
EXIT_CODES = """\
exit codes: 0 done, 1 a step failed (run the same command again to resume), 2 settings, 3 a cluster did not respond,
5 something blocks it, 6 a cluster refused"""
EXAMPLES = f"""\
examples:
  kafka-mirror switch mirror.properties 'a->b' --dry-run          print the plan, its cost, and what blocks it
  kafka-mirror switch mirror.properties 'a->b'                    print the plan, ask, and switch
  kafka-mirror switch mirror.properties 'a->b' --source-lost      A is lost: print what is missing, and move the groups
  kafka-mirror switch mirror.properties 'a->b' --hook groups='./point-dns-at b' --yes
{EXIT_CODES}"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_switching(parser, Kind.SWITCH, Kind.FAIL_OVER)
    parser.add_argument(
        "--source-lost",
        action="store_true",
        help="A is lost: report missing records, and move the groups by their last checkpoints",
    )


def add_switching(parser: ArgumentParser, kind: Kind, lost: Kind | None = None) -> None:
    """Add the options of all kinds of switches.

    Args:
        parser: The parser of the command.
        kind: The kind of switch that the command makes.
        lost: The kind with --source-lost.
    """
    left, entered = ("B", "A") if kind is Kind.SWITCH_BACK else ("A", "B")
    steps = ", ".join(step.value for step in STEPS[kind])
    if lost is not None:
        steps += f"; with --source-lost: {', '.join(step.value for step in STEPS[lost])}"
    add_file(parser)
    parser.add_argument("flow", metavar="A->B", help="the flow")
    parser.add_argument(
        "--topics", metavar="REGEX[,REGEX]", default="", help=f"only these topics, by their names on {left}"
    )
    parser.add_argument("--groups", metavar="REGEX[,REGEX]", default="", help="only these consumer groups")
    parser.add_argument(
        "--without-topic",
        action="append",
        metavar="NAME",
        default=[],
        help=f"leave out a topic, by its name on {left}, for example one that cannot be created on {entered}; "
        "repeatable",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan; change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--step-by-step", action="store_true", help="ask before each step")
    parser.add_argument(
        "--abort", action="store_true", help="undo an unfinished switch; possible until the first group has been moved"
    )
    parser.add_argument("--json", action="store_true", help="print JSON at the end")
    parser.add_argument(
        "--fence",
        choices=FENCES,
        default="acls",
        help=f"how producers on {left} are stopped: acls (default) denies WRITE, acls-and-read also keeps topics without ACLs "
        "readable, none: you stop them",
    )
    compared = "newest records of each partition to compare (default 100)"
    parser.add_argument("--last", type=positive, metavar="N", default=100, help=compared)
    parser.add_argument(
        "--within",
        type=seconds,
        metavar="SECONDS",
        default=300.0,
        help="time limit per step in seconds: producers to stop, lag to reach 0, consumers to leave (default 300)",
    )
    parser.add_argument(
        "--hook",
        type=hook,
        action="append",
        metavar="STEP=COMMAND",
        default=[],
        help=f"run a command after a step; steps: {steps}",
    )


def run(parsed: Namespace) -> int:
    """Switch; return the exit code."""
    return switch(settings_given(parsed), parsed.flow, Kind.FAIL_OVER if parsed.source_lost else Kind.SWITCH, parsed)


def hook(text: str) -> tuple[Step, str]:
    """Return a step and its command."""
    name, equals, command = text.partition("=")
    try:
        if equals and command:
            return Step(name), command
    except ValueError:
        pass
    raise ArgumentTypeError(
        f'"{text}" is not a hook. Write STEP=COMMAND, STEP one of {", ".join(step.value for step in Step)}.'
    )


def switch(settings: Settings, flow: str, kind: Kind, args: Namespace) -> int:
    """Plan, confirm, conduct and report a switch; return the exit code.

    Raises:
        MirrorError: a step failed, or a setting is not supported.
    """
    for step in dict(args.hook):
        if step not in STEPS[kind]:
            known = ", ".join(each.value for each in STEPS[kind])
            raise SettingsError(f"--hook: a {kind.value} has no step {step.value}; its steps are {known}.")
    scope = Scope.of(
        settings,
        flow,
        kind,
        topics=args.topics,
        groups=args.groups,
        fence=FENCES[args.fence],
        without=args.without_topic,
    )
    journal = Journal(scope.flow, scope.target)
    begun = unfinished(journal, scope, kind)
    how = SwitchOptions(
        within_s=args.within,
        window_ms=settings.mirror.window_ms,
        folder=settings.mirror.state_dir / REPORTS,
        seen=last_seen(settings, scope),
        hooks=dict(args.hook),
        say=lambda sentence: print(sentence, file=sys.stderr if args.json else sys.stdout, flush=True),
        may_go_on=_asked_again if args.step_by_step else lambda _: None,
    )
    if args.abort:
        return _abort(scope, journal, begun, how, kind)
    one = begun or new_run(scope, kind, last=args.last)
    if kind is Kind.FAIL_OVER:
        ahead = looked_ahead_without_source(scope, how.seen)
    else:
        ahead = _ahead(settings, scope, is_resumed=begun is not None)
    print(ahead_text(one, ahead), end="", file=sys.stderr if args.json else sys.stdout)
    if ahead.blocks:
        return BLOCKED
    if args.dry_run:
        return 0
    _ask(one, args, is_resumed=begun is not None)
    try:
        one = conduct(scope, journal, one, how)
    finally:
        report(settings, journal, one.id, as_json=args.json)
    return 0


def last_seen(settings: Settings, scope: Scope) -> dict[TopicPartition, Sample]:
    """Return this machine's last poll of each partition, by remote topic and partition."""
    history = History()
    history.load(settings.mirror.state_dir / HISTORY_FILE)
    ends = (scope.flow.source.alias, scope.flow.target.alias)
    return {TopicPartition(key[2], int(key[3])): history.of(key)[-1] for key in history.known() if key[:2] == ends}


def _ahead(settings: Settings, scope: Scope, *, is_resumed: bool) -> Preflight:
    inspector = Inspector(settings)
    try:
        rows = inspector.poll(settles=True).rows
    finally:
        inspector.close()
    return looked_ahead(scope, rows, window_ms=settings.mirror.window_ms, is_resumed=is_resumed)


def _abort(scope: Scope, journal: Journal, begun: SwitchRun | None, how: SwitchOptions, kind: Kind) -> int:
    if begun is None:
        raise SettingsError(f"{kind.value}: no run of {scope.flow.name} is unfinished, so there is nothing to revert.")
    abort(scope, journal, begun, how)
    return 0


def _ask(one: SwitchRun, args: Namespace, *, is_resumed: bool) -> None:
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise SettingsError(f"{one.kind.value}: stdin is not a terminal. Use --yes, or --dry-run to see the plan.")
    begin = f"resume {one.id}" if is_resumed else "begin"
    if input(f"Type {one.flow} to {begin}: ").strip() != one.flow:
        raise SettingsError(f"{one.kind.value}: not confirmed; nothing was changed.")


def _asked_again(step: Step) -> None:
    if input(f"Press Enter for step {step.value}, anything else to stop: "):
        raise MirrorError(
            f"stopped before {step.value}. Run the same command again to resume; --abort reverts the run."
        )


def report(settings: Settings, journal: Journal, run_id: str, *, as_json: bool) -> None:
    """Print a run's result, and write it to the state folder as JSON and text."""
    entries = journal.read()
    found = next((run for run in entries.runs() if run.id == run_id), None)
    if found is None:
        return  # the run was not started
    moves = entries.moves(found)
    written = json.dumps(run_plain(found, moves), indent=1) + "\n"
    keep_private()
    folder: Path = settings.mirror.state_dir / REPORTS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{run_id}.json").write_text(written)
    (folder / f"{run_id}.txt").write_text(run_text(found, moves))
    print(written if as_json else f"{end_text(found, moves)}report: {folder / run_id}.txt and .json\n", end="")
