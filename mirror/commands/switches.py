"""Run `kafka-mirror switches`: print the runs of switches in the journal on a flow's target."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from mirror.commands.options import add_file, describe
from mirror.config.given import settings_given
from mirror.config.settings import Settings
from mirror.errors import SettingsError
from mirror.flows.selection import flow_named
from mirror.kafka.cluster import Cluster
from mirror.switching.journal import Journal
from mirror.switching.text import run_plain, run_text

DESCRIPTION = """\
Print the switches of a flow, newest last: steps, times, and offsets of groups. An internal topic on B has them. Changes
nothing."""
EXAMPLES = """\
examples:
  kafka-mirror switches mirror.properties 'a->b'
  kafka-mirror switches mirror.properties 'a->b' --json
exit codes: 0 printed, 2 settings, 3 a cluster did not respond, 6 it refused"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_file(parser)
    parser.add_argument("flow", metavar="A->B", help="the flow")
    parser.add_argument("--run", metavar="ID", dest="run_id", help="only this run")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: Namespace) -> int:
    """Print runs; return the exit code."""
    return switches(settings_given(parsed), parsed)


def switches(settings: Settings, args: Namespace) -> int:
    """Print runs; return 0.

    Raises:
        SettingsError: the flow or the run is unknown.
    """
    flow = flow_named(settings, args.flow, command="switches")
    entries = Journal(flow, Cluster(flow.target.alias, flow.target_admin)).read()
    found = [run for run in entries.runs() if args.run_id in (None, run.id)]
    if args.run_id is not None and not found:
        raise SettingsError(f'switches: {flow.name} has no run "{args.run_id}"; without --run all are printed.')
    if args.json:
        print(json.dumps({"runs": [run_plain(run, entries.moves(run)) for run in found]}, indent=1))
    else:
        print("\n".join(run_text(run, entries.moves(run)) for run in found) or f"no switch of {flow.name} yet", end="")
    return 0
