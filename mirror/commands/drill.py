"""Run `kafka-mirror drill`: rehearse a switch and the failback with a canary topic and group."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from mirror.commands.options import add_file, describe, positive, seconds
from mirror.config.given import settings_given
from mirror.config.settings import Settings
from mirror.switching.conductor import REPORTS, SwitchOptions
from mirror.switching.drill import RATE, WITHIN_S, Drill, drills, journal_of, rehearse
from mirror.switching.scope import Scope
from mirror.switching.text import drill_text

FAILED = 1
DESCRIPTION = """\
Rehearse a switch along a flow A->B: a producer and a consumer group move from A to B and back, in the steps of 'kafka-mirror
switch' and 'switch-back', on these clusters, with these clients and their permissions, under load. Both use a canary topic
(mirror-drill-A-B): a drill does not touch your data, and requires no confirmation. It reports how many records a loss of A
would have lost (RPO), and how long neither writing nor reading was possible (RTO). 'kafka-mirror run' must replicate A->B and
B->A with mirror.drill.enabled = true; with mirror.drill.interval.seconds it runs drills on a schedule."""
EXAMPLES = """\
examples:
  kafka-mirror drill mirror.properties 'a->b'
  kafka-mirror drill mirror.properties 'a->b' --past      results of past drills
exit codes: 0 passed, 1 failed: it did not finish, or a record was lost or read twice, 2 settings, 3 a cluster did not
respond, 6 it refused"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_file(parser)
    parser.add_argument("flow", metavar="A->B", help="the flow")
    parser.add_argument("--past", action="store_true", help="print past drills; start none")
    parser.add_argument(
        "--rate",
        type=positive,
        metavar="N",
        default=RATE,
        help="records to write per second (default %(default)s)",
    )
    parser.add_argument(
        "--within",
        type=seconds,
        metavar="SECONDS",
        default=WITHIN_S,
        help="time limit of a step in seconds (default %(default).0f)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON at the end")


def run(parsed: Namespace) -> int:
    """Rehearse; return the exit code."""
    return drill(settings_given(parsed), parsed)


def drill(settings: Settings, args: Namespace) -> int:
    """Rehearse, or print past drills; return 0 if the drill passed.

    Raises:
        SettingsError: the flow is unknown, or has no canary.
        MirrorError: another process rehearses the flow.
    """
    scope = Scope.of_drill(settings, args.flow)
    if args.past:
        _print(drills(journal_of(scope)), as_json=args.json)
        return 0
    out = sys.stderr if args.json else sys.stdout
    how = SwitchOptions(
        within_s=args.within,
        window_ms=settings.mirror.window_ms,
        folder=settings.mirror.state_dir / REPORTS,
        say=lambda sentence: print(sentence, file=out, flush=True),
    )
    found = rehearse(scope, how, rate=args.rate)
    _print([found], as_json=args.json)
    return 0 if found.has_passed else FAILED


def _print(found: list[Drill], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([json.loads(each.text()) for each in found], indent=1))
    else:
        print("\n".join(map(drill_text, found)) or "no drill yet\n", end="")
