"""`kafka-mirror failover-check`: ask, judge, print."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict

from metrics.exporter import STATUS_PATH
from metrics.process_status import ProcessStatus
from mirror.commands.options import add_file, describe
from mirror.config.given import settings_given
from mirror.config.settings import Settings
from mirror.errors import SettingsError
from mirror.lag.failover import Answer, FailoverReadiness, readiness, worst
from mirror.lag.inspector import Inspector
from mirror.lag.text import duration

EXIT = {Answer.GO: 0, Answer.GO_WITH_LOSS: 1, Answer.NO: 5}
TOLD_S = 5.0
COLOURS = {Answer.GO: "\033[32m", Answer.GO_WITH_LOSS: "\033[33m", Answer.NO: "\033[31m"}
PLAIN = "\033[0m"


DESCRIPTION = """\
Report for each flow A->B whether A's readers can move to B now: GO; GO WITH LOSS, and how much; or NO, and why. Reads from both
clusters, 3 s each, and from the running kafka-mirror of the file. A lost A is a reason for a failover; a lost B blocks it.
Changes nothing."""
EXAMPLES = """\
examples:
  kafka-mirror failover-check mirror.properties
  kafka-mirror failover-check mirror.properties 'a->b' --json
prints, for example:
  a->b: GO WITH LOSS
    costs:   1,234 records not on the target yet; the oldest has waited for 5 s
    costs:   1 group would re-read 7 records
    level in 90.0 s at the present rates
exit codes: 0 GO, 1 GO WITH LOSS, 5 NO, 2 settings"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_file(parser)
    parser.add_argument("flow", metavar="A->B", nargs="?", default="", help="only this flow (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: Namespace) -> int:
    """Print the answers; return the exit code of the worst."""
    return failover_check(settings_given(parsed), parsed.flow, as_json=parsed.json)


def failover_check(settings: Settings, flow: str, *, as_json: bool) -> int:
    """Print the answer for each flow, or the given one. Return the exit code of the worst.

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
        readiness(each.name, snapshot, source=each.source.alias, target=each.target.alias, status=status)
        for each in settings.flows
        if not flow or each.name == flow
    ]
    if as_json:
        print(json.dumps({"answer": worst(answers).words, "flows": [_plain(each) for each in answers]}, indent=1))
    else:
        print(text(answers, coloured=sys.stdout.isatty()), end="")
    for problem in snapshot.problems:
        print(f"kafka-mirror: {problem}", file=sys.stderr)
    return EXIT[worst(answers)]


def text(answers: Sequence[FailoverReadiness], *, coloured: bool = False) -> str:
    """Return answers for a person: result, reasons, cost, and the time until it would cost nothing."""
    lines = []
    for each in answers:
        word = f"{COLOURS[each.answer]}{each.answer.words}{PLAIN}" if coloured else each.answer.words
        lines.append(f"{each.flow}: {word}")
        lines += [f"  no:      {sentence}" for sentence in each.vetoes]
        lines += [f"  costs:   {sentence}" for sentence in each.costs]
        lines += [f"  unknown: {sentence}" for sentence in each.unknowns]
        if each.answer is not Answer.GO and each.level_in_s:
            lines.append(f"  level in {duration(each.level_in_s)} at the present rates")
    return "\n".join([*lines, ""])


def _process_status(settings: Settings) -> ProcessStatus | None:
    try:
        status = settings.mirror.http.read(settings.mirror.metrics_address, STATUS_PATH, timeout_s=TOLD_S)
        return ProcessStatus.parse(status)
    except (OSError, ValueError):
        return None


def _plain(each: FailoverReadiness) -> dict[str, object]:
    return {**asdict(each), "answer": each.answer.words}
