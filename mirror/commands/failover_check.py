"""Run `kafka-mirror failover-check`: read both clusters, assess each flow, print the result."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from metrics.exporter import STATUS_PATH
from metrics.process_status import ProcessStatus
from mirror.commands.options import add_file, describe
from mirror.config.given import settings_given
from mirror.config.settings import Settings
from mirror.errors import SettingsError
from mirror.lag.failover import Answer, FailoverReadiness, Objective, Planned, readiness, worst
from mirror.lag.inspector import Inspector

EXIT = {Answer.GO: 0, Answer.GO_WITH_LOSS: 1, Answer.NO: 5}
STATUS_WITHIN_S = 5.0
GREEN, YELLOW, RED, PLAIN = "\033[32m", "\033[33m", "\033[31m", "\033[0m"


DESCRIPTION = """\
Answer two questions for each flow A->B. Can A's consumers move to B now by a planned switch, which loses nothing: READY, or
NOT READY with the reasons. If A is lost now, is the loss WITHIN OBJECTIVE (mirror.rpo.objective.seconds), BEYOND OBJECTIVE, or
UNKNOWN. Reads from both clusters, 3 s each, and from the file's running kafka-mirror. Changes nothing."""
EXAMPLES = """\
examples:
  kafka-mirror failover-check mirror.properties
  kafka-mirror failover-check mirror.properties 'a->b' --json
prints, for example:
  a->b
    planned switch:         READY, takes about 17 s, loses nothing
    if a is lost now:       BEYOND OBJECTIVE (60 s), 1,234 records would be lost, waiting for up to 95.0 s
    consumer groups:        12 exact, 1 would re-read 7 records
exit codes: 0 ready and within the objective, 1 the loss is beyond the objective or unknown, 2 settings,
5 not ready or a group cannot resume"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_file(parser)
    parser.add_argument("flow", metavar="A->B", nargs="?", default="", help="only this flow (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: Namespace) -> int:
    """Print the answers; return the exit code of the worst one."""
    return failover_check(settings_given(parsed), parsed.flow, as_json=parsed.json)


def failover_check(settings: Settings, flow: str, *, as_json: bool) -> int:
    """Print the results for each flow, or for the given one. Return the exit code of the worst one.

    Raises:
        SettingsError: the file has no such flow.
    """
    names = [each.name for each in settings.flows]
    if flow and flow not in names:
        raise SettingsError(f"{flow}: no such flow; the file has {', '.join(names)}")
    inspector = Inspector(settings)
    try:
        snapshot = inspector.poll(settles=True)
    finally:
        inspector.close()
    status = _process_status(settings)
    answers = [
        readiness(
            each.name,
            snapshot,
            source=each.source.alias,
            target=each.target.alias,
            status=status,
            objective_s=each.rpo_objective_s,
        )
        for each in settings.flows
        if not flow or each.name == flow
    ]
    if as_json:
        print(json.dumps({"answer": worst(answers).words, "flows": [each.plain() for each in answers]}, indent=1))
    else:
        print(text(answers, coloured=sys.stdout.isatty()), end="")
    for problem in snapshot.problems:
        print(f"kafka-mirror: {problem}", file=sys.stderr)
    return EXIT[worst(answers)]


def text(answers: Sequence[FailoverReadiness], *, coloured: bool = False) -> str:
    """Return both answers of each flow for a person, with blockers and unknowns."""
    lines = []
    for each in answers:
        planned = GREEN if each.planned is Planned.READY else RED
        loss = {Objective.WITHIN: GREEN, Objective.BEYOND: RED, Objective.UNKNOWN: YELLOW}[each.objective]
        lost = f"if {each.flow.partition('->')[0]} is lost now:"
        lines += [
            each.flow,
            f"  {'planned switch:':23} {_coloured(each.planned_text, planned if coloured else '')}",
            *(f"  {'':23} - {blocker}" for blocker in each.blockers),
            f"  {lost:23} {_coloured(each.loss_text, loss if coloured else '')}",
            f"  {'consumer groups:':23} {each.groups_text}",
            *(f"  {'unknown:':23} {unknown}" for unknown in each.unknowns),
        ]
    return "\n".join([*lines, ""])


def _coloured(text: str, colour: str) -> str:
    return f"{colour}{text}{PLAIN}" if colour else text


def _process_status(settings: Settings) -> ProcessStatus | None:
    try:
        status = settings.mirror.http.read(settings.mirror.metrics_address, STATUS_PATH, timeout_s=STATUS_WITHIN_S)
        return ProcessStatus.parse(status)
    except (OSError, ValueError):
        return None
