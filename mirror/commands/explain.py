"""Run `kafka-mirror explain`: print the effective settings of a file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import add_file, add_own_settings, add_targets, describe, own_settings
from mirror.config.explain import as_json, as_text, explain
from mirror.config.load import checked, sources

DESCRIPTION = """\
Print every effective value of FILE's enabled flows, of their clients and of kafka-mirror itself, with its origin and the values
that it overrides; then the keys without effect, with the reason. Secrets are shown as ***. Connects to no cluster."""
EXAMPLES = """\
examples:
  kafka-mirror explain mirror.properties                        all flows
  kafka-mirror explain mirror.properties 'a->b' --json          one flow, for a script
  kafka-mirror explain mirror.properties --window-ms 2000       with options of run
exit codes: 0 printed, 2 settings"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_file(parser, "a connect-mirror-maker.properties")
    parser.add_argument("flow", metavar="FLOW", nargs="?", default="", help="only this flow, written as A->B")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_targets(parser)
    add_own_settings(parser)


def run(parsed: Namespace) -> int:
    """Print the settings; return the exit code."""
    given = sources(parsed.file, own_settings(parsed))
    found = explain(given, checked(given, targets=parsed.clusters), parsed.flow)
    print(as_json(found) if parsed.json else as_text(found), end="")
    return 0
