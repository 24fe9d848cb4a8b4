"""Run `kafka-mirror gaps`: print a flow's ledger of lost, skipped, repeated and refused records."""

from __future__ import annotations

import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from mirror.commands.options import add_file, describe, names
from mirror.config.given import settings_given
from mirror.config.settings import Settings
from mirror.errors import SettingsError
from mirror.flows.gaps import GapLedger
from mirror.flows.selection import flow_named
from mirror.lag.text import gap_csv, gap_json, gap_table
from mirror.model.gaps import Effect, Gap

HAS_SOME = 1

DESCRIPTION = """\
Print a flow's ledger of gaps, newest last: ranges of source offsets with effect, cause and time. Effects: lost (deleted by
retention), skipped (an operator set a position), possibly repeated (the target could not be compared), kept only on the target
(the source's log was truncated), refused. The ledger is an internal topic on B. Changes nothing."""
EXAMPLES = """\
examples:
  kafka-mirror gaps mirror.properties 'a->b'
  kafka-mirror gaps mirror.properties 'a->b' --effect lost,skipped --fail     in a script: exit 1 if there is one
  kafka-mirror gaps mirror.properties 'a->b' --csv > gaps.csv
prints, for example:
  found                    effect  topic   partition  first  last  offsets  what happened
  2026-01-31 12:00:00 UTC  lost    orders          0    100   179       80  offsets 100 to 179 were deleted by the source's ...
exit codes: 0 printed, 1 --fail and an entry matches, 2 settings, 3 a cluster did not respond, 6 it refused"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_file(parser)
    parser.add_argument("flow", metavar="A->B", help="the flow")
    parser.add_argument(
        "--topic", type=names, default=[], metavar="NAME[,NAME]", help="only these topics of the source"
    )
    effects = [effect.value for effect in Effect]
    parser.add_argument(
        "--effect", type=names, default=[], metavar="EFFECT[,EFFECT]", help=f"only these effects: {', '.join(effects)}"
    )
    parser.add_argument("--fail", action="store_true", help="exit with 1 if any entry matches")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--csv", action="store_true", help="print CSV")


def run(parsed: Namespace) -> int:
    """Print gaps; return the exit code."""
    return gaps(settings_given(parsed), parsed)


def gaps(settings: Settings, args: Namespace) -> int:
    """Print the gaps that the command line selects; return the exit code.

    Raises:
        SettingsError: the flow, or an effect, is unknown.
        ClusterUnavailable: the target did not respond.
    """
    flow = flow_named(settings, args.flow, command="gaps")
    effects = [_effect(name) for name in args.effect]
    found = [gap for gap in GapLedger(flow).refresh() if _is_wanted(gap, args.topic, effects)]
    if args.json:
        print(gap_json(flow.name, found))
    elif args.csv:
        print(gap_csv(found), end="")
    elif found:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(gap_table(found, width), end="")
    else:
        print(f"no gap of {flow.name} in the ledger that {flow.target.alias} keeps")
    return HAS_SOME if args.fail and found else 0


def _effect(name: str) -> Effect:
    try:
        return Effect(name)
    except ValueError:
        known = ", ".join(effect.value for effect in Effect)
        raise SettingsError(f'gaps: --effect: "{name}" is not an effect. Valid: {known}.') from None


def _is_wanted(gap: Gap, topics: Sequence[str], effects: Sequence[Effect]) -> bool:
    return (not topics or gap.topic in topics) and (not effects or gap.effect in effects)
